//! What is there, as far as it concerns the gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::family::Family;
use crate::overlay::Mac;
use crate::packets::Table;

/// What was read of this machine. The default is one that has nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The families that its kernel has, and whether packets of each are forwarded at all
    /// (`net.ipv4.ip_forward`, `net.ipv6.conf.all.forwarding`).
    pub forwarding: BTreeMap<Family, bool>,
    /// The gateway's device, if it is there.
    pub device: Option<Link>,
    /// Whatever has the name of the overlay's device.
    pub overlay: Option<OverlayLink>,
    /// Addresses of this machine, each with the device that packets come by; those of loopback
    /// and dummy devices have none, nor have those of several.
    pub own: BTreeMap<IpAddr, Option<String>>,
    /// Routes with our protocol, in all tables.
    pub routes: BTreeSet<Route>,
    /// Routing rules with our protocol.
    pub rules: BTreeSet<Rule>,
    /// The nf_tables tables with our name: there may be one of each family.
    pub packets: BTreeMap<Family, Table>,
}

/// A network device of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// By which the kernel knows it. Another device of the same name has another one.
    pub index: u32,
    /// Whether it is set up.
    pub up: bool,
    /// The largest packet that it takes, in bytes.
    pub mtu: u32,
    /// Its addresses, each with the prefix that it was given with.
    pub addresses: BTreeSet<IpNet>,
    /// What it does as a device of each family that it has.
    pub settings: BTreeMap<DeviceSetting, u32>,
}

/// The device of the overlay, with its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayLink {
    /// What it is as a device.
    pub link: Link,
    /// What it is as one of VXLAN, if it is one.
    pub vxlan: Option<Vxlan>,
    /// Its neighbours that stay until they are removed.
    pub neighbours: BTreeSet<Neighbour>,
    /// Which machines are behind it.
    pub endpoints: BTreeSet<Endpoint>,
}

/// What a device of VXLAN is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// Its network identifier, of 24 bits.
    pub vni: u32,
    /// The UDP port of all machines on it.
    pub port: u16,
    /// From which address of this machine it sends.
    pub local: IpAddr,
    /// Its own address, in frames.
    pub mac: Mac,
    /// Whether the rest is as we make one: it learns nothing, asks nobody, sends to no group, and
    /// its datagrams are not fragmented.
    pub is_plain: bool,
}

/// The address of a device on the other side of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// Its address of the pool.
    pub address: IpAddr,
    /// By which frames reach it.
    pub mac: Mac,
}

/// A machine that frames to some address go to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address that frames go to.
    pub mac: Mac,
    /// The machine, where no more than its address is said: no port or number of its own.
    pub machine: Option<IpAddr>,
}

/// A setting of one device (`net.ipv4.conf.DEVICE`, `net.ipv6.conf.DEVICE`). Of IPv6 that is what
/// netlink sets; forwarding is one setting of the whole machine there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceSetting {
    /// Packets that come from it are forwarded.
    Forwarding,
    /// ICMP redirects that come from it are believed.
    AcceptRedirects,
    /// Who sends by it what comes back to it is told so.
    SendRedirects,
    /// Sources are looked up: 1 by the device, 2 by any.
    ReversePath,
    /// Of IPv6, how the kernel makes an address of the link: 1 is not at all.
    AddressGeneration,
}

/// A route, as far as we make any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// In which table it is.
    pub table: u32,
    /// Which destinations it is for.
    pub net: IpNet,
    /// Smaller ones come first, among those to the same network.
    pub metric: u32,
    /// What becomes of packets there.
    pub kind: RouteKind,
    /// By which device, by its index.
    pub device: Option<u32>,
    /// By which machine, if any.
    pub gateway: Option<IpAddr>,
    /// That machine is behind the device, whatever other routes say.
    pub onlink: bool,
    /// The source of what this machine itself sends.
    pub source: Option<IpAddr>,
    /// The number of who made it.
    pub protocol: u8,
}

/// What becomes of packets that take a route (`rtm_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    /// They are sent on their way.
    Unicast,
    /// They go no further, and their sender is told at once.
    Unreachable,
    /// Something that we make none of.
    Other(u8),
}

