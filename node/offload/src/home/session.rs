//! One lease, seen from home.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use mercato_protocol::id::Digest;
use mercato_protocol::time::{Deadline, Now};

use super::book::Addresses;
use super::pod::Pod;
use super::{Config, Effect, HomePod, Input, Record, Write};
use crate::address::Tunnel;
use crate::channel::Channel;
use crate::key::{Item, ObjectKey, Uid};
use crate::limits;
use crate::message::{Refusal, Route, ToGuest};
use crate::retry::Retries;

/// Home's side of one lease.
///
/// Invariants: nothing is said or removed before both the list of pods and the
/// provider's own list have come; a pod is gone only if the API server says so of its
/// uid; the grace-0 deletion of a pod waits for the provider's word that it is over.
#[derive(Debug)]
pub struct HomeSession {
    pub(super) config: Config,
    pub(super) channel: Channel<ToGuest>,
    /// The list of pods at home has come.
    pub(super) synced: bool,
    /// The provider's list has come, on this link.
    pub(super) resynced: bool,
    pub(super) pods: BTreeMap<Uid, Pod>,
    pub(super) objects: BTreeMap<ObjectKey, Object>,
    /// What the provider listed so far, on this link.
    pub(super) listed: BTreeSet<Item>,
    /// What there may be something to say about.
    pub(super) unsaid: BTreeSet<Item>,
    pub(super) retries: Retries<Uid>,
    pub(super) tunnel: Tunnel,
    pub(super) addresses: Addresses,
}

/// Anything but a pod.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// Pods that refer to it.
    pub(super) users: BTreeSet<Uid>,
    /// Whether it is there at home, and with what content; none before that is known.
    pub(super) current: Option<Option<Digest>>,
    /// What the provider holds.
    pub(super) told: Option<Digest>,
}

impl HomeSession {
    /// A session as its records have it; pods and statuses come from both sides again.
    pub fn restore(config: Config, records: impl IntoIterator<Item = Record>) -> Self {
        let mut epoch = 0;
        let mut pods: BTreeMap<Uid, Pod> = BTreeMap::new();
        let mut addresses = Addresses::default();
        for record in records {
            match record {
                Record::Epoch(last) => epoch = last,
                Record::Tombstone(id) => {
                    pods.entry(id.uid.clone()).or_insert_with(|| Pod::new(id)).gone = true;
                }
                Record::Address(id, address) => {
                    addresses.restore(address, id.uid.clone());
                    let pod = pods.entry(id.uid.clone()).or_insert_with(|| Pod::new(id));
                    pod.address = Some(address);
                }
            }
        }
        Self {
            config,
            channel: Channel::new(epoch),
            synced: false,
            resynced: false,
            pods,
            objects: BTreeMap::new(),
            listed: BTreeSet::new(),
            unsaid: BTreeSet::new(),
            retries: Retries::default(),
            tunnel: Tunnel::Off,
            addresses,
        }
    }

    /// When to be woken.
    pub fn wakeup(&self) -> Option<Deadline> {
        let deadlines = [self.channel.deadline_ms(), self.retries.next()];
        deadlines.into_iter().flatten().min().map(Deadline::Mono)
    }

    /// Whether every pod and object is as it should be at both ends, and nothing is under way.
    pub fn is_settled(&self) -> bool {
        let quiet = |pod: &Pod| pod.writing.is_none() && !pod.gone && !pod.is_unknown();
        self.unsaid.is_empty() && self.retries.next().is_none() && self.pods.values().all(quiet)
    }

