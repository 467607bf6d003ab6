//! How many connections there may be: of one guest, so that it crowds out no other, of the guests in one
//! cluster, since it can speak for each of them, and of all. No cluster has more than it leaves free:
//! however many have all that they may, there is room for one more.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_protocol::id::ClusterId;

use crate::limits;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tunnel) struct RelayBounds {
    pub(super) of_guest: usize,
    pub(super) all: usize,
}

impl Default for RelayBounds {
    fn default() -> Self {
        Self { of_guest: limits::API_OF_GUEST, all: limits::API_CONNECTIONS }
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
    of_clusters: BTreeMap<ClusterId, usize>,
    all: usize,
}

/// One of them, until it is dropped.
pub(super) struct Place {
    of: Arc<Places>,
    guest: IpAddr,
    cluster: ClusterId,
}

impl Places {
    pub(super) fn new(bounds: RelayBounds) -> Self {
        Self { bounds, taken: Mutex::default() }
    }

    /// One more, if there is room.
    pub(super) fn take(self: &Arc<Self>, guest: IpAddr, cluster: ClusterId) -> Option<Place> {
        let RelayBounds { of_guest, all } = self.bounds;
        let mut taken = self.lock();
        let has = |count: Option<&usize>| count.copied().unwrap_or_default();
        let is_full = has(taken.of_guests.get(&guest)) >= of_guest
            || has(taken.of_clusters.get(&cluster)) >= all - taken.all;
        if is_full {
            return None;
        }
        *taken.of_guests.entry(guest).or_default() += 1;
        *taken.of_clusters.entry(cluster).or_default() += 1;
        taken.all += 1;
        Some(Place { of: self.clone(), guest, cluster })
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
        give_back(&mut taken.of_clusters, &self.cluster);
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
    use mercato_protocol::id::ClusterId;

    use super::*;

    #[test]
    fn nobody_takes_the_room_of_others() {
        let places = Arc::new(Places::new(RelayBounds { of_guest: 2, all: 8 }));
        let take = |guest, cluster| {
            places.take(IpAddr::from([10, 201, cluster, guest]), ClusterId([cluster; 32]))
        };
        let of_guest: Vec<_> = (0..9).filter_map(|_| take(1, 1)).collect();
        assert_eq!(of_guest.len(), 2, "of one guest");
        let all = |cluster| (2..99).filter_map(|guest| take(guest, cluster)).collect::<Vec<_>>();
        let clusters = [1, 2, 3, 4, 5].map(all);
        assert_eq!(clusters.each_ref().map(Vec::len), [2, 2, 1, 1, 0], "as many as are left");
        assert_eq!(places.taken(), 8);
        drop(of_guest);
        assert!(take(1, 5).is_some(), "there is room again");
        drop(clusters);
        let taken = places.lock();
        assert!(taken.of_guests.is_empty() && taken.of_clusters.is_empty(), "one is remembered");
        assert_eq!(taken.all, 0);
    }
}
