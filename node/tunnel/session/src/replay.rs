//! Which counters of one key have been seen: a sliding window of bits (RFC 6479). It moves only
//! when told that a packet was authentic.

use crate::limits::REPLAY_WINDOW;

const WORD_BITS: u64 = 64;
/// One word more than the window, so that the word in which the newest counter lies can be
/// cleared whole.
const WORDS: usize = (REPLAY_WINDOW / WORD_BITS) as usize + 1;

/// Counters that were seen, of one key.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// The next counter that has never been reached.
    next: u64,
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        Self { next: 0, seen: Box::new([0; WORDS]) }
    }

    /// Whether a packet with this counter may be opened: it is not too old and was not seen.
    pub(crate) fn admits(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        self.next - counter <= REPLAY_WINDOW && self.seen[word(counter)] & bit(counter) == 0
    }

    /// Marks the counter of a packet whose tag was right. Says whether it was new: two packets
    /// with one counter may both have been admitted before the first is marked.
    #[must_use]
    pub(crate) fn mark(&mut self, counter: u64) -> bool {
        if !self.admits(counter) {
            return false;
        }
        if counter >= self.next {
            let first = self.next.div_ceil(WORD_BITS);
            let last = counter / WORD_BITS;
            for number in first..=last.min(first + WORDS as u64 - 1) {
                self.seen[(number % WORDS as u64) as usize] = 0;
            }
            self.next = counter + 1;
        }
        self.seen[word(counter)] |= bit(counter);
        true
    }
}

fn word(counter: u64) -> usize {
    ((counter / WORD_BITS) % WORDS as u64) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The same, with a set that forgets nothing.
    #[derive(Default)]
    struct Model {
        newest: Option<u64>,
        seen: BTreeSet<u64>,
    }

    impl Model {
        fn mark(&mut self, counter: u64) -> bool {
            let newest = self.newest.unwrap_or(0);
            let too_old = self.newest.is_some() && newest + 1 > counter + REPLAY_WINDOW;
            if too_old || !self.seen.insert(counter) {
                return false;
            }
            self.newest = Some(newest.max(counter));
            true
        }
    }

    fn counters() -> impl Strategy<Value = Vec<u64>> {
        let steps = prop_oneof![
            4 => -4_i64..6,
            2 => -70_i64..130,
            1 => -9_000_i64..9_000,
            1 => Just(100_000_i64),
        ];
        proptest::collection::vec(steps, 1..400).prop_map(|steps| {
            let mut at: i64 = 0;
            let next = |step: i64| {
                at = (at + step).max(0);
                at.unsigned_abs()
            };
            steps.into_iter().map(next).collect()
        })
    }

    proptest! {
        #[test]
        fn it_takes_what_a_set_would_take(counters in counters()) {
            let (mut window, mut model) = (ReplayWindow::new(), Model::default());
            for counter in counters {
                prop_assert_eq!(window.admits(counter), window.clone().mark(counter));
                prop_assert_eq!(window.mark(counter), model.mark(counter), "{}", counter);
            }
        }
    }

    #[test]
    fn a_jump_over_all_words_clears_them() {
        let mut window = ReplayWindow::new();
        assert!(window.mark(5) && window.mark(1_000_000) && !window.mark(5));
        assert!(window.mark(1_000_000 - REPLAY_WINDOW + 1));
        assert!(!window.mark(1_000_000 - REPLAY_WINDOW));
    }
}
