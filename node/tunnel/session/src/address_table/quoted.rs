//! What stands in the place of the addresses of a packet that an ICMP error quotes.

use std::net::IpAddr;

use super::AddressTable;
use super::slots::Slot;
use crate::translate::Quoted;

impl AddressTable {
    /// For what leaves this cluster.
    pub(super) fn outwards(&self, slot: Slot) -> impl Quoted {
        Outwards { table: self, slot }
    }

    /// For what comes to this cluster.
    pub(super) fn inwards(&self, slot: Slot) -> impl Quoted {
        Inwards { table: self, slot }
    }
}

/// From the names of this cluster to those between the gateways.
struct Outwards<'a> {
    table: &'a AddressTable,
    slot: Slot,
}

/// From the names between the gateways to those of this cluster.
struct Inwards<'a> {
    table: &'a AddressTable,
    slot: Slot,
}

impl Quoted for Outwards<'_> {
    /// What the other side has sent: from one of its addresses to one of ours.
    fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let Self { table, slot } = self;
        let remote = table.remotes.inner(*slot, source)?;
        Some((remote, table.inner_of(*slot, destination)?))
    }
}

impl Quoted for Inwards<'_> {
    /// What we have sent: from one of our addresses to one of the other side's.
    fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let Self { table, slot } = self;
        let local = table.local_of(*slot, source)?;
        Some((local, table.remotes.local(*slot, destination)?))
    }
}
