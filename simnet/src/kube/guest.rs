//! The provider's side of one lease: guest objects forged, applied, watched and removed.

use std::collections::BTreeMap;

use mercato_agent::GuestWork;
use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_offload::forge::labels::CONTRACT;
use mercato_offload::forge::{self, FINALIZER, GuestContext};
use mercato_offload::guest::{Failure, Input, Observed};
use mercato_offload::key::{Item, ObjectKind};
use mercato_offload::message::Route;
use mercato_offload::placement::{self, Capacity, IfAbsent, ProviderTerms};
use mercato_protocol::contract::Contract;
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::watch::{News, Watch};
use super::{Bodies, Luck};

/// Label of a guest namespace: the home namespace that it stands for.
const HOME: &str = "mercato.dev/home-namespace";

/// What the watches of one lease have told.
#[derive(Debug)]
pub(crate) struct GuestSide {
    context: GuestContext,
    objects: Watch<Observed>,
    capacity: Capacity,
}

impl GuestSide {
    pub(crate) fn new(contract: &Contract) -> Self {
        Self {
            context: placement::guest_context(contract, BTreeMap::new(), ProviderTerms::default()),
            objects: Watch::new(&["Pod", "ConfigMap", "Secret"]),
            capacity: Capacity::default(),
        }
    }

    /// Guest namespaces by home namespace, from now on; makes those that are not there, and
    /// removes those that are none any more. Another's is not entered.
    pub(crate) fn open(
        &mut self,
        cluster: &mut Cluster,
        now: Now,
        contract: &Contract,
        namespaces: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        self.remove(cluster, now, |name| namespaces.values().all(|wanted| wanted != name))?;
        self.context =
            placement::guest_context(contract, BTreeMap::new(), ProviderTerms::default());
        for (home, name) in namespaces {
            let labels = json!({ CONTRACT: self.context.contract.to_string(), HOME: home });
            let key = Key::new("Namespace", "", name);
            if cluster.get(&key).is_none() {
                let metadata = json!({ "name": name, "labels": labels });
                cluster.create(now, json!({ "kind": "Namespace", "metadata": metadata }))?;
            }
            if cluster.get(&key).is_some_and(|found| found["metadata"]["labels"] == labels) {
                self.context.namespaces.insert(home.clone(), name.clone());
            }
        }
        Ok(())
    }

    /// Removes the guest namespaces; whether they are gone.
    pub(crate) fn close(&self, cluster: &mut Cluster, now: Now) -> Result<bool, ApiError> {
        self.remove(cluster, now, |_| true)
    }

    /// Removes this lease's guest namespaces of these names; whether they are gone.
    fn remove(
        &self,
        cluster: &mut Cluster,
        now: Now,
        which: impl Fn(&str) -> bool,
    ) -> Result<bool, ApiError> {
        let contract = self.context.contract.to_string();
        let mut gone = true;
        let all = cluster.objects("Namespace");
        let ours = all.filter(|(key, found)| {
            found["metadata"]["labels"][CONTRACT] == contract && which(&key.name)
        });
        let ours = ours.map(|(key, found)| (key.clone(), found["metadata"].clone()));
        for (key, metadata) in ours.collect::<Vec<_>>() {
            if metadata["deletionTimestamp"].is_null() {
                cluster.delete(now, &key, None, None)?;
            }
            gone &= cluster.get(&key).is_none();
        }
        Ok(gone)
    }

    /// The watch breaks: the next word is a whole list.
    pub(crate) fn relist(&mut self) {
        self.objects.relist();
    }

    /// What the watches have to tell.
    pub(crate) fn news(&mut self, cluster: &Cluster, bodies: &mut Bodies) -> Vec<Input> {
        let contract = self.context.contract;
        let capacity = &mut self.capacity;
        let see = |object: &Value| {
            let observed = observe(contract, object, bodies)?;
            capacity.note(&observed.item, object);
            Some(observed)
        };
        let news = match self.objects.look(cluster, see, |a, b| a.item == b.item) {
            News::All(all) => vec![Input::Synced(all)],
            News::Some { gone, changed } => {
                let gone = gone.into_iter().map(|one| Input::Gone(one.item));
                gone.chain(changed.into_iter().map(Input::Observed)).collect::<Vec<_>>()
            }
        };
        for input in &news {
            if let Input::Gone(item) = input {
                self.capacity.release(item);
            }
        }
        news
    }

