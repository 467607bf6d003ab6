//! The addresses of one side of all leases, by both of their names.

use std::net::IpAddr;

use super::change::{Entry, Refused};
use super::keyed::{Keyed, Table};
use super::slots::Slot;
use crate::limits;

/// The addresses of one side of all leases.
#[derive(Clone)]
pub(super) struct Names {
    inner: Table<(Slot, IpAddr), IpAddr>,
    locals: Table<(Slot, IpAddr), Locals>,
}

/// The local names of one inner address: nearly always one.
#[derive(Clone)]
struct Locals {
    first: IpAddr,
    others: Vec<IpAddr>,
}

impl Names {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { inner: Table::with_hasher(keyed), locals: Table::with_hasher(keyed) }
    }

    /// How an address of this cluster is called between the gateways.
    pub(super) fn inner(&self, slot: Slot, local: IpAddr) -> Option<IpAddr> {
        self.inner.get(&(slot, local)).copied()
    }

    /// How this cluster calls an address that is called so between the gateways.
    pub(super) fn local(&self, slot: Slot, inner: IpAddr) -> Option<IpAddr> {
        Some(self.locals.get(&(slot, inner))?.first)
    }

    /// Adds an entry. One that is there already stays.
    pub(super) fn insert(&mut self, slot: Slot, entry: Entry) -> Result<(), Refused> {
        let Entry { local, inner, .. } = entry;
        if local.is_ipv4() != inner.is_ipv4() {
            return Err(Refused::Versions { local, inner });
        }
        match self.inner.get(&(slot, local)) {
            Some(before) if *before == inner => return Ok(()),
            Some(_) => return Err(Refused::Taken(local)),
            None if self.inner.len() >= limits::ADDRESSES => return Err(Refused::Full),
            None => self.inner.insert((slot, local), inner),
        };
        let new = || Locals { first: local, others: Vec::new() };
        let locals = self.locals.entry((slot, inner)).or_insert_with(new);
        if locals.first != local {
            locals.others.push(local);
        }
        Ok(())
    }

    /// Removes an address. Gives its inner name if it was the last one of that.
    pub(super) fn remove(&mut self, slot: Slot, local: IpAddr) -> Option<IpAddr> {
        let inner = self.inner.remove(&(slot, local))?;
        let locals = self.locals.get_mut(&(slot, inner)).expect("both tables change together");
        locals.others.retain(|other| *other != local);
        if locals.first == local {
            if locals.others.is_empty() {
                self.locals.remove(&(slot, inner));
                return Some(inner);
            }
            locals.first = locals.others.remove(0);
        }
        None
    }

    /// Removes all addresses of a lease.
    pub(super) fn remove_lease(&mut self, slot: Slot) {
        self.inner.retain(|(of, _), _| *of != slot);
        self.locals.retain(|(of, _), _| *of != slot);
    }
}
