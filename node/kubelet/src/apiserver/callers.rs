//! Who is connected to one listener, and for whom there is a place.
//!
//! Whoever reaches the port is a stranger until what it asks for is allowed: knowing somebody's
//! name is not enough, since every pod of a cluster has one. Strangers have few places, in all and
//! by network, for a short time, and the oldest gives way to the next. Those that are known have
//! places of their own, by user and by network.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mercato_discovery::Origin;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::limits;

/// Who is connected to one listener.
#[derive(Clone, Default)]
pub(crate) struct Callers(Arc<Mutex<Connected>>);

#[derive(Default)]
struct Connected {
    /// Those that are not known, the oldest first.
    strangers: VecDeque<Stranger>,
    /// Those that are known, by connection: whose, and from where.
    known: BTreeMap<u64, (String, Origin)>,
    /// Networks from which somebody was allowed something, the last one at the end: an API server
    /// that comes again leaves after others.
    familiar: VecDeque<Origin>,
    next: u64,
    /// Of each network of a connection: what it may have under way.
    busy: BTreeMap<Origin, Weak<Semaphore>>,
}

/// A connection of somebody of whom nobody has said yet that they may ask for anything.
struct Stranger {
    id: u64,
    from: Origin,
    /// It showed a certificate of the cluster's, or a token that the cluster knows: it leaves after
    /// those that show nothing.
    certified: bool,
    evicted: CancellationToken,
}

/// One connection, and whose it is; all that is told of it to the router.
#[derive(Clone)]
pub struct Caller(Arc<Place>);

struct Place {
    callers: Callers,
    id: u64,
    from: Origin,
    evicted: CancellationToken,
    known: watch::Sender<bool>,
    /// Of its network: reviews that wait, bodies that come.
    busy: Arc<Semaphore>,
    /// Of itself: a review that waits for those of its network.
    alone: Arc<Semaphore>,
    /// Requests that are being answered.
    active: watch::Sender<usize>,
}

impl Callers {
    /// A place for a connection that has just come.
    pub(crate) fn enter(&self, address: IpAddr) -> Caller {
        let from = Origin::of(address);
        let mut connected = self.connected();
        let id = connected.next;
        connected.next += 1;
        let of_network = connected.strangers.iter().filter(|other| other.from == from).count();
        if of_network >= limits::STRANGERS_OF_NETWORK {
            connected.evict(|other| other.from == from);
        } else if connected.strangers.len() >= limits::STRANGERS {
            connected.evict(|_| true);
        }
        let evicted = CancellationToken::new();
        let stranger = Stranger { id, from, certified: false, evicted: evicted.clone() };
        connected.strangers.push_back(stranger);
        connected.busy.retain(|_, busy| busy.strong_count() > 0);
        let busy = connected.busy.get(&from).and_then(Weak::upgrade);
        let busy = busy.unwrap_or_else(|| Arc::new(Semaphore::new(limits::UNKNOWN_REQUESTS)));
        connected.busy.insert(from, Arc::downgrade(&busy));
        drop(connected);
        let (known, active) = (watch::Sender::new(false), watch::Sender::new(0));
        let (callers, alone) = (self.clone(), Arc::new(Semaphore::new(1)));
        Caller(Arc::new(Place { callers, id, from, evicted, known, busy, alone, active }))
    }

    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected {
    /// Sends one of these strangers away.
    fn evict(&mut self, of: impl Fn(&Stranger) -> bool) {
        let those = self.strangers.iter().enumerate().filter(|(_, stranger)| of(stranger));
        let last =
            |stranger: &Stranger| stranger.certified || self.familiar.contains(&stranger.from);
        let first = those.min_by_key(|(at, stranger)| (last(stranger), *at));
        let first = first.map(|(at, _)| at);
        if let Some(stranger) = first.and_then(|at| self.strangers.remove(at)) {
            stranger.evicted.cancel();
        }
    }

    fn is_familiar(&mut self, from: Origin) {
        self.familiar.retain(|other| *other != from);
        self.familiar.push_back(from);
        if self.familiar.len() > limits::FAMILIAR_NETWORKS {
            self.familiar.pop_front();
        }
    }

    fn has_room(&self, user: &str, from: Origin) -> bool {
        let known = || self.known.values();
        let of_user = known().filter(|(name, _)| !user.is_empty() && name == user).count();
        let of_network = known().filter(|(_, other)| *other == from).count();
        self.known.len() < limits::CONNECTIONS
            && of_user < limits::CONNECTIONS_OF_USER
            && of_network < limits::CONNECTIONS_OF_NETWORK
    }
}

impl Caller {
    /// It showed who it is, and has yet to ask for something that it may.
    pub(crate) fn is_certified(&self) {
        let mut connected = self.0.callers.connected();
        let mut strangers = connected.strangers.iter_mut();
        if let Some(stranger) = strangers.find(|stranger| stranger.id == self.0.id) {
            stranger.certified = true;
        }
    }

