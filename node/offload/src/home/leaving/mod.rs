//! Which pods of a virtual node that leaves are evicted, and when, and which are ended in the last step:
//! decided from what the cluster says now. Nothing is remembered that the cluster does not show, but for
//! the moment until it shows what was asked for.
//!
//! An eviction is asked for one pod of an owner at a time, the next once all its pods are ready again,
//! and only where another node has room. What stays is ended before the provider ends it.

mod around;
mod fate;
mod notes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::time::Now;

pub use around::{Around, Node, Owner, OwnerSort, PodSeen, Room, holds};
pub use fate::Fate;
pub use notes::Note;

use crate::key::{PodId, Uid};
use crate::limits;
use crate::placement::spec::Leaving;

/// How many pods of a node that leaves have still to go, by why they are there.
pub type Left = BTreeMap<Fate, usize>;

/// A virtual node that leaves.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// When it leaves, and since when that is known.
    pub leaving: &'a Leaving,
    /// How many seconds a guest has to end there at most, whatever its pod asks for.
    pub longest_grace_s: u64,
    /// Whether the pods of this namespace may be evicted: it says so, and the daemon may.
    pub moves: &'a dyn Fn(&str) -> bool,
}

/// Something to be done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Tell its owner of it.
    Tell(PodId, Note),
    /// Evict it, and say what came of that: [`Movers::evicted`].
    Evict(PodId),
    /// Delete it with its own grace; of a Job's say before that it is disrupted.
    End {
        /// The pod that is deleted.
        pod: PodId,
        /// Whether a Job counts its failures.
        of_job: bool,
    },
}

/// What came of an eviction that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It goes, or is gone.
    Taken,
    /// A budget does not let it go.
    Held,
    /// The API server did not do it: it is asked again.
    Failed,
}

/// What was asked for of the pods of all nodes that leave.
#[derive(Debug, Default)]
pub struct Movers {
    /// Of each owner, whose next pod waits.
    turns: BTreeMap<Uid, Turn>,
    /// Owners that wait for pods of theirs that are not ready, since when, by the monotonic clock.
    waits: BTreeMap<Uid, u64>,
    /// Pods whose eviction was asked for, and when, by the monotonic clock: the cluster may not show it yet.
    asked: BTreeMap<Uid, u64>,
    /// Pods that a budget held back last.
    held: BTreeSet<Uid>,
    /// What people were told of each pod, for which end of its lease.
    told: BTreeSet<(Uid, u64, &'static str)>,
    /// When the first look was, by the monotonic clock.
    begun_ms: Option<u64>,
}

/// An owner of which a pod was asked to go.
#[derive(Debug)]
struct Turn {
    /// How many pods it had then.
    had: usize,
    /// The same, less those that others have asked to go since: its owner may want fewer by now.
    wants: usize,
    /// Its pods by the last look that were not going, but for the one that goes.
    live: BTreeSet<Uid>,
    /// When it was asked, by the monotonic clock.
    since_ms: u64,
    /// The pod, whose room its replacement takes; none where it was not let go.
    goes: Option<PodSeen>,
}

/// What is asked of a step.
#[derive(Debug, Default)]
pub struct Step {
    /// What is to be done, in this order.
    pub acts: Vec<Act>,
    /// Who has still to go.
    pub left: Left,
}

impl Movers {
    /// What is to be done now about the pods of a node that leaves.
    pub fn step(&mut self, now: Now, place: Place<'_>, around: &Around) -> Step {
        self.forget(now, around);
        self.look(around);
        let begun_ms = *self.begun_ms.get_or_insert(now.mono_ms);
        let is_settled = now.mono_ms >= begun_ms + limits::LEAVING_SETTLE_MS;
        let mut room = Room::of(around);
        // The replacement of who was just evicted may not be there yet.
        let is_awaited =
            |(owner, turn): &(&Uid, &Turn)| turn.had > self.live(owner, around).count();
        for (_, turn) in self.turns.iter().filter(is_awaited) {
            let _ = turn.goes.iter().all(|pod| room.place(pod));
        }
        let mut step = Step::default();
        let here: Vec<&PodSeen> =
            around.pods.values().filter(|pod| is_of(pod, place.node)).collect();
        let mut owners: BTreeMap<&Uid, Vec<&PodSeen>> = BTreeMap::new();
        let mut fates: BTreeMap<&Uid, Fate> = BTreeMap::new();
        for pod in &here {
            match (self.settled(pod, place), &pod.owner) {
                (Some(fate), _) => drop(fates.insert(&pod.id.uid, fate)),
                (None, Some(owner)) => owners.entry(&owner.uid).or_default().push(pod),
                (None, None) => drop(fates.insert(&pod.id.uid, Fate::Alone)),
            }
        }
        for pods in owners.into_values() {
            let next = if is_settled { self.next(now, &pods, around, &mut room) } else { None };
            for pod in pods {
                let fate = match &next {
                    Some(Next::Evict(uid)) if *uid == pod.id.uid => {
                        step.acts.push(Act::Evict(pod.id.clone()));
                        self.asked_fate(uid)
                    }
                    Some(Next::Stopped) => Fate::Stopped,
                    Some(Next::NoRoom) => Fate::NoRoom,
                    Some(Next::Evict(_)) | None if self.held.contains(&pod.id.uid) => Fate::Budget,
                    Some(Next::Evict(_)) | None => Fate::Turn,
                };
                fates.insert(&pod.id.uid, fate);
            }
        }
        for pod in here {
            let fate = fates.get(&pod.id.uid).copied().unwrap_or(Fate::Turn);
            self.end(now, pod, place, fate, &mut step);
        }
        step
    }

