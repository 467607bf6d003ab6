//! Pods of a node that leaves, against a scripted API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mercato_offload::home::leaving::{Fate, Left};
use mercato_offload::placement::export::{OptIn, WhenLeaving};
use mercato_offload::placement::spec::{Leaving, LeavingWhy};
use mercato_protocol::id::{ClusterId, ContractId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::opted_in;
use crate::bodies::Bodies;
use crate::format::clock;
use crate::home::{ClusterClaims, HomeConfig, HomeSide, Leavers};
use crate::offload_namespace::Known;
use crate::testing::{scripted, status};

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

fn node(name: &str, taints: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "taints": taints }, "status": {
        "allocatable": { "cpu": "8", "pods": "110" },
        "conditions": [{ "type": "Ready", "status": "True" }] } })
}

fn pod() -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "5",
            "ownerReferences": [{ "kind": "Job", "uid": "j1", "controller": true }] },
        "spec": { "nodeName": "mercato-turin", "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "app", "image": "a" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } })
}

struct Bed {
    side: HomeSide,
    left: watch::Receiver<Left>,
    asked: Asked,
    _known: watch::Sender<Known>,
}

/// A side whose node has that pod; its eviction is answered so.
fn bed(how: OptIn, eviction: (u16, Value)) -> Bed {
    let asked = Asked::default();
    let seen = asked.clone();
    let cluster = scripted(move |method, path, body| {
        let list = |kind: &str, items: Value| {
            let list = json!({ "apiVersion": "v1", "kind": kind, "items": items,
                "metadata": { "resourceVersion": "9" } });
            (200, list)
        };
        match path {
            _ if path.contains("watch=") => return status(503, "not watched in this test"),
            _ if method == "GET" && path.starts_with("/api/v1/nodes") => {
                let leaves = json!([{ "key": "mercato.dev/leaving", "effect": "NoSchedule" }]);
                let nodes = json!([node("home", json!([])), node("mercato-turin", leaves)]);
                return list("NodeList", nodes);
            }
            _ if method == "GET" && path.contains("fieldSelector") => {
                return list("PodList", json!([pod()]));
            }
            _ => {}
        }
        seen.lock().unwrap().push((format!("{method} {path}"), body));
        if path.contains("/eviction") { eviction.clone() } else { (200, pod()) }
    });
    let (_known, known) = watch::channel(opted_in("shop", how));
    let config = HomeConfig {
        node: "mercato-turin".into(),
        contract: ContractId([0x2f; 16]),
        provider: ClusterId([0x4f; 32]),
        host_ip: "10.0.0.1".parse().unwrap(),
        audiences: BTreeSet::new(),
        domain: None,
        api: None,
    };
    let claims = ClusterClaims::new(cluster.clone(), known.clone()).into();
    let (side, inputs) = HomeSide::start(cluster, config, Bodies::default(), known, claims);
    // Nobody listens to what the session would be told.
    drop(inputs);
    let (tell, left) = watch::channel(Left::new());
    side.sees_to_leaving(Arc::new(Leavers::default()), 3_600, tell);
    Bed { side, left, asked, _known }
}

fn leaves(in_s: u64) -> Option<Leaving> {
    let now_ms = clock::now_ms();
    let (from_ms, at_ms) = (now_ms - 60_000, now_ms + in_s * 1_000);
    Some(Leaving { from_ms, at_ms, why: LeavingWhy::Expires })
}

fn asked_for(asked: &Asked, what: &str) -> Vec<Value> {
    let asked = asked.lock().unwrap();
    asked.iter().filter(|(did, _)| did.starts_with(what)).map(|(_, body)| body.clone()).collect()
}

const EVICTION: &str = "POST /api/v1/namespaces/shop/pods/web/eviction";

#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_by_its_uid_and_what_a_budget_holds_is_asked_again_and_told_once() {
    let held = status(429, "Cannot evict pod as it would violate the pod's disruption budget.");
    let Bed { side, mut left, asked, _known } = bed(OptIn::default(), held);
    side.set_leaving(leaves(600));
    let is_held = |left: &Left| *left == BTreeMap::from([(Fate::Budget, 1)]);
    timeout(Duration::from_secs(30), left.wait_for(is_held)).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let evictions = asked_for(&asked, EVICTION);
    assert!((3..=6).contains(&evictions.len()), "{}", evictions.len());
    assert_eq!(evictions[0]["deleteOptions"]["preconditions"]["uid"], "u1");
    let events = asked_for(&asked, "POST /api/v1/namespaces/shop/events");
    let reasons: Vec<_> = events.iter().map(|it| it["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["Leaving", "LeavingHeld"]);
    // The term is extended: nothing more is evicted.
    side.set_leaving(None);
    timeout(Duration::from_secs(30), left.wait_for(Left::is_empty)).await.unwrap().unwrap();
    let before = asked_for(&asked, EVICTION).len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(asked_for(&asked, EVICTION).len(), before);
    assert!(asked_for(&asked, "DELETE").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_stays_is_ended_in_the_last_step_as_one_of_a_job() {
    let how = OptIn { when_leaving: WhenLeaving::Stay, ..OptIn::default() };
    let Bed { side, mut left, asked, _known } = bed(how, (201, json!({})));
    side.set_leaving(leaves(40));
    timeout(Duration::from_secs(30), left.changed()).await.unwrap().unwrap();
    assert_eq!(*left.borrow_and_update(), BTreeMap::from([(Fate::Stays, 1)]));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let asked: Vec<String> = asked.lock().unwrap().iter().map(|(did, _)| did.clone()).collect();
    let of_pod: Vec<_> = asked.iter().filter(|did| did.contains("/pods/web")).collect();
    assert_eq!(of_pod.len(), 2, "{asked:?}");
    assert!(of_pod[0].starts_with("PATCH") && of_pod[0].contains("/status"), "{of_pod:?}");
    assert!(of_pod[1].starts_with("DELETE"), "{of_pod:?}");
}
