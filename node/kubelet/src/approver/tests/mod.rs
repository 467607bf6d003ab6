//! Clusters that are asked to approve something.

mod review;

use std::sync::{Arc, Mutex};

use super::*;
use crate::testing::{scripted, status};

/// What a cluster with this request, this node and a daemon's pod is asked to approve, once it
/// was asked about the node `looks` times.
async fn approved(request: Value, node: Option<Value>, looks: usize) -> Vec<Value> {
    approved_beside(daemons_pod("turin-1", "Running"), request, node, looks).await
}

/// The daemon's pod, as it is on that node.
fn daemons_pod(node: &str, phase: &str) -> Value {
    let spec = json!({ "serviceAccountName": "mercato", "hostNetwork": true, "nodeName": node });
    json!({ "spec": spec, "status": { "phase": phase, "hostIP": "10.0.0.1" } })
}

async fn approved_beside(
    pod: Value,
    request: Value,
    node: Option<Value>,
    looks: usize,
) -> Vec<Value> {
    let patches = Arc::new(Mutex::new((0, Vec::new())));
    let told = patches.clone();
    let cluster = scripted(move |method, path, body| {
        let mut told = told.lock().unwrap();
        match (method.as_str(), path.split('?').next().unwrap()) {
            ("GET", path) if path.ends_with("/nodes/mercato-turin") => {
                told.0 += 1;
                node.clone().map_or_else(|| status(404, "no node"), |node| (200, node))
            }
            ("GET", path) if path.ends_with("/namespaces/mercato/pods") => {
                (200, json!({ "items": [pod.clone()], "metadata": {} }))
            }
            ("GET", path) if path.ends_with("/mercato-turin-1") => (200, request.clone()),
            ("PATCH", path) if path.ends_with("/mercato-turin-1/approval") => {
                told.1.push(body);
                (200, request.clone())
            }
            other => panic!("{other:?}"),
        }
    });
    let mut approver = Approver {
        cluster,
        addresses: BTreeSet::new(),
        waiting: [("mercato-turin-1".to_owned(), Repeated::default())].into(),
    };
    for _ in 0..looks {
        approver.look().await;
    }
    let told = patches.lock().unwrap();
    assert!(told.0 <= looks);
    assert_eq!(approver.waiting.is_empty(), !told.1.is_empty() || told.0 < looks);
    told.1.clone()
}

#[tokio::test]
async fn what_was_looked_at_is_approved_once() {
    let request = review::request();
    let patches = approved(request.clone(), Some(review::node()), 3).await;
    assert_eq!(patches, [approval(&request)]);
    assert_eq!(patches[0]["metadata"]["uid"], "u1");
    assert_eq!(patches[0]["metadata"]["resourceVersion"], "7");
}

/// Of a pod that is over its address is somebody else's by now; of one on a virtual node the daemon
/// itself writes the status.
#[tokio::test]
async fn a_pod_that_does_not_run_on_a_node_says_no_address() {
    let mut nowhere = daemons_pod("turin-1", "Running");
    nowhere["spec"].as_object_mut().unwrap().remove("nodeName");
    for pod in [
        daemons_pod("turin-1", "Failed"),
        daemons_pod("turin-1", "Succeeded"),
        daemons_pod("mercato-rome", "Running"),
        nowhere,
    ] {
        let patches =
            approved_beside(pod.clone(), review::request(), Some(review::node()), 3).await;
        assert_eq!(patches, [] as [Value; 0], "{pod}");
    }
}

#[tokio::test]
async fn a_request_waits_for_its_node_and_others_are_left_alone() {
    assert!(approved(review::request(), None, 3).await.is_empty());
    let mut others = review::request();
    others["spec"]["username"] = json!("system:serviceaccount:shop:web");
    assert!(approved(others, Some(review::node()), 1).await.is_empty());
    let mut denied = review::request();
    denied["status"]["conditions"] = json!([{ "type": "Denied", "status": "True" }]);
    assert!(approved(denied, Some(review::node()), 1).await.is_empty());
}
