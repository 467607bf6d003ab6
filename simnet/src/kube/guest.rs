//! The provider's side of one lease: guest objects forged, applied, watched and removed.

use std::collections::BTreeMap;

use mercato_agent::GuestWork;
use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_offload::forge::labels::{CONTRACT, HOME_UID};
use mercato_offload::forge::{self, FINALIZER, GuestContext, Refusal};
use mercato_offload::guest::{Failure, Input, Observed};
use mercato_offload::key::{Item, ObjectKind};
use mercato_offload::message::Route;
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::terms::PodSecurity;
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
}

impl GuestSide {
    pub(crate) fn new(contract: ContractId) -> Self {
        let context = GuestContext {
            contract,
            namespaces: BTreeMap::new(),
            pod_security: PodSecurity::default(),
            priority_class: None,
            runtime_class: None,
            node_selector: BTreeMap::new(),
            dns_policy: "ClusterFirst".to_owned(),
            dns_config: None,
            user_namespaces: false,
            longest_grace_s: 30,
            transit: false,
            default_requests: BTreeMap::new(),
            default_limits: BTreeMap::new(),
            allocatable: BTreeMap::new(),
        };
        Self { context, objects: Watch::new(&["Pod", "ConfigMap", "Secret"]) }
    }

    /// Guest namespaces by home namespace, from now on; makes those that are not there, and
    /// removes those that are none any more. Another's is not entered.
    pub(crate) fn open(
        &mut self,
        cluster: &mut Cluster,
        now: Now,
        namespaces: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        self.remove(cluster, now, |name| namespaces.values().all(|wanted| wanted != name))?;
        self.context.namespaces.clear();
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
        let see = |object: &Value| observe(contract, object, bodies);
        match self.objects.look(cluster, see, |a, b| a.item == b.item) {
            News::All(all) => vec![Input::Synced(all)],
            News::Some { gone, changed } => {
                let gone = gone.into_iter().map(|one| Input::Gone(one.item));
                gone.chain(changed.into_iter().map(Input::Observed)).collect()
            }
        }
    }

    /// Performs a write, or asks.
    pub(crate) fn perform(
        &self,
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
                return found.map_or(Input::Gone(item.clone()), Input::Observed);
            }
            GuestWork::Apply(item, ..) | GuestWork::Delete(item, _) if luck == Luck::Fails => {
                return Input::NotWritten(item.clone(), Failure::Transient);
            }
            GuestWork::Update(pod, ..) | GuestWork::Release(pod) if luck == Luck::Fails => {
                return Input::NotWritten(Item::Pod(pod.clone()), Failure::Transient);
            }
            GuestWork::Apply(item, digest, route) => {
                (item.clone(), self.apply(cluster, bodies, now, (item, *digest, route, true)))
            }
            GuestWork::Update(pod, digest, route) => {
                let item = Item::Pod(pod.clone());
                let done = self.apply(cluster, bodies, now, (&item, *digest, route, false));
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
        &self,
        cluster: &mut Cluster,
        bodies: &Bodies,
        now: Now,
        (item, digest, route, create): (&Item, Digest, &Route, bool),
    ) -> Result<(), Failure> {
        let body = bodies.get(&digest).ok_or(Failure::MissingBody)?;
        let mut object = forge::forge(item, body, digest, route, &self.context);
        if let (Ok(object), Some(present)) = (&mut object, self.present(cluster, item)) {
            match self.ownership(item, present) {
                Ownership::Ours => {
                    object["metadata"]["uid"] = present["metadata"]["uid"].clone();
                }
                Ownership::Earlier => return Err(Failure::Transient),
                Ownership::Foreign => {
                    let reason = "there is another object of this name over there".to_owned();
                    return Err(Failure::Refused(Refusal { path: "metadata.name".into(), reason }));
                }
            }
        } else if !create {
            return Err(Failure::Absent);
        }
        let object = object.map_err(Failure::Refused)?;
        let done = cluster.apply(now, object);
        done.map(drop).map_err(|error| forge::classify(&error.status()))
    }

    fn on_ours(
        &self,
        cluster: &mut Cluster,
        item: &Item,
        act: impl FnOnce(&mut Cluster, &Key, &str) -> Result<(), ApiError>,
    ) -> Result<(), Failure> {
        let (Some(key), Some(present)) = (self.place(item), self.present(cluster, item)) else {
            return Err(Failure::Absent);
        };
        if self.ownership(item, present) != Ownership::Ours {
            return Err(Failure::Absent);
        }
        let uid = present["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        act(cluster, &key, &uid).map_err(|error| forge::classify(&error.status()))
    }

    fn ownership(&self, item: &Item, present: &Value) -> Ownership {
        let labels = &present["metadata"]["labels"];
        if labels[CONTRACT] != self.context.contract.to_string() {
            return Ownership::Foreign;
        }
        match item {
            Item::Pod(pod) if labels[HOME_UID] != pod.uid.0.as_str() => Ownership::Earlier,
            Item::Pod(_) | Item::Object(_) => Ownership::Ours,
        }
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

/// Whose the object is that stands there.
#[derive(Debug, PartialEq, Eq)]
enum Ownership {
    Ours,
    /// This lease's, of an earlier pod of the name, which has still to go.
    Earlier,
    Foreign,
}
