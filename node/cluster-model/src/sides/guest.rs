//! The provider's side of one lease: guest namespaces, and guest objects that are forged, applied,
//! watched and removed.

use std::collections::{BTreeMap, BTreeSet};

use mercato_offload::address::MappedRange;
use mercato_offload::body::{Found, Way};
use mercato_offload::forge::{self, Content, FINALIZER, Gate, GuestContext, KnownGuests, Refusal};
use mercato_offload::guest::{Failure, Input, Observed};
use mercato_offload::key::{Item, ObjectKey, PodId};
use mercato_offload::placement::spec::{GuestNamespace, is_guest_namespace};
use mercato_offload::placement::{self, Capacity, IfAbsent, ProviderTerms, StoredObjects};
use mercato_protocol::contract::Contract;
use mercato_protocol::gate::GuestUid;
use mercato_protocol::resources::Resources;
use serde_json::Value;

use super::watch::{News, Watch};
use super::{Bodies, Client, Lie, Outcome, place};
use crate::{ApiError, Cluster, Key, LOCAL_CLASS};

const CLAIM: &str = "PersistentVolumeClaim";
const KINDS: [&str; 6] = ["Pod", "ConfigMap", "Secret", "Service", "EndpointSlice", CLAIM];

/// What the watches of one lease have told.
#[derive(Debug)]
pub struct GuestSide {
    context: GuestContext,
    /// Guest namespaces that cannot be had, with the reason, by home namespace.
    taken: BTreeMap<String, String>,
    objects: Watch<Observed>,
    capacity: Capacity,
    /// The model has an etcd for each lease, which counts by what is stored as a real one does.
    stored: StoredObjects,
    known: KnownGuests,
    /// The decisions are made from this false fact.
    pub lie: Option<Lie>,
}

impl GuestSide {
    /// Of a lease under this contract, with no guest namespace yet.
    pub fn new(contract: &Contract) -> Self {
        Self {
            context: context(contract),
            taken: BTreeMap::new(),
            objects: Watch::new(&KINDS),
            capacity: Capacity::default(),
            stored: stored(contract),
            known: KnownGuests::default(),
            lie: None,
        }
    }

    /// The ranges of pods that guests may call, from now on.
    pub fn set_ranges(&mut self, ranges: Vec<MappedRange>) {
        self.context.ranges = ranges;
    }

    /// Guest namespaces by home namespace, from now on; makes those that are not there, and
    /// removes those that are none any more, but for one in which something is stored. Another's is not
    /// entered.
    ///
    /// # Errors
    /// Those of [`Cluster::create`] and [`Cluster::delete`].
    pub fn open(
        &mut self,
        client: &mut Client<'_>,
        contract: &Contract,
        namespaces: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        let claims = client.cluster.objects(CLAIM);
        let stored: BTreeSet<String> = claims.map(|(key, _)| key.namespace.clone()).collect();
        let is_over = |name: &str| namespaces.values().all(|wanted| wanted != name);
        self.remove(client, |name| is_over(name) && !stored.contains(name))?;
        let ranges = std::mem::take(&mut self.context.ranges);
        self.context = GuestContext { ranges, ..context(contract) };
        self.stored.begin(contract.id, contract.consumer.cluster, &contract.terms.quantity);
        self.taken.clear();
        for (home, name) in namespaces {
            let spec = GuestNamespace::of(contract, home, name, &[]);
            let key = Key::new("Namespace", "", name);
            if client.cluster.get(&key).is_none() {
                client.cluster.create(client.now, spec.namespace())?;
            }
            match client.cluster.get(&key).map(|found| spec.check(found)) {
                Some(Ok(())) => drop(self.context.namespaces.insert(home.clone(), name.clone())),
                Some(Err(why)) => drop(self.taken.insert(home.clone(), why)),
                None => {}
            }
        }
        Ok(())
    }

    /// Removes the guest namespaces; whether they are gone.
    ///
    /// # Errors
    /// Those of [`Cluster::delete`].
    pub fn close(&self, client: &mut Client<'_>) -> Result<bool, ApiError> {
        self.remove(client, |_| true)
    }

    /// Removes this lease's guest namespaces of these names; whether they are gone.
    fn remove(
        &self,
        client: &mut Client<'_>,
        which: impl Fn(&str) -> bool,
    ) -> Result<bool, ApiError> {
        let (cluster, contract) = (&mut *client.cluster, &self.context.contract);
        let all = cluster.objects("Namespace");
        let ours = all
            .filter(|(key, found)| is_guest_namespace(found, contract, None) && which(&key.name));
        let ours = ours.map(|(key, found)| (key.clone(), found["metadata"].clone()));
        let mut gone = true;
        for (key, metadata) in ours.collect::<Vec<_>>() {
            if metadata["deletionTimestamp"].is_null() {
                cluster.delete(client.now, &key, None, None)?;
            }
            gone &= cluster.get(&key).is_none();
        }
        Ok(gone)
    }

