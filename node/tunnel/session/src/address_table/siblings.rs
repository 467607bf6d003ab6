//! Guests of one lease that run in one cluster, and call each other by the addresses that their home
//! has for them. Their packets go to the gateway like all others to those addresses, and come back
//! from it: from the sender's address at home, to where the other one is.

use std::net::IpAddr;

use super::slots::Slot;
use super::{AddressTable, Role};
use crate::crossing::TranslateError;
use crate::translate::{Checksum, Quoted, translate};

impl AddressTable {
    /// Where the guest is that is called so between the gateways, if it runs here.
    pub(super) fn guest_here(&self, slot: Slot, inner: IpAddr) -> Option<IpAddr> {
        let runs_here = self.leases.get(slot).1.role == Role::Provider;
        self.locals.local(slot, inner).filter(|_| runs_here)
    }

    /// Translates a packet from one guest here, by its name between the gateways, to where another
    /// is.
    pub(super) fn send_back(
        &self,
        slot: Slot,
        packet: &mut [u8],
        [caller, guest]: [IpAddr; 2],
        checksum: Checksum,
    ) -> Result<(), TranslateError> {
        let caller = self.called_here(slot, caller);
        translate(packet, caller, guest, checksum, &Between { table: self, slot })
    }

    /// How guests here call an address that is called so between the gateways.
    fn called_here(&self, slot: Slot, inner: IpAddr) -> IpAddr {
        self.remotes.local(slot, inner).unwrap_or(inner)
    }
}

/// From the names by which guests call each other to those that they have here.
struct Between<'a> {
    table: &'a AddressTable,
    slot: Slot,
}

impl Quoted for Between<'_> {
    /// What the other guest has sent: from where it is, to what it has called.
    fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let Self { table, slot } = self;
        let caller = table.remotes.inner(*slot, source).unwrap_or(source);
        let called = table.locals.inner(*slot, destination)?;
        Some((table.guest_here(*slot, caller)?, table.called_here(*slot, called)))
    }
}
