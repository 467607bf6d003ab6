//! A virtual node against a scripted API server.

use std::sync::{Arc, Mutex};

use mercato_offload::placement::NodeLabels;
use mercato_offload::placement::spec::{Taint, TunnelWord};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::terms::Platform;

use super::*;
use crate::apiserver::failure::Class;
use crate::testing::{scripted, status, until};
use crate::upkeep::Upkeep;

type Requests = Arc<Mutex<Vec<String>>>;

fn spec() -> NodeSpec {
    NodeSpec {
        name: "mercato-turin".into(),
        contract: ContractId([5; 16]),
        provider: ClusterId([7; 32]),
        not_after_ms: 1_798_761_599_000,
        platform: Platform { arch: "arm64".parse().unwrap(), os: "linux".parse().unwrap() },
        labels: NodeLabels::default(),
        jurisdiction: None,
        price: String::new(),
        capacity: BTreeMap::from([("cpu".into(), "8".into())]),
        address: "10.0.0.1".parse().unwrap(),
        port: 10350,
        version: "v1.35.4".into(),
        storage: false,
        taint: Taint::Tainted,
        leaving: None,
        suspended: false,
        bought: false,
        reachable: true,
        tunnel: TunnelWord::Awaited,
    }
}

/// A cluster with this node, or with the one that is created.
fn cluster(node: Option<Value>) -> (Cluster, Requests) {
    let requests = Requests::default();
    let (seen, node) = (requests.clone(), Mutex::new(node));
    let cluster = scripted(move |method, path, body| {
        seen.lock().unwrap().push(format!("{method} {path}"));
        if path.contains("/leases") {
            return (200, body);
        }
        let mut node = node.lock().unwrap();
        if method == "POST" {
            *node = Some(body);
        }
        node.clone().map_or_else(|| status(404, "not found"), |node| (200, node))
    });
    (cluster, requests)
}

fn start(cluster: Cluster) -> VirtualNode {
    let news = NodeNews::new(Upkeep::start(cluster.clone()));
    VirtualNode::start(cluster, spec(), &news)
}

async fn settled(node: &VirtualNode) -> NodeState {
    let mut state = node.state();
    state.wait_for(|state| *state != NodeState::Starting).await.unwrap().clone()
}

#[tokio::test]
async fn a_node_is_made_kept_and_removed() {
    let (cluster, requests) = cluster(None);
    let node = start(cluster);
    assert_eq!(settled(&node).await, NodeState::Kept);
    let made = std::mem::take(&mut *requests.lock().unwrap());
    let did = |what: &str| made.iter().any(|request| request.starts_with(what));
    assert!(did("POST /api/v1/nodes") && did("PATCH /api/v1/nodes/mercato-turin/status"));
    assert!(did("PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"));
    node.remove().await.unwrap();
    let deleted = requests.lock().unwrap().iter().filter(|r| r.starts_with("DELETE")).count();
    assert_eq!(deleted, 2);
}

#[tokio::test]
async fn a_node_that_was_taken_for_dead_or_deleted_is_written_again() {
    let kept = Arc::new(Mutex::new(Value::Null));
    let (stands, writes) = (kept.clone(), Arc::new(Mutex::new(0_usize)));
    let written = writes.clone();
    let cluster = scripted(move |method, path, body| {
        let mut node = stands.lock().unwrap();
        if method == "GET" {
            return if node.is_null() { status(404, "none") } else { (200, node.clone()) };
        }
        if path.contains("/leases/") {
            return (200, body);
        }
        *written.lock().unwrap() += usize::from(path.contains("/status"));
        for (part, fields) in body.as_object().unwrap() {
            for (name, field) in fields.as_object().into_iter().flatten() {
                node[part][name] = field.clone();
            }
        }
        (200, node.clone())
    });
    let (spec, mut renewed) = (Arc::new(spec()), Kept::default());
    for writes_before in [1, 1] {
        renewed.renew(&cluster, &spec).await.unwrap();
        assert_eq!(*writes.lock().unwrap(), writes_before, "as it stands it is left");
    }
    kept.lock().unwrap()["status"]["conditions"] =
        json!([{ "type": "Ready", "status": "Unknown" }]);
    let changed = renewed.changed(&cluster, &spec).await;
    assert!(matches!(changed, Changed::InStatus), "a node controller says so, too");
    let taints = kept.lock().unwrap()["spec"]["taints"].take();
    let changed = renewed.changed(&cluster, &spec).await;
    assert!(matches!(changed, Changed::ByOthers(Meddling::Edited(None))), "no taint");
    kept.lock().unwrap()["spec"]["taints"] = taints;
    kept.lock().unwrap()["metadata"]["labels"] = json!({ CONTRACT: spec.contract.to_string() });
    renewed.renew(&cluster, &spec).await.unwrap();
    assert_eq!(*writes.lock().unwrap(), 2);
    assert!(matches!(renewed.changed(&cluster, &spec).await, Changed::No), "it is left");
    *kept.lock().unwrap() = Value::Null;
    let Changed::ByOthers(how) = renewed.changed(&cluster, &spec).await else { panic!("unseen") };
    assert_eq!(how, Meddling::Deleted);
    let new = Kept::default().changed(&cluster, &spec).await;
    assert!(matches!(new, Changed::No), "it was not written yet");
    renewed.renew(&cluster, &spec).await.unwrap();
    assert_eq!(*writes.lock().unwrap(), 3);
}

