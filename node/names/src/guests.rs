//! What each guest may ask, so that one that asks without end slows nobody but itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{self, Bounds};

/// What each guest has asked lately.
pub(crate) struct Guests {
    bounds: Bounds,
    all: Mutex<BTreeMap<IpAddr, Guest>>,
    forwards: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

/// What one guest has asked lately.
struct Guest {
    /// How many thousandths of questions it has left, and since when.
    left: u64,
    since: Instant,
    forwards: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

/// A place for something that a guest has at a time, until it is dropped.
pub(crate) struct Place {
    _of_guest: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Guests {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        let (forwards, connections) = (semaphore(limits::FORWARDS), semaphore(limits::CONNECTIONS));
        Self { bounds, all: Mutex::default(), forwards, connections }
    }

    /// Forgets whoever is no guest any more.
    pub(crate) fn retain(&self, is_guest: impl Fn(&IpAddr) -> bool) {
        self.all().retain(|address, _| is_guest(address));
    }

    /// Whether a guest may ask one more question now.
    pub(crate) fn may_ask(&self, guest: IpAddr, now: Instant) -> bool {
        let mut all = self.all();
        let guest = self.of(&mut all, guest, now);
        let since = now.saturating_duration_since(guest.since).as_millis();
        let gained = u64::try_from(since).unwrap_or(u64::MAX);
        let gained = gained.saturating_mul(self.bounds.questions_per_second.into());
        guest.left = guest.left.saturating_add(gained).min(self.most());
        guest.since = now;
        let left = guest.left.checked_sub(ONE);
        guest.left = left.unwrap_or(guest.left);
        left.is_some()
    }

    /// A place for a question that is asked elsewhere, if there is one.
    pub(crate) fn forward(&self, guest: IpAddr, now: Instant) -> Option<Place> {
        let of_guest = self.of(&mut self.all(), guest, now).forwards.clone();
        place(of_guest, &self.forwards)
    }

    /// A place for a connection, if there is one.
    pub(crate) fn connect(&self, guest: IpAddr, now: Instant) -> Option<Place> {
        let of_guest = self.of(&mut self.all(), guest, now).connections.clone();
        place(of_guest, &self.connections)
    }

    fn of<'a>(
        &self,
        all: &'a mut BTreeMap<IpAddr, Guest>,
        guest: IpAddr,
        now: Instant,
    ) -> &'a mut Guest {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        all.entry(guest).or_insert_with(|| Guest {
            left: self.most(),
            since: now,
            forwards: semaphore(self.bounds.forwards),
            connections: semaphore(self.bounds.connections),
        })
    }

    fn most(&self) -> u64 {
        u64::from(self.bounds.burst) * ONE
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Guest>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Thousandths: so many are gained in a millisecond at one question a second.
const ONE: u64 = 1_000;

fn place(of_guest: Arc<Semaphore>, of_all: &Arc<Semaphore>) -> Option<Place> {
    // Neither is ever closed.
    let of_guest = of_guest.try_acquire_owned().ok()?;
    let of_all = of_all.clone().try_acquire_owned().ok()?;
    Some(Place { _of_guest: of_guest, _of_all: of_all })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE_GUEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 42, 0, 7));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 42, 0, 8));

    #[test]
    fn a_guest_that_asks_too_fast_waits_and_no_other() {
        let bounds = Bounds { questions_per_second: 10, burst: 3, forwards: 1, connections: 2 };
        let (guests, start) = (Guests::new(bounds), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let asked = |guest, ms, times| (0..times).filter(|_| guests.may_ask(guest, at(ms))).count();
        assert_eq!(asked(ONE_GUEST, 0, 100), 3);
        assert_eq!(asked(OTHER, 0, 2), 2, "another one is not concerned");
        assert_eq!(asked(ONE_GUEST, 99, 5), 0);
        assert_eq!(asked(ONE_GUEST, 100, 5), 1, "ten a second");
        assert_eq!(asked(ONE_GUEST, 100_000, 100), 3, "and no more than a burst after a pause");
        // A clock that stands still, or goes back, gives nothing.
        assert_eq!(asked(ONE_GUEST, 50, 5), 0);
    }

    #[test]
    fn a_guest_has_few_places_and_gives_them_back() {
        let bounds = Bounds { forwards: 1, connections: 2, ..Bounds::default() };
        let (guests, now) = (Guests::new(bounds), Instant::now());
        let first = guests.forward(ONE_GUEST, now);
        assert!(first.is_some() && guests.forward(ONE_GUEST, now).is_none());
        assert!(guests.forward(OTHER, now).is_some());
        drop(first);
        assert!(guests.forward(ONE_GUEST, now).is_some());
        let all: Vec<_> = (0..3).filter_map(|_| guests.connect(ONE_GUEST, now)).collect();
        assert_eq!(all.len(), 2);
        guests.retain(|guest| *guest != ONE_GUEST);
        assert!(guests.connect(ONE_GUEST, now).is_some(), "it is another guest by then");
    }
}
