//! What of home is, or is to be, at the provider: the pods that leave home, and the objects that go
//! with them. What the provider is told of them waits in the outbox.

mod said;

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use super::claims::Claims;
use super::objects::{Certain, Objects, open_place};
use super::pod::{Pod, new_uses};
use super::pods::Pods;
use super::waiting::Waiting;
use super::watched::Watched;
use super::way::{Ways, Word};
use super::{Config, Effect, HomePod, LeftOut, Record, RecordKey, Write};
use crate::address::Tunnel;
use crate::key::{Item, ObjectKey, ObjectKind, PodId, Uid};
use crate::limits;
use crate::message::{Refusal, Route, ToGuest};
use crate::output::Output;

/// The pods and objects of one lease.
///
/// Invariants: a pod is gone only if the API server says so of its uid; the grace-0 deletion of a
/// pod waits for the provider's word that it is over.
#[derive(Debug)]
pub(super) struct Exports {
    config: Config,
    /// The list of pods at home has come.
    synced: bool,
    pods: Pods,
    watched: Watched,
    waiting: Waiting,
    objects: Objects,
    /// What home wishes for claims is said to them alone.
    pub(in crate::home) claims: Claims,
}

impl Exports {
    pub(super) fn new(config: Config) -> Self {
        let (pods, watched, waiting, objects, claims) = Default::default();
        Self { config, synced: false, pods, watched, waiting, objects, claims }
    }

    /// How it is with the way to the provider.
    pub(super) fn ways(&self) -> &Ways {
        self.pods.ways()
    }

    /// Something is heard of that way, or is not.
    pub(super) fn hear(&mut self, word: Word, out: &mut Output<Effect>) {
        self.pods.hear(word, out);
        if word == Word::Packets {
            self.objects.mind_all(out);
        }
    }

    /// A pod that was removed at home, as a record has it.
    pub(super) fn restore_tombstone(&mut self, id: PodId) {
        self.pods.restore_tombstone(id);
    }

    /// The address of a pod, likewise.
    pub(super) fn restore_address(&mut self, id: PodId, address: IpAddr) {
        self.pods.restore_address(id, address);
    }

