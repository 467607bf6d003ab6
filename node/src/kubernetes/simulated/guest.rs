//! A lease at the provider, in the model: guest namespaces and what is in them.

use std::collections::BTreeMap;

use mercato_agent::{GuestWork, LeaseDesire, LeaseNews, Phase};
use mercato_cluster_model::Key;
use mercato_offload::forge::{self, FINALIZER, GuestContext, Refusal};
use mercato_offload::guest::{Failure, Input, Observed};
use mercato_offload::key::{Item, ObjectKind};
use mercato_offload::message::Route;
use mercato_offload::placement::spec::{GuestNamespace, is_guest_namespace};
use mercato_offload::placement::{self, Capacity, IfAbsent, ProviderTerms};
use mercato_protocol::id::Digest;
use serde_json::Value;

use super::Simulated;
use crate::kubernetes::{LeaseTask, Work};

struct Guest {
    cluster: Simulated,
    task: LeaseTask,
    desire: LeaseDesire,
    /// What the session knows; none before the first list.
    seen: Option<BTreeMap<Item, Observed>>,
    capacity: Capacity,
    ended: bool,
}

pub(super) async fn follow(cluster: Simulated, task: LeaseTask) {
    let mut changes = cluster.changes();
    let desire = task.desire.borrow().clone();
    let capacity = Capacity::default();
    let mut guest = Guest { cluster, task, desire, seen: None, capacity, ended: false };
    loop {
        guest.adapt();
        guest.look().await;
        tokio::select! {
            changed = guest.task.desire.changed() => if changed.is_err() { return },
            Some(work) = guest.task.work.recv() => guest.take(work).await,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

impl Guest {
    /// Makes the lease's part here as it is wanted.
    fn adapt(&mut self) {
        self.desire = self.task.desire.borrow_and_update().clone();
        match self.desire.phase {
            Phase::Open { .. } | Phase::Suspended => self.make_namespaces(),
            Phase::Draining => {}
            Phase::Ended => self.remove_namespaces(|_| true),
        }
    }

    async fn take(&mut self, work: Work) {
        // What it depends on may not have been looked at yet.
        self.adapt();
        // A lease has one side in a cluster.
        let Work::Guest(work) = work else { return };
        let input = self.work(work);
        self.task.guest(input).await;
    }

    fn make_namespaces(&self) {
        let wanted = |name: &str| self.desire.namespaces.values().any(|guest| guest == name);
        self.remove_namespaces(|name| !wanted(name));
        for (home, name) in &self.desire.namespaces {
            if self.namespace(name).is_none() {
                let namespace = self.spec(home, name).namespace();
                // One that came meanwhile is what was wanted.
                let _ = self.cluster.change(|cluster, now| cluster.create(now, namespace));
            }
        }
    }

    fn spec(&self, home: &str, name: &str) -> GuestNamespace {
        GuestNamespace::of(&self.desire.contract, home, name, &[])
    }

    fn namespace(&self, name: &str) -> Option<Value> {
        let key = Key::new("Namespace", "", name);
        self.cluster.look(|cluster| cluster.get(&key).cloned())
    }

    /// Whether the guest namespace of that name is this lease's, for that home namespace.
    fn check(&self, home: &str, name: &str) -> Result<(), String> {
        self.spec(home, name).check(&self.namespace(name).unwrap_or_default())
    }

    fn namespaces(&self) -> Vec<Value> {
        let mut all = self.cluster.list("Namespace");
        all.retain(|object| is_guest_namespace(object, &self.task.contract, None));
        all
    }

    fn remove_namespaces(&self, which: impl Fn(&str) -> bool) {
        for namespace in self.namespaces() {
            let metadata = &namespace["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            if !metadata["deletionTimestamp"].is_null() || !which(name) {
                continue;
            }
            let key = Key::new("Namespace", "", name);
            // One that has gone is what was wanted.
            let _ = self.cluster.change(|cluster, now| cluster.delete(now, &key, None, None));
        }
    }

    /// Tells the session what has changed.
    async fn look(&mut self) {
        let contract = self.task.contract;
        let mut seen = BTreeMap::new();
        for object in ["Pod", "ConfigMap", "Secret"].iter().flat_map(|kind| self.cluster.list(kind))
        {
            let Some(observed) = forge::observe(contract, &object) else { continue };
            self.capacity.note(&observed.item, &object);
            let status = forge::guest_status(&object);
            if observed.pod.is_none() || self.task.bodies.keep(&observed.item, &status).is_ok() {
                seen.insert(observed.item.clone(), observed);
            }
        }
        match self.seen.replace(seen.clone()) {
            None => self.task.guest(Input::Synced(seen.into_values().collect())).await,
            Some(before) => {
                for (item, observed) in &seen {
                    if before.get(item) != Some(observed) {
                        self.task.guest(Input::Observed(observed.clone())).await;
                    }
                }
                for item in before.into_keys().filter(|item| !seen.contains_key(item)) {
                    self.capacity.release(&item);
                    self.task.guest(Input::Gone(item)).await;
                }
            }
        }
        let over = self.desire.phase == Phase::Ended && self.namespaces().is_empty();
        if over && !self.ended {
            self.ended = true;
            self.task.news(LeaseNews::Removed).await;
        }
    }

    fn work(&mut self, work: GuestWork) -> Input {
        let answer = |item: Item, done: Result<(), Failure>| match done {
            Ok(()) => Input::Written(item),
            Err(failure) => Input::NotWritten(item, failure),
        };
        match work {
            GuestWork::Apply(item, digest, route) => {
                let done = self.apply(&item, digest, &route, IfAbsent::Create);
                answer(item, done)
            }
            GuestWork::Update(pod, digest, route) => {
                let item = Item::Pod(pod);
                let done = self.apply(&item, digest, &route, IfAbsent::Leave);
                answer(item, done)
            }
            GuestWork::Delete(item, grace_s) => {
                let done = self.ours(&item).and_then(|(key, uid)| {
                    let grace = grace_s.map(u64::from);
                    let deleted =
                        self.cluster.change(|c, now| c.delete(now, &key, Some(&uid), grace));
                    deleted.map_err(|error| forge::classify(&error.status()))
                });
                answer(item, done)
            }
            GuestWork::Release(pod) => {
                let item = Item::Pod(pod);
                let done = self.ours(&item).and_then(|(key, uid)| {
                    let released =
                        self.cluster.change(|c, now| c.release(now, &key, Some(&uid), FINALIZER));
                    released.map_err(|error| forge::classify(&error.status()))
                });
                answer(item, done)
            }
            GuestWork::Confirm(item) => {
                let contract = self.task.contract;
                let found =
                    self.find(&item).and_then(|(_, object)| forge::observe(contract, &object));
                let found = found.filter(|observed| observed.item == item);
                if found.is_none() {
                    self.capacity.release(&item);
                }
                found.map_or(Input::Gone(item), Input::Observed)
            }
        }
    }

    fn apply(
        &mut self,
        item: &Item,
        digest: Digest,
        route: &Route,
        if_absent: IfAbsent,
    ) -> Result<(), Failure> {
        let home = item.namespace();
        if let Some(Err(reason)) =
            self.desire.namespaces.get(home).map(|name| self.check(home, name))
        {
            return Err(Failure::Refused(Refusal {
                path: "metadata.namespace".to_owned(),
                reason,
            }));
        }
        let body = self.task.bodies.object(&digest).ok_or(Failure::MissingBody)?;
        let context = self.context();
        let forged = forge::forge(item, &body, digest, route, &context);
        let forged = forged.map_err(Failure::Refused)?;
        let present = self.find(item).map(|(_, object)| object);
        self.capacity.admit(item, &forged, present.as_ref(), if_absent, &context)?;
        let applied = self.cluster.change(|cluster, now| cluster.apply(now, forged));
        match (&applied, &present) {
            (Ok(object), _) | (Err(_), Some(object)) => self.capacity.settle(item, object),
            (Err(_), None) => self.capacity.release(item),
        }
        applied.map(drop).map_err(|error| forge::classify(&error.status()))
    }

    /// The object's place and uid, if it is there and this lease's.
    fn ours(&self, item: &Item) -> Result<(Key, String), Failure> {
        let (key, object) = self.find(item).ok_or(Failure::Absent)?;
        let owned = placement::owned(self.task.contract, item, Some(&object));
        let uid = owned.ok_or(Failure::Absent)?["metadata"]["uid"].as_str().unwrap_or_default();
        Ok((key, uid.to_owned()))
    }

    fn find(&self, item: &Item) -> Option<(Key, Value)> {
        let guest = self.context().guest_key(&item.key())?;
        let kind = match guest.kind {
            ObjectKind::Pod => "Pod",
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
            ObjectKind::Namespace | ObjectKind::ServiceAccountToken => return None,
        };
        let key = Key::new(kind, &guest.namespace, &guest.name);
        let object = self.cluster.look(|cluster| cluster.get(&key).cloned())?;
        Some((key, object))
    }

    fn context(&self) -> GuestContext {
        let all = self.desire.namespaces.iter();
        let ours = all.filter(|(home, name)| self.check(home, name).is_ok());
        let ours = ours.map(|(home, name)| (home.clone(), name.clone())).collect();
        placement::guest_context(&self.desire.contract, ours, ProviderTerms::default())
    }
}