    /// Performs a write, or asks.
    pub(crate) fn perform(
        &mut self,
        cluster: &mut Cluster,
        bodies: &mut Bodies,
        now: Now,
        (work, luck): (&GuestWork, Luck),
    ) -> Input {
        let (item, done) = match work {
            GuestWork::Confirm(item) => {
                let found = self.present(cluster, item).cloned();
                let found = found.and_then(|found| observe(self.context.contract, &found, bodies));
                let found = found.filter(|found| found.item == *item);
                if found.is_none() {
                    self.capacity.release(item);
                }
                return found.map_or(Input::Gone(item.clone()), Input::Observed);
            }
            GuestWork::Apply(item, ..) | GuestWork::Delete(item, _) if luck == Luck::Fails => {
                return Input::NotWritten(item.clone(), Failure::Transient);
            }
            GuestWork::Update(pod, ..) | GuestWork::Release(pod) if luck == Luck::Fails => {
                return Input::NotWritten(Item::Pod(pod.clone()), Failure::Transient);
            }
            GuestWork::Apply(item, digest, route) => (
                item.clone(),
                self.apply(cluster, bodies, now, (item, *digest, route, IfAbsent::Create)),
            ),
            GuestWork::Update(pod, digest, route) => {
                let item = Item::Pod(pod.clone());
                let done =
                    self.apply(cluster, bodies, now, (&item, *digest, route, IfAbsent::Leave));
                (item, done)
            }
            GuestWork::Delete(item, grace_s) => {
                let grace_s = grace_s.map(u64::from);
                let done = self.on_ours(cluster, item, |cluster, key, uid| {
                    cluster.delete(now, key, Some(uid), grace_s)
                });
                (item.clone(), done)
            }
            GuestWork::Release(pod) => {
                let item = Item::Pod(pod.clone());
                let done = self.on_ours(cluster, &item, |cluster, key, uid| {
                    cluster.release(now, key, Some(uid), FINALIZER)
                });
                (item, done)
            }
        };
        match done {
            Ok(()) if luck == Luck::Good => Input::Written(item),
            Ok(()) => Input::NotWritten(item, Failure::Transient),
            Err(failure) => Input::NotWritten(item, failure),
        }
    }

    fn apply(
        &mut self,
        cluster: &mut Cluster,
        bodies: &Bodies,
        now: Now,
        (item, digest, route, if_absent): (&Item, Digest, &Route, IfAbsent),
    ) -> Result<(), Failure> {
        let body = bodies.get(&digest).ok_or(Failure::MissingBody)?;
        let forged = forge::forge(item, body, digest, route, &self.context);
        let mut forged = forged.map_err(Failure::Refused)?;
        let present = self.place(item).and_then(|place| cluster.get(&place)).cloned();
        self.capacity.admit(item, &forged, present.as_ref(), if_absent, &self.context)?;
        if let Some(present) = &present {
            forged["metadata"]["uid"] = present["metadata"]["uid"].clone();
        }
        let done = cluster.apply(now, forged);
        match (&done, &present) {
            (Ok(object), _) | (Err(_), Some(object)) => self.capacity.settle(item, object),
            (Err(_), None) => self.capacity.release(item),
        }
        done.map(drop).map_err(|error| forge::classify(&error.status()))
    }

    fn on_ours(
        &self,
        cluster: &mut Cluster,
        item: &Item,
        act: impl FnOnce(&mut Cluster, &Key, &str) -> Result<(), ApiError>,
    ) -> Result<(), Failure> {
        let key = self.place(item).ok_or(Failure::Absent)?;
        let owned = placement::owned(self.context.contract, item, cluster.get(&key));
        let uid = owned.ok_or(Failure::Absent)?["metadata"]["uid"].as_str().unwrap_or_default();
        let uid = uid.to_owned();
        act(cluster, &key, &uid).map_err(|error| forge::classify(&error.status()))
    }

    fn present<'a>(&self, cluster: &'a Cluster, item: &Item) -> Option<&'a Value> {
        cluster.get(&self.place(item)?)
    }

    fn place(&self, item: &Item) -> Option<Key> {
        let key = self.context.guest_key(&item.key())?;
        let kind = match key.kind {
            ObjectKind::Pod => "Pod",
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
            ObjectKind::Namespace | ObjectKind::ServiceAccountToken => return None,
        };
        Some(Key::new(kind, &key.namespace, &key.name))
    }
}

/// A guest object of a lease; a pod's status is kept, to be sent home.
fn observe(contract: ContractId, object: &Value, bodies: &mut Bodies) -> Option<Observed> {
    let observed = forge::observe(contract, object)?;
    if observed.pod.is_some() {
        bodies.keep(forge::guest_status(object));
    }
    Some(observed)
}
