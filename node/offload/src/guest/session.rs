//! One lease, seen from the provider.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mercato_protocol::time::{Deadline, Now};

use super::object::Object;
use super::pod::{Pod, Step, refused};
use super::{Config, Effect, Failure, Input, Life, Observed, Record};
use crate::channel::Channel;
use crate::key::{Item, ObjectKey, PodId, Uid};
use crate::limits;
use crate::message::{Outcome, PodEvent, Refusal, ToHome};
use crate::retry::Retries;

/// The provider's side of one lease.
///
/// Invariants: nothing is made or removed before the list of guest objects has come; a
/// pod whose end is on record is never made again; our finalizer leaves a pod only once
/// its end is on record; only the API server's word about one object counts as its
/// absence.
#[derive(Debug)]
pub struct GuestSession {
    pub(super) config: Config,
    pub(super) channel: Channel<ToHome>,
    /// The list of guest objects has come.
    pub(super) synced: bool,
    pub(super) closing: bool,
    pub(super) pods: BTreeMap<Uid, Pod>,
    /// The lives of each name.
    pub(super) lives: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    pub(super) objects: BTreeMap<ObjectKey, Object>,
    /// What home is still to be told that we hold, on this link; none before it has begun.
    pub(super) unlisted: Option<BTreeSet<Item>>,
    /// Home knows all that we hold.
    pub(super) listed: bool,
    /// What there may be something to say about.
    pub(super) unsaid: BTreeSet<Item>,
    /// Events to tell home of, once everything else is said.
    pub(super) events: VecDeque<(PodId, PodEvent)>,
    pub(super) retries: Retries<Item>,
    /// When a pod has to be looked at again.
    pub(super) alarms: Retries<Uid>,
}

impl GuestSession {
    /// A session as its records have it; the rest comes from both sides again.
    pub fn restore(config: Config, records: impl IntoIterator<Item = Record>) -> Self {
        let mut this = Self {
            config,
            channel: Channel::new(0),
            synced: false,
            closing: false,
            pods: BTreeMap::new(),
            lives: BTreeMap::new(),
            objects: BTreeMap::new(),
            unlisted: None,
            listed: false,
            unsaid: BTreeSet::new(),
            events: VecDeque::new(),
            retries: Retries::default(),
            alarms: Retries::default(),
        };
        for record in records {
            match record {
                Record::Epoch(last) => this.channel = Channel::new(last),
                Record::Pod(id, life) => this.life(&id).life = Some(life),
            }
        }
        this
    }

    /// The pod of that uid; a new one, if there is none.
    pub(super) fn life(&mut self, id: &PodId) -> &mut Pod {
        self.pods.entry(id.uid.clone()).or_insert_with(|| {
            self.lives.entry(id.key()).or_default().insert(id.uid.clone());
            Pod::new(id.clone())
        })
    }

    /// When to be woken.
    pub fn wakeup(&self) -> Option<Deadline> {
        let deadlines = [self.channel.deadline_ms(), self.retries.next(), self.alarms.next()];
        deadlines.into_iter().flatten().min().map(Deadline::Mono)
    }

    /// Whether nothing of the lease is left at the API server.
    pub fn is_empty(&self) -> bool {
        self.synced && self.objects.is_empty() && !self.pods.values().any(Pod::holds_name)
    }

    /// Guests that are there, or are being made or removed.
    pub fn pods(&self) -> usize {
        self.pods.values().filter(|pod| pod.holds_name()).count()
    }

    /// Whether anything of this home namespace is known: held, wanted, or yet to be taken note
    /// of by home.
    pub fn mentions(&self, namespace: &str) -> bool {
        !self.synced
            || self.pods.values().any(|pod| pod.id.namespace == namespace)
            || self.objects.keys().any(|key| key.namespace == namespace)
    }

    /// Home namespaces of which anything is known: held, wanted, or yet to be taken note of by
    /// home. None before the list of guest objects has come.
    pub fn namespaces(&self) -> Option<BTreeSet<&str>> {
        let pods = self.pods.values().map(|pod| pod.id.namespace.as_str());
        let objects = self.objects.keys().map(|key| key.namespace.as_str());
        self.synced.then(|| pods.chain(objects).collect())
    }

