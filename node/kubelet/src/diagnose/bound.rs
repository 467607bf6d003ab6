//! Pods that are bound to virtual nodes and stay at home, since nobody has let their namespaces leave.

use std::collections::BTreeMap;

use futures::FutureExt;
use mercato_offload::placement::export::stands_in_for;
use serde_json::Value;

use super::OURS;
use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::{NODE, POD};
use crate::offload_namespace::OptedIn;

/// The pods of one namespace that are bound to virtual nodes, and stay at home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranded {
    /// The namespace that the pods are in.
    pub namespace: String,
    /// The name of one of them.
    pub one: String,
    /// How many pods there are, on all virtual nodes.
    pub pods: usize,
    /// How many of them are shown as running, though nothing of them does.
    pub answered_for: usize,
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
            let bound = format!("fieldSelector=spec.nodeName%3D{name}");
            let waits = |pod: &Value| pod["status"]["phase"] == "Pending";
            let pods = cluster.list(POD, None, &bound).await?.into_iter();
            for pod in pods.filter(|pod| waits(pod) || stands_in_for(pod).is_some()) {
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
        answered_for: 0,
        of_daemon_sets: true,
    };
    let stranded = all.entry(namespace.clone()).or_insert_with(first);
    stranded.pods += 1;
    stranded.answered_for += usize::from(stands_in_for(pod).is_some());
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
                    "ownerReferences": [{ "kind": kind, "controller": true }] },
                    "status": { "phase": "Pending" } })
            };
            let items = if path.starts_with("/api/v1/nodes") {
                vec![node("mercato-turin", "mercato://turin/c1"), node("worker", "aws:///b")]
            } else {
                assert!(path.contains("spec.nodeName%3Dmercato-turin&"), "{path}");
                let mut runs = pod("shop", "db", "StatefulSet");
                runs["status"]["phase"] = "Running".into();
                let mut shown = pod("kube-system", "agent-2", "DaemonSet");
                let said = json!([{ "type": "mercato.dev/NotOffloaded", "status": "True" }]);
                shown["status"] = json!({ "phase": "Running", "conditions": said });
                let mut ends = pod("kube-system", "old", "DaemonSet");
                ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                vec![
                    ends,
                    pod("kube-system", "agent-1", "DaemonSet"),
                    shown,
                    runs,
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
        let found = |namespace: &str, one: &str, pods, answered_for, of_daemon_sets| {
            let (namespace, one) = (namespace.to_owned(), one.to_owned());
            Stranded { namespace, one, pods, answered_for, of_daemon_sets }
        };
        let wanted =
            [found("kube-system", "agent-1", 2, 1, true), found("near", "web", 1, 0, false)];
        assert_eq!(stranded, wanted);
    }
}
