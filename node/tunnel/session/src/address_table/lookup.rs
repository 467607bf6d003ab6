//! By which lease a packet goes, and whether nobody is there any more whom it is for.

use std::net::IpAddr;

use mercato_protocol::id::ContractId;

use super::change::{Entry, Refused};
use super::slots::Slot;
use super::{AddressTable, Role};
use crate::packet::Layout;
use crate::peer_index::PeerIndex;

impl AddressTable {
    /// Whose packet it is that this cluster sends, whether or not it may pass.
    pub fn lease_of_outbound(&self, packet: &[u8]) -> Option<ContractId> {
        let Layout { source, destination, .. } = Layout::read(packet).ok()?;
        Some(self.leases.get(self.slot_outbound(source, destination)?).0)
    }

    /// Whose packet it is that came through a peer's gateway, whether or not it may pass.
    pub fn lease_of_inbound(&self, peer: PeerIndex, packet: &[u8]) -> Option<ContractId> {
        let Layout { source, destination, .. } = Layout::read(packet).ok()?;
        Some(self.leases.get(self.slot_inbound(peer, source, destination)?).0)
    }

    /// By which lease a packet goes: that of the guest that sends it, or else of the one that it is
    /// for.
    pub(super) fn slot_outbound(&self, source: IpAddr, destination: IpAddr) -> Option<Slot> {
        let of = |guest, role| {
            let slot = self.lease_by_guest.get(&guest)?;
            (self.leases.get(*slot).1.role == role).then_some(*slot)
        };
        let living = of(source, Role::Provider).or_else(|| of(destination, Role::Consumer));
        living.or_else(|| self.gone.called(destination))
    }

    /// By which lease it came: that of the guest that it is for, or else of the one that sends it.
    pub(super) fn slot_inbound(
        &self,
        peer: PeerIndex,
        source: IpAddr,
        destination: IpAddr,
    ) -> Option<Slot> {
        let link = *self.link_by_gateway.get(&peer)?;
        let of = |guest, role| {
            let slot = self.lease_by_inner.get(&(link, guest))?;
            (self.leases.get(*slot).1.role == role).then_some(*slot)
        };
        let living = of(destination, Role::Provider);
        let called = living.or_else(|| self.gone.of(Some(link), destination));
        called.or_else(|| of(source, Role::Consumer))
    }

    /// A guest of a lease is gone; or nothing is known of it any more.
    pub(super) fn set_gone(&mut self, entry: Entry, is_gone: bool) -> Result<(), Refused> {
        let slot = self.leases.slot(entry.lease).ok_or(Refused::UnknownLease(entry.lease))?;
        let home = self.home_of_guests_here(slot);
        if is_gone {
            return self.gone.insert(slot, home, entry);
        }
        self.gone.remove(slot, home, entry);
        Ok(())
    }

    /// Whether a guest is gone that the other side of a lease calls so.
    pub(super) fn is_gone_inbound(&self, slot: Slot, inner: IpAddr) -> bool {
        self.gone.of(self.home_of_guests_here(slot), inner).is_some()
    }

    /// Whether a guest of a lease is gone that guests here call so, or pods of home, and by which name
    /// it would be called between the gateways.
    pub(super) fn is_gone_outbound(
        &self,
        slot: Slot,
        local: IpAddr,
        inner: Option<IpAddr>,
    ) -> bool {
        let home = self.home_of_guests_here(slot);
        let of = match home {
            Some(_) => self.gone.of(home, inner.unwrap_or(local)),
            None => self.gone.called(local).filter(|_| inner.is_none()),
        };
        of == Some(slot)
    }

    /// The link to the home of a lease whose guests run here.
    fn home_of_guests_here(&self, slot: Slot) -> Option<Slot> {
        let lease = self.leases.get(slot).1;
        (lease.role == Role::Provider).then_some(lease.link)
    }
}
