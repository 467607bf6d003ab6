//! What happened, line by line: hashed as a whole, so that two runs of one seed can be
//! compared, the last lines kept for people.

use std::collections::VecDeque;
use std::fmt::Write as _;

use mercato_protocol::id::Digest;
use sha2::{Digest as _, Sha256};

use crate::limits;

/// The trace of one run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: Sha256,
    last: VecDeque<String>,
    /// Print each line as it comes.
    pub(crate) aloud: bool,
}

impl Trace {
    /// Something happened at a cluster.
    pub(crate) fn note(&mut self, at_ms: u64, place: &str, what: &dyn std::fmt::Display) {
        let mut line = String::new();
        let (seconds, millis) = (at_ms / 1_000, at_ms % 1_000);
        // Writing to a string does not fail.
        let _ = write!(line, "{seconds:>6}.{millis:03} {place:<8} {what}");
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        if self.aloud {
            println!("{line}");
        }
        if self.last.len() >= limits::TRACE_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Of all lines so far.
    pub(crate) fn hash(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }

    /// The last lines, oldest first.
    pub(crate) fn last(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tells_two_orders_apart_and_the_memory_is_bounded() {
        let run = |lines: &[&str]| {
            let mut trace = Trace::default();
            lines.iter().for_each(|line| trace.note(1, "rome", line));
            trace.hash()
        };
        assert_eq!(run(&["a", "b"]), run(&["a", "b"]));
        assert_ne!(run(&["a", "b"]), run(&["b", "a"]));
        let mut trace = Trace::default();
        (0..2 * limits::TRACE_LINES).for_each(|n| trace.note(0, "rome", &n));
        assert_eq!(trace.last().count(), limits::TRACE_LINES);
    }
}
