//! A lease at home, in the model: the virtual node, its pods and what they need.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use mercato_agent::{HomeWork, LeaseDesire, LeaseNews, Phase};
use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_config::Show as _;
use mercato_offload::forge::{self, Refusal, StatusContext};
use mercato_offload::home::{HomePod, Input, Write};
use mercato_offload::key::{Item, ObjectKey, ObjectKind, PodId, Uid};
use mercato_offload::placement::export::{BoundNode, Departure, staying};
use mercato_offload::placement::spec::{NodeSpec, Transitions, second_node_name};
use mercato_protocol::id::Digest;
use serde_json::{Value, json};

use super::Simulated;
use crate::kubernetes::{LeaseTask, Work, node_name};

struct Home {
    cluster: Simulated,
    task: LeaseTask,
    desire: LeaseDesire,
    node: String,
    /// What the session knows; none before the first list.
    pods: Option<BTreeMap<Uid, HomePod>>,
    /// What it wants to know of.
    objects: BTreeMap<ObjectKey, Option<Option<Digest>>>,
    ended: bool,
}

pub(super) async fn follow(cluster: Simulated, task: LeaseTask) {
    let desire = task.desire.borrow().clone();
    let node = node_name(&desire);
    let mut changes = cluster.changes();
    let (pods, objects) = (None, BTreeMap::new());
    let mut home = Home { cluster, task, desire, node, pods, objects, ended: false };
    home.show_node().await;
    loop {
        home.adapt();
        home.look().await;
        tokio::select! {
            changed = home.task.desire.changed() => if changed.is_err() { return },
            Some(Work::Home(work)) = home.task.work.recv() => home.work(work).await,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

impl Home {
    fn spec(&self) -> NodeSpec {
        let address = Ipv4Addr::UNSPECIFIED.into();
        NodeSpec::of(&self.desire.contract, self.node.clone(), address, String::new())
    }

    fn status(&self) -> Value {
        self.spec().status(&mut Transitions::default(), "")["status"].take()
    }

    fn resize(&self) {
        let (node, status) = (Key::new("Node", "", &self.node), self.status());
        let write = |cluster: &mut Cluster, now| cluster.write_status(now, &node, None, status);
        if let Err(error) = self.cluster.change(write) {
            // Once for each change of the lease.
            tracing::warn!(%error, node = self.node, "not resized");
        }
    }

    fn make_node(&self) -> Result<(), ApiError> {
        let mut node = self.spec().created();
        node["status"] = self.status();
        self.cluster.change(|cluster, now| cluster.create(now, node)).map(drop)
    }

    async fn show_node(&mut self) {
        let mut made = self.make_node();
        if made.as_ref().is_err_and(|error| error.code == 409) {
            // An earlier contract with that provider has a node of that name.
            self.node = second_node_name(&self.node, &self.desire.contract.id);
            made = self.make_node();
        }
        let quantity = &self.desire.contract.terms.quantity;
        match made {
            Ok(()) => {
                let _ = self.task.node.set(self.node.clone());
                tracing::debug!(node = self.node, room = quantity.show(), "a virtual node");
                self.task.news(LeaseNews::Ready).await;
            }
            // Once for a lease.
            Err(error) => tracing::warn!(%error, node = self.node, "no virtual node"),
        }
    }

    fn adapt(&mut self) {
        let wanted = self.task.desire.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.desire, wanted);
        if before.contract != self.desire.contract {
            self.resize();
        }
        if self.desire.phase >= Phase::Draining {
            self.drain();
        }
    }

    /// No new pods, and those that are there are told to go.
    fn drain(&self) {
        let mut pods = self.bound();
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.iter().for_each(|pod| self.delete(pod));
    }

    fn delete(&self, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str();
        // One that has gone meanwhile is what was wanted.
        let _ = self.cluster.change(|cluster, now| cluster.delete(now, &place(pod), uid, None));
    }

    fn bound(&self) -> Vec<Value> {
        let mut pods = self.cluster.list("Pod");
        pods.retain(|pod| pod["spec"]["nodeName"] == self.node);
        pods
    }

    /// Tells the session what has changed.
    async fn look(&mut self) {
        let bound = self.bound();
        let pods: BTreeMap<Uid, HomePod> = bound
            .iter()
            .filter_map(|pod| self.home_pod(pod))
            .map(|pod| (pod.pod.uid.clone(), pod))
            .collect();
        match self.pods.replace(pods.clone()) {
            None => self.task.home(Input::Synced(pods.into_values().collect())).await,
            Some(before) => {
                for (uid, pod) in &pods {
                    if before.get(uid) != Some(pod) {
                        self.task.home(Input::Pod(pod.clone())).await;
                    }
                }
                for uid in before.into_keys().filter(|uid| !pods.contains_key(uid)) {
                    self.task.home(Input::PodGone(uid)).await;
                }
            }
        }
        let keys: Vec<ObjectKey> = self.objects.keys().cloned().collect();
        for key in keys {
            let digest = self.object(&key);
            if self.objects.insert(key.clone(), Some(digest)) != Some(Some(digest)) {
                self.task.home(Input::Object { key, digest }).await;
            }
        }
        if self.desire.phase >= Phase::Draining && bound.is_empty() && !self.ended {
            self.ended = true;
            let key = Key::new("Node", "", &self.node);
            // It has no finalizer and nobody else removes it.
            let _ = self.cluster.change(|cluster, now| cluster.delete(now, &key, None, None));
            self.task.news(LeaseNews::Removed).await;
        }
    }

    /// The pod as the session sees it; its body is kept beside.
    fn home_pod(&self, pod: &Value) -> Option<HomePod> {
        let id = forge::pod_id(pod)?;
        let provider = &self.desire.contract.provider.cluster;
        let node = BoundNode { name: &self.node, provider, host_ip: None };
        match Departure::of(pod, self.cluster.leave(&id.namespace), node) {
            Departure::Undecided => None,
            Departure::Stays { refusal, ends } => {
                if ends {
                    self.delete(pod);
                }
                staying(pod, refusal)
            }
            Departure::Leaves(permit) => permit.home_pod(pod, &BTreeMap::new(), |body| {
                let kept = self.task.bodies.keep(&Item::Pod(id), &body);
                kept.map_err(|error| Refusal { path: String::new(), reason: error.to_string() })
            }),
        }
    }

    fn object(&self, key: &ObjectKey) -> Option<Digest> {
        let kind = match key.kind {
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
            // The model issues no tokens.
            ObjectKind::Namespace | ObjectKind::Pod | ObjectKind::ServiceAccountToken => {
                return None;
            }
        };
        let place = Key::new(kind, &key.namespace, &key.name);
        let object = self.cluster.look(|cluster| cluster.get(&place).cloned())?;
        self.task.bodies.keep(&Item::Object(key.clone()), &forge::export_object(&object)).ok()
    }

    async fn work(&mut self, work: HomeWork) {
        match work {
            HomeWork::Watch(key) => drop(self.objects.insert(key, None)),
            HomeWork::Unwatch(key) => drop(self.objects.remove(&key)),
            HomeWork::Confirm(pod) => {
                let found = self.present(&pod).and_then(|found| self.home_pod(&found));
                self.task.home(found.map_or(Input::PodGone(pod.uid), Input::Pod)).await;
            }
            HomeWork::Write(pod, write) => {
                let input = self.write(pod, &write);
                self.task.home(input).await;
            }
            HomeWork::ObjectRefused(key, refusal) => {
                // Once for each refusal.
                tracing::warn!(%key, reason = refusal.reason, "refused by the provider");
            }
            HomeWork::Event(pod, event) => {
                tracing::debug!(pod = %pod.key(), reason = event.reason, "an event");
            }
        }
    }

    fn present(&self, pod: &PodId) -> Option<Value> {
        let key = Key::new("Pod", &pod.namespace, &pod.name);
        let found = self.cluster.look(|cluster| cluster.get(&key).cloned());
        found.filter(|found| found["metadata"]["uid"] == pod.uid.0)
    }

    fn write(&self, pod: PodId, write: &Write) -> Input {
        let uid = pod.uid.clone();
        let Some(home) = self.present(&pod) else { return Input::PodGone(uid) };
        let key = Key::new("Pod", &pod.namespace, &pod.name);
        let status = match write {
            Write::Status { status, outcome } => {
                let guest = match status.map(|digest| self.task.bodies.object(&digest)) {
                    None => Value::Null,
                    Some(Some(guest)) => guest,
                    Some(None) => return Input::NotWritten { uid, missing: true },
                };
                Some(forge::home_status(&guest, &home, outcome.as_ref(), &StatusContext::default()))
            }
            Write::Refusal(refusal) => {
                let message = format!("{} {}", refusal.path, refusal.reason);
                Some(json!({ "phase": "Pending", "reason": "Refused", "message": message }))
            }
            Write::FinishDeletion => None,
        };
        let written = self.cluster.change(|cluster, now| match status {
            Some(status) => cluster.write_status(now, &key, Some(&uid.0), status).map(drop),
            None => cluster.delete(now, &key, Some(&uid.0), Some(0)),
        });
        match written {
            Ok(()) => Input::Written(uid),
            Err(ApiError { code: 404 | 409, .. }) => Input::PodGone(uid),
            Err(_) => Input::NotWritten { uid, missing: false },
        }
    }
}

fn place(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    Key::new("Pod", &text(&metadata["namespace"]), &text(&metadata["name"]))
}