    /// What came of an eviction.
    pub fn evicted(&mut self, now: Now, pod: &PodId, owner: Option<&Owner>, done: Evicted) {
        if done == Evicted::Taken {
            return;
        }
        self.asked.remove(&pod.uid);
        if done == Evicted::Held {
            self.held.insert(pod.uid.clone());
        }
        if let Some(turn) = owner.and_then(|owner| self.turns.get_mut(&owner.uid)) {
            (turn.goes, turn.since_ms) = (None, now.mono_ms);
        }
    }

    /// What becomes of a pod whose eviction was just asked for, perhaps once more.
    fn asked_fate(&self, uid: &Uid) -> Fate {
        if self.held.contains(uid) { Fate::Budget } else { Fate::Ends }
    }

    /// What becomes of a pod whatever the others of its owner do.
    fn settled(&self, pod: &PodSeen, place: Place<'_>) -> Option<Fate> {
        if pod.deleting {
            return Some(Fate::Ends);
        }
        if self.asked.contains_key(&pod.id.uid) {
            return Some(self.asked_fate(&pod.id.uid));
        }
        if !(place.moves)(&pod.id.namespace) {
            return Some(Fate::Stays);
        }
        if pod.has_volume {
            return Some(Fate::Volume);
        }
        pod.tolerates_leaving().then_some(Fate::Tolerates)
    }

    /// Of an owner's pods on this node the one to be evicted now.
    fn next(
        &mut self,
        now: Now,
        here: &[&PodSeen],
        around: &Around,
        room: &mut Room<'_>,
    ) -> Option<Next> {
        let owner = here.first()?.owner.as_ref()?;
        let of_owner = || around.pods.values().filter(|pod| pod.owner.as_ref() == Some(owner));
        let (going, live): (Vec<&PodSeen>, Vec<&PodSeen>) =
            of_owner().partition(|pod| pod.deleting || self.asked.contains_key(&pod.id.uid));
        let is_between = owner.sort == OwnerSort::InTurn && !going.is_empty();
        let unready: Vec<&&PodSeen> = live.iter().filter(|pod| !pod.ready).collect();
        if let Some(turn) = self.turns.get(&owner.uid) {
            let for_ms = now.mono_ms.saturating_sub(turn.since_ms);
            if turn.goes.is_none() {
                // It was not let go: it is asked again, not at once.
                if for_ms < limits::EVICTION_RETRY_MS {
                    return None;
                }
            } else {
                let is_late = for_ms >= limits::REPLACEMENT_MS;
                // A Job replaces no pod for which there is no work left, and nobody one that is one too many.
                let enough = if is_late { turn.wants } else { turn.had };
                let is_whole = live.len() >= enough || owner.sort == OwnerSort::Job && is_late;
                if !is_whole || is_between || !unready.is_empty() {
                    return is_late.then_some(Next::Stopped);
                }
            }
            self.turns.remove(&owner.uid);
        }
        // Who is not ready goes first, and nobody beside it.
        let may = |pod: &&&PodSeen| match unready[..] {
            [] => true,
            [one] => one.id == pod.id,
            [..] => false,
        };
        if is_between {
            return None;
        }
        let mut candidates = here.iter().filter(may).peekable();
        if candidates.peek().is_none() {
            let since_ms = *self.waits.entry(owner.uid.clone()).or_insert(now.mono_ms);
            let is_late = now.mono_ms.saturating_sub(since_ms) >= limits::REPLACEMENT_MS;
            return is_late.then_some(Next::Stopped);
        }
        self.waits.remove(&owner.uid);
        let Some(pod) = candidates.find(|pod| room.place(pod)) else { return Some(Next::NoRoom) };
        let others = live.iter().map(|pod| &pod.id.uid).filter(|uid| **uid != pod.id.uid).cloned();
        let turn = Turn {
            had: live.len(),
            wants: live.len(),
            live: others.collect(),
            since_ms: now.mono_ms,
            goes: Some((**pod).clone()),
        };
        self.turns.insert(owner.uid.clone(), turn);
        self.asked.insert(pod.id.uid.clone(), now.mono_ms);
        Some(Next::Evict(pod.id.uid.clone()))
    }

