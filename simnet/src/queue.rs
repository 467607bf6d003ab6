//! What is yet to happen, in order of virtual time; what is due at once in the order in
//! which it was planned.

use std::collections::BTreeMap;

use crate::limits;

/// Events of one run.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BTreeMap<(u64, u64), E>,
    planned: u64,
}

/// More is under way than a run ever needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), planned: 0 }
    }
}

impl<E> Queue<E> {
    /// Plans something.
    ///
    /// # Errors
    ///
    /// If [`limits::EVENTS`] are planned already.
    pub(crate) fn push(&mut self, at_ms: u64, event: E) -> Result<(), Overflow> {
        if self.events.len() >= limits::EVENTS {
            return Err(Overflow);
        }
        self.planned += 1;
        self.events.insert((at_ms, self.planned), event);
        Ok(())
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.events.pop_first().map(|((at_ms, _), event)| (at_ms, event))
    }

    /// When the next event is.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at_ms, _), _)| *at_ms)
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
