//! Guests that are gone for certain. Whoever sends to one is to be told so; of an address that is
//! merely not in the table nothing is said, since a guest may have it that is not known yet.

use std::net::IpAddr;

use super::change::{Entry, Refused};
use super::keyed::{Keyed, Table};
use super::slots::Slot;
use crate::limits;

/// Guests that are gone, and by which leases they were there.
#[derive(Clone)]
pub(super) struct Gone {
    /// Of those that ran elsewhere, as this cluster calls them.
    by_local: Table<IpAddr, Slot>,
    /// As they are called between the gateways, with the link to the home of those that ran here:
    /// two homes may call theirs alike.
    by_inner: Table<(Option<Slot>, IpAddr), Slot>,
}

impl Gone {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { by_local: Table::with_hasher(keyed), by_inner: Table::with_hasher(keyed) }
    }

    /// One is gone, that ran here for a home behind this link, or elsewhere.
    pub(super) fn insert(
        &mut self,
        slot: Slot,
        home: Option<Slot>,
        entry: Entry,
    ) -> Result<(), Refused> {
        if self.by_inner.len() >= limits::ADDRESSES {
            return Err(Refused::Full);
        }
        if home.is_none() {
            self.by_local.insert(entry.local, slot);
        }
        self.by_inner.insert((home, entry.inner), slot);
        Ok(())
    }

    /// Nothing is known of it any more. Another lease may have one of its name.
    pub(super) fn remove(&mut self, slot: Slot, home: Option<Slot>, entry: Entry) {
        if self.of(home, entry.inner) == Some(slot) {
            self.by_inner.remove(&(home, entry.inner));
        }
        if home.is_none() && self.called(entry.local) == Some(slot) {
            self.by_local.remove(&entry.local);
        }
    }

    pub(super) fn remove_lease(&mut self, slot: Slot) {
        self.by_local.retain(|_, of| *of != slot);
        self.by_inner.retain(|_, of| *of != slot);
    }

    /// The lease of one that ran elsewhere, and that this cluster calls so.
    pub(super) fn called(&self, local: IpAddr) -> Option<Slot> {
        self.by_local.get(&local).copied()
    }

    /// The lease of one that ran here for a home behind this link, or elsewhere.
    pub(super) fn of(&self, home: Option<Slot>, inner: IpAddr) -> Option<Slot> {
        self.by_inner.get(&(home, inner)).copied()
    }
}
