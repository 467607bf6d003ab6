//! What of this lease is at this provider's API server, is wanted there by home, or is on record:
//! pods and other objects, each with the step that it calls for. What home is told of them waits in
//! the outbox.

mod answers;
mod wanted;

use std::collections::BTreeSet;

use mercato_protocol::time::Now;

use super::objects::Objects;
use super::pod::{Called, GuestPod, is_deferred};
use super::pods::Pods;
use super::{Config, Effect, Life, Observed};
use crate::address::GuestAddress;
use crate::key::{Item, ObjectKind, PodId, Uid};
use crate::message::ToHome;
use crate::output::Output;
use crate::retry::Retries;

/// The guests of one lease.
///
/// Invariants: nothing is made or removed before the list of guest objects has come; a
/// pod whose end is on record is never made again; our finalizer leaves a pod only once
/// its end is on record; a pod without it is on record before it is made, and that is taken back only
/// where it was not made for certain; only the API server's word about one object counts as its
/// absence.
#[derive(Debug)]
pub(super) struct Guests {
    config: Config,
    /// The list of guest objects has come.
    synced: bool,
    /// The lease is over.
    closing: bool,
    pods: Pods,
    objects: Objects,
    /// Items that wait until their write is tried again.
    retries: Retries<Item>,
}

