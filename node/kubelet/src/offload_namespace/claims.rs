//! Which claims of a pod that is being made are of this cluster's own classes: it runs where these are.

use std::collections::BTreeSet;
use std::time::Instant;

use mercato_offload::placement::claims::{is_ours, named, without_ours};
use serde_json::Value;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::kind::CLAIM;
use crate::bucket::Bucket;
use crate::limits;

/// Looks claims up, a bounded number for each pod, and tells of those that keep their pods at home.
pub(super) struct Claims {
    cluster: Cluster,
    events: Bucket,
}

const STAYS: &str = "StaysHome";
const MESSAGE: &str = "pods that mount it stay on this cluster's own nodes, as its volume does: for storage at a \
                       provider make it with storageClassName: mercato";

impl Claims {
    pub(super) fn new(cluster: Cluster) -> Self {
        let events = Bucket::new(Instant::now(), limits::EVENTS, limits::EVENTS_EACH_S);
        Self { cluster, events }
    }

    /// The pod without the volumes that cross. A claim that is not there, or cannot be read now, counts as one
    /// that crosses: if it turns out otherwise its pod is made again.
    pub(super) async fn without_ours(&self, namespace: &str, pod: Value) -> Value {
        let names: BTreeSet<_> = named(&pod).map(str::to_owned).collect();
        let mut elsewhere = BTreeSet::new();
        let looking = async {
            for name in names.into_iter().take(limits::ADMISSION_CLAIMS) {
                let Ok(Some(claim)) = self.cluster.get(CLAIM, Some(namespace), &name).await else {
                    continue;
                };
                if !is_ours(&claim) {
                    self.tell(namespace, &name, &claim);
                    elsewhere.insert(name);
                }
            }
        };
        let _ = tokio::time::timeout(limits::ADMISSION_LOOK, looking).await;
        without_ours(pod, &elsewhere)
    }

    fn tell(&self, namespace: &str, name: &str, claim: &Value) {
        if !self.events.has_one(Instant::now()) {
            return;
        }
        let uid = claim["metadata"]["uid"].as_str().map(str::to_owned);
        let about = About::core(CLAIM.kind, namespace, name, uid);
        let told = events::write_once(&self.cluster, about, EventType::Normal, STAYS, MESSAGE);
        tokio::spawn(async move {
            if let Err(failure) = told.await {
                tracing::debug!(%failure, "an event is lost");
            }
        });
    }
}
