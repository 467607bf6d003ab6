//! Guests of several leases of one home that reach each other through it: by groups, so that a guest
//! is one entry, and not one in each lease. A packet from the one's provider to the other's comes in
//! and goes out again; either way the guest at the far end takes the place of a pod of this cluster.

use std::net::IpAddr;

use super::change::{Entry, Group, Refused};
use super::keyed::{Keyed, Table};
use super::slots::Slot;
use crate::limits;

/// Which guests are in which groups, and which leases have them.
#[derive(Clone)]
pub(super) struct Groups {
    of_leases: Table<(Slot, Group), ()>,
    by_local: Table<IpAddr, Member>,
    by_inner: Table<IpAddr, Member>,
}

/// A guest that is in a group.
#[derive(Clone, Copy)]
struct Member {
    slot: Slot,
    local: IpAddr,
    inner: IpAddr,
    group: Group,
}

impl Groups {
    pub(super) fn new(keyed: Keyed) -> Self {
        let of_leases = Table::with_hasher(keyed);
        let (by_local, by_inner) = (Table::with_hasher(keyed), Table::with_hasher(keyed));
        Self { of_leases, by_local, by_inner }
    }

    pub(super) fn add(&mut self, slot: Slot, group: Group) -> Result<(), Refused> {
        if self.of_leases.len() >= limits::GROUPS {
            return Err(Refused::Full);
        }
        self.of_leases.insert((slot, group), ());
        Ok(())
    }

    pub(super) fn remove(&mut self, slot: Slot, group: Group) {
        self.of_leases.remove(&(slot, group));
    }

    /// Adds a guest, or puts it into another group.
    pub(super) fn add_member(
        &mut self,
        slot: Slot,
        entry: Entry,
        group: Group,
    ) -> Result<(), Refused> {
        let Entry { local, inner, .. } = entry;
        if local.is_ipv4() != inner.is_ipv4() {
            return Err(Refused::Versions { local, inner });
        }
        let is_another = |of: Option<&Member>| {
            of.is_some_and(|of| (of.slot, of.local, of.inner) != (slot, local, inner))
        };
        if is_another(self.by_local.get(&local)) {
            return Err(Refused::Taken(local));
        }
        if is_another(self.by_inner.get(&inner)) {
            return Err(Refused::Taken(inner));
        }
        if self.by_local.len() >= limits::ADDRESSES {
            return Err(Refused::Full);
        }
        let member = Member { slot, local, inner, group };
        self.by_local.insert(local, member);
        self.by_inner.insert(inner, member);
        Ok(())
    }

    pub(super) fn remove_member(&mut self, slot: Slot, local: IpAddr) {
        if let Some(member) = self.by_local.get(&local).copied().filter(|of| of.slot == slot) {
            self.by_local.remove(&local);
            self.by_inner.remove(&member.inner);
        }
    }

    pub(super) fn remove_lease(&mut self, slot: Slot) {
        self.of_leases.retain(|(of, _), ()| *of != slot);
        self.by_local.retain(|_, member| member.slot != slot);
        self.by_inner.retain(|_, member| member.slot != slot);
    }

    /// How this cluster calls a guest of another lease that guests of this one reach.
    pub(super) fn local(&self, slot: Slot, inner: IpAddr) -> Option<IpAddr> {
        Some(self.met(slot, self.by_inner.get(&inner))?.local)
    }

    /// How it is called between the gateways.
    pub(super) fn inner(&self, slot: Slot, local: IpAddr) -> Option<IpAddr> {
        Some(self.met(slot, self.by_local.get(&local))?.inner)
    }

    fn met(&self, slot: Slot, member: Option<&Member>) -> Option<Member> {
        let member = member.filter(|member| member.slot != slot)?;
        self.of_leases.contains_key(&(slot, member.group)).then_some(*member)
    }
}