    /// The watch breaks: the next word is a whole list.
    pub fn relist(&mut self) {
        self.objects.relist();
    }

    /// What the watches have to tell.
    pub fn news(&mut self, client: &mut Client<'_>) -> Vec<Input> {
        let Self { context, capacity, known, objects, .. } = self;
        let Client { cluster, bodies, .. } = client;
        let see = |object: &Value| {
            let observed = observe(context, known, object, *bodies)?;
            capacity.note(&observed.item, object);
            Some(observed)
        };
        let news = match objects.look(cluster, see, |a, b| a.item == b.item) {
            News::All(all) => vec![Input::Synced(all)],
            News::Some { gone, changed } => {
                // How a pod was last comes with the word that it is gone.
                let gone = gone.into_iter().flat_map(|one| {
                    let last = one.pod.is_some().then(|| Input::Observed(one.clone()));
                    last.into_iter().chain([Input::Gone(one.item)])
                });
                gone.chain(changed.into_iter().map(Input::Observed)).collect::<Vec<_>>()
            }
        };
        for input in &news {
            if let Input::Gone(item) = input {
                self.forget(item);
            }
        }
        news
    }

    /// It is there no more.
    fn forget(&mut self, item: &Item) {
        self.capacity.release(item);
        if let Item::Pod(pod) = item {
            self.known.forget(pod);
        }
    }

    /// Asks for a guest object; a pod that was made under this uid is known by it.
    pub fn confirm(
        &mut self,
        client: &mut Client<'_>,
        item: &Item,
        uid: Option<GuestUid>,
    ) -> Input {
        if let (Item::Pod(pod), Some(uid)) = (item, uid) {
            self.known.note_uid(pod, uid);
        }
        let Client { cluster, bodies, .. } = client;
        let found = self.place(item).and_then(|key| cluster.get(&key));
        let found = found.and_then(|found| observe(&self.context, &mut self.known, found, *bodies));
        let found = found.filter(|found| found.item == *item);
        if found.is_none() {
            self.forget(item);
        }
        found.map_or(Input::Gone(item.clone()), Input::Observed)
    }

    /// Makes a guest object, or brings it to what is wanted.
    pub fn apply(&mut self, client: &mut Client<'_>, item: Item, content: &Content) -> Input {
        answered(client.outcome, item, |item| self.write(client, item, content, IfAbsent::Create))
    }

    /// The same of a guest pod that is on record as made.
    pub fn make(&mut self, client: &mut Client<'_>, pod: PodId, content: &Content) -> Input {
        let item = Item::Pod(pod);
        answered(client.outcome, item, |item| self.write(client, item, content, IfAbsent::Make))
    }

    /// Brings a guest pod to what is wanted, if it is there.
    pub fn update(&mut self, client: &mut Client<'_>, pod: PodId, content: &Content) -> Input {
        let item = Item::Pod(pod);
        answered(client.outcome, item, |item| self.write(client, item, content, IfAbsent::Leave))
    }

    /// Deletes a guest object, with a grace in seconds; its own, if none.
    pub fn delete(&self, client: &mut Client<'_>, item: Item, grace_s: Option<u32>) -> Input {
        let (now, longest_s) = (client.now, self.context.longest_grace_s);
        answered(client.outcome, item, |item| {
            let (key, present) = self.owned(client.cluster, item)?;
            let own_s = present["spec"]["terminationGracePeriodSeconds"].as_u64();
            let grace_s = placement::deletion_grace_s(grace_s, own_s, longest_s);
            client
                .cluster
                .delete(now, &key, present["metadata"]["uid"].as_str(), grace_s)
                .map_err(failed)
        })
    }

    /// Takes our finalizer off a guest pod.
    pub fn release(&self, client: &mut Client<'_>, pod: PodId) -> Input {
        let now = client.now;
        answered(client.outcome, Item::Pod(pod), |item| {
            let (key, present) = self.owned(client.cluster, item)?;
            let uid = present["metadata"]["uid"].as_str();
            client.cluster.release(now, &key, uid, FINALIZER).map_err(failed)
        })
    }

