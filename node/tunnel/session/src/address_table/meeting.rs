//! Whom the other side of a lease reaches here: this cluster's own addresses, and guests of other
//! leases that it meets.

use std::net::IpAddr;

use mercato_protocol::id::ContractId;

use super::change::{Entry, Group, Refused};
use super::slots::Slot;
use super::{AddressTable, Role};

impl AddressTable {
    /// How this cluster calls an address that the other side of a lease may reach.
    pub(super) fn local_of(&self, slot: Slot, inner: IpAddr) -> Option<IpAddr> {
        self.locals.local(slot, inner).or_else(|| self.groups.local(slot, inner))
    }

    /// How an address that the other side of a lease may reach is called between the gateways.
    pub(super) fn inner_of(&self, slot: Slot, local: IpAddr) -> Option<IpAddr> {
        self.locals.inner(slot, local).or_else(|| self.groups.inner(slot, local))
    }

    pub(super) fn add_group(&mut self, lease: ContractId, group: Group) -> Result<(), Refused> {
        let slot = self.slot_at_home(lease)?;
        self.groups.add(slot, group)
    }

    pub(super) fn remove_group(&mut self, lease: ContractId, group: Group) -> Result<(), Refused> {
        let slot = self.slot_at_home(lease)?;
        self.groups.remove(slot, group);
        Ok(())
    }

    pub(super) fn add_member(&mut self, entry: Entry, group: Group) -> Result<(), Refused> {
        let slot = self.slot_at_home(entry.lease)?;
        self.groups.add_member(slot, entry, group)
    }

    pub(super) fn remove_member(
        &mut self,
        lease: ContractId,
        local: IpAddr,
    ) -> Result<(), Refused> {
        let slot = self.slot_at_home(lease)?;
        self.groups.remove_member(slot, local);
        Ok(())
    }

    /// The number of a lease whose guests are this cluster's own pods.
    fn slot_at_home(&self, lease: ContractId) -> Result<Slot, Refused> {
        let slot = self.leases.slot(lease).ok_or(Refused::UnknownLease(lease))?;
        let is_home = self.leases.get(slot).1.role == Role::Consumer;
        is_home.then_some(slot).ok_or(Refused::NotHome(lease))
    }
}
