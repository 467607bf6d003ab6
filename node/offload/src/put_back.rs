//! What is written in a cluster and changed or deleted there by somebody else is put back: whether an
//! object is as it was written, whose program changed it, and what was put back lately. When it is
//! looked at, and how often it is written, is for others to say.

mod as_written;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::limits;

pub use as_written::as_written;
pub use writer::writer;

/// An object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptObject {
    /// Its kind, such as `NetworkPolicy`.
    pub kind: &'static str,
    /// The namespace that it is in; empty: it is the cluster's.
    pub namespace: String,
    /// What the object is called.
    pub name: String,
}

/// What somebody did to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meddling {
    /// It was not there any more.
    Deleted,
    /// Fields of ours had other values, last by this field manager, if that is known.
    Edited(Option<String>),
}

/// What was done to one object lately, and how often it was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// The object that was put back.
    pub place: KeptObject,
    /// What was done to it the last time.
    pub change: Meddling,
    /// How often it was put back within the hour.
    pub times: u32,
}

/// What was put back within the last hour.
#[derive(Debug, Default)]
pub struct PutBacks(BTreeMap<KeptObject, Lately>);

#[derive(Debug)]
struct Lately {
    change: Meddling,
    /// How often in each minute, by the minute since the beginning.
    minutes: BTreeMap<u64, u32>,
}

impl PutBacks {
    /// An object was put back at that time since the beginning. Whether it was the first time within
    /// the hour, of which people are told.
    pub fn note(&mut self, place: KeptObject, change: Meddling, now: Duration) -> bool {
        self.0.retain(|_, seen| seen.forget(now));
        let is_first = !self.0.contains_key(&place);
        if is_first && self.0.len() >= limits::PUT_BACK_OBJECTS {
            // The one that has rested longest is over first.
            let last = |seen: &Lately| seen.minutes.keys().next_back().copied();
            let rested = self.0.iter().min_by_key(|(_, seen)| last(seen));
            let rested = rested.map(|(place, _)| place.clone());
            rested.and_then(|place| self.0.remove(&place));
        }
        let new = Lately { change: Meddling::Deleted, minutes: BTreeMap::new() };
        let seen = self.0.entry(place).or_insert(new);
        seen.change = change;
        *seen.minutes.entry(minute(now)).or_default() += 1;
        is_first
    }

    /// What was put back within the hour before that time, in the order of kinds and names.
    pub fn recent(&self, now: Duration) -> Vec<PutBack> {
        let recent = self.0.iter().filter_map(|(place, seen)| {
            let times = seen.minutes.range(oldest(now)..).map(|(_, times)| times).sum();
            let put_back = || PutBack { place: place.clone(), change: seen.change.clone(), times };
            (times > 0).then(put_back)
        });
        recent.collect()
    }
}

impl Lately {
    /// Forgets what is older than an hour; whether something is left.
    fn forget(&mut self, now: Duration) -> bool {
        self.minutes = self.minutes.split_off(&oldest(now));
        !self.minutes.is_empty()
    }
}

fn minute(at: Duration) -> u64 {
    at.as_secs() / 60
}

/// The first minute that is still within the hour.
fn oldest(now: Duration) -> u64 {
    minute(now).saturating_sub(limits::PUT_BACK_MINUTES - 1)
}

impl fmt::Display for KeptObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind} {name}"),
            namespace => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

impl fmt::Display for Meddling {
    /// As in `it was deleted`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted => f.write_str("deleted"),
            Self::Edited(Some(manager)) => write!(f, "changed by {manager}"),
            Self::Edited(None) => f.write_str("changed"),
        }
    }
}

impl fmt::Display for PutBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, change, times } = self;
        let times = match times {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        write!(f, "{place} was put back {times} in the last hour: it was {change}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(namespace: &str) -> KeptObject {
        let (namespace, name) = (namespace.to_owned(), "mercato".to_owned());
        KeptObject { kind: "NetworkPolicy", namespace, name }
    }

    fn at(minutes: u64) -> Duration {
        Duration::from_mins(minutes)
    }

    #[test]
    fn whoever_changes_an_object_all_the_time_is_told_of_once_an_hour() {
        let (mut all, argo) = (PutBacks::default(), Meddling::Edited(Some("argocd".to_owned())));
        let told: Vec<bool> = (0..90).map(|m| all.note(policy("a"), argo.clone(), at(m))).collect();
        assert_eq!(told.iter().filter(|first| **first).count(), 1);
        let [seen] = &all.recent(at(89))[..] else { panic!("one object") };
        assert_eq!(seen.times, 60);
        let text = "NetworkPolicy a/mercato was put back 60 times in the last hour: it was changed \
                    by argocd";
        assert_eq!(seen.to_string(), text);
    }

    #[test]
    fn after_an_hour_nothing_is_said_and_the_next_time_is_a_first() {
        let mut all = PutBacks::default();
        assert!(all.note(policy("a"), Meddling::Deleted, at(0)));
        assert!(!all.note(policy("a"), Meddling::Deleted, at(59)));
        assert!(all.note(policy("b"), Meddling::Edited(None), at(59)));
        let texts: Vec<_> = all.recent(at(59)).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "NetworkPolicy a/mercato was put back 2 times in the last hour: it was deleted",
                "NetworkPolicy b/mercato was put back once in the last hour: it was changed",
            ]
        );
        assert_eq!(all.recent(at(60)).len(), 2);
        assert_eq!(all.recent(at(119)), []);
        assert!(all.note(policy("a"), Meddling::Deleted, at(119)));
    }

    #[test]
    fn no_more_objects_are_remembered_than_there_is_room_for() {
        let mut all = PutBacks::default();
        for n in 0..limits::PUT_BACK_OBJECTS + 5 {
            all.note(policy(&n.to_string()), Meddling::Deleted, at(n as u64 / 100));
        }
        let recent = all.recent(at(10));
        assert_eq!(recent.len(), limits::PUT_BACK_OBJECTS);
        let last = (limits::PUT_BACK_OBJECTS + 4).to_string();
        assert!(recent.iter().any(|one| one.place.namespace == last));
    }
}