impl Guests {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            synced: false,
            closing: false,
            pods: Pods::default(),
            objects: Objects::default(),
            retries: Retries::default(),
        }
    }

    /// As a record has it.
    pub(super) fn restore(&mut self, id: &PodId, life: Life) {
        self.pods.restore(id, life);
    }

    /// The list of guest objects has come.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Whether nothing of the lease is left at the API server.
    pub(super) fn is_empty(&self) -> bool {
        self.synced && self.objects.is_empty() && !self.pods.iter().any(GuestPod::holds_name)
    }

    /// Guests that are there, or are being made or removed.
    pub(super) fn count(&self) -> usize {
        self.pods.iter().filter(|pod| pod.holds_name()).count()
    }

    /// Whether this is a pod of this lease.
    pub(super) fn has(&mut self, id: &PodId) -> bool {
        self.pods.named(id).is_some()
    }

    /// Home namespaces of which anything is known.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let pods = self.pods.iter().map(|pod| pod.id().namespace.as_str());
        pods.chain(self.objects.iter().map(|(key, _)| key.namespace.as_str()))
    }

    /// Home namespaces of which anything is, or may be, in its guest namespace.
    pub(super) fn held_namespaces(&self) -> impl Iterator<Item = &str> {
        let pods = self.pods.iter().filter(|pod| pod.holds_place());
        let objects = self.objects.iter().filter(|(_, object)| object.holds_place());
        let pods = pods.map(|pod| pod.id().namespace.as_str());
        pods.chain(objects.map(|(key, _)| key.namespace.as_str()))
    }

    /// When to wake, in ms of the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        [self.retries.next(), self.pods.next_ms()].into_iter().flatten().min()
    }

    /// The list of guest objects, as the API server has it.
    pub(super) fn on_synced(&mut self, now: Now, list: Vec<Observed>, out: &mut Output<Effect>) {
        self.synced = true;
        let present: BTreeSet<Item> = list.iter().map(|observed| observed.item.clone()).collect();
        for observed in list {
            self.on_observed(now, observed, out);
        }
        let pods = self.pods.iter().filter(|pod| pod.is_held());
        let pods = pods.map(|pod| (Item::Pod(pod.id().clone()), pod.made_as().cloned()));
        let all = pods.chain(self.seen_objects().map(|item| (item, None)));
        let missing: Vec<_> = all.filter(|(item, _)| !present.contains(item)).collect();
        for (item, uid) in missing {
            let pod = if let Item::Pod(id) = &item { self.pods.get_mut(&id.uid) } else { None };
            if pod.is_none_or(GuestPod::on_missed) {
                out.push(Effect::Confirm(item, uid));
            }
        }
        self.step_all(now, out);
    }

    /// The API server has a guest object so.
    pub(super) fn on_observed(&mut self, now: Now, observed: Observed, out: &mut Output<Effect>) {
        let Observed { item, digest, pod } = observed;
        match (&item, pod) {
            (Item::Object(key), _) => self.objects.on_observed(key, digest),
            (Item::Pod(id), Some(seen)) => {
                let made = self.pods.get(&id.uid).and_then(GuestPod::made_as);
                if made.is_some_and(|made| *made != seen.uid) {
                    return self.on_gone(now, &item, out);
                }
                if self.pods.entry(id).on_observed(now, digest, seen, out) {
                    // What waited for its gate does no longer.
                    self.retries.clear(&item);
                }
            }
            (Item::Pod(_), None) => return,
        }
        out.changed(item.clone());
        self.step(now, &item, out);
    }

    /// The API server says that it is not there.
    pub(super) fn on_gone(&mut self, now: Now, item: &Item, out: &mut Output<Effect>) {
        self.retries.clear(item);
        match item {
            Item::Object(key) => {
                if !self.objects.on_gone(key, self.closing) {
                    return;
                }
            }
            Item::Pod(id) => {
                let Some(pod) = self.pods.get_mut(&id.uid) else { return };
                pod.on_gone(out);
            }
        }
        self.drop_if_done(item, out);
        out.changed(item.clone());
        self.step(now, item, out);
        self.step_namesakes(now, item, out);
        // Resizes that waited for a pod to leave are tried again.
        let makes_room = matches!(item, Item::Pod(_));
        let waits = |pod: &&GuestPod| makes_room && is_deferred(pod) && !pod.is_to_go();
        let deferred = self.pods.iter().filter(waits);
        for id in deferred.map(|pod| pod.id().clone()).collect::<Vec<_>>() {
            let deferred = Item::Pod(id);
            self.retries.clear(&deferred);
            self.step(now, &deferred, out);
        }
    }

    /// The gateway brings packets of a family to this guest, or cannot: `note` takes that down, and
    /// says whether it is new.
    pub(super) fn on_mapped(
        &mut self,
        of: &GuestAddress,
        note: impl FnOnce(&mut Called) -> bool,
        out: &mut Output<Effect>,
    ) {
        let pod = self.pods.get_mut(&of.pod.uid);
        if pod.is_some_and(|pod| note(pod.called())) {
            out.changed(Item::Pod(of.pod.clone()));
        }
    }

    /// A home namespace has another guest namespace: what was refused is tried again.
    pub(super) fn on_moved(&mut self, now: Now, namespace: &str, out: &mut Output<Effect>) {
        for item in self.items().into_iter().filter(|item| item.namespace() == namespace) {
            self.retries.clear(&item);
            self.step(now, &item, out);
        }
    }

    /// Pods are known here by other ranges: slices that were made by those before are made again.
    pub(super) fn on_reached(&mut self, now: Now, out: &mut Output<Effect>) {
        for key in self.objects.set_slices_stale() {
            let item = Item::Object(key);
            self.retries.clear(&item);
            self.step(now, &item, out);
        }
    }

    /// The lease is over: what is there is removed.
    pub(super) fn close(&mut self, now: Now, out: &mut Output<Effect>) {
        if !std::mem::replace(&mut self.closing, true) {
            self.items().iter().for_each(|item| self.stop_waiting(item));
        }
        self.step_all(now, out);
    }

    /// Looks at whose time has come.
    pub(super) fn wake(&mut self, now: Now, out: &mut Output<Effect>) {
        for item in self.retries.due(now.mono_ms) {
            self.step(now, &item, out);
        }
        for id in self.pods.due(now) {
            self.step(now, &Item::Pod(id), out);
        }
    }

    /// Takes the steps that an item calls for now.
    fn step(&mut self, now: Now, item: &Item, out: &mut Output<Effect>) {
        if !self.synced || self.retries.waits(item) {
            return;
        }
        match item {
            Item::Object(key) => self.objects.step(key, self.closing, out),
            Item::Pod(id) => {
                self.pods.step(now, id, self.closing, out);
                self.forget_if_over(&id.uid, out);
            }
        }
    }

    fn step_all(&mut self, now: Now, out: &mut Output<Effect>) {
        for item in self.items() {
            self.step(now, &item, out);
        }
    }

    /// All that is known, objects first.
    fn items(&self) -> Vec<Item> {
        let objects = self.objects.iter().map(|(key, _)| Item::Object(key.clone()));
        objects.chain(self.pods.iter().map(|pod| Item::Pod(pod.id().clone()))).collect()
    }

    /// Another pod of the same name may have waited for this one to go.
    fn step_namesakes(&mut self, now: Now, item: &Item, out: &mut Output<Effect>) {
        let Item::Pod(gone) = item else { return };
        let others: Vec<PodId> = self.pods.namesakes(gone).map(|pod| pod.id().clone()).collect();
        for id in others {
            self.step(now, &Item::Pod(id), out);
        }
    }

    /// It is to go now, and need not wait until it is tried again to make it; unless an attempt
    /// may have worked without our knowing: its removal could come too early.
    fn stop_waiting(&mut self, item: &Item) {
        let in_doubt = match item {
            Item::Object(_) => false,
            Item::Pod(id) => self.pods.get(&id.uid).is_some_and(GuestPod::is_in_doubt),
        };
        if !in_doubt {
            self.retries.clear(item);
        }
    }

    /// What nobody wants and is not there is no more.
    fn drop_if_done(&mut self, item: &Item, out: &mut Output<Effect>) {
        match item {
            Item::Object(key) => self.objects.drop_if_absent(key, self.closing),
            Item::Pod(id) => self.forget_if_over(&id.uid, out),
        }
    }

    fn forget_if_over(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        if let Some(id) = self.pods.forget_if_over(uid, out) {
            self.retries.clear(&Item::Pod(id));
        }
    }

    /// All that home is to be told of as a link begins.
    pub(super) fn held(&self) -> BTreeSet<Item> {
        let pods = self.pods.iter().map(|pod| Item::Pod(pod.id().clone()));
        self.seen_objects().chain(pods).collect()
    }

    /// What home is told of such an item, which may have gone since.
    pub(super) fn listed(&mut self, item: &Item) -> ToHome {
        let digest = match item {
            // A claim that is being removed is not there for whoever might count on it.
            Item::Object(key) => self.objects.get_mut(key).and_then(|object| {
                let is_going = key.kind == ObjectKind::Claim && object.is_dropped();
                object.listed().filter(|_| !is_going)
            }),
            Item::Pod(id) => match self.pods.get_mut(&id.uid) {
                Some(pod) => return pod.listed(),
                None => None,
            },
        };
        ToHome::Have { item: item.clone(), digest, report: None }
    }

    /// The next thing to tell home of an item, if there is any; it counts as told from then on.
    pub(super) fn statement(&mut self, item: &Item) -> Option<ToHome> {
        match item {
            Item::Object(key) => self.objects.statement(key),
            Item::Pod(id) => self.pods.get_mut(&id.uid)?.statement(),
        }
    }

    fn seen_objects(&self) -> impl Iterator<Item = Item> {
        let seen = self.objects.iter().filter(|(_, object)| object.is_seen());
        seen.map(|(key, _)| Item::Object(key.clone()))
    }
}
