//! The addresses of one side of all leases, by both of their names: single ones, and ranges.

use std::net::IpAddr;

use ipnet::IpNet;

use super::change::{Entry, RangeEntry, Refused};
use super::keyed::{Keyed, Table};
use super::ranges::Ranges;
use super::slots::Slot;
use crate::limits;

/// The addresses of one side of all leases.
#[derive(Clone)]
pub(super) struct Names {
    inner: Table<(Slot, IpAddr), IpAddr>,
    locals: Table<(Slot, IpAddr), Locals>,
    /// By the number of the lease, as far as any has had one.
    ranges: Vec<Ranges>,
}

/// The local names of one inner address: nearly always one.
#[derive(Clone)]
struct Locals {
    first: IpAddr,
    others: Vec<IpAddr>,
}

impl Names {
    pub(super) fn new(keyed: Keyed) -> Self {
        let (inner, locals) = (Table::with_hasher(keyed), Table::with_hasher(keyed));
        Self { inner, locals, ranges: Vec::new() }
    }

    /// How an address of this cluster is called between the gateways.
    pub(super) fn inner(&self, slot: Slot, local: IpAddr) -> Option<IpAddr> {
        let of_range = self.ranges(slot).and_then(|ranges| ranges.inner(local));
        of_range.or_else(|| self.inner.get(&(slot, local)).copied())
    }

    /// How this cluster calls an address that is called so between the gateways.
    pub(super) fn local(&self, slot: Slot, inner: IpAddr) -> Option<IpAddr> {
        let of_range = self.ranges(slot).and_then(|ranges| ranges.local(inner));
        of_range.or_else(|| Some(self.locals.get(&(slot, inner))?.first))
    }

    fn ranges(&self, slot: Slot) -> Option<&Ranges> {
        self.ranges.get(slot.place())
    }

    /// Adds an entry. One that is there already stays.
    pub(super) fn insert(&mut self, slot: Slot, entry: Entry) -> Result<(), Refused> {
        let Entry { local, inner, .. } = entry;
        if local.is_ipv4() != inner.is_ipv4() {
            return Err(Refused::Versions { local, inner });
        }
        let by_range = self.ranges(slot).and_then(|ranges| ranges.inner(local));
        if by_range.is_some_and(|by_range| by_range != inner) {
            return Err(Refused::Taken(local));
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

    /// Adds a range, if it calls no address otherwise than it is called already. One that is there
    /// already stays.
    pub(super) fn insert_range(&mut self, slot: Slot, entry: RangeEntry) -> Result<(), Refused> {
        let mut ranges = self.ranges(slot).cloned().unwrap_or_default();
        ranges.insert(entry)?;
        let of_lease = self.inner.iter().filter(|((of, _), _)| *of == slot);
        for ((_, local), inner) in of_lease {
            if ranges.inner(*local).is_some_and(|by_range| by_range != *inner) {
                return Err(Refused::Taken(*local));
            }
        }
        let most = self.ranges.len().max(slot.place() + 1);
        self.ranges.resize_with(most, Ranges::default);
        self.ranges[slot.place()] = ranges;
        Ok(())
    }

    /// Removes the range that this cluster calls so.
    pub(super) fn remove_range(&mut self, slot: Slot, local: IpNet) {
        if let Some(ranges) = self.ranges.get_mut(slot.place()) {
            ranges.remove(local);
        }
    }

    /// Removes all addresses of a lease.
    pub(super) fn remove_lease(&mut self, slot: Slot) {
        if let Some(ranges) = self.ranges.get_mut(slot.place()) {
            *ranges = Ranges::default();
        }
        self.inner.retain(|(of, _), _| *of != slot);
        self.locals.retain(|(of, _), _| *of != slot);
    }
}
