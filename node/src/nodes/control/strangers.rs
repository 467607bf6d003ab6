//! The places of those whose token nobody has vouched for yet. There are few, and whoever holds most
//! of them gives one up for who comes: so a node gets in, whatever pods hold.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::limits;

/// All of them, by the address that they come from.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<BTreeMap<IpAddr, VecDeque<Arc<Notify>>>>>);

/// The place of one, until it is dropped.
pub(super) struct Place {
    strangers: Strangers,
    from: IpAddr,
    evicted: Arc<Notify>,
}

impl Strangers {
    /// Lets one in; who has to go for it hears so.
    pub(super) fn enter(&self, from: IpAddr) -> Place {
        let evicted = Arc::new(Notify::new());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.values().map(VecDeque::len).sum::<usize>() >= limits::NODE_STRANGERS {
            let most = all.values_mut().max_by_key(|of| of.len());
            if let Some(first) = most.and_then(VecDeque::pop_front) {
                first.notify_one();
            }
            all.retain(|_, of| !of.is_empty());
        }
        all.entry(from).or_default().push_back(evicted.clone());
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
        let mut all = self.strangers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = all.get_mut(&self.from) {
            of.retain(|it| !Arc::ptr_eq(it, &self.evicted));
            if of.is_empty() {
                all.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn who_holds_most_gives_one_up() {
        let strangers = Strangers::default();
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
        assert!(strangers.0.lock().unwrap().is_empty(), "nothing is left of them");
    }
}
