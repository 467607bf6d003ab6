//! How often one object of an API server is written to: a few times at once, and then at a pace,
//! whatever it is that makes the daemon write. What another cluster, or the daemon itself, brings about
//! without end costs an API server a few writes a minute for each object.
//!
//! Not so paced: Leases, which are renewed at a pace of their own; events, of which each lease has its
//! own bound; the webhook, which is registered again as namespaces change, but where it is put back;
//! reviews, which are not kept; and deletions.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::apiserver::kind::{ENDPOINT_SLICE, EVENT, Kind, LEASE, NODE, WEBHOOK};
use crate::limits;

/// When each object may be written to, of all clients of one API server.
#[derive(Default)]
pub(crate) struct WritePace(Mutex<BTreeMap<Place, Written>>);

/// Where an object is: kind, namespace (empty: none), name.
type Place = (Kind, String, String);

/// An object that was written to lately.
struct Written {
    /// When it counts as not written to any more.
    rested: Instant,
    /// It is written to more often than it may, since then.
    held: bool,
}

/// An object that is written to as often as may be, and no more often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its kind, such as `Contract`.
    pub kind: &'static str,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// What the object is called.
    pub name: String,
}

impl WritePace {
    /// Counts a write to this object, and says how long it has to wait for its turn.
    pub(crate) fn take(&self, kind: Kind, ns: Option<&str>, name: &str, now: Instant) -> Duration {
        if name.is_empty() || [LEASE, EVENT, WEBHOOK].contains(&kind) {
            return Duration::ZERO;
        }
        self.count(kind, ns, name, now)
    }

    /// The same of an object of any kind.
    pub(crate) fn count(&self, kind: Kind, ns: Option<&str>, name: &str, now: Instant) -> Duration {
        let (at_once, each) = allowed(kind);
        let mut all = self.all();
        if all.len() >= limits::PACED_OBJECTS {
            all.retain(|_, written| written.rested > now);
        }
        let place = place(kind, ns, name);
        if all.len() >= limits::PACED_OBJECTS && !all.contains_key(&place) {
            // The one that rests first has the least to gain.
            let first = all.iter().min_by_key(|(_, written)| written.rested);
            let first = first.map(|(place, _)| place.clone());
            first.and_then(|first| all.remove(&first));
        }
        let written = all.entry(place).or_insert(Written { rested: now, held: false });
        written.refresh(now);
        let wait = written.wait(now, at_once, each, 1);
        written.rested += each;
        written.hold(wait, kind, name);
        wait
    }

    /// How long so many writes to this object would have to wait: whoever would rather do something
    /// else meanwhile asks before.
    pub(crate) fn wait(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        writes: u32,
        now: Instant,
    ) -> Duration {
        let (at_once, each) = allowed(kind);
        let mut all = self.all();
        let Some(written) = all.get_mut(&place(kind, ns, name)) else { return Duration::ZERO };
        written.refresh(now);
        let wait = written.wait(now, at_once, each, writes);
        written.hold(wait, kind, name);
        wait
    }

    /// The object is gone; another may come under its name.
    pub(crate) fn forget(&self, kind: Kind, ns: Option<&str>, name: &str) {
        self.all().remove(&place(kind, ns, name));
    }

