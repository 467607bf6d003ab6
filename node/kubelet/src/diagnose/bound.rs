//! Pods that are bound to virtual nodes and stay at home, since nobody has let their namespaces leave.

use std::collections::BTreeMap;

use futures::FutureExt;
use serde_json::Value;

use super::OURS;
use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::{NODE, POD};
use crate::offload_namespace::OptedIn;

/// The pods of one namespace that are bound to virtual nodes, and wait there for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranded {
    /// The namespace that the pods are in.
    pub namespace: String,
    /// The name of one of them.
    pub one: String,
    /// How many pods there are, on all virtual nodes.
    pub pods: usize,
    /// Whether DaemonSets have made all of them.
    pub of_daemon_sets: bool,
}

/// Pods on virtual nodes that no session sends, by their namespaces.
pub fn stranded(cluster: &Cluster, opted_in: &OptedIn) -> Answer<Vec<Stranded>> {
    let (cluster, opted_in) = (cluster.clone(), opted_in.clone());
    async move {
        let mut all = BTreeMap::<String, Stranded>::new();
        for node in cluster.list(NODE, None, "").await? {
            let id = node["spec"]["providerID"].as_str();
            let name = node["metadata"]["name"].as_str();
            let Some(name) = name.filter(|_| id.is_some_and(|id| id.starts_with(OURS))) else {
                continue;
            };
            let bound = format!("fieldSelector=spec.nodeName%3D{name},status.phase%3DPending");
            for pod in cluster.list(POD, None, &bound).await? {
                add(&mut all, &pod, &opted_in);
            }
        }
        Ok(all.into_values().collect())
    }
    .boxed()
}

fn add(all: &mut BTreeMap<String, Stranded>, pod: &Value, opted_in: &OptedIn) {
    let metadata = &pod["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let namespace = text("namespace");
    if !metadata["deletionTimestamp"].is_null() || !opted_in.leave(&namespace).is_refused() {
        return;
    }
    let owners = metadata["ownerReferences"].as_array();
    let of_daemon_set =
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet"));
    let first = || Stranded {
        namespace: namespace.clone(),
        one: text("name"),
        pods: 0,
        of_daemon_sets: true,
    };
    let stranded = all.entry(namespace.clone()).or_insert_with(first);
    stranded.pods += 1;
    stranded.of_daemon_sets &= of_daemon_set;
}

#[cfg(test)]
mod tests {
    use mercato_offload::placement::export::{OptIn, Scope, Strategy};
    use serde_json::json;

    use super::*;
    use crate::testing::scripted;

    #[tokio::test]
    async fn pods_on_virtual_nodes_of_namespaces_that_stay_are_found() {
        let cluster = scripted(|_, path, _| {
            let node = |name: &str, id: &str| json!({ "metadata": { "name": name }, "spec": { "providerID": id } });
            let pod = |namespace: &str, name: &str, kind: &str| {
                json!({ "metadata": { "namespace": namespace, "name": name,
                    "ownerReferences": [{ "kind": kind }] } })
            };
            let items = if path.starts_with("/api/v1/nodes") {
                vec![node("mercato-turin", "mercato://turin/c1"), node("worker", "aws:///b")]
            } else {
                assert!(path.contains("spec.nodeName%3Dmercato-turin,"), "{path}");
                let mut ends = pod("kube-system", "old", "DaemonSet");
                ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                vec![
                    ends,
                    pod("kube-system", "agent-1", "DaemonSet"),
                    pod("kube-system", "agent-2", "DaemonSet"),
                    pod("near", "web", "ReplicaSet"),
                    pod("shop", "web", "ReplicaSet"),
                ]
            };
            (200, json!({ "items": items }))
        });
        let local = OptIn { strategy: Strategy::Local, ..OptIn::default() };
        let all = [("shop".to_owned(), OptIn::default()), ("near".to_owned(), local)];
        let opted_in = OptedIn::ready(Scope::Labelled, all.into());
        let stranded = stranded(&cluster, &opted_in).await.unwrap();
        let found = |namespace: &str, one: &str, pods, of_daemon_sets| {
            let (namespace, one) = (namespace.to_owned(), one.to_owned());
            Stranded { namespace, one, pods, of_daemon_sets }
        };
        let wanted = [found("kube-system", "agent-1", 2, true), found("near", "web", 1, false)];
        assert_eq!(stranded, wanted);
    }
}
