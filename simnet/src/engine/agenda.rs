//! Virtual time, and what is yet to happen in it: to the agents, or to the gateways of a tunnel.

use crate::engine::event::Event;
use crate::engine::queue::Queue;
use crate::verify::Violation;

/// The time of a run. It passes from one event to the next.
pub(crate) struct Agenda<E = Event> {
    at_ms: u64,
    steps: u64,
    /// Wake-ups in this very millisecond.
    wakes: u32,
    queue: Queue<E>,
}

/// When something is to be woken, as far as that is planned already.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<u64>);

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { at_ms: 0, steps: 0, wakes: 0, queue: Queue::default() }
    }
}

impl<E> Agenda<E> {
    /// Since the start of the run, in ms.
    pub(crate) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// How many events there were so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Lets something happen after so many ms from now.
    pub(crate) fn plan(&mut self, delay_ms: u64, event: E) -> Result<(), Violation> {
        let planned = self.queue.push(self.at_ms + delay_ms, event);
        planned.map_err(|_| Violation("too much is under way: something never stops".to_owned()))
    }

    /// Somebody is woken; how many were in this very millisecond.
    pub(crate) fn count_wake(&mut self) -> u32 {
        self.wakes += 1;
        self.wakes
    }

    /// What happens next up to a moment; if nothing does, the moment has come.
    pub(crate) fn next(&mut self, until_ms: u64) -> Option<E> {
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

impl Alarm {
    /// Plans what wakes, unless that is planned for no later already.
    pub(crate) fn set<E>(
        &mut self,
        agenda: &mut Agenda<E>,
        due_ms: u64,
        event: E,
    ) -> Result<(), Violation> {
        let due_ms = due_ms.max(agenda.at_ms);
        if self.0.is_some_and(|planned_ms| planned_ms <= due_ms) {
            return Ok(());
        }
        self.0 = Some(due_ms);
        agenda.plan(due_ms - agenda.at_ms, event)
    }

    /// What was planned happens. False if an earlier one was planned since, and has done it.
    pub(crate) fn ring(&mut self, at_ms: u64) -> bool {
        let is_due = self.0.is_none_or(|planned_ms| planned_ms <= at_ms);
        if is_due {
            self.0 = None;
        }
        is_due
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

    #[test]
    fn an_alarm_that_is_set_again_rings_at_the_earlier_time() {
        let (mut agenda, mut alarm) = (Agenda::default(), Alarm::default());
        for due_ms in [20, 10, 15] {
            alarm.set(&mut agenda, due_ms, due_ms).unwrap();
        }
        assert_eq!(agenda.next(10), Some(10));
        assert!(alarm.ring(10));
        alarm.set(&mut agenda, 30, 30).unwrap();
        assert_eq!(agenda.next(40), Some(20));
        assert!(!alarm.ring(20), "it has rung, and is set to a later time");
        assert_eq!(agenda.next(40), Some(30));
        assert!(alarm.ring(30));
    }
}