    /// Pods at home that are, or are to be, at the provider.
    pub fn pods(&self) -> usize {
        self.pods.values().filter(|pod| !pod.gone && !pod.is_over()).count()
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::LinkUp => {
                let (epoch, greeting) = self.channel.link_up(now.mono_ms);
                self.resynced = false;
                out.push(Effect::Persist(Record::Epoch(epoch)));
                out.push(Effect::Send(greeting));
            }
            Input::LinkDown => {
                self.channel.link_down();
                self.resynced = false;
            }
            Input::Frame(frame) => self.on_frame(now, frame, &mut out),
            Input::Synced(pods) => self.on_synced(pods, &mut out),
            Input::Pod(pod) => self.on_pod(pod, &mut out),
            Input::PodGone(uid) => self.on_pod_gone(&uid, &mut out),
            Input::Overwritten(uid) => self.on_overwritten(&uid, &mut out),
            Input::Object { key, digest } => self.on_object(key, digest),
            Input::Written(uid) => self.on_written(&uid, &mut out),
            Input::NotWritten { uid, missing } => {
                self.on_not_written(now, &uid, missing, &mut out);
            }
            Input::Carried(pod, address, done) => self.on_carried(&pod, address, done, &mut out),
            Input::SecondCarried(pod, address, second) => {
                self.on_second_carried(&pod, address, second, &mut out);
            }
            Input::Tunnel(tunnel) => self.on_tunnel(tunnel, &mut out),
            Input::Wake => self.on_wake(now, &mut out),
        }
        self.speak(now, &mut out);
        out
    }

    fn on_synced(&mut self, pods: Vec<HomePod>, out: &mut Vec<Effect>) {
        self.synced = true;
        let present: BTreeSet<Uid> = pods.iter().map(|pod| pod.pod.uid.clone()).collect();
        for pod in pods {
            self.on_pod(pod, out);
        }
        let missing = |pod: &&Pod| !pod.gone && !present.contains(&pod.id.uid);
        let missing = self.pods.values().filter(missing);
        out.extend(missing.map(|pod| Effect::Confirm(pod.id.clone())));
    }

    fn on_pod(&mut self, mut seen: HomePod, out: &mut Vec<Effect>) {
        let uid = seen.pod.uid.clone();
        if !self.pods.contains_key(&uid) && self.pods.len() >= limits::PODS {
            let reason = "the lease holds as many pods as it may".to_owned();
            let refusal = Refusal { path: String::new(), reason };
            out.push(Effect::Write(seen.pod, Write::Refusal(refusal)));
            return;
        }
        let pod = self
            .pods
            .entry(uid.clone())
            .or_insert_with(|| Pod { known_there: !self.resynced, ..Pod::new(seen.pod.clone()) });
        if pod.gone {
            return; // a list that is older than the deletion
        }
        if seen.refusal.is_none() {
            seen.refusal = self.config.refuse(&seen);
        }
        let was_unknown = pod.is_unknown();
        // A phase that was terminal stays so, whatever an older object says.
        seen.terminal |= pod.seen.as_ref().is_some_and(|before| before.terminal);
        self.unsaid.insert(Item::Pod(seen.pod.clone()));
        if pod.seen.as_ref().is_some_and(|before| before.gates != seen.gates) {
            // Whether it is ready follows from the gates, too.
            pod.make_status_again();
        }
        if pod.report.is_none()
            && pod.seen.as_ref().is_some_and(|before| before.place != seen.place)
        {
            // Perhaps it waits for a namespace that the provider cannot give it.
            pod.told.put = None;
        }
        pod.seen = Some(seen);
        self.mind_needs(&uid, out);
        if was_unknown {
            self.mind_unused();
        }
        self.write(&uid, out);
    }

    fn on_overwritten(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.make_status_again();
            self.write(uid, out);
        }
    }

    fn on_pod_gone(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| !pod.gone) else { return };
        pod.gone = true;
        pod.writing = None;
        self.retries.clear(uid);
        if pod.known_there {
            out.push(Effect::Persist(Record::Tombstone(pod.id.clone())));
            self.unsaid.insert(Item::Pod(pod.id.clone()));
        } else {
            self.remove(uid, out);
        }
        self.mind_unused();
    }

    fn on_object(&mut self, key: ObjectKey, digest: Option<Digest>) {
        if let Some(object) = self.objects.get_mut(&key) {
            object.current = Some(digest);
            self.unsaid.insert(Item::Object(key));
        }
    }

    fn on_written(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(write) = pod.writing.take() else { return };
        let stale = mem::take(&mut pod.stale);
        if let (Write::Status { outcome: Some(_), .. }, Some(seen)) = (&write, &mut pod.seen) {
            seen.terminal = true;
            self.unsaid.insert(Item::Pod(pod.id.clone()));
        }
        pod.written = Some(write).filter(|_| !stale);
        self.retries.clear(uid);
        self.mind_needs(uid, out);
        self.write(uid, out);
    }

    fn on_not_written(&mut self, now: Now, uid: &Uid, missing: bool, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(write) = pod.writing.take() else { return };
        pod.stale = false;
        if missing && pod.has_status && pod.write(self.tunnel).is_some_and(|next| next != write) {
            // Another status has come since, and those bytes are no longer kept.
            return self.write(uid, out);
        }
        if missing {
            pod.has_status = false;
            pod.told.want = false;
            self.unsaid.insert(Item::Pod(pod.id.clone()));
        }
        self.retries.back_off(now.mono_ms, uid);
    }

    fn on_wake(&mut self, now: Now, out: &mut Vec<Effect>) {
        let mut frames = Vec::new();
        self.channel.wake(now.mono_ms, &mut frames);
        out.extend(frames.into_iter().map(Effect::Send));
        for uid in self.retries.due(now.mono_ms) {
            self.write(&uid, out);
        }
    }

    pub(super) fn write(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        // Whether it is to wait for an address shows once it has had its chance of one.
        self.call(uid, out);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if self.retries.waits(uid) {
            return;
        }
        if let Some(write) = pod.write(self.tunnel) {
            pod.writing = Some(write.clone());
            out.push(Effect::Write(pod.id.clone(), write));
        }
    }

    /// Keeps the users of each object in step with what the pod refers to.
    pub(super) fn mind_needs(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let needs: BTreeSet<ObjectKey> = pod.needs().iter().take(limits::NEEDS).cloned().collect();
        let before = mem::replace(&mut pod.uses, needs.clone());
        for key in before.difference(&needs) {
            let Some(object) = self.objects.get_mut(key) else { continue };
            object.users.remove(uid);
            if object.users.is_empty() {
                object.current = None;
                out.push(Effect::Unwatch(key.clone()));
                self.unsaid.insert(Item::Object(key.clone()));
            }
        }
        for key in needs.difference(&before) {
            if self.objects.len() >= limits::OBJECTS && !self.objects.contains_key(key) {
                continue;
            }
            let object = self.objects.entry(key.clone()).or_default();
            if object.users.is_empty() {
                out.push(Effect::Watch(key.clone()));
            }
            object.users.insert(uid.clone());
        }
    }

    /// While a pod is neither known nor known to be gone, what it may need is kept; after
    /// that, it is looked at again.
    pub(super) fn mind_unused(&mut self) {
        let unused = self.objects.iter().filter(|(_, object)| object.users.is_empty());
        self.unsaid.extend(unused.map(|(key, _)| Item::Object(key.clone())));
    }

    pub(super) fn remove(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        self.uncall(uid, out);
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.seen = None;
        }
        self.mind_needs(uid, out);
        self.pods.remove(uid);
        self.retries.clear(uid);
    }
}

impl Config {
    /// How a pod or an object of ours, or one that came here, goes on its way.
    pub(super) fn route(&self, came: Option<&Route>) -> Route {
        match came {
            None => Route { origin: self.cluster, path: vec![self.cluster], hops: self.hops },
            Some(came) => {
                let mut path = came.path.clone();
                path.push(self.cluster);
                Route { origin: came.origin, path, hops: came.hops.saturating_sub(1) }
            }
        }
    }

    fn refuse(&self, seen: &HomePod) -> Option<Refusal> {
        let came = seen.route.as_ref()?;
        let reason = if came.path.contains(&self.provider) || came.path.contains(&self.cluster) {
            "the pod has been there before"
        } else if came.hops == 0 || came.path.len() >= limits::PATH_CLUSTERS {
            "the pod has come from another cluster and may go no further"
        } else {
            return None;
        };
        Some(Refusal { path: String::new(), reason: format!("{reason}: {came}") })
    }
}
