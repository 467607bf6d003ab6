//! What is yet to happen, in order of virtual time; what is due at once in the order in
//! which it was planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::limits;

/// The events of one run that are still to happen.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// When, the how-manieth that was planned, and where it is kept: small, since the heap
    /// moves it about.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<E>>,
    /// Places where none is kept.
    free: Vec<usize>,
    planned: u64,
}

/// More is under way than a run ever needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { due: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), planned: 0 }
    }
}

impl<E> Queue<E> {
    /// Plans something.
    ///
    /// # Errors
    ///
    /// If [`limits::EVENTS`] are planned already.
    pub(crate) fn push(&mut self, at_ms: u64, event: E) -> Result<(), Overflow> {
        if self.due.len() >= limits::EVENTS {
            return Err(Overflow);
        }
        self.planned += 1;
        let place = self.free.pop().unwrap_or(self.events.len());
        match self.events.get_mut(place) {
            Some(kept) => *kept = Some(event),
            None => self.events.push(Some(event)),
        }
        self.due.push(Reverse((at_ms, self.planned, place)));
        Ok(())
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse((at_ms, _, place)) = self.due.pop()?;
        self.free.push(place);
        Some((at_ms, self.events.get_mut(place)?.take()?))
    }

    /// When the next event is.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at_ms, ..))| *at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_comes_in_order_of_time_and_then_of_planning() {
        let mut queue = Queue::default();
        for (at_ms, name) in [(5, "c"), (3, "a"), (5, "d"), (4, "b")] {
            queue.push(at_ms, name).unwrap();
        }
        assert_eq!(queue.next_ms(), Some(3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(3, "a"), (4, "b"), (5, "c"), (5, "d")]);
    }

    #[test]
    fn a_run_that_never_stops_planning_is_stopped() {
        let mut queue = Queue::default();
        (0..limits::EVENTS as u64).for_each(|n| queue.push(n, ()).unwrap());
        assert_eq!(queue.push(0, ()), Err(Overflow));
    }
}
