//! Events on objects: the reason of a refusal, and what a kubelet says of a pod, where
//! `kubectl describe` shows them.

use futures::FutureExt;
use mercato_offload::key::PodId;
use mercato_offload::message::PodEvent;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Class;
use crate::apiserver::kind::{EVENT, POD};
use crate::format::clock;
use crate::names::FIELD_MANAGER;

/// Whose words a kubelet's are, wherever it runs.
const KUBELET: &str = "kubelet";

/// What an event is about.
pub(crate) struct About {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// None: it is of the whole cluster, and its events lie in `default`.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
}

impl About {
    /// Something of the core group, in a namespace.
    pub(crate) fn core(kind: &str, namespace: &str, name: &str, uid: Option<String>) -> Self {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        Self {
            api_version: "v1".to_owned(),
            kind,
            namespace: Some(namespace.to_owned()),
            name,
            uid,
        }
    }
}

/// What the kubelet of another cluster says of a pod of this node; as a kubelet's own, with
/// a count where it comes again.
pub(crate) fn reflect(cluster: &Cluster, node: &str, pod: &PodId, event: &PodEvent) -> Answer<()> {
    let PodEvent { kind, reason, field, message, count } = event;
    let text = format!("{}/{kind:?}/{reason}/{field}/{message}", pod.uid);
    let name = name(&pod.name, &text);
    let now = clock::now();
    let made = json!({
        "metadata": { "name": name, "namespace": pod.namespace },
        "involvedObject": { "apiVersion": "v1", "kind": POD.kind, "name": pod.name,
            "namespace": pod.namespace, "uid": pod.uid, "fieldPath": field },
        "type": format!("{kind:?}"), "reason": reason, "message": message,
        "source": { "component": KUBELET, "host": node },
        "reportingComponent": KUBELET, "reportingInstance": node,
        "firstTimestamp": now, "lastTimestamp": now, "count": count,
    });
    let again = json!({ "lastTimestamp": now, "count": count });
    let (cluster, namespace) = (cluster.clone(), pod.namespace.clone());
    async move {
        let written = match cluster.create(EVENT, Some(&namespace), made).await {
            Err(failure) if failure.class == Class::Conflict => {
                cluster.merge(EVENT, Some(&namespace), &name, None, again).await
            }
            other => other,
        };
        written.map(drop)
    }
    .boxed()
}

/// As it is the same event, whoever sees it.
fn name(of: &str, text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}.{digest}", of.chars().take(200).collect::<String>())
}

/// How an event is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Somebody should look at it.
    Warning,
}

/// An event. The same one again renews its time and counts on: its name is its content, so
/// that it is found again after a restart, too.
pub(crate) fn write(
    cluster: &Cluster,
    about: About,
    kind: EventType,
    reason: &str,
    message: &str,
) -> Answer<()> {
    let Made { namespace, name, event } = made(about, kind, reason, message);
    let cluster = cluster.clone();
    async move {
        match cluster.create(EVENT, Some(&namespace), event.clone()).await {
            Err(failure) if failure.class == Class::Conflict => {}
            written => return written.map(drop),
        }
        // An empty patch is answered with the event as it is, and needs no right to read.
        let present = cluster.merge(EVENT, Some(&namespace), &name, None, json!({})).await?;
        let count = present["count"].as_u64().unwrap_or(1).saturating_add(1);
        let again = json!({ "lastTimestamp": clock::now(), "count": count });
        cluster.merge(EVENT, Some(&namespace), &name, None, again).await.map(drop)
    }
    .boxed()
}

/// An event that several may tell, once: the same one again changes nothing, and takes no right to
/// change it.
pub(crate) fn write_once(
    cluster: &Cluster,
    about: About,
    kind: EventType,
    reason: &str,
    message: &str,
) -> Answer<()> {
    let Made { namespace, event, .. } = made(about, kind, reason, message);
    let written = cluster.create(EVENT, Some(&namespace), event);
    async move {
        match written.await {
            Err(failure) if failure.class == Class::Conflict => Ok(()),
            written => written.map(drop),
        }
    }
    .boxed()
}

/// An event as it is made, and where it lies.
struct Made {
    namespace: String,
    name: String,
    event: Value,
}

fn made(about: About, kind: EventType, reason: &str, message: &str) -> Made {
    let text = format!("{}/{:?}/{reason}/{message}", about.kind, about.uid);
    let name = name(&about.name, &text);
    let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let now = clock::now();
    let event = json!({
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": { "apiVersion": about.api_version, "kind": about.kind,
            "name": about.name, "namespace": about.namespace, "uid": about.uid },
        "type": format!("{kind:?}"), "reason": reason,
        "message": message.chars().take(1024).collect::<String>(),
        "source": { "component": FIELD_MANAGER },
        "reportingComponent": FIELD_MANAGER, "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    Made { namespace, name, event }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::{scripted, status};

    /// As an API server keeps it: this process knows nothing of earlier ones.
    #[tokio::test]
    async fn an_event_counts_on_after_a_restart() {
        let kept = Arc::new(Mutex::new(Value::Null));
        let server = kept.clone();
        let cluster = scripted(move |method, _, body| {
            let mut kept = server.lock().unwrap();
            match method.as_str() {
                "POST" if kept.is_null() => *kept = body,
                "POST" => return status(409, "already exists"),
                _ => {
                    for (field, value) in body.as_object().unwrap() {
                        kept[field] = value.clone();
                    }
                }
            }
            (200, kept.clone())
        });
        for expected in 1..=3 {
            let about = About::core("Pod", "shop", "web", Some("u1".to_owned()));
            write(&cluster, about, EventType::Warning, "Refused", "no").await.unwrap();
            let kept = kept.lock().unwrap();
            assert_eq!(kept["count"], expected);
            assert_eq!(kept["metadata"]["namespace"], "shop");
        }
        let first = kept.lock().unwrap()["firstTimestamp"].clone();
        assert!(first.is_string(), "when it came first stays");
    }
}