    /// What it asks for is allowed to this user, or to whoever asks so if that is empty: it has a
    /// place among the known. False where there is none.
    pub fn is_allowed(&self, user: &str) -> bool {
        let mut connected = self.0.callers.connected();
        let Some(at) = connected.strangers.iter().position(|other| other.id == self.0.id) else {
            return *self.0.known.borrow();
        };
        if !connected.has_room(user, self.0.from) {
            return false;
        }
        connected.strangers.remove(at);
        connected.known.insert(self.0.id, (user.to_owned(), self.0.from));
        connected.is_familiar(self.0.from);
        self.0.known.send_replace(true);
        true
    }

    /// Leave for one more thing that costs something before it is known whose it is; none if
    /// its network has too many of them under way.
    pub(crate) fn busy(&self) -> Option<OwnedSemaphorePermit> {
        self.0.busy.clone().try_acquire_owned().ok()
    }

    /// The same, as soon as there is leave.
    pub(crate) fn waits(
        &self,
    ) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send + use<> {
        let busy = self.0.busy.clone();
        async move { busy.acquire_owned().await.ok() }
    }

    /// Leave to wait for that; none if something of this connection waits already.
    pub(crate) fn alone(&self) -> Option<OwnedSemaphorePermit> {
        self.0.alone.clone().try_acquire_owned().ok()
    }

    /// A request has come; it is under way while the answer lives.
    pub(crate) fn begins(&self) -> Active {
        self.0.active.send_modify(|active| *active += 1);
        Active(self.clone())
    }

    /// Ends when nothing has been under way for so long.
    pub(crate) async fn idles(&self, time: Duration) {
        let mut active = self.0.active.subscribe();
        loop {
            // The sender is here: it cannot be gone.
            let _ = active.wait_for(|active| *active == 0).await;
            tokio::select! {
                () = tokio::time::sleep(time) => return,
                _ = active.changed() => {}
            }
        }
    }

    /// Ends when it has to leave for another.
    pub(crate) async fn is_evicted(&self) {
        self.0.evicted.cancelled().await;
    }

    /// Ends at once for a stranger, and never for others.
    pub(crate) async fn stays(&self) {
        if *self.0.known.borrow() {
            std::future::pending::<()>().await;
        }
    }
}

/// A request that is being answered.
pub(crate) struct Active(Caller);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.0.active.send_modify(|active| *active -= 1);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connected = self.callers.connected();
        if connected.known.remove(&self.id).is_none() {
            connected.strangers.retain(|stranger| stranger.id != self.id);
        }
    }
}