#[tokio::test]
async fn a_tunnel_is_told_where_it_changes_and_nowhere_else() {
    let (node, events) = (Arc::new(Mutex::new(Value::Null)), Requests::default());
    let (stands, seen) = (node.clone(), events.clone());
    let cluster = scripted(move |method, path, body| {
        let mut node = stands.lock().unwrap();
        if path.contains("/events") {
            let of = &body["involvedObject"];
            assert_eq!([&of["kind"], &of["name"], &of["uid"]], ["Node", "mercato-turin", "u1"]);
            let text = ["type", "reason", "message"].map(|field| body[field].as_str().unwrap());
            seen.lock().unwrap().push(text.join(" "));
        } else if method == "GET" && node.is_null() {
            return status(404, "none");
        } else if method == "POST" || path.contains("/status") {
            for (part, fields) in body.as_object().unwrap() {
                node[part] = fields.clone();
            }
            node["metadata"]["uid"] = "u1".into();
            node["metadata"]["labels"] = json!({ CONTRACT: ContractId([5; 16]).to_string() });
        }
        (200, if path.contains("/nodes") { node.clone() } else { body })
    });
    let shown = start(cluster);
    let off = |reason: &str| TunnelWord::Off { reason: reason.to_owned() };
    let words = [off("no /dev/net/tun"), off("no /dev/net/tun"), TunnelWord::Up, off("UDP 7475")];
    for tunnel in words {
        shown.update(|node| node.tunnel = tunnel.clone());
        let written = || {
            let node = node.lock().unwrap();
            let conditions = node["status"]["conditions"].as_array().cloned();
            conditions.is_some_and(|all| all.iter().any(|one| one["message"] == tunnel.message()))
                && events
                    .lock()
                    .unwrap()
                    .last()
                    .is_some_and(|last| last.ends_with(&tunnel.message()))
        };
        until("the node and the event are written", written).await;
        shown.update(|node| node.tunnel = tunnel.clone());
    }
    let told = std::mem::take(&mut *events.lock().unwrap());
    assert_eq!(
        told,
        [
            "Warning NoTunnel no /dev/net/tun",
            "Normal TunnelUp pods of both clusters reach each other",
            "Warning NoTunnel UDP 7475",
        ]
    );
}

#[tokio::test]
async fn anothers_node_is_a_conflict_and_stays() {
    let (cluster, requests) = cluster(Some(json!({ "metadata": { "name": "mercato-turin" } })));
    let node = start(cluster);
    let NodeState::Failing(failure) = settled(&node).await else { panic!() };
    assert_eq!(failure.class, Class::Conflict);
    node.remove().await.unwrap();
    assert!(requests.lock().unwrap().iter().all(|request| request.starts_with("GET")));
}

/// As `config/deploy/policies.yaml` has it: nothing is written of a virtual node without its taint.
#[tokio::test]
async fn a_node_whose_taint_somebody_has_removed_has_it_again() {
    let mut node = spec().created();
    node["spec"]["taints"] = json!([]);
    let node = Arc::new(Mutex::new(node));
    let stands = node.clone();
    let cluster = scripted(move |method, path, body| {
        let mut node = stands.lock().unwrap();
        if path.contains("/leases/") {
            return (200, body);
        }
        if !body["spec"]["taints"].is_null() {
            node["spec"]["taints"] = body["spec"]["taints"].clone();
        }
        let is_tainted = node["spec"]["taints"].as_array().is_some_and(|all| !all.is_empty());
        if method == "GET" || is_tainted { (200, node.clone()) } else { status(422, "denied") }
    });
    Kept::default().renew(&cluster, &Arc::new(spec())).await.unwrap();
    assert_eq!(node.lock().unwrap()["spec"]["taints"][0]["key"], "mercato.dev/provider");
}
