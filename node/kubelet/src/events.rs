//! Events on objects: the reason of a refusal, where `kubectl describe` shows it.

use futures::FutureExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::clock;
use crate::cluster::{Answer, Cluster};
use crate::kind::EVENT;
use crate::names::FIELD_MANAGER;

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

/// How an event is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody should look at it.
    Warning,
}

/// An event. The same one again only renews its time: its name is its content.
pub(crate) fn write(
    cluster: &Cluster,
    about: About,
    kind: EventType,
    reason: &str,
    message: &str,
) -> Answer<()> {
    let text = format!("{}/{:?}/{reason}/{message}", about.kind, about.uid);
    let digest: String =
        Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{}.{digest}", about.name.chars().take(200).collect::<String>());
    let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let now = clock::now();
    let event = json!({
        "metadata": { "namespace": namespace },
        "involvedObject": { "apiVersion": about.api_version, "kind": about.kind,
            "name": about.name, "namespace": about.namespace, "uid": about.uid },
        "type": format!("{kind:?}"), "reason": reason,
        "message": message.chars().take(1024).collect::<String>(),
        "source": { "component": FIELD_MANAGER },
        "reportingComponent": FIELD_MANAGER, "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let written = cluster.apply(EVENT, Some(&namespace), &name, event);
    async move { written.await.map(drop) }.boxed()
}
