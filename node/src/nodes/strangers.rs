//! The places of those of whom nobody knows yet who they are. There are few, and whoever holds most
//! of them gives one up for who comes: so one address takes no place from another. Of several that
//! hold as many it is the one that has been there longest, so that who comes has as long as it takes
//! all others to come anew. A pod whose packets have its node's address shares that node's places.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// All of them, by the address that they come from.
#[derive(Clone)]
pub(super) struct Strangers {
    /// How many places there are.
    places: usize,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    /// How many have come so far.
    count: u64,
    /// Those of each address, the first one first, each with its number.
    by_address: BTreeMap<IpAddr, VecDeque<(u64, Arc<Notify>)>>,
}

/// The place of one, until it is dropped.
pub(super) struct Place {
    strangers: Strangers,
    from: IpAddr,
    evicted: Arc<Notify>,
}

impl Strangers {
    /// Nobody yet, and so many places.
    pub(super) fn new(places: usize) -> Self {
        Self { places, all: Arc::default() }
    }

    /// Lets one in; who has to go for it hears so.
    pub(super) fn enter(&self, from: IpAddr) -> Place {
        let evicted = Arc::new(Notify::new());
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let All { count, by_address } = &mut *all;
        if by_address.values().map(VecDeque::len).sum::<usize>() >= self.places {
            let first = |of: &VecDeque<(u64, _)>| of.front().map(|(number, _)| *number);
            let most = by_address.values_mut().max_by_key(|of| (of.len(), Reverse(first(of))));
            if let Some((_, first)) = most.and_then(VecDeque::pop_front) {
                first.notify_one();
            }
            by_address.retain(|_, of| !of.is_empty());
        }
        *count += 1;
        by_address.entry(from).or_default().push_back((*count, evicted.clone()));
        drop(all);
        Place { strangers: self.clone(), from, evicted }
    }
}

impl Place {
    /// Waits until somebody else needs the place.
    pub(super) async fn is_taken(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.strangers.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = all.by_address.get_mut(&self.from) {
            of.retain(|(_, it)| !Arc::ptr_eq(it, &self.evicted));
            if of.is_empty() {
                all.by_address.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::limits;

    #[test]
    fn who_holds_most_gives_one_up() {
        let strangers = Strangers::new(limits::NODE_STRANGERS);
        let address = |n: u8| IpAddr::from([127, 0, 0, n]);
        let taken = |place: &Place| place.is_taken().now_or_never().is_some();
        let node = strangers.enter(address(2));
        let mut greedy: Vec<Place> =
            (1..limits::NODE_STRANGERS).map(|_| strangers.enter(address(1))).collect();
        assert!(!taken(&node) && !greedy.iter().any(taken), "there is room");
        let other = strangers.enter(address(3));
        assert!(taken(&greedy[0]), "the first of those that came from one address");
        assert!(!taken(&node) && !taken(&other) && !greedy[1..].iter().any(taken));
        greedy.clear();
        drop((node, other));
        assert!(strangers.all.lock().unwrap().by_address.is_empty(), "nothing is left of them");
    }

    #[test]
    fn of_those_that_hold_as_many_the_first_goes() {
        let strangers = Strangers::new(limits::NODE_STRANGERS);
        let address = |n: usize| IpAddr::from([127, 0, 0, u8::try_from(n).unwrap()]);
        let taken = |place: &Place| place.is_taken().now_or_never().is_some();
        let order = (1..=limits::NODE_STRANGERS).rev();
        let all: Vec<Place> = order.map(|n| strangers.enter(address(n))).collect();
        let node = strangers.enter(address(200));
        assert!(taken(&all[0]) && !all[1..].iter().any(taken));
        let other = strangers.enter(address(201));
        assert!(taken(&all[1]) && !taken(&node) && !taken(&other));
    }
}
