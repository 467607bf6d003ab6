//! A handshake that we began, and how often its initiation was said.

use super::claims::Found;
use crate::handshake::Initiator;
use crate::limits;

/// A handshake that we began.
pub(super) struct Attempt {
    pub(super) own_index: u32,
    pub(super) initiator: Initiator,
    /// Where the initiation was sent, and by whose secret it is to be answered.
    pub(super) to: Found,
    pub(super) tries: Tries,
}

/// How often an initiation was said without an answer, with new keys each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    /// When it was said first.
    began_ms: u64,
    /// Says which claim was tried first.
    pub(super) lot: usize,
    /// When it is said again.
    pub(super) again_ms: u64,
    /// Initiations so far, but for those that a cookie hurried.
    pub(super) count: usize,
    /// Whether it was said again before its time, since a cookie came.
    is_hurried: bool,
}

impl Attempt {
    /// Whether it is to be said again.
    pub(super) fn is_due(&self, mono_ms: u64) -> bool {
        self.tries.again_ms <= mono_ms
    }

    /// Whether it was said for so long that nobody is there.
    pub(super) fn is_lost(&self, mono_ms: u64) -> bool {
        self.is_due(mono_ms) && mono_ms - self.tries.began_ms >= limits::REKEY_ATTEMPT_MS
    }
}

impl Tries {
    /// Before the first one was said; the lot is drawn.
    pub(super) fn first(mono_ms: u64, lot: usize) -> Self {
        Self { began_ms: mono_ms, lot, again_ms: mono_ms, count: 0, is_hurried: false }
    }

    /// How long an answer to the next one is waited for, of a peer in one of so many places: not for
    /// long while there are others that were never tried.
    pub(super) fn patience_ms(&self, places: usize) -> u64 {
        if self.count + 1 < places { limits::NEXT_ADDRESS_MS } else { limits::REKEY_TIMEOUT_MS }
    }

    /// It was said, and is said again then.
    pub(super) fn one_more(self, again_ms: u64) -> Self {
        Self { again_ms, count: self.count + 1, ..self }
    }

    /// There are other claims now, of which the one that is tried is the nth: the next one is tried
    /// soon.
    pub(super) fn among_others(&mut self, mono_ms: u64, nth: usize) {
        (self.lot, self.count) = (nth, 1);
        self.again_ms = self.again_ms.min(mono_ms + limits::NEXT_ADDRESS_MS);
    }

    /// A cookie has come: the initiation is said again at once, though not twice before its time.
    pub(super) fn hurry(&mut self, mono_ms: u64) {
        self.is_hurried = !self.is_hurried;
        if self.is_hurried {
            self.again_ms = mono_ms;
            // To the same address: there the cookie is good.
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_tried_soon_and_then_in_peace() {
        let waits = |places| {
            let mut tries = Tries::first(0, 0);
            [(); 4].map(|()| {
                let patience_ms = tries.patience_ms(places);
                tries = tries.one_more(tries.again_ms + patience_ms);
                patience_ms
            })
        };
        assert_eq!(waits(3), [1_000, 1_000, 5_000, 5_000]);
        assert_eq!(waits(1), [5_000; 4]);
    }
}