    /// The objects that have had to wait, and whose next write would have to, too, in the order of
    /// their kinds and names: who stops to change is none of them once that write would be free.
    pub(crate) fn held(&self, now: Instant) -> Vec<Held> {
        let all = self.all();
        let waits = |kind: Kind, written: &Written| {
            let (at_once, each) = allowed(kind);
            !written.wait(now, at_once, each, 1).is_zero()
        };
        let held = all.iter().filter(|((kind, ..), written)| written.held && waits(*kind, written));
        let held = held.map(|((kind, namespace, name), _)| Held {
            kind: kind.kind,
            namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: name.clone(),
        });
        held.collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Place, Written>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// One that has rested may begin anew.
    fn refresh(&mut self, now: Instant) {
        if self.rested <= now {
            *self = Self { rested: now, held: false };
        }
    }

    /// How long so many more writes have to wait, where so many are taken at once and then one in
    /// `each`.
    fn wait(&self, now: Instant, at_once: u32, each: Duration, writes: u32) -> Duration {
        let rested = self.rested + each * writes;
        rested.saturating_duration_since(now + each * at_once)
    }

    /// It has to wait so long: once until it rests, that is told.
    fn hold(&mut self, wait: Duration, kind: Kind, name: &str) {
        if !wait.is_zero() && !self.held {
            self.held = true;
            // Once until it has rested.
            tracing::warn!(kind = kind.kind, name, "an object changes too often: its writes wait");
        }
    }
}

/// How often an object of this kind is written to at once, and after that once in which time.
fn allowed(kind: Kind) -> (u32, Duration) {
    // Connections are led by them.
    if kind == ENDPOINT_SLICE {
        return (limits::SLICE_WRITES_AT_ONCE, limits::SLICE_WRITES_EACH);
    }
    if kind == NODE {
        let (at_once, each) = (limits::WRITES_AT_ONCE, limits::WRITES_EACH);
        return (at_once * limits::NODE_WRITES, each / limits::NODE_WRITES);
    }
    (limits::WRITES_AT_ONCE, limits::WRITES_EACH)
}

fn place(kind: Kind, ns: Option<&str>, name: &str) -> Place {
    (kind, ns.unwrap_or_default().to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::kind::{CONTRACT, POD};

    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    fn whatever_changes_ten_times_a_second_is_written_under_twenty_times_a_minute() {
        let (pace, start) = (WritePace::default(), Instant::now());
        let mut written = 0;
        for tenth in 0..600 {
            let now = start + TENTH * tenth;
            if pace.wait(CONTRACT, None, "0787", 1, now).is_zero() {
                assert_eq!(pace.take(CONTRACT, None, "0787", now), Duration::ZERO);
                written += 1;
            }
        }
        assert!((15..20).contains(&written), "{written}");
        let now = start + Duration::from_mins(1);
        let held = Held { kind: "Contract", namespace: None, name: "0787".to_owned() };
        assert_eq!(pace.held(now), [held]);
        assert_eq!(pace.held(now + limits::WRITES_EACH), [], "it does not change any more");
        assert_eq!(pace.take(CONTRACT, None, "another", now), Duration::ZERO);
        let rested = now + limits::WRITES_EACH * limits::WRITES_AT_ONCE;
        assert_eq!(pace.held(rested), []);
        assert_eq!(
            pace.wait(CONTRACT, None, "0787", limits::WRITES_AT_ONCE, rested),
            Duration::ZERO
        );
    }

    #[test]
    fn each_write_that_has_to_wait_has_its_own_turn() {
        let (pace, now) = (WritePace::default(), Instant::now());
        let take = || pace.take(POD, Some("shop"), "web-0", now);
        for _ in 0..limits::WRITES_AT_ONCE {
            assert_eq!(take(), Duration::ZERO);
        }
        assert_eq!([take(), take()], [limits::WRITES_EACH, limits::WRITES_EACH * 2]);
        assert_eq!(pace.take(POD, Some("bank"), "web-0", now), Duration::ZERO);
        pace.forget(POD, Some("shop"), "web-0");
        assert_eq!(take(), Duration::ZERO, "that is another pod");
    }

    #[test]
    fn a_node_changes_as_often_as_others_are_written_to() {
        let (pace, now) = (WritePace::default(), Instant::now());
        let changes = (0..100).take_while(|_| {
            let wait = pace.wait(NODE, None, "mercato-turin", limits::NODE_WRITES, now);
            for _ in 0..limits::NODE_WRITES {
                pace.take(NODE, None, "mercato-turin", now);
            }
            wait.is_zero()
        });
        assert_eq!(changes.count(), limits::WRITES_AT_ONCE as usize);
    }

    #[test]
    fn what_has_a_pace_of_its_own_does_not_wait_here() {
        let (pace, now) = (WritePace::default(), Instant::now());
        for _ in 0..1_000 {
            assert_eq!(pace.take(LEASE, Some("mercato"), "daemon", now), Duration::ZERO);
            assert_eq!(pace.take(EVENT, Some("shop"), "web", now), Duration::ZERO);
        }
        assert!(pace.all().is_empty());
    }

    #[test]
    fn no_more_objects_are_remembered_than_there_is_room_for() {
        let (pace, now) = (WritePace::default(), Instant::now());
        for n in 0..limits::PACED_OBJECTS + 10 {
            pace.take(POD, None, &n.to_string(), now);
        }
        assert_eq!(pace.all().len(), limits::PACED_OBJECTS);
    }
}
