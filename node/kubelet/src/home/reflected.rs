//! The Services of a namespace that pods leave, and where their pods are, as the session of a
//! lease hears of them: whole once both are known, and then each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_offload::address::MappedRange;
use mercato_offload::body::Way;
use mercato_offload::forge::told::Note;
use mercato_offload::forge::{Refusal, Slice};
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey, ObjectKind, key};
use mercato_offload::placement::export::{Crossing, Destinations, REFUSED, service_of};
use mercato_protocol::id::Digest;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::apiserver::watch::Change;
use crate::bodies::Bodies;

/// What becomes of endpoints that guests do not know, after how many there are.
const LEFT_OUT: &str = "left out over there: guests reach pods of this cluster's pod network, and \
    guests of contracts, as far as their provider takes ranges of addresses (64)";

/// By which ranges the guests of a lease know pods: home's, and each other.
pub(super) type Ranges = watch::Receiver<Vec<MappedRange>>;

/// Where the Services of open namespaces lead, by namespace.
pub(super) type Leads = watch::Sender<BTreeMap<String, Arc<Destinations>>>;

/// The way to the session of a lease.
#[derive(Clone)]
pub(super) struct Reflection {
    pub(super) bodies: Bodies,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) ranges: Ranges,
    /// Takes where Services of open namespaces lead.
    pub(super) leads: Leads,
    /// What guests do not have of a Service.
    pub(super) notes: Notes,
    /// Tells the owner of a Service, or of a slice, what guests do not know of it.
    pub(super) left_out: LeftOut,
}

/// Takes a Service as it is at home.
pub(super) type Notes = Arc<dyn Fn(&Value) -> Vec<Note> + Send + Sync>;

/// Takes a Service, or a slice, and what is left out of it.
pub(super) type LeftOut = Arc<dyn Fn(ObjectKey, Vec<Note>) + Send + Sync>;

/// What the session knows of one namespace.
pub(super) struct Reflected {
    to: Reflection,
    namespace: String,
    crossing: Crossing,
    /// Of what would be sent.
    told: BTreeMap<ObjectKey, Digest>,
    /// As they are at home: with other ranges something else is sent. Bounded as what an API server
    /// holds of a namespace.
    slices: BTreeMap<String, Value>,
    /// Services of which guests do not know all endpoints, as it was looked at last.
    left_out: BTreeMap<String, Missed>,
    /// What owners were told of Services that are there. Bounded as those.
    noted: BTreeMap<String, Vec<Note>>,
    /// Whether the first list of each kind has come.
    listed: BTreeMap<ObjectKind, bool>,
}

/// So many endpoints of a Service are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missed {
    endpoints: usize,
    is_told: bool,
}

impl Reflected {
    pub(super) fn new(to: Reflection, namespace: &str, crossing: Crossing) -> Self {
        let listed = [ObjectKind::Service, ObjectKind::EndpointSlice].map(|kind| (kind, false));
        Self {
            to,
            namespace: namespace.to_owned(),
            crossing,
            told: BTreeMap::new(),
            slices: BTreeMap::new(),
            left_out: BTreeMap::new(),
            noted: BTreeMap::new(),
            listed: listed.into(),
        }
    }

    /// This became of Services of the namespace.
    pub(super) async fn on_services(&mut self, change: &Change<(String, Value)>) {
        let sent =
            |(name, service): &(String, Value)| (name.clone(), self.crossing.service(service));
        match change {
            Change::Synced(all) => {
                let all = all.iter().map(sent).collect();
                self.list(ObjectKind::Service, all).await;
            }
            Change::Changed(one) => {
                let (name, sent) = sent(one);
                self.tell(ObjectKind::Service, &name, sent).await;
            }
            Change::Deleted((name, _)) => self.tell(ObjectKind::Service, name, None).await,
        }
    }

    /// This became of slices of their endpoints.
    pub(super) async fn on_slices(&mut self, change: Change<(String, Value)>) {
        match change {
            Change::Synced(all) => {
                self.slices = all.into_iter().collect();
                let all = self.slices.iter().map(|(name, slice)| (name.clone(), self.sent(slice)));
                let all = all.collect();
                self.lead();
                self.list(ObjectKind::EndpointSlice, all).await;
            }
            Change::Changed((name, slice)) => {
                let sent = self.sent(&slice);
                self.slices.insert(name.clone(), slice);
                self.lead();
                self.tell(ObjectKind::EndpointSlice, &name, sent).await;
            }
            Change::Deleted((name, _)) => {
                self.slices.remove(&name);
                self.lead();
                self.tell(ObjectKind::EndpointSlice, &name, None).await;
            }
        }
    }

    /// Guests know pods by other ranges now.
    pub(super) async fn on_ranges(&mut self) {
        let all: Vec<_> =
            self.slices.iter().map(|(name, slice)| (name.clone(), self.sent(slice))).collect();
        for (name, sent) in all {
            self.tell(ObjectKind::EndpointSlice, &name, sent).await;
        }
    }

    /// Something else of the namespace crosses from now on; these are all of its Services.
    pub(super) async fn on_crossing(
        &mut self,
        crossing: Crossing,
        services: &BTreeMap<String, Value>,
    ) {
        if self.crossing == crossing {
            return;
        }
        self.crossing = crossing;
        self.lead();
        let sent = |(name, it): (&String, &Value)| (name.clone(), self.crossing.service(it));
        let of_services: Vec<_> = services.iter().map(sent).collect();
        let sent = |(name, slice): (&String, &Value)| (name.clone(), self.sent(slice));
        let of_slices: Vec<_> = self.slices.iter().map(sent).collect();
        self.take(ObjectKind::Service, of_services);
        self.take(ObjectKind::EndpointSlice, of_slices);
        self.say_all().await;
    }

