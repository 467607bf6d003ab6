//! Virtual time, and what is yet to happen in it.

use crate::engine::event::Event;
use crate::engine::queue::Queue;
use crate::verify::Violation;

/// The time of a run. It passes from one event to the next.
#[derive(Default)]
pub(crate) struct Agenda {
    at_ms: u64,
    steps: u64,
    /// Wake-ups in this very millisecond.
    wakes: u32,
    queue: Queue<Event>,
}

impl Agenda {
    /// Since the start of the run, in ms.
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// How many events there were so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Lets something happen after so many ms from now.
    pub(crate) fn plan(&mut self, delay_ms: u64, event: Event) -> Result<(), Violation> {
        let planned = self.queue.push(self.at_ms + delay_ms, event);
        planned.map_err(|_| Violation("too much is under way: something never stops".to_owned()))
    }

    /// An agent is woken; how many were in this very millisecond.
    pub(crate) fn count_wake(&mut self) -> u32 {
        self.wakes += 1;
        self.wakes
    }

    /// What happens next up to a moment; if nothing does, the moment has come.
    pub(crate) fn next(&mut self, until_ms: u64) -> Option<Event> {
        if self.queue.next_ms().is_none_or(|next_ms| next_ms > until_ms) {
            self.at_ms = until_ms;
            return None;
        }
        let (at_ms, event) = self.queue.pop()?;
        if at_ms != self.at_ms {
            self.wakes = 0;
        }
        self.at_ms = at_ms;
        self.steps += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_from_event_to_event_and_to_the_moment_that_was_asked_for() {
        let mut agenda = Agenda::default();
        agenda.plan(5, Event::Start { at: 0 }).unwrap();
        agenda.plan(20, Event::Start { at: 1 }).unwrap();
        assert!(agenda.next(10).is_some());
        assert_eq!((agenda.at_ms(), agenda.count_wake(), agenda.count_wake()), (5, 1, 2));
        assert!(agenda.next(10).is_none());
        assert_eq!((agenda.at_ms(), agenda.steps()), (10, 1));
        assert!(agenda.next(20).is_some());
        assert_eq!(agenda.count_wake(), 1, "another millisecond");
    }
}