/// A routing rule of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Of which packets it is asked.
    pub family: Family,
    /// Smaller ones are asked first.
    pub preference: u32,
    /// Packets to where; to everywhere without.
    pub to: Option<IpNet>,
    /// Packets from where; from everywhere without.
    pub from: Option<IpNet>,
    /// Packets that come by this device; by any, and from this machine itself, without.
    pub from_device: Option<String>,
    /// Which table is looked into.
    pub table: u32,
    /// The number of who made it.
    pub protocol: u8,
    /// Whether that is all: no other condition, and no other action.
    pub is_plain: bool,
}

/// What is wrong with the machine itself. It is said, and not changed: it is its owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It forwards nothing of this family, so that no pod reaches the device.
    ForwardingOff(Family),
    /// The gateway has made no device, or has ended; on other nodes it makes none.
    NoDevice,
}

impl Found {
    /// What its owner should know.
    pub fn findings(&self) -> Vec<Finding> {
        let off = self.forwarding.iter().filter(|(_, is_on)| !**is_on);
        let off = off.map(|(family, _)| Finding::ForwardingOff(*family));
        off.chain(self.device.is_none().then_some(Finding::NoDevice)).collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForwardingOff(family) => {
                let cure = match family {
                    Family::V4 => "sysctl -w net.ipv4.ip_forward=1",
                    Family::V6 => {
                        "sysctl -w net.ipv6.conf.all.forwarding=1, and before it \
                         net.ipv6.conf.DEVICE.accept_ra=2 where a router tells this node its address"
                    }
                };
                write!(
                    f,
                    "this node forwards no {family} packets, so that its pods reach no other \
                     cluster by it; a pod network needs that too: {cure}"
                )
            }
            Self::NoDevice => write!(
                f,
                "the gateway's device is not there, so that other clusters' pods are unreachable; \
                 the gateway makes it when it starts: look at its log"
            ),
        }
    }
}

impl DeviceSetting {
    /// Each of them, in the order in which they are set.
    pub const ALL: [Self; 5] = [
        Self::Forwarding,
        Self::AcceptRedirects,
        Self::SendRedirects,
        Self::ReversePath,
        Self::AddressGeneration,
    ];

    /// What it should be on our devices. Packets come by it from sources that other
    /// routes may lead to, so that sources are looked up loosely; of this setting the larger one
    /// counts, of `all` and of the device. Without an address of the link a device asks nobody for
    /// routers, and tells nobody of better ones.
    pub fn wanted(self) -> u32 {
        match self {
            Self::Forwarding | Self::AddressGeneration => 1,
            Self::AcceptRedirects | Self::SendRedirects => 0,
            Self::ReversePath => 2,
        }
    }

    /// Of packets of which family it is.
    pub fn family(self) -> Family {
        match self {
            Self::Forwarding | Self::AcceptRedirects | Self::SendRedirects | Self::ReversePath => {
                Family::V4
            }
            Self::AddressGeneration => Family::V6,
        }
    }
}

impl fmt::Display for DeviceSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forwarding => "forwarding",
            Self::AcceptRedirects => "accept_redirects",
            Self::SendRedirects => "send_redirects",
            Self::ReversePath => "rp_filter",
            Self::AddressGeneration => "addr_gen_mode",
        })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RouteKind::Unicast => write!(f, "{}", self.net)?,
            RouteKind::Unreachable => write!(f, "unreachable {}", self.net)?,
            RouteKind::Other(kind) => write!(f, "type {kind} {}", self.net)?,
        }
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(source) = self.source {
            write!(f, " src {source}")?;
        }
        write!(f, " metric {} table {}", self.metric, self.table)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.preference)?;
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        if let Some(from) = self.from {
            write!(f, " from {from}")?;
        }
        if let Some(device) = &self.from_device {
            write!(f, " iif {device}")?;
        }
        write!(f, " lookup {}", self.table)?;
        match self.to.or(self.from) {
            // Its network says which it is.
            Some(_) => Ok(()),
            None => write!(f, " ({})", self.family),
        }
    }
}
