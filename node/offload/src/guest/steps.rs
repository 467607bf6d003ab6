//! The steps that items call for, taken: effects and records.

use mercato_protocol::time::Now;

use super::object::Object;
use super::pod::{Pod, Step, Surroundings};
use super::session::GuestSession;
use super::{Effect, Life, Record, RecordKey};
use crate::key::{Item, ObjectKey, PodId, Uid};
use crate::limits;
use crate::message::Outcome;

impl GuestSession {
    /// Takes the steps that an item calls for now.
    pub(super) fn step(&mut self, now: Now, item: &Item, out: &mut Vec<Effect>) {
        if !self.synced || self.retries.waits(item) {
            return;
        }
        match item {
            Item::Object(key) => {
                let Some(object) = self.objects.get_mut(key) else { return };
                // The lease may have come to its end since it was seen to go.
                let Some(step) = object.step(self.closing) else { return self.drop_if_absent(key) };
                object.absent &= !matches!(step, Step::Apply(..));
                object.doing = Some(step.clone());
                out.extend(effect(item, step));
            }
            Item::Pod(id) => self.step_pod(now, id, out),
        }
    }

    pub(super) fn step_all(&mut self, now: Now, out: &mut Vec<Effect>) {
        for item in self.items() {
            self.step(now, &item, out);
        }
    }

    /// All that is known, objects first.
    pub(super) fn items(&self) -> Vec<Item> {
        let pods = self.pods.values().map(|pod| Item::Pod(pod.id.clone()));
        self.objects.keys().cloned().map(Item::Object).chain(pods).collect()
    }

    /// It is to go now, and need not wait until it is tried again to make it; unless an attempt
    /// may have worked without our knowing: its removal could come too early.
    pub(super) fn stop_waiting(&mut self, item: &Item) {
        let in_doubt = match item {
            Item::Object(_) => false,
            Item::Pod(id) => self.pods.get(&id.uid).is_some_and(|pod| pod.in_doubt),
        };
        if !in_doubt {
            self.retries.clear(item);
        }
    }

    /// Whether it is not to be there, whatever home said of its content.
    pub(super) fn is_to_go(&self, item: &Item) -> bool {
        self.closing
            || match item {
                Item::Object(key) => self.objects.get(key).is_some_and(|object| object.dropped),
                Item::Pod(id) => self.pods.get(&id.uid).is_some_and(|pod| pod.grace_s.is_some()),
            }
    }

    /// Another pod of the same name may have waited for this one to go.
    pub(super) fn step_namesakes(&mut self, now: Now, item: &Item, out: &mut Vec<Effect>) {
        let Item::Pod(gone) = item else { return };
        for id in self.namesakes(gone) {
            self.step(now, &Item::Pod(id), out);
        }
    }

    fn namesakes(&self, id: &PodId) -> Vec<PodId> {
        let lives = self.lives.get(&id.key()).into_iter().flatten();
        let others = lives.filter(|uid| **uid != id.uid).filter_map(|uid| self.pods.get(uid));
        others.map(|pod| pod.id.clone()).collect()
    }

    fn step_pod(&mut self, now: Now, id: &PodId, out: &mut Vec<Effect>) {
        loop {
            let name_is_free =
                !self.namesakes(id).iter().any(|other| self.pods[&other.uid].holds_name());
            self.mind_time(now, &id.uid);
            let Some(pod) = self.pods.get_mut(&id.uid) else { return };
            let farewell = pod.ended_at_ms.map(|at| at + limits::FAREWELL_MS);
            let farewell_over = farewell.is_some_and(|at| at <= now.mono_ms);
            let around = Surroundings { closing: self.closing, name_is_free, farewell_over };
            match pod.step(around) {
                None => return,
                Some(Step::Made) => self.made(&id.uid, out),
                Some(Step::Over(outcome)) => self.over(&id.uid, outcome, out),
                Some(step) => {
                    if let Step::Delete(grace_s) = step {
                        pod.deleted = Some(grace_s);
                    }
                    pod.absent &= !matches!(step, Step::Apply(..));
                    pod.doing = Some(step.clone());
                    out.extend(effect(&Item::Pod(id.clone()), step));
                    return;
                }
            }
        }
    }

    /// A pod for which there has been no room for too long is given up; alarms are set for
    /// what time alone will change.
    fn mind_time(&mut self, now: Now, uid: &Uid) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let roomless = pod.roomless_at_ms.map(|at| at + limits::ROOMLESS_MS);
        if roomless.is_some_and(|at| at <= now.mono_ms) && pod.evicted.is_none() {
            pod.evicted = pod.seen.as_ref().and_then(|(_, seen)| seen.unschedulable.clone());
        }
        let farewell = pod.ended_at_ms.map(|at| at + limits::FAREWELL_MS);
        match [roomless, farewell].into_iter().flatten().filter(|at| *at > now.mono_ms).min() {
            Some(at) => self.alarms.set(at, uid),
            None => self.alarms.clear(uid),
        }
    }

    /// Puts on record that it exists.
    pub(super) fn made(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.life.is_none()) else { return };
        pod.life = Some(Life::Made);
        out.push(Effect::Persist(Record::Pod(pod.id.clone(), Life::Made)));
    }

    /// Puts on record that it is over; if home has removed it already, nothing of it is kept.
    pub(super) fn over(&mut self, uid: &Uid, outcome: Outcome, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let life = Life::Over(outcome);
        pod.life = Some(life.clone());
        out.push(Effect::Persist(Record::Pod(pod.id.clone(), life)));
        self.unsaid.insert(Item::Pod(pod.id.clone()));
        self.forget_if_over(uid, out);
    }

    /// An object that nobody wants and that is not there is no more.
    pub(super) fn drop_if_absent(&mut self, key: &ObjectKey) {
        let done = |object: &Object| object.absent && object.doing.is_none();
        let unwanted = |object: &Object| object.dropped || self.closing;
        if self.objects.get(key).is_some_and(|object| done(object) && unwanted(object)) {
            self.objects.remove(key);
        }
    }

    /// Once home has removed it and it is not there, it need not be remembered.
    pub(super) fn forget_if_over(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let done = |pod: &Pod| pod.forgotten && pod.is_over() && !pod.holds_name();
        if self.pods.get(uid).is_some_and(done) {
            let Some(pod) = self.pods.remove(uid) else { return };
            if let Some(lives) = self.lives.get_mut(&pod.id.key()) {
                lives.remove(uid);
                if lives.is_empty() {
                    self.lives.remove(&pod.id.key());
                }
            }
            self.alarms.clear(uid);
            self.retries.clear(&Item::Pod(pod.id));
            out.push(Effect::Erase(RecordKey::Pod(uid.clone())));
        }
    }
}

fn effect(item: &Item, step: Step) -> Option<Effect> {
    match (step, item) {
        (Step::Apply(digest, route), _) => Some(Effect::Apply(item.clone(), digest, route)),
        (Step::Update(digest, route), Item::Pod(id)) => {
            Some(Effect::Update(id.clone(), digest, route))
        }
        (Step::Delete(grace_s), _) => Some(Effect::Delete(item.clone(), grace_s)),
        (Step::Release, Item::Pod(id)) => Some(Effect::Release(id.clone())),
        (Step::Release | Step::Update(..), Item::Object(_)) | (Step::Made | Step::Over(_), _) => {
            None
        }
    }
}
