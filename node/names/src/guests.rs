//! How fast each guest may ask, so that one that asks without end slows nobody but itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::limits::Bounds;

/// What each guest has asked lately.
pub(crate) struct Guests {
    bounds: Bounds,
    all: Mutex<BTreeMap<IpAddr, Guest>>,
}

/// What one guest has asked lately.
struct Guest {
    /// How many millionths of questions it has left, and since when.
    left: u64,
    since: Instant,
}

impl Guests {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, all: Mutex::default() }
    }

    /// Forgets whoever is no guest any more.
    pub(crate) fn retain(&self, is_guest: impl Fn(&IpAddr) -> bool) {
        self.all().retain(|address, _| is_guest(address));
    }

    /// Whether a guest may ask one more question now.
    pub(crate) fn may_ask(&self, guest: IpAddr, now: Instant) -> bool {
        let mut all = self.all();
        let new = || Guest { left: self.most(), since: now };
        let guest = all.entry(guest).or_insert_with(new);
        let since = now.saturating_duration_since(guest.since).as_micros();
        let gained = u64::try_from(since).unwrap_or(u64::MAX);
        let gained = gained.saturating_mul(self.bounds.questions_per_second.into());
        guest.left = guest.left.saturating_add(gained).min(self.most());
        guest.since = now;
        let left = guest.left.checked_sub(ONE);
        guest.left = left.unwrap_or(guest.left);
        left.is_some()
    }

    fn most(&self) -> u64 {
        u64::from(self.bounds.burst) * ONE
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Guest>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Millionths: so many are gained in a second at one question a second.
const ONE: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE_GUEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 42, 0, 7));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 42, 0, 8));

    #[test]
    fn a_guest_that_asks_too_fast_waits_and_no_other() {
        let bounds = Bounds { questions_per_second: 10, burst: 3, ..Bounds::default() };
        let (guests, start) = (Guests::new(bounds), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let asked = |guest, ms, times| (0..times).filter(|_| guests.may_ask(guest, at(ms))).count();
        assert_eq!(asked(ONE_GUEST, 0, 100), 3);
        assert_eq!(asked(OTHER, 0, 2), 2, "another one is not concerned");
        assert_eq!(asked(ONE_GUEST, 99, 5), 0);
        assert_eq!(asked(ONE_GUEST, 100, 5), 1, "ten a second");
        // One that asks all the time is answered as often as it may be.
        let times = (0..10_000).map(|n| start + Duration::from_micros(100_000 + n * 100));
        assert_eq!(times.filter(|at| guests.may_ask(ONE_GUEST, *at)).count(), 9);
        assert_eq!(asked(ONE_GUEST, 100_000, 100), 3, "and no more than a burst after a pause");
        // A clock that stands still, or goes back, gives nothing.
        assert_eq!(asked(ONE_GUEST, 50, 5), 0);
        guests.retain(|guest| *guest != ONE_GUEST);
        assert_eq!(asked(ONE_GUEST, 100_000, 100), 3, "it is another guest by then");
    }
}
