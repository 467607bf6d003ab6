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
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
}

/// A warning. The same one again only renews its time: its name is its content.
pub(crate) fn warning(cluster: &Cluster, about: About, reason: &str, message: &str) -> Answer<()> {
    let text = format!("{}/{:?}/{reason}/{message}", about.kind, about.uid);
    let digest: String =
        Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{}.{digest}", about.name.chars().take(200).collect::<String>());
    let now = clock::now();
    let event = json!({
        "metadata": { "namespace": about.namespace },
        "involvedObject": { "apiVersion": "v1", "kind": about.kind, "name": about.name,
            "namespace": about.namespace, "uid": about.uid },
        "type": "Warning", "reason": reason,
        "message": message.chars().take(1024).collect::<String>(),
        "source": { "component": FIELD_MANAGER },
        "reportingComponent": FIELD_MANAGER, "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let written = cluster.apply(EVENT, Some(&about.namespace), &name, event);
    async move { written.await.map(drop) }.boxed()
}