    /// Nothing of the namespace is followed any more.
    pub(super) async fn end(self) {
        let namespace = self.namespace.clone();
        self.say(Input::Services { namespace, objects: BTreeMap::new() }).await;
    }

    fn sent(&self, slice: &Value) -> Option<Value> {
        self.exported(slice).map(|slice| slice.sent)
    }

    fn exported(&self, slice: &Value) -> Option<Slice> {
        self.crossing.slice(slice, &self.to.ranges.borrow())
    }

    /// Says where those Services lead that guests may call though no pod of the namespace is with them.
    fn lead(&self) {
        let all = self.crossing.leads(&self.namespace, self.slices.values());
        self.to.leads.send_if_modified(|leads| {
            let before = leads.remove(&self.namespace);
            let now = (!all.is_empty()).then(|| Arc::new(all));
            leads.extend(now.clone().map(|now| (self.namespace.clone(), now)));
            before != now
        });
    }

    /// Tells owners what guests do not have of these Services, all of the namespace's.
    pub(super) fn look_for_left_out(&mut self, services: &BTreeMap<String, Value>) {
        // Without a tunnel guests know no ranges, and no Service is over there.
        if self.to.ranges.borrow().is_empty() {
            return;
        }
        self.look_at_endpoints();
        let services = services.iter().filter(|(name, _)| self.crossing.has(name));
        let notes = |(name, service): (&String, &Value)| (name.clone(), (self.to.notes)(service));
        let now: BTreeMap<_, _> = services.map(notes).collect();
        let before = std::mem::replace(&mut self.noted, now);
        for (service, notes) in &self.noted {
            let known = before.get(service);
            let is_new = |note: &&Note| known.is_none_or(|known| !known.contains(note));
            let news: Vec<_> = notes.iter().filter(is_new).cloned().collect();
            if !news.is_empty() {
                (self.to.left_out)(key(ObjectKind::Service, &self.namespace, service), news);
            }
        }
    }

    /// Tells owners how many endpoints guests do not know, where that was so the last time, too: a
    /// range that is new is known a moment later.
    fn look_at_endpoints(&mut self) {
        let mut now: BTreeMap<String, usize> = BTreeMap::new();
        for slice in self.slices.values() {
            let left_out = self.exported(slice).map_or(0, |sent| sent.left_out);
            if left_out > 0 {
                *now.entry(service_of(slice).to_owned()).or_default() += left_out;
            }
        }
        let before = std::mem::take(&mut self.left_out);
        for (service, endpoints) in now {
            let known = before.get(&service).filter(|known| known.endpoints == endpoints);
            if known.is_some_and(|known| !known.is_told) {
                let key = key(ObjectKind::Service, &self.namespace, &service);
                let reason = format!("{endpoints} {LEFT_OUT}");
                let refusal = Refusal { path: "endpoints".to_owned(), reason };
                (self.to.left_out)(key, vec![Note::refused(REFUSED, refusal)]);
            }
            self.left_out.insert(service, Missed { endpoints, is_told: known.is_some() });
        }
    }

    /// These are all of a kind.
    async fn list(&mut self, kind: ObjectKind, all: Vec<(String, Option<Value>)>) {
        self.take(kind, all);
        self.listed.insert(kind, true);
        self.say_all().await;
    }

    /// Keeps what would be sent of all of a kind, and nothing else of it.
    fn take(&mut self, kind: ObjectKind, all: Vec<(String, Option<Value>)>) {
        let before: Vec<_> = self.told.keys().filter(|key| key.kind == kind).cloned().collect();
        let mut now = BTreeSet::new();
        for (name, sent) in all {
            let key = key(kind, &self.namespace, &name);
            self.keep(&key, sent);
            now.insert(key);
        }
        for gone in before.iter().filter(|key| !now.contains(*key)) {
            self.keep(gone, None);
        }
    }

    /// Says all there are, if both kinds are known.
    async fn say_all(&self) {
        if self.is_listed() {
            let objects = self.told.iter().map(|(key, digest)| (key.clone(), *digest)).collect();
            self.say(Input::Services { namespace: self.namespace.clone(), objects }).await;
        }
    }

    async fn tell(&mut self, kind: ObjectKind, name: &str, sent: Option<Value>) {
        let key = key(kind, &self.namespace, name);
        if self.keep(&key, sent) && self.is_listed() {
            let digest = self.told.get(&key).copied();
            self.say(Input::Object { key, digest }).await;
        }
    }

    fn is_listed(&self) -> bool {
        self.listed.values().all(|listed| *listed)
    }

    /// Keeps what would be sent. Whether it is something else than before.
    fn keep(&mut self, key: &ObjectKey, sent: Option<Value>) -> bool {
        let item = Item::Object(key.clone());
        let kept = sent.map(|sent| self.to.bodies.keep(Way::ToGuest, &item, &sent));
        let digest = match kept {
            Some(Ok(digest)) => Some(digest),
            Some(Err(refusal)) => {
                (self.to.left_out)(key.clone(), vec![Note::refused(REFUSED, refusal)]);
                None
            }
            None => None,
        };
        let before = match digest {
            Some(digest) => self.told.insert(key.clone(), digest),
            None => self.told.remove(key),
        };
        if digest.is_none() && before.is_some() {
            self.to.bodies.forget(&item);
        }
        before != digest
    }

    /// Waits where the session is behind. An error means that it has gone, and this side with it.
    async fn say(&self, input: Input) {
        let _ = self.to.inputs.send(input).await;
    }
}

impl Drop for Reflected {
    fn drop(&mut self) {
        self.to.leads.send_if_modified(|leads| leads.remove(&self.namespace).is_some());
        for key in self.told.keys() {
            self.to.bodies.forget(&Item::Object(key.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
