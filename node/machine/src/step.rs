//! One change of the machine: one request to the kernel, which does it whole or not at all.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::family::Family;
use crate::found::{DeviceSetting, Neighbour, Route, Rule, Vxlan};
use crate::overlay::Mac;
use crate::packets::Table;

/// One change. To do it again does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Puts this table in the place of whatever has its name, at one moment. Tallies that are to be the
    /// same stay, with all that was counted.
    ReplacePackets(Table),
    /// Changes who is in a set of a table.
    ChangeSet {
        /// The family of the table.
        family: Family,
        /// What the set is called.
        set: String,
        /// Who comes to be in it.
        add: BTreeSet<IpAddr>,
        /// Who is in it no more.
        remove: BTreeSet<IpAddr>,
    },
    /// Changes which networks are in a set of a table.
    ChangeNets {
        /// The family of the table.
        family: Family,
        /// What the set is called.
        set: String,
        /// Those that come to be in it.
        add: BTreeSet<IpNet>,
        /// Those that are in it no more.
        remove: BTreeSet<IpNet>,
    },
    /// Removes the table of a family, with all that is in it.
    RemovePackets(Family),
    /// Has conntrack forget the connections of pods with other clusters.
    ForgetConnections {
        /// Their addresses on the pod network, of one family.
        pods: BTreeSet<IpAddr>,
        /// All addresses of all clusters.
        pool: IpNet,
    },
    /// Makes a route, in the place of one with the same network, table and metric.
    AddRoute(Route),
    /// Removes a route of ours.
    RemoveRoute(Route),
    /// Makes a routing rule of ours.
    AddRule(Rule),
    /// Removes a routing rule of ours.
    RemoveRule(Rule),
    /// Makes the device of the overlay.
    AddOverlay {
        /// What the device is called.
        name: String,
        /// The largest packet, in bytes.
        mtu: u32,
        /// What it is made with.
        vxlan: Vxlan,
    },
    /// Removes a device, and with it all that leads to it.
    RemoveDevice {
        /// Which one, by its index.
        device: u32,
    },
    /// Says which frames reach an address of a device's other side.
    AddNeighbour {
        /// Of which one, by its index.
        device: u32,
        /// The address, and that of frames.
        neighbour: Neighbour,
    },
    /// Removes what is said of an address.
    RemoveNeighbour {
        /// Of which one, by its index.
        device: u32,
        /// The address, and that of frames.
        neighbour: Neighbour,
    },
    /// Says at which machine a device is.
    AddEndpoint {
        /// By which one, by its index.
        device: u32,
        /// The address of frames to it.
        mac: Mac,
        /// The address of the machine.
        machine: IpAddr,
    },
    /// Removes all that is said of a device on other machines.
    RemoveEndpoint {
        /// By which one, by its index.
        device: u32,
        /// The address of frames to it.
        mac: Mac,
    },
    /// Sets the MTU of a device.
    SetMtu {
        /// Of which one, by index.
        device: u32,
        /// The largest packet, in bytes.
        mtu: u32,
    },
    /// Sets what a device does with packets of a family.
    SetDevice {
        /// Which one, by its index.
        device: u32,
        /// What of it is set.
        setting: DeviceSetting,
        /// To which value it is set.
        value: u32,
    },
    /// Sets a device up, for packets.
    SetUp {
        /// Which one, by its index.
        device: u32,
    },
    /// Gives an address to a device.
    AddAddress {
        /// To which, by its index.
        device: u32,
        /// The address with its prefix.
        address: IpNet,
    },
    /// Takes an address from a device.
    RemoveAddress {
        /// From which, by its index.
        device: u32,
        /// The address with its prefix.
        address: IpNet,
    },
}

impl Step {
    /// The index of the overlay's device. It is asked for, so that a plan may speak of a device
    /// that is not there yet. The kernel counts up from 1: it does not come there by itself.
    pub const OVERLAY: u32 = 1_747_700_000;
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplacePackets(table) => {
                let family = table.family.of_packets();
                write!(f, "write the nf_tables table {family} {}", table.name)
            }
            Self::ChangeSet { family, set, add, remove } => {
                write!(f, "{}", changed(*family, set, add.len(), remove.len()))
            }
            Self::ChangeNets { family, set, add, remove } => {
                write!(f, "{}", changed(*family, set, add.len(), remove.len()))
            }
            Self::RemovePackets(family) => {
                write!(f, "remove the nf_tables table {} {}", family.of_packets(), Table::NAME)
            }
            Self::ForgetConnections { pods, pool } => {
                write!(f, "forget the connections of {} pods with {pool}", pods.len())
            }
            Self::AddRoute(route) => write!(f, "add the route {route}"),
            Self::RemoveRoute(route) => write!(f, "remove the route {route}"),
            Self::AddRule(rule) => write!(f, "add the routing rule {rule}"),
            Self::RemoveRule(rule) => write!(f, "remove the routing rule {rule}"),
            Self::AddOverlay { name, vxlan, .. } => {
                let Vxlan { vni, port, local, .. } = vxlan;
                write!(f, "make the VXLAN device {name} ({vni}, UDP port {port}, from {local})")
            }
            Self::RemoveDevice { .. } => write!(f, "remove the device of the overlay"),
            Self::AddNeighbour { neighbour, .. } => {
                write!(f, "say that {} has {}", neighbour.address, neighbour.mac)
            }
            Self::RemoveNeighbour { neighbour, .. } => {
                write!(f, "forget that {} has {}", neighbour.address, neighbour.mac)
            }
            Self::AddEndpoint { mac, machine, .. } => write!(f, "say that {mac} is at {machine}"),
            Self::RemoveEndpoint { mac, .. } => write!(f, "forget where {mac} is"),
            Self::SetMtu { device, mtu } => {
                write!(f, "set the MTU of {} to {mtu}", called(*device))
            }
            Self::SetDevice { device, setting, value } => {
                write!(f, "set {setting} of {} to {value}", called(*device))
            }
            Self::SetUp { device } => write!(f, "set {} up", called(*device)),
            Self::AddAddress { device, address } => {
                write!(f, "give {address} to {}", called(*device))
            }
            Self::RemoveAddress { device, address } => {
                write!(f, "take {address} from {}", called(*device))
            }
        }
    }
}

fn changed(family: Family, set: &str, more: usize, fewer: usize) -> String {
    format!("change the {set} in nf_tables ({family}, {more} more, {fewer} fewer)")
}

fn called(device: u32) -> &'static str {
    if device == Step::OVERLAY { "the device of the overlay" } else { "the gateway's device" }
}