    /// Ends a pod whose last moment has come, and tells its owner what becomes of it.
    fn end(&mut self, now: Now, pod: &PodSeen, place: Place<'_>, fate: Fate, step: &mut Step) {
        *step.left.entry(fate).or_default() += 1;
        if pod.deleting {
            return;
        }
        let grace_s = u64::from(pod.grace_s).min(place.longest_grace_s);
        let last_ms = last_ms(place.leaving, grace_s);
        let is_last = now.wall_ms >= last_ms;
        let notes = notes::of(place.leaving, fate, last_ms, is_last);
        for note in notes {
            let told = (pod.id.uid.clone(), place.leaving.at_ms, note.reason);
            if self.told.insert(told) {
                step.acts.push(Act::Tell(pod.id.clone(), note));
            }
        }
        if is_last {
            step.acts.retain(|act| *act != Act::Evict(pod.id.clone()));
            let of_job = pod.owner.as_ref().is_some_and(|owner| owner.sort == OwnerSort::Job);
            step.acts.push(Act::End { pod: pod.id.clone(), of_job });
        }
    }

    /// The pods of an owner that are not going.
    fn live<'a>(
        &'a self,
        owner: &'a Uid,
        around: &'a Around,
    ) -> impl Iterator<Item = &'a Uid> + 'a {
        let live = |pod: &&PodSeen| {
            pod.owner.as_ref().is_some_and(|it| it.uid == *owner)
                && !pod.deleting
                && !self.asked.contains_key(&pod.id.uid)
        };
        around.pods.values().filter(live).map(|pod| &pod.id.uid)
    }

    /// Whose pods others have asked to go since the last look.
    fn look(&mut self, around: &Around) {
        let mut turns = std::mem::take(&mut self.turns);
        for (owner, turn) in &mut turns {
            let live: BTreeSet<Uid> = self.live(owner, around).cloned().collect();
            turn.wants = turn.wants.saturating_sub(turn.live.difference(&live).count());
            turn.live = live;
        }
        self.turns = turns;
    }

    /// What the cluster shows by now, or does not have any more, is kept no longer.
    fn forget(&mut self, now: Now, around: &Around) {
        let is_there = |uid: &Uid| around.pods.get(uid).is_some_and(|pod| !pod.deleting);
        self.asked.retain(|uid, at_ms| {
            is_there(uid) && now.mono_ms.saturating_sub(*at_ms) < limits::REPLACEMENT_MS
        });
        self.held.retain(is_there);
        self.told.retain(|(uid, ..)| is_there(uid));
        let owners: BTreeSet<&Uid> =
            around.pods.values().filter_map(|pod| Some(&pod.owner.as_ref()?.uid)).collect();
        self.turns.retain(|owner, _| owners.contains(owner));
        self.waits.retain(|owner, _| owners.contains(owner));
    }
}

/// What an owner's turn has come to.
enum Next {
    Evict(Uid),
    Stopped,
    NoRoom,
}

/// Whether a pod is one of the node's that is to go before it: a DaemonSet's goes with it.
fn is_of(pod: &PodSeen, node: &str) -> bool {
    let of_daemon_set = pod.owner.as_ref().is_some_and(|it| it.sort == OwnerSort::DaemonSet);
    pod.node.as_deref() == Some(node) && !of_daemon_set
}

/// When a pod with this grace is ended, wall clock: so that it is over before the provider ends it, be its
/// clock ahead; but a third of the time is for moving, however long the grace is.
fn last_ms(leaving: &Leaving, grace_s: u64) -> u64 {
    let takes_ms = CLOCK_SKEW_MS + grace_s * 1_000 + limits::LAST_WORDS_MS;
    let third_ms = leaving.at_ms.saturating_sub(leaving.from_ms) / 3;
    leaving.at_ms.saturating_sub(takes_ms).max(leaving.from_ms + third_ms)
}
