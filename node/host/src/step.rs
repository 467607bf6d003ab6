//! One change of the machine: one request to the kernel, which does it whole or not at all.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::found::{DeviceSetting, Route, Rule};
use crate::packets::Table;

/// One change. To do it again does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Puts this table in the place of whatever has its name, at one moment.
    ReplacePackets(Table),
    /// Changes the set of pods.
    ChangePods {
        /// Who becomes one of them.
        add: BTreeSet<IpAddr>,
        /// Who is one no more.
        remove: BTreeSet<IpAddr>,
    },
    /// Removes the table with all that is in it.
    RemovePackets,
    /// Makes a route, in the place of one with the same network, table and metric.
    AddRoute(Route),
    /// Removes a route of ours.
    RemoveRoute(Route),
    /// Makes a routing rule of ours.
    AddRule(Rule),
    /// Removes a routing rule of ours.
    RemoveRule(Rule),
    /// Sets the MTU of a device.
    SetMtu {
        /// Of which one, by index.
        device: u32,
        /// The largest packet, in bytes.
        mtu: u32,
    },
    /// Sets what a device does with IPv4.
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

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplacePackets(table) => write!(f, "write the nf_tables table ip {}", table.name),
            Self::ChangePods { add, remove } => write!(
                f,
                "change the pods in nf_tables ({} more, {} fewer)",
                add.len(),
                remove.len()
            ),
            Self::RemovePackets => write!(f, "remove the nf_tables table ip {}", Table::NAME),
            Self::AddRoute(route) => write!(f, "add the route {route}"),
            Self::RemoveRoute(route) => write!(f, "remove the route {route}"),
            Self::AddRule(rule) => write!(f, "add the routing rule {rule}"),
            Self::RemoveRule(rule) => write!(f, "remove the routing rule {rule}"),
            Self::SetMtu { mtu, .. } => write!(f, "set the MTU of the gateway's device to {mtu}"),
            Self::SetDevice { setting, value, .. } => {
                write!(f, "set {setting} of the gateway's device to {value}")
            }
            Self::SetUp { .. } => write!(f, "set the gateway's device up"),
            Self::AddAddress { address, .. } => {
                write!(f, "give {address} to the gateway's device")
            }
            Self::RemoveAddress { address, .. } => {
                write!(f, "take {address} from the gateway's device")
            }
        }
    }
}