#[cfg(test)]
impl Caller {
    /// One of a test without a listener.
    pub(crate) fn of_test() -> Self {
        Callers::default().enter([127, 0, 0, 1].into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> IpAddr {
        IpAddr::from([10, 0, u8::try_from(n / 250).unwrap(), u8::try_from(n % 250).unwrap()])
    }

    fn is_gone(caller: &Caller) -> bool {
        caller.0.evicted.is_cancelled()
    }

    #[test]
    fn the_oldest_stranger_gives_way_and_who_is_known_stays() {
        let callers = Callers::default();
        let home = callers.enter(address(0));
        assert!(home.is_allowed("api") && home.is_allowed("api"));
        let first = callers.enter(address(1));
        let mut kept: Vec<_> = (0..2_000).map(|n| callers.enter(address(n % 500))).collect();
        assert!(is_gone(&first) && !is_gone(&home));
        assert_eq!(callers.connected().strangers.len(), limits::STRANGERS);
        // One address has no more than its part, and takes it from nobody else.
        let others = kept.pop().unwrap();
        kept.extend((0..100).map(|_| callers.enter(address(7))));
        let connected = callers.connected();
        let from = Origin::of(address(7));
        let of = connected.strangers.iter().filter(|stranger| stranger.from == from).count();
        assert!(of <= limits::STRANGERS_OF_NETWORK, "{of}");
        drop(connected);
        assert!(!is_gone(&others));
        drop((kept, others, first));
        assert!(callers.connected().strangers.is_empty());
        drop(home);
        assert!(callers.connected().known.is_empty());
    }

    #[test]
    fn a_network_of_many_addresses_is_one() {
        let callers = Callers::default();
        let other = callers.enter(address(0));
        let of_site = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, n % 256, 0, 0, 0, n]);
        let site: Vec<_> = (0..1_000).map(|n| callers.enter(of_site(n))).collect();
        let stay = site.iter().filter(|caller| !is_gone(caller)).count();
        assert_eq!(stay, limits::STRANGERS_OF_NETWORK);
        assert!(!is_gone(&other));
    }

    #[test]
    fn who_shows_a_certificate_leaves_after_who_shows_nothing() {
        let callers = Callers::default();
        let certified = callers.enter(address(0));
        certified.is_certified();
        let _flood: Vec<_> = (0..1_000).map(|n| callers.enter(address(n))).collect();
        assert!(!is_gone(&certified));
        let crowd: Vec<_> = (0..limits::STRANGERS)
            .map(|n| {
                let caller = callers.enter(address(n));
                caller.is_certified();
                caller
            })
            .collect();
        assert!(is_gone(&certified), "there are as many others");
        drop(crowd);
    }

    #[test]
    fn who_was_allowed_something_leaves_after_others_when_it_comes_again() {
        let callers = Callers::default();
        assert!(callers.enter(address(1)).is_allowed("api"));
        let again = callers.enter(address(1));
        let flood = |callers: &Callers| {
            (0..1_000).filter(|n| n % 500 != 1).map(|n| callers.enter(address(n))).collect()
        };
        let _flood: Vec<_> = flood(&callers);
        assert!(!is_gone(&again));
        for n in 2..=limits::FAMILIAR_NETWORKS + 1 {
            assert!(callers.enter(address(n)).is_allowed("api"));
        }
        let _more: Vec<_> = flood(&callers);
        assert!(is_gone(&again), "so many are remembered");
    }

    #[test]
    fn no_user_and_no_network_takes_all_places() {
        let allowed = |callers: &Callers, user: &str, from: usize| {
            let caller = callers.enter(address(from));
            caller.is_allowed(user).then_some(caller)
        };
        let callers = Callers::default();
        let of_user = |from| allowed(&callers, "anna", from);
        let held: Vec<_> = (0..600).filter_map(of_user).collect();
        assert_eq!(held.len(), limits::CONNECTIONS_OF_USER);
        assert!(allowed(&callers, "api", 0).is_some());
        let callers = Callers::default();
        let of_network = |n: usize| allowed(&callers, &n.to_string(), 0);
        let held: Vec<_> = (0..600).filter_map(of_network).collect();
        assert_eq!(held.len(), limits::CONNECTIONS_OF_NETWORK);
        assert!(allowed(&callers, "api", 1).is_some());
    }

    #[tokio::test]
    async fn a_connection_idles_while_nothing_is_under_way() {
        let caller = Caller::of_test();
        let time = Duration::from_millis(20);
        let idles = || tokio::time::timeout(10 * time, caller.idles(time));
        let active = (caller.begins(), caller.begins());
        assert!(idles().await.is_err());
        drop(active.0);
        assert!(idles().await.is_err());
        drop(active.1);
        caller.idles(time).await;
    }
}
