//! What one guest pod calls for next, by what is wanted of it, known of it and on record.

use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use super::super::desired::Step;
use super::super::{Life, ObservedPod};
use super::{GuestPod, failed};
use crate::limits;
use crate::message::Outcome;

/// What a step depends on, besides the pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::guest) struct Surroundings {
    /// The lease is over: nothing is made.
    pub(in crate::guest) closing: bool,
    /// No other life has the name.
    pub(in crate::guest) name_is_free: bool,
}

impl GuestPod {
    /// The next step that it calls for.
    pub(in crate::guest) fn step(&self, now: Now, around: Surroundings) -> Option<Step> {
        if self.desired.is_busy() {
            return None;
        }
        match (self.record.life(), &self.seen) {
            (None, Some(_)) => Some(Step::Made),
            (None, None) => self.step_unmade(around),
            (Some(Life::Made), None) if self.unkept => {
                let wanted = self.desired.content();
                wanted.map(|(digest, route)| Step::Make(*digest, route.clone()))
            }
            (Some(Life::Made | Life::MadeAs(_) | Life::Over(_)), None) => None,
            (Some(Life::Made | Life::MadeAs(_)), Some((digest, seen))) => {
                self.step_made(now, *digest, seen, around.closing)
            }
            (Some(Life::Over(_)), Some((_, seen))) if seen.ended => {
                (!self.released).then_some(Step::Release)
            }
            // It is on its way out, perhaps without our finalizer already.
            (Some(Life::Over(_)), Some((_, seen))) if seen.deleting => None,
            // It was given up before it turned out that an attempt to make it had worked.
            (Some(Life::Over(_)), Some(_)) => deletion(self.deleted, Some(0)),
        }
    }

    fn step_unmade(&self, around: Surroundings) -> Option<Step> {
        if self.grace_s.is_none() && !around.closing {
            let wanted = self.desired.content().filter(|_| around.name_is_free);
            return wanted.map(|(digest, route)| match self.unkept {
                true => Step::Made,
                false => Step::Apply(*digest, route.clone()),
            });
        }
        if self.absent {
            return Some(Step::Over(self.outcome(around.closing)));
        }
        // An attempt to make it may have worked without our knowing.
        deletion(self.deleted, Some(0))
    }

    fn step_made(
        &self,
        now: Now,
        digest: Digest,
        seen: &ObservedPod,
        closing: bool,
    ) -> Option<Step> {
        if seen.ended {
            // Home has had its time to take the last status.
            let farewell_over = self.farewell_ms().is_some_and(|at| at <= now.mono_ms);
            return (self.taken || farewell_over).then(|| Step::Over(self.outcome(closing)));
        }
        if self.grace_s.is_some() {
            return deletion(self.deleted, self.grace_s);
        }
        if self.evicted.is_some() {
            return deletion(self.deleted, Some(0));
        }
        if closing && !seen.deleting {
            return deletion(self.deleted, None);
        }
        let mutable = seen.terminal.is_none() && !seen.deleting;
        // What writes its content writes its marks, too.
        let is_as_wanted = |wanted: Digest| wanted == digest && seen.marked;
        let wanted = self.desired.content();
        let wanted = wanted.filter(|(wanted, _)| mutable && !is_as_wanted(*wanted));
        wanted.map(|(digest, route)| Step::Update(*digest, route.clone()))
    }

    /// Gives it up if there has been no room for it for too long. Says when time alone will
    /// change what it calls for, in ms of the monotonic clock.
    pub(in crate::guest) fn mind_time(&mut self, now: Now) -> Option<u64> {
        let roomless = self.roomless_at_ms.map(|at| at + limits::ROOMLESS_MS);
        if roomless.is_some_and(|at| at <= now.mono_ms) && self.evicted.is_none() {
            self.evicted = self.seen.as_ref().and_then(|(_, seen)| seen.unschedulable.clone());
        }
        let times = [roomless, self.farewell_ms()].into_iter().flatten();
        times.filter(|at| *at > now.mono_ms).min()
    }

    fn farewell_ms(&self) -> Option<u64> {
        self.ended_at_ms.map(|at| at + limits::FAREWELL_MS)
    }

    /// How it ended, as home should show it.
    pub(super) fn outcome(&self, closing: bool) -> Outcome {
        if let Some(evicted) = &self.evicted {
            return evicted.clone();
        }
        let seen = self.seen.as_ref().map(|(_, seen)| seen);
        let terminal = seen.and_then(|seen| seen.terminal.clone());
        let by_provider = seen.is_some_and(|seen| seen.deleting) && self.grace_s.is_none();
        match terminal {
            Some(terminal) if self.settled || !by_provider => terminal,
            _ if self.grace_s.is_some() => failed("Deleted", "deleted before it had ended"),
            _ if closing => failed("Evicted", "the lease is over"),
            _ => failed("Evicted", "the provider has removed the pod"),
        }
    }
}

/// A deletion with this grace, unless one that is as soon was asked for.
fn deletion(asked: Option<Option<u32>>, grace_s: Option<u32>) -> Option<Step> {
    let is_asked = match (asked, grace_s) {
        (None, _) => false,
        (Some(Some(before)), Some(now)) => before <= now,
        (Some(None), Some(_)) => false,
        (Some(_), None) => true,
    };
    (!is_asked).then_some(Step::Delete(grace_s))
}

#[cfg(test)]
mod tests {
    use super::super::super::Effect;
    use super::*;
    use crate::key::{PodId, Uid};
    use crate::message::Route;
    use crate::output::Output;
    use mercato_protocol::id::ClusterId;

    const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_000 };

    fn wanted(life: Option<Life>) -> GuestPod {
        let (namespace, name) = ("shop".to_owned(), "web".to_owned());
        let mut pod = GuestPod::new(PodId { uid: Uid("u1".to_owned()), namespace, name }, life);
        pod.on_put(Digest::of(b"web"), &route(), None);
        pod
    }

    fn route() -> Route {
        let home = ClusterId([1; 32]);
        Route { origin: home, path: vec![home], hops: 0 }
    }

    fn applies(step: &Option<Step>) -> bool {
        matches!(step, Some(Step::Apply(..)))
    }

    #[test]
    fn one_whose_end_is_on_record_is_not_made_though_home_wants_it() {
        let around = Surroundings { closing: false, name_is_free: true };
        assert!(applies(&wanted(None).step(NOW, around)));
        let over = Life::Over(failed("Evicted", "it is over"));
        assert_eq!(wanted(Some(over)).step(NOW, around), None);
        let taken = Surroundings { name_is_free: false, ..around };
        assert_eq!(wanted(None).step(NOW, taken), None);
    }

    #[test]
    #[should_panic(expected = "the end of u1 is on record")]
    fn whoever_makes_it_all_the_same_is_found_out() {
        let over = Life::Over(failed("Evicted", "it is over"));
        let apply = Step::Apply(Digest::of(b"web"), route());
        let mut pod = wanted(Some(over));
        let id = pod.id().clone();
        pod.begin(apply, &id, &mut Output::<Effect>::new());
    }
}