    /// The list of pods at home has come.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Nothing is under way at home, and nothing waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.pods.is_quiet()
    }

    /// Pods at home that are, or are to be, at the provider.
    pub(super) fn count(&self) -> usize {
        self.pods.iter().filter(|pod| !pod.is_gone() && !pod.is_over()).count()
    }

    /// Services that are not at the provider, since their namespaces have more than it takes.
    pub(super) fn left_out(&self) -> &BTreeMap<String, LeftOut> {
        self.objects.left_out()
    }

    /// When a write is tried again, in ms of the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        [self.pods.next_ms(), self.waiting.deadline_ms()].into_iter().flatten().min()
    }

    /// The list of pods at home. The provider may hold one that is new here, or certainly not.
    pub(super) fn on_synced(
        &mut self,
        pods: Vec<HomePod>,
        may_be_there: bool,
        out: &mut Output<Effect>,
    ) {
        self.synced = true;
        self.watched.tells_of_all(pods.iter().map(|pod| pod.pod.uid.clone()).collect());
        for pod in pods {
            self.on_pod(pod, may_be_there, out);
        }
        let missing = |pod: &&Pod| !pod.is_gone() && !self.watched.contains(&pod.id().uid);
        let missing = self.pods.iter().filter(missing);
        out.extend(missing.map(|pod| Effect::Confirm(pod.id().clone())));
    }

    /// A pod is so at home; the same of the provider.
    pub(super) fn on_pod(
        &mut self,
        mut seen: HomePod,
        may_be_there: bool,
        out: &mut Output<Effect>,
    ) {
        let uid = seen.pod.uid.clone();
        if !self.watched.tells_of(&uid) {
            return; // the watch is behind
        }
        let is_new = !self.pods.has(&uid);
        if is_new && self.pods.is_full() {
            let reason = "the lease holds as many pods as it may".to_owned();
            let refusal = Refusal { path: String::new(), reason };
            out.push(Effect::Write(seen.pod, Write::Refusal(refusal)));
            return;
        }
        let pod = self.pods.entry(seen.pod.clone());
        if is_new && !may_be_there {
            pod.on_not_listed();
        }
        if pod.is_gone() {
            return; // a list that is older than the deletion
        }
        if seen.refusal.is_none() {
            seen.refusal = self.config.refuse(&seen);
        }
        let was_unknown = pod.is_unknown();
        out.changed(Item::Pod(seen.pod.clone()));
        pod.on_seen(seen);
        self.mind_needs(&uid, out);
        if was_unknown {
            self.objects.mind_unused(out);
        }
        self.pods.write(&uid, out);
    }

    /// Somebody else has written over the pod's status.
    pub(super) fn on_overwritten(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.make_status_again();
            self.pods.write(uid, out);
        }
    }

    /// The watch says that the pod is not there any more.
    pub(super) fn on_pod_gone(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        self.watched.has_ended(uid);
        self.on_gone(uid, out);
    }

    /// The API server was asked for the pod, and says that it is not there.
    pub(super) fn on_pod_missing(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        self.watched.is_missing(uid);
        self.on_gone(uid, out);
    }

    fn on_gone(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| !pod.is_gone()) else { return };
        pod.on_gone();
        let (id, is_known_there) = (pod.id().clone(), pod.is_known_there());
        self.pods.stop_waiting(uid);
        if is_known_there {
            out.push(Effect::Persist(Record::Tombstone(id.clone())));
            out.changed(Item::Pod(id));
        } else {
            self.remove(uid, out);
        }
        self.objects.mind_unused(out);
    }

    /// A watched object is there with this content, or is certainly not there.
    pub(super) fn on_object(
        &mut self,
        key: ObjectKey,
        digest: Option<Digest>,
        out: &mut Output<Effect>,
    ) {
        for uid in self.objects.users_in_vain(&key) {
            let pod = self.pods.get(uid);
            pod.into_iter().for_each(|pod| out.changed(Item::Pod(pod.id().clone())));
        }
        self.objects.on_current(key, digest, out);
    }

    /// These are all Services of a namespace, and where their pods are.
    pub(super) fn on_services(
        &mut self,
        namespace: &str,
        all: BTreeMap<ObjectKey, Digest>,
        out: &mut Output<Effect>,
    ) {
        self.objects.on_services(namespace, all, out);
    }

    /// The write that was under way succeeded.
    pub(super) fn on_written(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        if self.pods.on_written(uid, out).is_some() {
            self.mind_needs(uid, out);
            self.pods.write(uid, out);
        }
    }

    /// It failed for now, perhaps since the bytes of the guest's status are not here.
    pub(super) fn on_not_written(
        &mut self,
        now: Now,
        uid: &Uid,
        missing: bool,
        out: &mut Output<Effect>,
    ) {
        self.pods.on_not_written(now, uid, missing, out);
    }

    /// How it is with the tunnel to the provider.
    pub(super) fn on_tunnel(&mut self, tunnel: Tunnel, out: &mut Output<Effect>) {
        self.pods.on_tunnel(tunnel, out);
        self.objects.mind_namespaces(out);
    }

    /// Packets for this pod go to the provider by this address, or cannot.
    pub(super) fn on_carried(
        &mut self,
        id: &PodId,
        address: IpAddr,
        done: bool,
        out: &mut Output<Effect>,
    ) {
        let pod = self.pods.named(id);
        if pod.is_some_and(|pod| pod.address().on_carried(address, done)) {
            self.pods.write(&id.uid, out);
        }
    }

    /// The same of the second family, for the pod of this address.
    pub(super) fn on_second_carried(
        &mut self,
        id: &PodId,
        address: IpAddr,
        second: Option<IpAddr>,
        out: &mut Output<Effect>,
    ) {
        let pod = self.pods.named(id);
        if pod.is_some_and(|pod| pod.address().on_second_carried(address, second)) {
            self.pods.write(&id.uid, out);
        }
    }

    /// Writes what could not be written earlier.
    pub(super) fn wake(&mut self, now: Now, out: &mut Output<Effect>) {
        self.pods.wake(now, out);
        for uid in self.waiting.due(now) {
            let pod = self.pods.get(&uid);
            pod.into_iter().for_each(|pod| out.changed(Item::Pod(pod.id().clone())));
        }
    }

    /// The next thing to tell the provider of an item, if there is any; it counts as told from
    /// then on.
    pub(super) fn statement(
        &mut self,
        now: Now,
        item: &Item,
        out: &mut Output<Effect>,
    ) -> Option<ToGuest> {
        match item {
            Item::Object(key) if key.kind == ObjectKind::Claim => {
                self.claims.statement(key, &self.config)
            }
            Item::Object(key) => self.object_statement(key),
            Item::Pod(id) => self.pod_statement(now, &id.uid, out),
        }
    }

    /// A new pod waits as long as it is not known whether it has an address, which it begins with.
    fn pod_statement(&mut self, now: Now, uid: &Uid, out: &mut Output<Effect>) -> Option<ToGuest> {
        self.pods.call(uid, out);
        let tunnel = self.pods.tunnel();
        let pod = self.pods.get_mut(uid)?;
        let lacks = new_uses(pod).is_some_and(|uses| self.objects.are_awaited(uses));
        let waits = self.waiting.is_to_wait(now, uid, lacks) || tunnel == Tunnel::Awaited;
        let mut statement = pod.statement(&self.config, waits);
        if statement.is_none() && tunnel.is_agreed() {
            statement = pod.address_statement();
        }
        let statement = statement?;
        if matches!(statement, ToGuest::Forget(_)) {
            out.push(Effect::Erase(RecordKey::Tombstone(uid.clone())));
            self.remove(uid, out);
        }
        Some(statement)
    }

    fn object_statement(&mut self, key: &ObjectKey) -> Option<ToGuest> {
        // That no packet of theirs comes here is for home alone: guests reach each other as before.
        if key.kind == ObjectKind::EndpointSlice && self.pods.ways().is_apart() {
            return None;
        }
        let pods = &self.pods;
        let certain = Certain {
            is_tunnel_agreed: pods.tunnel().is_agreed(),
            is_any_pod_unknown: || pods.iter().any(Pod::is_unknown),
        };
        let next = self.objects.next(key, certain)?;
        let Some(digest) = next else { return Some(ToGuest::Drop(key.clone())) };
        let (item, route) = (Item::Object(key.clone()), self.config.route(None));
        let user = self.objects.user(key).and_then(|uid| pods.get(uid)?.seen());
        let place = match user {
            Some(user) => user.place.clone(),
            None => open_place(&self.objects, &key.namespace),
        };
        Some(ToGuest::Put { item, digest, route, place })
    }

    /// Keeps the users of each object in step with what the pod refers to.
    fn mind_needs(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let (before, needs) = pod.renew_uses();
        let new: Vec<_> = needs.difference(&before).cloned().collect();
        self.objects.set_needs(uid, &before, needs, out);
        self.objects.set_leaving(pod.id(), pod.leaves(), out);
        for (key, refusal) in self.objects.refused(new.iter()) {
            self.tell_user(uid, key, refusal, out);
        }
    }

    fn remove(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        self.pods.uncall(uid, out);
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.on_removed();
        }
        self.mind_needs(uid, out);
        self.waiting.end(uid);
        self.pods.remove(uid);
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

/// These namespaces are open, with what their guest namespaces are to be called.
pub(super) fn on_open(
    exports: &mut Exports,
    namespaces: BTreeMap<String, Option<String>>,
    out: &mut Output<Effect>,
) {
    exports.objects.on_open(namespaces, out);
}
