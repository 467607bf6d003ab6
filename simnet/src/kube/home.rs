//! Home's side of one lease: pods bound to its virtual node, the objects that they need,
//! and the statuses written back.

use std::collections::BTreeMap;

use mercato_cluster_model::{Cluster, Key};
use mercato_offload::forge::{self, HomeContext, StatusContext};
use mercato_offload::home::{HomePod, Input, Write};
use mercato_offload::key::{ObjectKey, ObjectKind, PodId};
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::watch::{News, Watch};
use super::{Bodies, Luck};

/// What the watches of one virtual node have told.
#[derive(Debug)]
pub(crate) struct HomeSide {
    node: String,
    pods: Watch<HomePod>,
    /// With what was told last, if anything was.
    objects: BTreeMap<ObjectKey, Option<Option<Digest>>>,
}

/// What the virtual node of a lease is called.
pub(crate) fn node_name(contract: ContractId) -> String {
    format!("mercato-{contract:.8}")
}

impl HomeSide {
    pub(crate) fn new(contract: ContractId) -> Self {
        Self { node: node_name(contract), pods: Watch::new(&["Pod"]), objects: BTreeMap::new() }
    }

    pub(crate) fn watch(&mut self, key: ObjectKey) {
        self.objects.insert(key, None);
    }

    pub(crate) fn unwatch(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// The watch breaks: the next word is a whole list.
    pub(crate) fn relist(&mut self) {
        self.pods.relist();
    }

    /// What the watches have to tell.
    pub(crate) fn news(&mut self, cluster: &Cluster, bodies: &mut Bodies) -> Vec<Input> {
        let node = &self.node;
        let see = |pod: &Value| {
            let ours = pod["spec"]["nodeName"] == node.as_str();
            ours.then(|| seen(pod, bodies)).flatten()
        };
        let mut news = match self.pods.look(cluster, see, |a, b| a.pod.uid == b.pod.uid) {
            News::All(pods) => vec![Input::Synced(pods)],
            News::Some { gone, changed } => {
                let gone = gone.into_iter().map(|pod| Input::PodGone(pod.pod.uid));
                gone.chain(changed.into_iter().map(Input::Pod)).collect()
            }
        };
        for (key, told) in &mut self.objects {
            let place = kind(key.kind).map(|kind| Key::new(kind, &key.namespace, &key.name));
            let object = place.and_then(|place| cluster.get(&place));
            let digest = object.map(|object| bodies.keep(forge::export_object(object)));
            if *told != Some(digest) {
                *told = Some(digest);
                news.push(Input::Object { key: key.clone(), digest });
            }
        }
        news
    }

    /// Asks for a pod by name.
    pub(crate) fn confirm(&self, cluster: &Cluster, bodies: &mut Bodies, pod: &PodId) -> Input {
        let found = present(cluster, pod).and_then(|found| seen(found, bodies));
        found.map_or(Input::PodGone(pod.uid.clone()), Input::Pod)
    }

    /// Writes to a pod.
    pub(crate) fn write(
        cluster: &mut Cluster,
        bodies: &Bodies,
        now: Now,
        (pod, write, luck): (&PodId, &Write, Luck),
    ) -> Input {
        let uid = pod.uid.clone();
        if luck == Luck::Fails {
            return Input::NotWritten { uid, missing: false };
        }
        let Some(home) = present(cluster, pod).cloned() else { return Input::PodGone(uid) };
        let key = Key::new("Pod", &pod.namespace, &pod.name);
        let wanted = Some(uid.0.as_str());
        let done = match write {
            Write::Status { status, outcome } => {
                let guest = match status.map(|digest| bodies.get(&digest)) {
                    None => &Value::Null,
                    Some(Some(guest)) => guest,
                    Some(None) => return Input::NotWritten { uid, missing: true },
                };
                let context = StatusContext::default();
                let status = forge::home_status(guest, &home, outcome.as_ref(), &context);
                cluster.write_status(now, &key, wanted, status).map(drop)
            }
            Write::Refusal(refusal) => {
                let mut status = home["status"].clone();
                status["phase"] = json!("Pending");
                status["reason"] = json!("OffloadRefused");
                status["message"] = json!(format!("{}: {}", refusal.path, refusal.reason));
                cluster.write_status(now, &key, wanted, status).map(drop)
            }
            Write::FinishDeletion => cluster.delete(now, &key, wanted, Some(0)),
        };
        match done {
            Ok(()) if luck == Luck::Good => Input::Written(uid),
            Ok(()) | Err(_) => Input::NotWritten { uid, missing: false },
        }
    }
}

fn present<'a>(cluster: &'a Cluster, pod: &PodId) -> Option<&'a Value> {
    let found = cluster.get(&Key::new("Pod", &pod.namespace, &pod.name));
    found.filter(|found| found["metadata"]["uid"] == pod.uid.0.as_str())
}

fn kind(kind: ObjectKind) -> Option<&'static str> {
    match kind {
        ObjectKind::ConfigMap => Some("ConfigMap"),
        ObjectKind::Secret => Some("Secret"),
        ObjectKind::Namespace | ObjectKind::Pod | ObjectKind::ServiceAccountToken => None,
    }
}

/// The pod as the session sees it; what would be sent is kept.
fn seen(pod: &Value, bodies: &mut Bodies) -> Option<HomePod> {
    let exported = forge::export_pod(pod, &HomeContext::default());
    let metadata = &pod["metadata"];
    let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    let deleting = !metadata["deletionTimestamp"].is_null();
    Some(HomePod {
        pod: forge::pod_id(pod)?,
        needs: forge::needs(&exported),
        digest: bodies.keep(exported),
        deletion_grace_s: deleting.then(|| u32::try_from(grace).unwrap_or(u32::MAX)),
        terminal: matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        gates: forge::open_gates(pod),
        route: None,
        place: None,
        refusal: None,
    })
}
