//! The pods of one lease by uid, the lives of each name, and when a pod has to be looked at
//! again. Of the lives of one name at most one is at the API server.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::time::Now;

use super::desired::Step;
use super::pod::{GuestPod, Surroundings};
use super::{Effect, Life, RecordKey};
use crate::key::{ObjectKey, PodId, Uid};
use crate::limits;
use crate::output::Output;
use crate::retry::Retries;

/// All guest pods of one lease, and those on record.
#[derive(Debug, Default)]
pub(super) struct Pods {
    all: BTreeMap<Uid, GuestPod>,
    /// The lives of each name.
    lives: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    /// When a pod has to be looked at again.
    alarms: Retries<Uid>,
}

impl Pods {
    /// As a record has it.
    pub(super) fn restore(&mut self, id: &PodId, life: Life) {
        *self.entry(id) = GuestPod::new(id.clone(), Some(life));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &GuestPod> {
        self.all.values()
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&GuestPod> {
        self.all.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &Uid) -> Option<&mut GuestPod> {
        self.all.get_mut(uid)
    }

    /// The pod of that uid, if it has that name too.
    pub(super) fn named(&mut self, id: &PodId) -> Option<&mut GuestPod> {
        self.all.get_mut(&id.uid).filter(|pod| pod.id() == id)
    }

    /// The same of a pod that home speaks of; a new one, as far as there may be another.
    pub(super) fn admit(&mut self, id: &PodId) -> Option<&mut GuestPod> {
        if self.all.len() < limits::PODS {
            self.entry(id);
        }
        self.named(id)
    }

    /// The pod of that uid; a new one, if there is none.
    pub(super) fn entry(&mut self, id: &PodId) -> &mut GuestPod {
        self.all.entry(id.uid.clone()).or_insert_with(|| {
            self.lives.entry(id.key()).or_default().insert(id.uid.clone());
            GuestPod::new(id.clone(), None)
        })
    }

    pub(super) fn on_new_link(&mut self) {
        self.all.values_mut().for_each(GuestPod::on_new_link);
    }

    /// Other lives of that name.
    pub(super) fn namesakes(&self, id: &PodId) -> impl Iterator<Item = &GuestPod> {
        let lives = self.lives.get(&id.key()).into_iter().flatten();
        lives.filter(|uid| **uid != id.uid).filter_map(|uid| self.all.get(uid))
    }

    /// Takes the steps that a pod calls for now: records, as many as there are, and one write.
    pub(super) fn step(&mut self, now: Now, id: &PodId, closing: bool, out: &mut Output<Effect>) {
        let name_is_free = !self.namesakes(id).any(GuestPod::holds_name);
        let around = Surroundings { closing, name_is_free };
        loop {
            self.mind_time(now, &id.uid);
            let Some(pod) = self.all.get_mut(&id.uid) else { return };
            let Some(step) = pod.step(now, around) else { return };
            let is_record = matches!(step, Step::Made | Step::Over(_));
            pod.begin(step, id, out);
            if !is_record {
                return;
            }
        }
    }

    fn mind_time(&mut self, now: Now, uid: &Uid) {
        let Some(pod) = self.all.get_mut(uid) else { return };
        match pod.mind_time(now) {
            Some(at_ms) => self.alarms.set(at_ms, uid),
            None => self.alarms.clear(uid),
        }
    }

    /// Pods that have to be looked at again by now.
    pub(super) fn due(&mut self, now: Now) -> Vec<PodId> {
        let due = self.alarms.due(now.mono_ms).into_iter();
        due.filter_map(|uid| Some(self.all.get(&uid)?.id().clone())).collect()
    }

    /// The first time that one has to be, in ms of the monotonic clock.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.alarms.next()
    }

    /// Once home has removed it and it is not there, it need not be remembered; whether it is not.
    pub(super) fn forget_if_over(&mut self, uid: &Uid, out: &mut Output<Effect>) -> Option<PodId> {
        if !self.all.get(uid)?.is_done_with() {
            return None;
        }
        let id = self.all.remove(uid)?.id().clone();
        if let Some(lives) = self.lives.get_mut(&id.key()) {
            lives.remove(uid);
            if lives.is_empty() {
                self.lives.remove(&id.key());
            }
        }
        self.alarms.clear(uid);
        out.push(Effect::Erase(RecordKey::Pod(uid.clone())));
        Some(id)
    }
}
