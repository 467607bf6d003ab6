//! What the story needs of its two clusters, be they simulated or real.

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use crate::kubernetes::Kubernetes;

/// What the answers of clusters are; the story is told by one thread.
pub(super) type Asked<'a, T> = LocalBoxFuture<'a, anyhow::Result<T>>;

/// Where a thing of the story is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The cluster of rome, which buys.
    Home,
    /// The cluster of turin, which sells.
    Away,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Home => "rome",
            Self::Away => "turin",
        }
    }
}

/// The two clusters of the story.
pub(super) trait Clusters: Send + Sync {
    /// The word for both: `simulated`, or `real`.
    fn kind(&self) -> &'static str;

    /// The namespace at home that the story is played in.
    fn namespace(&self) -> &str;

    /// The image that the pod runs.
    fn image(&self) -> &str;

    /// What is bought, such as `cpu=2,memory=4Gi`.
    fn wanted(&self) -> &'static str;

    /// As a daemon sees it.
    fn kubernetes(&self, place: Place) -> Arc<dyn Kubernetes>;

    /// Makes what has to be there before the story begins.
    fn prepare(&self) -> Asked<'_, ()>;

    /// Makes the pod at home.
    fn start_pod(&self) -> Asked<'_, ()>;

    /// The pod at home, if it is there.
    fn pod(&self) -> Asked<'_, Option<Value>>;

    /// Those of guests, at the provider.
    fn guest_namespaces(&self) -> Asked<'_, Vec<String>>;

    /// Whether nothing of a lease is left on either side.
    fn is_clean(&self) -> Asked<'_, bool>;

    /// The daemons are still there: what they can remove by themselves is begun.
    fn release(&self) -> Asked<'_, ()>;

    /// The daemons are gone: removes all that is left, however far the story came.
    fn clear(&self) -> Asked<'_, ()>;
}

/// The pod of the story.
pub(super) fn pod(namespace: &str, name: &str, image: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": name } },
        "spec": {
            "nodeSelector": { "type": "virtual-kubelet" },
            "terminationGracePeriodSeconds": 5,
        },
    });
    let mut container = spec.clone();
    container["name"] = name.into();
    container["image"] = image.into();
    pod["spec"]["containers"] = json!([container]);
    pod
}
