//! Two threads that meet round by round and give each other a word: too often to sleep in
//! between.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where they meet.
#[derive(Default)]
pub(crate) struct Meeting<W>([Place<W>; 2]);

/// What one of them has brought. In the next round the other may still be looking at the last.
#[derive(Default)]
struct Place<W> {
    round: AtomicU64,
    brought: [Mutex<W>; 2],
}

/// One of the two, until it leaves for good.
pub(crate) struct Seat<'a, W> {
    own: &'a Place<W>,
    other: &'a Place<W>,
}

impl<W: Default> Meeting<W> {
    /// Of the first, or of the second.
    pub(crate) fn seat(&self, side: usize) -> Seat<'_, W> {
        Seat { own: &self.0[side], other: &self.0[1 - side] }
    }
}

impl<W: Default> Seat<'_, W> {
    /// Gives a word for a word. Rounds ascend from one.
    pub(crate) fn exchange(&self, round: u64, word: W) -> W {
        let turn = usize::from(round.is_multiple_of(2));
        *self.own.brought[turn].lock().unwrap() = word;
        self.own.round.store(round, Ordering::Release);
        for spins in 1_u64.. {
            if self.other.round.load(Ordering::Acquire) >= round {
                break;
            }
            match spins % 4_096 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        std::mem::take(&mut self.other.brought[turn].lock().unwrap())
    }
}

impl<W> Drop for Seat<'_, W> {
    /// Nobody waits for one that is gone.
    fn drop(&mut self) {
        self.own.round.store(u64::MAX, Ordering::Release);
    }
}
