//! The places of those of whom nobody knows yet who they are, or what they may. There are few, and
//! whoever holds most of them gives one up for who comes: of addresses the network with the most, and
//! in it the address with the most. So one takes no place from another, and neither does one machine
//! with a network of addresses. Of several that hold as many it is the one that has been there
//! longest, so that who comes has as long as it takes all others to come anew. A pod whose packets
//! have its node's address shares that node's places.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_discovery::Origin;
use tokio::sync::Notify;

/// By what strangers are told apart.
pub(crate) trait Mark: Ord {
    /// Those who are behind it share places first of all.
    type Group: Ord;

    /// To whom it belongs, as far as that counts.
    fn group(&self) -> Self::Group;
}

/// All of them, the first one first.
pub(crate) struct Strangers<M> {
    /// How many places there are.
    places: usize,
    all: Arc<Mutex<Vec<Stranger<M>>>>,
}

struct Stranger<M> {
    mark: M,
    evicted: Arc<Notify>,
}

/// The place of one, until it is dropped.
pub(crate) struct Place<M> {
    all: Arc<Mutex<Vec<Stranger<M>>>>,
    evicted: Arc<Notify>,
}

/// An address, in canonical form. It belongs to its network.
impl Mark for IpAddr {
    type Group = Origin;

    fn group(&self) -> Origin {
        Origin::network(*self)
    }
}

/// A user of the cluster, by name, who belongs to nobody.
impl Mark for String {
    type Group = ();

    fn group(&self) {}
}

impl<M: Mark> Strangers<M> {
    /// Nobody yet, and so many places.
    pub(crate) fn new(places: usize) -> Self {
        Self { places, all: Arc::default() }
    }

    /// Lets one in; who has to go for it hears so.
    pub(crate) fn enter(&self, mark: M) -> Place<M> {
        let evicted = Arc::new(Notify::new());
        let mut all = lock(&self.all);
        if all.len() >= self.places {
            let goes = who_goes(&all);
            goes.map(|at| all.remove(at)).inspect(|goes| goes.evicted.notify_one());
        }
        all.push(Stranger { mark, evicted: evicted.clone() });
        drop(all);
        Place { all: self.all.clone(), evicted }
    }
}

/// Which of these goes where there is no room.
fn who_goes<M: Mark>(all: &[Stranger<M>]) -> Option<usize> {
    let (mut of_groups, mut of_marks) = (BTreeMap::new(), BTreeMap::new());
    for stranger in all {
        *of_groups.entry(stranger.mark.group()).or_insert(0) += 1;
        *of_marks.entry(&stranger.mark).or_insert(0) += 1;
    }
    let most = |(at, stranger): &(usize, &Stranger<M>)| {
        let of_group = of_groups.get(&stranger.mark.group()).copied();
        (of_group, of_marks.get(&stranger.mark).copied(), Reverse(*at))
    };
    all.iter().enumerate().max_by_key(most).map(|(at, _)| at)
}

fn lock<M>(all: &Mutex<Vec<Stranger<M>>>) -> MutexGuard<'_, Vec<Stranger<M>>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<M> Place<M> {
    /// Waits until somebody else needs the place.
    pub(crate) async fn is_taken(&self) {
        self.evicted.notified().await;
    }
}

impl<M> Drop for Place<M> {
    fn drop(&mut self) {
        lock(&self.all).retain(|it| !Arc::ptr_eq(&it.evicted, &self.evicted));
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
        let taken = |place: &Place<IpAddr>| place.is_taken().now_or_never().is_some();
        let node = strangers.enter(address(2));
        let mut greedy: Vec<Place<IpAddr>> =
            (1..limits::NODE_STRANGERS).map(|_| strangers.enter(address(1))).collect();
        assert!(!taken(&node) && !greedy.iter().any(taken), "there is room");
        let other = strangers.enter(address(3));
        assert!(taken(&greedy[0]), "the first of those that came from one address");
        assert!(!taken(&node) && !taken(&other) && !greedy[1..].iter().any(taken));
        greedy.clear();
        drop((node, other));
        assert!(lock(&strangers.all).is_empty(), "nothing is left of them");
    }

    #[test]
    fn of_those_that_hold_as_many_the_first_goes() {
        let strangers = Strangers::new(limits::NODE_STRANGERS);
        let address = |n: usize| IpAddr::from([127, 0, 0, u8::try_from(n).unwrap()]);
        let taken = |place: &Place<IpAddr>| place.is_taken().now_or_never().is_some();
        let order = (1..=limits::NODE_STRANGERS).rev();
        let all: Vec<Place<IpAddr>> = order.map(|n| strangers.enter(address(n))).collect();
        let node = strangers.enter(address(200));
        assert!(taken(&all[0]) && !all[1..].iter().any(taken));
        let other = strangers.enter(address(201));
        assert!(taken(&all[1]) && !taken(&node) && !taken(&other));
    }

    #[test]
    fn a_network_of_many_addresses_takes_no_place_of_another() {
        for network in [0x2001, 0xfd00, 0xfe80] {
            let strangers = Strangers::new(limits::NODE_STRANGERS);
            let taken = |place: &Place<IpAddr>| place.is_taken().now_or_never().is_some();
            let nodes = ["192.0.2.1", "2001:db8:1::1", "fd00:1::1"].map(|ip| ip.parse().unwrap());
            let nodes = nodes.map(|ip| strangers.enter(ip));
            let address = |n: u16| IpAddr::from([network, 0, 0, 1, 0, 0, 0, n]);
            let greedy: Vec<Place<IpAddr>> =
                (0..1_000).map(|n| strangers.enter(address(n))).collect();
            assert!(!nodes.iter().any(taken), "{network:x}");
            let stay = greedy.iter().filter(|place| !taken(place)).count();
            assert_eq!(stay, limits::NODE_STRANGERS - nodes.len());
        }
    }

    #[test]
    fn in_a_network_one_address_takes_no_place_of_another() {
        let strangers = Strangers::new(limits::NODE_STRANGERS);
        let taken = |place: &Place<IpAddr>| place.is_taken().now_or_never().is_some();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]);
        let node = strangers.enter(address(1));
        let _greedy: Vec<Place<IpAddr>> = (0..1_000).map(|_| strangers.enter(address(2))).collect();
        assert!(!taken(&node), "it is of the same network");
    }
}
