//! How many connections there may be: of one guest, so that it crowds out no other, of the guests of one
//! lease, since their provider can speak for each of them, and of all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_protocol::id::ContractId;

use crate::limits;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tunnel) struct RelayBounds {
    pub(super) of_guest: usize,
    pub(super) of_lease: usize,
    pub(super) all: usize,
}

impl Default for RelayBounds {
    fn default() -> Self {
        let (of_guest, of_lease) = (limits::API_OF_GUEST, limits::API_OF_LEASE);
        Self { of_guest, of_lease, all: limits::API_CONNECTIONS }
    }
}

/// The connections that there are.
pub(super) struct Places {
    bounds: RelayBounds,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    of_guests: BTreeMap<IpAddr, usize>,
    of_leases: BTreeMap<ContractId, usize>,
    all: usize,
}

/// One of them, until it is dropped.
pub(super) struct Place {
    of: Arc<Places>,
    guest: IpAddr,
    lease: ContractId,
}

impl Places {
    pub(super) fn new(bounds: RelayBounds) -> Self {
        Self { bounds, taken: Mutex::default() }
    }

    /// One more, if there is room.
    pub(super) fn take(self: &Arc<Self>, guest: IpAddr, lease: ContractId) -> Option<Place> {
        let RelayBounds { of_guest, of_lease, all } = self.bounds;
        let mut taken = self.lock();
        let has = |count: Option<&usize>| count.copied().unwrap_or_default();
        let is_full = has(taken.of_guests.get(&guest)) >= of_guest
            || has(taken.of_leases.get(&lease)) >= of_lease
            || taken.all >= all;
        if is_full {
            return None;
        }
        *taken.of_guests.entry(guest).or_default() += 1;
        *taken.of_leases.entry(lease).or_default() += 1;
        taken.all += 1;
        Some(Place { of: self.clone(), guest, lease })
    }

    /// How many of them there are.
    pub(super) fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        give_back(&mut taken.of_guests, &self.guest);
        give_back(&mut taken.of_leases, &self.lease);
        taken.all -= 1;
    }
}

/// Whoever has none is forgotten.
fn give_back<K: Ord>(counts: &mut BTreeMap<K, usize>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;

    #[test]
    fn nobody_takes_the_room_of_others() {
        let places = Arc::new(Places::new(RelayBounds { of_guest: 2, of_lease: 3, all: 4 }));
        let guest = |n: u8| IpAddr::from([10, 201, 4, n]);
        let (one, other) = (ContractId([1; 16]), ContractId([2; 16]));
        let take = |n, lease| places.take(guest(n), lease);
        let first: Vec<_> = (0..9).filter_map(|_| take(1, one)).collect();
        assert_eq!(first.len(), 2, "of one guest");
        let second: Vec<_> = (0..9).filter_map(|_| take(2, one)).collect();
        assert_eq!(second.len(), 1, "of one lease");
        let third: Vec<_> = (0..9).filter_map(|_| take(3, other)).collect();
        assert_eq!((third.len(), places.taken()), (1, 4), "of all");
        drop(first);
        assert!(take(2, one).is_some() && take(4, other).is_some());
        drop((second, third));
        let taken = places.lock();
        assert!(taken.of_guests.is_empty() && taken.of_leases.is_empty(), "somebody is remembered");
        assert_eq!(taken.all, 0);
    }
}
