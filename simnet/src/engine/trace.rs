//! What happened: hashed as it goes, so that two runs of one seed can be compared, and in
//! words for people when somebody wants to read.

use std::collections::VecDeque;
use std::fmt;

use crate::limits;

/// The trace of one run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: TraceHash,
    last: VecDeque<String>,
    telling: Telling,
}

/// Whether a run is put into words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Nothing is put into words.
    #[default]
    Nothing,
    /// The last lines are kept.
    Last,
    /// They are printed as well.
    Aloud,
}

/// Of everything that happened, in order: equal for equal seeds, on any machine. It guards
/// against accidents, not against forgers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceHash([u64; 2]);

/// Writes a line about a place, if anybody listens.
macro_rules! note {
    ($world:expr, $at:expr, $($text:tt)*) => {
        if $world.trace.is_told() {
            let text = format!($($text)*);
            $world.trace.tell($world.agenda.at_ms(), &$world.sites[$at].name, &text);
        }
    };
}
pub(crate) use note;

impl Trace {
    pub(crate) fn new(telling: Telling) -> Self {
        Self { telling, ..Self::default() }
    }

    /// Something happened that these numbers stand for.
    pub(crate) fn mark(&mut self, numbers: &[u64]) {
        for number in numbers {
            for (lane, constant) in
                self.hash.0.iter_mut().zip([0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f])
            {
                *lane = (*lane ^ number).wrapping_mul(constant).rotate_left(29);
            }
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.telling != Telling::Nothing
    }

    /// Something happened at a cluster, in words.
    pub(crate) fn tell(&mut self, at_ms: u64, place: &str, what: &str) {
        let (seconds, millis) = (at_ms / 1_000, at_ms % 1_000);
        let line = format!("{seconds:>6}.{millis:03} {place:<10} {what}");
        if self.telling == Telling::Aloud {
            println!("{line}");
        }
        if self.last.len() >= limits::TRACE_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    pub(crate) fn hash(&self) -> TraceHash {
        self.hash
    }

    /// The last lines, oldest first.
    pub(crate) fn last(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }
}

impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tells_two_orders_apart_and_the_memory_is_bounded() {
        let run = |numbers: &[u64]| {
            let mut trace = Trace::default();
            trace.mark(numbers);
            trace.hash()
        };
        assert_eq!(run(&[1, 2]), run(&[1, 2]));
        assert_ne!(run(&[1, 2]), run(&[2, 1]));
        assert_ne!(run(&[1, 2]), run(&[1, 2, 0]));
        let mut trace = Trace::new(Telling::Last);
        (0..2 * limits::TRACE_LINES).for_each(|n| trace.tell(0, "rome", &n.to_string()));
        assert_eq!(trace.last().count(), limits::TRACE_LINES);
    }
}
