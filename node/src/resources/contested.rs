//! Whether somebody else writes the objects that are this daemon's alone: another daemon of the same
//! cluster makes what this one removes, or removes what this one makes. Neither gives way, so this one
//! does so only a few times a minute, and says so.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::limits;

/// What was made and removed again and again, by the names of the objects.
#[derive(Debug, Default)]
pub(super) struct Contested {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// When the first time of those that are counted was.
    since: Instant,
    times: u32,
    /// The object that it was last: what is removed is seen for a while longer.
    uid: Option<String>,
    /// Until when somebody else is taken to write it, once it was too often.
    until: Option<Instant>,
}

impl Contested {
    /// Whether an object of this name may be made or removed now; otherwise that was too often.
    pub(super) fn permits(&self, name: &str, now: Instant) -> bool {
        self.seen.get(name).is_none_or(|seen| seen.times < limits::CONTESTED || seen.is_old(now))
    }

    /// It was made or removed. `uid` is that of what was removed: the same counts once.
    pub(super) fn count(&mut self, name: &str, uid: Option<&str>, now: Instant) {
        self.seen.retain(|_, seen| !seen.is_old(now) || seen.is_told(now));
        if self.seen.len() >= limits::CONTESTED_NAMES && !self.seen.contains_key(name) {
            return;
        }
        let first = Seen { since: now, times: 0, uid: None, until: None };
        let seen = self.seen.entry(name.to_owned()).or_insert(first);
        if uid.is_some() && seen.uid.as_deref() == uid {
            return;
        }
        seen.uid = uid.map(str::to_owned);
        if seen.is_old(now) {
            (seen.since, seen.times) = (now, 0);
        }
        seen.times += 1;
        if seen.times >= limits::CONTESTED {
            seen.until = Some(now + limits::CONTESTED_TOLD);
        }
    }

    /// Some of those that somebody else writes, by name; none: nobody does.
    pub(super) fn names(&self, now: Instant) -> Vec<String> {
        let told = self.seen.iter().filter(|(_, seen)| seen.is_told(now));
        told.map(|(name, _)| name.clone()).take(limits::CONTESTED_NAMED).collect()
    }
}

impl Seen {
    fn is_old(&self, now: Instant) -> bool {
        now >= self.since + limits::CONTESTED_WINDOW
    }

    fn is_told(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

/// Why this daemon gives way, and who has to.
pub(crate) fn told(names: &[String]) -> String {
    format!(
        "another daemon of this cluster makes and removes its Contracts ({}): end the one that is too \
         many, such as a mercato run or a mercato demo with this cluster's kubeconfig",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn neither_of_two_daemons_writes_without_end_and_it_is_told() {
        let (mut contested, start) = (Contested::default(), Instant::now());
        let (mut written, mut told, mut told_first) = (0, 0, None);
        // The other one undoes each at once.
        for second in 0..600 {
            let now = start + std::time::Duration::from_secs(second);
            if contested.permits("0787", now) {
                written += 1;
                contested.count("0787", Some(&second.to_string()), now);
            }
            if contested.names(now) == ["0787"] {
                told += 1;
                told_first = told_first.or(Some(second));
            }
        }
        assert_eq!(written, 10 * limits::CONTESTED);
        assert_eq!(told_first, Some(u64::from(limits::CONTESTED) - 1));
        assert_eq!(told, 600 - told_first.unwrap(), "it is not told anew each minute");
        let later = start + std::time::Duration::from_secs(600) + limits::CONTESTED_TOLD;
        assert!(contested.names(later).is_empty() && contested.permits("0787", later));
        contested.count("9999", None, later);
        assert_eq!(contested.seen.len(), 1, "what is over is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_person_removes_or_an_end_leaves_is_nobody_else_s() {
        let (mut contested, now) = (Contested::default(), Instant::now());
        for _ in 0..100 {
            // It is asked to go, and is seen for a while longer.
            contested.count("0787", Some("u1"), now);
        }
        for n in 0..2 * limits::CONTESTED_NAMES {
            contested.count(&format!("{n:08x}"), None, now);
        }
        assert!(contested.names(now).is_empty());
        assert_eq!(contested.seen.len(), limits::CONTESTED_NAMES);
    }
}