    /// Whether anything of this home namespace is, or may be, in its guest namespace.
    pub fn holds(&self, namespace: &str) -> bool {
        let pod = |pod: &Pod| pod.id.namespace == namespace && pod.holds_place();
        let object = |(key, object): (&ObjectKey, &Object)| {
            key.namespace == namespace && object.holds_place()
        };
        !self.synced || self.pods.values().any(pod) || self.objects.iter().any(object)
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::LinkUp => {
                let (epoch, greeting) = self.channel.link_up(now.mono_ms);
                self.on_new_link();
                out.push(Effect::Persist(Record::Epoch(epoch)));
                out.push(Effect::Send(greeting));
            }
            Input::LinkDown => {
                self.channel.link_down();
                self.on_new_link();
            }
            Input::Frame(frame) => self.on_frame(now, frame, &mut out),
            Input::Synced(list) => self.on_synced(now, list, &mut out),
            Input::Observed(observed) => self.on_observed(now, observed, &mut out),
            Input::Gone(item) => self.on_gone(now, &item, &mut out),
            Input::Event(pod, event) => self.on_event(pod, event),
            Input::Written(item) => self.on_written(now, &item, &mut out),
            Input::NotWritten(item, failure) => self.on_failure(now, &item, failure, &mut out),
            Input::Mapped(of, done) => self.on_mapped(&of, done),
            Input::SecondMapped(of, done) => self.on_second_mapped(&of, done),
            Input::Moved(namespace) => self.on_moved(now, &namespace, &mut out),
            Input::Close => {
                if !std::mem::replace(&mut self.closing, true) {
                    self.items().iter().for_each(|item| self.stop_waiting(item));
                }
                self.step_all(now, &mut out);
            }
            Input::Wake => self.on_wake(now, &mut out),
        }
        self.speak(now, &mut out);
        out
    }

    fn on_synced(&mut self, now: Now, list: Vec<Observed>, out: &mut Vec<Effect>) {
        self.synced = true;
        let present: BTreeSet<Item> = list.iter().map(|observed| observed.item.clone()).collect();
        for observed in list {
            self.on_observed(now, observed, out);
        }
        let held = |pod: &&Pod| pod.seen.is_some() || pod.life == Some(Life::Made);
        let pods = self.pods.values().filter(held).map(|pod| Item::Pod(pod.id.clone()));
        let seen = self.objects.iter().filter(|(_, object)| object.seen.is_some());
        let objects = seen.map(|(key, _)| Item::Object(key.clone()));
        let missing = pods.chain(objects).filter(|item| !present.contains(item));
        out.extend(missing.map(Effect::Confirm));
        self.step_all(now, out);
    }

    fn on_observed(&mut self, now: Now, observed: Observed, out: &mut Vec<Effect>) {
        match (&observed.item, observed.pod) {
            (Item::Object(key), _) => {
                let object = self.objects.entry(key.clone()).or_default();
                object.seen = Some(observed.digest);
                object.absent = false;
                object.stray = object.wanted.is_none() && !object.dropped;
            }
            (Item::Pod(id), Some(mut seen)) => {
                seen.terminal = seen.terminal.map(Outcome::clipped);
                seen.unschedulable = seen.unschedulable.map(Outcome::clipped);
                seen.ungated = seen.ungated.map(Refusal::clipped);
                let pod = self.life(id);
                let opens = pod.seen.as_ref().is_some_and(|(_, before)| before.held) && !seen.held;
                if let Some(why) = &seen.ungated {
                    pod.evicted.get_or_insert_with(|| refused(why));
                }
                pod.settled |= seen.terminal.is_some() && !seen.deleting;
                pod.ended_at_ms = seen.ended.then(|| pod.ended_at_ms.unwrap_or(now.mono_ms));
                let since = pod.roomless_at_ms.unwrap_or(now.mono_ms);
                pod.roomless_at_ms = seen.unschedulable.is_some().then_some(since);
                pod.absent = false;
                pod.seen = Some((observed.digest, seen));
                self.map(&id.uid, out);
                if opens {
                    // What waited for that does no longer.
                    self.retries.clear(&observed.item);
                }
            }
            (Item::Pod(_), None) => return,
        }
        self.unsaid.insert(observed.item.clone());
        self.step(now, &observed.item, out);
    }

    fn on_gone(&mut self, now: Now, item: &Item, out: &mut Vec<Effect>) {
        self.retries.clear(item);
        match item {
            Item::Object(key) => {
                let Some(object) = self.objects.get_mut(key) else { return };
                object.seen = None;
                object.absent = true;
                object.missing = object.wanted.is_none() && !object.dropped && !self.closing;
                self.drop_if_absent(key);
            }
            Item::Pod(id) => {
                let Some(pod) = self.pods.get_mut(&id.uid) else { return };
                let outcome = pod.vanished();
                pod.seen = None;
                pod.absent = true;
                pod.in_doubt = false;
                pod.deleted = None;
                self.map(&id.uid, out);
                let made = |pod: &Pod| pod.life == Some(Life::Made);
                if self.pods.get(&id.uid).is_some_and(made) {
                    self.over(&id.uid, outcome, out);
                }
                self.forget_if_over(&id.uid, out);
            }
        }
        self.unsaid.insert(item.clone());
        self.step(now, item, out);
        self.step_namesakes(now, item, out);
    }

    fn on_written(&mut self, now: Now, item: &Item, out: &mut Vec<Effect>) {
        self.retries.clear(item);
        match item {
            Item::Object(key) => {
                let Some(object) = self.objects.get_mut(key) else { return };
                if let Some(Step::Apply(digest, _)) = object.doing.take() {
                    // Unless it has been seen to go since.
                    object.seen = Some(digest).filter(|_| !object.absent);
                    object.refusal = None;
                }
                self.drop_if_absent(key);
            }
            Item::Pod(id) => {
                let Some(pod) = self.pods.get_mut(&id.uid) else { return };
                if let Some(Step::Apply(digest, _) | Step::Update(digest, _)) = pod.doing.take() {
                    pod.refusal = None;
                    let (outcome, absent) = (pod.vanished(), pod.absent);
                    if let Some((seen, _)) = &mut pod.seen {
                        *seen = digest;
                    }
                    self.made(&id.uid, out);
                    if absent {
                        self.over(&id.uid, outcome, out);
                    }
                }
                self.forget_if_over(&id.uid, out);
            }
        }
        self.step(now, item, out);
        self.step_namesakes(now, item, out);
    }

    fn on_failure(&mut self, now: Now, item: &Item, failure: Failure, out: &mut Vec<Effect>) {
        let (doing, refusal, missing, wanted) = match item {
            Item::Object(key) => {
                let Some(object) = self.objects.get_mut(key) else { return };
                let Object { doing, refusal, missing, wanted, .. } = object;
                (doing, refusal, missing, wanted)
            }
            Item::Pod(id) => {
                let Some(pod) = self.pods.get_mut(&id.uid) else { return };
                let Pod { doing, refusal, missing, wanted, deleted, in_doubt, .. } = pod;
                *deleted = None;
                *in_doubt |=
                    matches!(doing, Some(Step::Apply(..))) && failure == Failure::Transient;
                (doing, refusal, missing, wanted)
            }
        };
        let Some(step) = doing.take() else { return };
        match (step, failure.clipped()) {
            (Step::Update(..) | Step::Delete(_) | Step::Release, Failure::Absent) => {
                return self.on_gone(now, item, out);
            }
            (Step::Apply(digest, _) | Step::Update(digest, _), Failure::MissingBody) => {
                if wanted.as_ref().is_some_and(|(wanted, _)| *wanted == digest) {
                    *wanted = None;
                    *missing = true;
                }
            }
            (Step::Apply(..) | Step::Update(..), Failure::Refused(why)) => {
                *refusal = Some(why);
                if !self.is_to_go(item) {
                    self.retries.back_off(now.mono_ms, item);
                }
            }
            (Step::Apply(..), Failure::OutOf(outcome)) => {
                self.out_of_room(now, item, outcome, out);
            }
            (Step::Apply(..), Failure::Full(outcome)) => self.full(now, item, outcome, out),
            (
                _,
                Failure::OutOf(_) | Failure::Full(_) | Failure::Refused(_) | Failure::MissingBody,
            )
            | (_, Failure::Transient | Failure::Absent) => {
                self.retries.back_off(now.mono_ms, item);
            }
        }
        // It may have been seen to go meanwhile.
        match item {
            Item::Object(key) => self.drop_if_absent(key),
            Item::Pod(id) => self.forget_if_over(&id.uid, out),
        }
        self.unsaid.insert(item.clone());
        self.step(now, item, out);
        self.step_namesakes(now, item, out);
    }

    fn on_moved(&mut self, now: Now, namespace: &str, out: &mut Vec<Effect>) {
        for item in self.items().into_iter().filter(|item| item.namespace() == namespace) {
            self.retries.clear(&item);
            self.step(now, &item, out);
        }
    }

    /// Home counts no longer what it has told to leave, but the lease does until it is gone.
    fn full(&mut self, now: Now, item: &Item, outcome: Outcome, out: &mut Vec<Effect>) {
        let pod = if let Item::Pod(id) = item { self.pods.get_mut(&id.uid) } else { None };
        let until = pod.map_or(now.mono_ms, |pod| {
            *pod.roomless_at_ms.get_or_insert(now.mono_ms) + limits::ROOMLESS_MS
        });
        if now.mono_ms < until {
            self.retries.back_off(now.mono_ms, item);
            // It is given up at that time, however long the wait has grown.
            self.retries.no_later(until, item);
        } else {
            self.out_of_room(now, item, outcome, out);
        }
    }

    fn out_of_room(&mut self, now: Now, item: &Item, outcome: Outcome, out: &mut Vec<Effect>) {
        if let Item::Pod(id) = item
            && self.pods.get(&id.uid).is_some_and(|pod| pod.life.is_none())
        {
            self.over(&id.uid, outcome, out);
        } else {
            self.retries.back_off(now.mono_ms, item);
        }
    }

    fn on_wake(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut frames = Vec::new();
        self.channel.wake(now.mono_ms, &mut frames);
        out.extend(frames.into_iter().map(Effect::Send));
        for item in self.retries.due(now.mono_ms) {
            self.step(now, &item, out);
        }
        for uid in self.alarms.due(now.mono_ms) {
            let Some(pod) = self.pods.get(&uid) else { continue };
            let item = Item::Pod(pod.id.clone());
            self.step(now, &item, out);
        }
    }
}
