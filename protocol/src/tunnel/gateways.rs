//! Where a cluster's gateways are, and by which addresses its pods are known: a list that the
//! cluster signs, of which the latest holds.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, at_most, ensure, wire_map};
use crate::envelope::Payload;
use crate::id::{ClusterId, GatewayKey, PublicKey};
use crate::limits;

/// The gateways of a cluster, or why it has none. Signed outside of any federation, as identity
/// documents are: it is for each cluster that has a lease with this one, whatever they met in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateways {
    /// The cluster whose gateways they are.
    pub cluster: ClusterId,
    /// When the list was made, wall clock; each is later than all before.
    pub issued_ms: u64,
    /// The gateways, the one to be preferred first.
    pub gateways: Vec<Gateway>,
    /// The ranges by which the cluster's own pods are known inside the tunnel, ascending; none is
    /// in another.
    pub ranges: Vec<IpNet>,
    /// Why there is no gateway, for the other side's operator: there exactly if there is none.
    pub reason: Option<String>,
}

/// One gateway of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// The public half of its key.
    pub key: GatewayKey,
    /// Where it can be reached over UDP, the best first; nowhere is possible: then it begins.
    pub addresses: Vec<SocketAddr>,
}

/// No pod is known by an address of these, and no route goes there: this machine, the link with
/// its metadata services, groups of receivers.
const RESERVED: [&str; 9] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/3",
    "::/16",
    "64:ff9b::/96",
    "2002::/16",
    "fe80::/10",
    "ff00::/8",
];

impl Message for Gateways {
    const MAX_BYTES: usize = limits::GATEWAYS_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("gateways", self.gateways.len(), limits::GATEWAYS)?;
        at_most("ranges", self.ranges.len(), limits::RANGES)?;
        let keys: BTreeSet<_> = self.gateways.iter().map(|gateway| gateway.key).collect();
        ensure(keys.len() == self.gateways.len(), "a gateway comes twice")?;
        self.gateways.iter().try_for_each(Gateway::validate)?;
        self.ranges.iter().try_for_each(check_range)?;
        let apart = |pair: &[IpNet]| pair[0] < pair[1] && !pair[0].contains(&pair[1]);
        ensure(self.ranges.windows(2).all(apart), "ranges out of order, or one within another")?;
        ensure(
            self.reason.is_some() == self.gateways.is_empty(),
            "gateways, or why there is none",
        )?;
        let Some(reason) = &self.reason else { return Ok(()) };
        ensure(!reason.is_empty(), "a reason that says nothing")?;
        at_most("bytes of a reason", reason.len(), limits::LINE_BYTES)
    }
}

impl Gateway {
    fn validate(&self) -> Result<(), CodecError> {
        at_most("addresses of a gateway", self.addresses.len(), limits::GATEWAY_ADDRESSES)?;
        let distinct: BTreeSet<_> = self.addresses.iter().collect();
        ensure(distinct.len() == self.addresses.len(), "an address comes twice")?;
        self.addresses.iter().try_for_each(check_address)
    }
}

/// Refuses what nobody can send a datagram to, and what has no encoding.
fn check_address(address: &SocketAddr) -> Result<(), CodecError> {
    let ip = address.ip();
    ensure(address.port() != 0, "an address without a port")?;
    ensure(ip.to_canonical() == ip, "an IPv4 address in the form of IPv6")?;
    ensure(!ip.is_unspecified() && !ip.is_multicast(), "an address of nobody, or of a group")?;
    match (address, ip) {
        (SocketAddr::V6(address), IpAddr::V6(ip)) => {
            let is_plain = address.scope_id() == 0 && address.flowinfo() == 0;
            ensure(is_plain && !ip.is_unicast_link_local(), "an address of one link alone")
        }
        (_, IpAddr::V4(ip)) => ensure(!ip.is_broadcast(), "an address of a group"),
        (SocketAddr::V4(_), IpAddr::V6(_)) => Ok(()),
    }
}

/// Refuses what is no range, and what would take the place of something else.
fn check_range(range: &IpNet) -> Result<(), CodecError> {
    ensure(range.trunc() == *range, "a range with bits of a host")?;
    let reserved = RESERVED.iter().filter_map(|reserved| reserved.parse::<IpNet>().ok());
    let mut clash = reserved.filter(|it| it.contains(range) || range.contains(it));
    ensure(clash.next().is_none(), "a range that pods cannot have")
}

impl Payload for Gateways {
    const TYPE: &'static str = "gateways";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        cluster == Some(self.cluster)
    }

    /// From when it was made, until there is a later one.
    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.issued_ms, u64::MAX))
    }
}

wire_map!(Gateways {
    1 => cluster,
    2 => issued_ms,
    3 => gateways,
    4 => ranges,
    5 => reason,
});
wire_map!(Gateway { 1 => key, 2 => addresses });