    fn write(
        &mut self,
        client: &mut Client<'_>,
        item: &Item,
        content: &Content,
        if_absent: IfAbsent,
    ) -> Result<(), Failure> {
        if let Some(reason) = self.taken.get(item.namespace()) {
            let (path, reason) = ("metadata.namespace".to_owned(), reason.clone());
            return Err(Failure::Refused(Refusal { path, reason }));
        }
        let body = match client.bodies.get(&content.digest) {
            Found::Here(body) => body,
            Found::Refused(refusal) => return Err(Failure::Refused(refusal)),
            Found::Missing => return Err(Failure::MissingBody),
        };
        let forged = forge::forge(item, &body, content, &self.context);
        let mut forged = forged.map_err(Failure::Refused)?;
        if if_absent == IfAbsent::Create && forge::is_unkept(item, &forged) {
            return Err(Failure::Unrecorded);
        }
        let present = self.place(item).and_then(|place| client.cluster.get(&place)).cloned();
        self.admit(item, &forged, present.as_ref(), if_absent)?;
        if let Some(present) = &present {
            forged["metadata"]["uid"] = present["metadata"]["uid"].clone();
        }
        let done = client.cluster.apply(client.now, forged);
        match (&done, &present) {
            (Ok(object), _) | (Err(_), Some(object)) => self.capacity.settle(item, object),
            (Err(_), None) => self.capacity.release(item),
        }
        done.map(drop).map_err(failed)
    }

    fn admit(
        &mut self,
        item: &Item,
        forged: &Value,
        present: Option<&Value>,
        if_absent: IfAbsent,
    ) -> Result<(), Failure> {
        let (mut context, mut twisted, nobody);
        let (context, known, present) = match self.lie {
            None | Some(Lie::AllLeaves | Lie::AllIsOpen | Lie::ConsentLasts) => {
                (&self.context, &self.known, present)
            }
            Some(Lie::AllIsOurs) => {
                twisted = present.cloned();
                if let Some(present) = &mut twisted {
                    for marks in ["labels", "annotations"] {
                        present["metadata"][marks] = forged["metadata"][marks].clone();
                    }
                }
                nobody = KnownGuests::default();
                (&self.context, &nobody, twisted.as_ref())
            }
            Some(Lie::RoomIsEndless) => {
                context = self.context.clone();
                context.allocatable.values_mut().for_each(|amount| *amount = "1G".to_owned());
                (&context, &self.known, present)
            }
        };
        let write = placement::decide(context, known, item, present, if_absent)?;
        self.stored.note(&context.contract, self.capacity.bytes());
        self.capacity.claim(item, forged, write, context, &mut self.stored)
    }

    /// An object that is there and this lease's, and its place.
    fn owned(&self, cluster: &Cluster, item: &Item) -> Result<(Key, Value), Failure> {
        let key = self.place(item).ok_or(Failure::Absent)?;
        let owned = placement::owned(&self.context, &self.known, item, cluster.get(&key)).cloned();
        Ok((key, owned.ok_or(Failure::Absent)?))
    }

    fn place(&self, item: &Item) -> Option<Key> {
        let key = self.context.guest_key(&item.key())?;
        place(&ObjectKey { kind: key.kind, namespace: key.namespace, name: key.name })
    }
}

/// Of a cluster that sells to this contract alone.
fn stored(contract: &Contract) -> StoredObjects {
    let mut stored = StoredObjects::default();
    stored.set_bounds(None, Some(Resources::default()));
    stored.begin(contract.id, contract.consumer.cluster, &contract.terms.quantity);
    stored
}

fn context(contract: &Contract) -> GuestContext {
    // The model's kubelets let every guest through at once.
    let gate = Gate { image: Some("mercato".to_owned()), ..Gate::default() };
    let storage_class = Some(LOCAL_CLASS.to_owned());
    let provider = ProviderTerms { gate, storage_class, ..ProviderTerms::default() };
    placement::guest_context(contract, BTreeMap::new(), provider)
}

/// Performs a write, unless it is to fail.
fn answered(
    outcome: Outcome,
    item: Item,
    write: impl FnOnce(&Item) -> Result<(), Failure>,
) -> Input {
    if outcome == Outcome::Fails {
        return Input::NotWritten(item, Failure::Transient);
    }
    match write(&item) {
        Ok(()) if outcome == Outcome::Answered => Input::Written(item),
        Ok(()) => Input::NotWritten(item, Failure::Unanswered),
        Err(failure) => Input::NotWritten(item, failure),
    }
}

fn failed(error: ApiError) -> Failure {
    forge::classify(&error.status())
}

/// A guest object of a lease; a pod's status is kept, to be sent home.
fn observe(
    context: &GuestContext,
    known: &mut KnownGuests,
    object: &Value,
    bodies: &mut dyn Bodies,
) -> Option<Observed> {
    let observed = forge::observe(context, known, object)?;
    known.note(&observed.item, object);
    if observed.pod.is_some() {
        bodies.keep(Way::ToHome, &observed.item, &forge::guest_status(object)).ok()?;
    }
    Some(observed)
}
