//! Home's side against scripted API servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mercato_offload::address::Reach;
use mercato_offload::body::Way;
use mercato_offload::forge::Refusal;
use mercato_offload::home::{HomePod, Input, Write};
use mercato_offload::key::{Item, ObjectKind, PodId, Uid, key};
use mercato_offload::message::{EventKind, PodEvent};
use mercato_offload::placement::export::{GuestName, OptIn, Scope, Secrets, Targets};
use mercato_protocol::id::{ClusterId, Digest};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{ClusterClaims, HomeConfig, HomeSide};
use crate::bodies::Bodies;
use crate::limits;
use crate::offload_namespace::{Known, OptedIn};
use crate::testing::{scripted, status};

mod away;
mod drain;
mod leaving;
mod namespaces;
mod services;
mod tokens;

type Writes = Arc<Mutex<Vec<(String, Value)>>>;

struct Bed {
    side: HomeSide,
    inputs: mpsc::Receiver<Input>,
    bodies: Bodies,
    writes: Writes,
    opted_in: watch::Sender<Known>,
}

fn pod(namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web", "namespace": namespace, "uid": "u1", "resourceVersion": "5" },
        "spec": { "nodeName": "turin", "serviceAccountName": "reader",
            "containers": [{ "name": "app", "image": "a" }],
            "volumes": [{ "name": "t", "projected": { "sources": [
                { "serviceAccountToken": { "path": "token", "audience": "vault", "expirationSeconds": 7200 } } ] } },
                { "name": "c", "secret": { "secretName": "sec" } }] },
        "status": { "phase": "Pending", "reason": "OffloadRefused" } })
}

fn id(namespace: &str) -> PodId {
    PodId { uid: Uid("u1".into()), namespace: namespace.into(), name: "web".into() }
}

fn services() -> Value {
    let redis = json!({ "metadata": { "name": "redis", "namespace": "shop" },
        "spec": { "clusterIP": "10.0.0.11", "ports": [{ "port": 6379 }] } });
    json!({ "apiVersion": "v1", "kind": "ServiceList",
        "metadata": { "resourceVersion": "9" }, "items": [redis] })
}

/// One pod in `namespace`; writes are answered with `answer`, and the pod, asked
/// for by name, is `there`.
async fn bed(
    namespace: &'static str,
    there: Option<Value>,
    answer: (u16, Value),
) -> (Bed, HomePod) {
    let writes = Writes::default();
    let seen = writes.clone();
    let cluster = scripted(move |method, path, body| {
        if path.contains("watch=") {
            return status(503, "not watched in this test");
        }
        if path.contains("selfsubjectaccessreviews") {
            return (201, json!({ "status": { "allowed": true } }));
        }
        if method == "GET" && path.contains("fieldSelector") {
            let list = json!({ "apiVersion": "v1", "kind": "PodList",
                "metadata": { "resourceVersion": "9" }, "items": [pod(namespace)] });
            return (200, list);
        }
        if method == "GET" {
            let object = match path {
                _ if path.contains("/pods/") => there.clone(),
                _ if path.contains("/secrets/sec") => Some(json!({ "data": { "pw": "eA==" } })),
                _ if path.contains("/services?") => Some(services()),
                _ => None,
            };
            return object.map_or_else(|| status(404, "not found"), |object| (200, object));
        }
        seen.lock().unwrap().push((format!("{method} {path}"), body));
        answer.clone()
    });
    let both = OptIn { api_access: true, ..OptIn::default() };
    let (opted_in, receiver) = watch::channel(opted_in("shop", both));
    let config = HomeConfig {
        node: "turin".into(),
        contract: mercato_protocol::id::ContractId([0x2f; 16]),
        provider: ClusterId([0x4f; 32]),
        host_ip: "10.0.0.1".parse().unwrap(),
        audiences: BTreeSet::new(),
        domain: None,
        api: None,
    };
    let bodies = Bodies::default();
    let claims = ClusterClaims::new(cluster.clone(), receiver.clone()).into();
    let (side, mut inputs) = HomeSide::start(cluster, config, bodies.clone(), receiver, claims);
    let Some(Input::Synced(mut pods)) = inputs.recv().await else { panic!("no list came first") };
    (Bed { side, inputs, bodies, writes, opted_in }, pods.remove(0))
}

fn opted_in(namespace: &str, how: OptIn) -> Known {
    let ready = BTreeMap::from([(namespace.to_owned(), how)]);
    Some(Arc::new(OptedIn::ready(Scope::Labelled, ready)))
}

impl Bed {
    async fn write(&mut self, namespace: &str, write: Write) -> Input {
        self.side.write(id(namespace), write);
        self.inputs.recv().await.unwrap()
    }
}

#[tokio::test]
async fn an_offloaded_pod_is_told_with_what_it_needs() {
    let (bed, told) = bed("shop", None, (200, json!({}))).await;
    assert_eq!(told.refusal, None);
    let kinds: Vec<_> = told.needs.iter().map(|key| (key.kind, key.name.as_str())).collect();
    assert!(kinds.contains(&(ObjectKind::Secret, "sec")), "{kinds:?}");
    assert_eq!(kinds.len(), 2, "and its token");
    let body = bed.bodies.object(&told.digest).here().unwrap();
    assert!(body["status"].is_null());
    let of_services = &body["spec"]["containers"][0]["env"];
    let host = json!({ "name": "REDIS_SERVICE_HOST", "value": "10.0.0.11" });
    assert!(of_services.as_array().unwrap().contains(&host), "{of_services}");
    assert_eq!(bed.side.pods().uid("shop", "web").as_deref(), Some("u1"));
}

#[tokio::test]
async fn a_pod_ends_though_its_namespace_has_gone_first() {
    let mut ending = pod("shop");
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    ending["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let (mut bed, _) = bed("shop", Some(ending), (200, json!({}))).await;
    let none = OptedIn::ready(Scope::All, BTreeMap::new());
    bed.opted_in.send_replace(Some(Arc::new(none)));
    bed.side.confirm(id("shop"));
    let told = tokio::time::timeout(Duration::from_secs(10), bed.inputs.recv()).await;
    let Some(Input::Pod(told)) = told.unwrap() else { panic!() };
    assert_eq!(told.deletion_grace_s, Some(30));
}

#[tokio::test]
async fn a_guest_says_how_it_came() {
    let mut guest = pod("shop");
    guest["metadata"]["labels"] = json!({ crate::names::CONTRACT: "5" });
    let (mut bed, told) = bed("shop", Some(guest), (200, json!({}))).await;
    bed.side.confirm(id("shop"));
    let Some(Input::Pod(guest)) = bed.inputs.recv().await else { panic!() };
    assert_eq!((told.route, guest.route.map(|came| came.hops)), (None, Some(0)));
}

#[tokio::test]
async fn a_refusal_is_written_where_no_event_can_be() {
    let (mut bed, _) = bed("shop", None, status(403, "it is being terminated")).await;
    let mut running = pod("shop");
    running["metadata"]["resourceVersion"] = "6".into();
    running["status"] = json!({ "phase": "Running" });
    bed.side.shared.pods.refresh(running);
    let refusal = Refusal { path: String::new(), reason: "no".into() };
    assert_eq!(bed.write("shop", Write::Refusal(refusal)).await, Input::Written(Uid("u1".into())));
}

#[tokio::test]
async fn a_pod_on_a_node_that_its_namespace_may_not_go_to_is_refused() {
    let (mut bed, _) = bed("shop", None, (200, json!({}))).await;
    let to = |node: &str| OptIn { targets: Targets::new([node.to_owned()]), ..OptIn::default() };
    let provider = "4f".repeat(32);
    for (targets, path) in [("lyon", Some("spec.nodeName")), (&provider, None)] {
        bed.opted_in.send_replace(opted_in("shop", to(targets)));
        let Some(Input::Pod(told)) = bed.inputs.recv().await else { panic!() };
        assert_eq!(told.refusal.map(|refusal| refusal.path).as_deref(), path, "{targets}");
    }
}

#[tokio::test]
async fn a_pod_says_where_it_is_to_be() {
    let (mut bed, told) = bed("shop", None, (200, json!({}))).await;
    assert_eq!(told.place, None, "the provider's to name");
    let called = |name: &str| OptIn { name: GuestName::from(name), ..OptIn::default() };
    for (name, place) in [("same", Some("shop")), ("shop-eu", Some("shop-eu")), ("kube-x", None)] {
        bed.opted_in.send_replace(opted_in("shop", called(name)));
        let Some(Input::Pod(told)) = bed.inputs.recv().await else { panic!() };
        assert_eq!(told.place.as_deref(), place);
        assert_eq!(told.refusal.is_some(), place.is_none(), "{name}: {:?}", told.refusal);
    }
}

#[tokio::test]
async fn a_status_carries_the_uid() {
    let (mut bed, _) = bed("shop", None, (200, pod("shop"))).await;
    let guest = json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z" });
    let digest = bed.bodies.keep(Way::ToHome, &Item::Pod(id("shop")), &guest).unwrap();
    let write =
        Write::Status { status: Some(digest), outcome: None, reach: Reach::Not, resize: None };
    assert_eq!(bed.write("shop", write).await, Input::Written(Uid("u1".into())));
    let (request, patch) = bed.writes.lock().unwrap().remove(0);
    assert!(request.starts_with("PATCH /api/v1/namespaces/shop/pods/web/status"), "{request}");
    assert_eq!(patch["metadata"]["uid"], "u1");
    let reason = patch["status"].as_object().unwrap().get("reason");
    assert_eq!(reason, Some(&Value::Null), "an earlier refusal is taken back");
    assert_eq!(
        (&patch["status"]["phase"], &patch["status"]["hostIP"]),
        (&json!("Running"), &json!("10.0.0.1"))
    );
}

#[tokio::test]
async fn an_event_of_a_guest_is_a_kubelets_of_the_virtual_node() {
    let (bed, _) = bed("shop", None, status(409, "already exists")).await;
    let event = PodEvent {
        kind: EventKind::Warning,
        reason: "BackOff".into(),
        field: "spec.containers{app}".into(),
        message: "Back-off".into(),
        count: 3,
    };
    bed.side.event(id("shop"), event);
    let writes = async {
        loop {
            if let [made, again] = &bed.writes.lock().unwrap()[..] {
                return (made.clone(), again.clone());
            }
            tokio::task::yield_now().await;
        }
    };
    let ((made, event), (again, patch)) =
        tokio::time::timeout(Duration::from_secs(10), writes).await.unwrap();
    assert!(made.starts_with("POST /api/v1/namespaces/shop/events"), "{made}");
    assert_eq!(event["source"], json!({ "component": "kubelet", "host": "turin" }));
    assert_eq!(event["involvedObject"]["uid"], "u1");
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{app}");
    assert_eq!((&event["type"], &event["count"]), (&json!("Warning"), &json!(3)));
    let name = event["metadata"]["name"].as_str().unwrap();
    assert!(again.contains(&format!("/events/{name}?")), "{again}");
    assert_eq!((&patch["count"], &patch["firstTimestamp"]), (&json!(3), &Value::Null));
}

#[tokio::test]
async fn events_of_guests_are_not_written_without_end() {
    let (bed, _) = bed("shop", None, (201, json!({}))).await;
    for n in 0..2 * limits::GUEST_EVENTS {
        let event = PodEvent {
            kind: EventKind::Normal,
            reason: "Pulled".into(),
            field: String::new(),
            message: n.to_string(),
            count: 1,
        };
        bed.side.event(id("shop"), event);
        while bed.side.told.capacity() < bed.side.told.max_capacity() {
            tokio::task::yield_now().await;
        }
    }
    let written = bed.writes.lock().unwrap().len() as u64;
    assert!((limits::GUEST_EVENTS..limits::GUEST_EVENTS + 100).contains(&written), "{written}");
}

#[tokio::test]
async fn a_change_that_is_refused_leaves_a_running_pod_as_it_is() {
    let mut running = pod("shop");
    running["status"] = json!({ "phase": "Running" });
    running["metadata"]["resourceVersion"] = "6".into();
    let (mut bed, _) = bed("shop", None, (200, running)).await;
    let started = bed
        .bodies
        .keep(Way::ToHome, &Item::Pod(id("shop")), &json!({ "phase": "Running" }))
        .unwrap();
    bed.write(
        "shop",
        Write::Status { status: Some(started), outcome: None, reach: Reach::Not, resize: None },
    )
    .await;
    let refusal = Refusal { path: "spec.containers.resources".into(), reason: "no room".into() };
    let written = bed.write("shop", Write::Refusal(refusal)).await;
    assert_eq!(written, Input::Written(Uid("u1".into())));
    let writes: Vec<_> = bed.writes.lock().unwrap().drain(1..).collect();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(writes[0].0.contains("/events"), "{writes:?}");
    assert!(writes[0].1["message"].as_str().unwrap().contains("no room"));
}

#[tokio::test]
async fn what_home_says_already_is_not_written() {
    let running = json!({ "phase": "Pending", "reason": "OffloadRefused" });
    let (mut bed, _) = bed("shop", None, status(500, "etcd")).await;
    let status = Some(bed.bodies.keep(Way::ToHome, &Item::Pod(id("shop")), &running).unwrap());
    let written = bed
        .write("shop", Write::Status { status, outcome: None, reach: Reach::Not, resize: None })
        .await;
    assert_eq!(written, Input::Written(Uid("u1".into())));
    assert!(bed.writes.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_becomes_of_a_failed_write() {
    let uid = Uid("u1".into());
    let failed = Input::NotWritten { uid: uid.clone(), missing: false };
    let write = |bed: &Bed| {
        let running = bed
            .bodies
            .keep(Way::ToHome, &Item::Pod(id("shop")), &json!({ "phase": "Running" }))
            .unwrap();
        Write::Status { status: Some(running), outcome: None, reach: Reach::Not, resize: None }
    };
    // Another pod of the name: the one that was meant is gone.
    let mut another = pod("shop");
    another["metadata"]["uid"] = "u2".into();
    let (mut other, _) = bed("shop", Some(another), status(409, "uid mismatch")).await;
    let said = write(&other);
    assert_eq!(other.write("shop", said).await, Input::PodMissing(uid.clone()));
    let (mut same, _) = bed("shop", Some(pod("shop")), status(409, "modified")).await;
    let said = write(&same);
    assert_eq!(same.write("shop", said).await, failed);
    let (mut missing, _) = bed("shop", None, status(404, "not found")).await;
    let said = write(&missing);
    assert_eq!(missing.write("shop", said).await, Input::PodMissing(uid.clone()));
    let (mut away, _) = bed("shop", None, status(500, "etcd")).await;
    let said = write(&away);
    assert_eq!(away.write("shop", said).await, failed);
    let unknown = Write::Status {
        status: Some(Digest::of(b"x")),
        outcome: None,
        reach: Reach::Not,
        resize: None,
    };
    let asked = Input::NotWritten { uid, missing: true };
    assert_eq!(away.write("shop", unknown).await, asked);
}

#[tokio::test]
async fn a_pod_of_another_node_is_not_the_providers_to_ask_for() {
    let mut elsewhere = pod("shop");
    elsewhere["spec"]["nodeName"] = json!("rome-1");
    let (mut bed, _) = bed("shop", Some(elsewhere), (200, json!({}))).await;
    bed.side.confirm(id("shop"));
    assert_eq!(bed.inputs.recv().await, Some(Input::PodMissing(Uid("u1".into()))));
}

#[tokio::test]
async fn a_deletion_is_finished_for_one_uid() {
    let (mut bed, _) = bed("shop", None, (200, json!({}))).await;
    assert_eq!(bed.write("shop", Write::FinishDeletion).await, Input::Written(Uid("u1".into())));
    let (request, options) = bed.writes.lock().unwrap().remove(0);
    assert!(request.starts_with("DELETE"), "{request}");
    assert_eq!(options["gracePeriodSeconds"], 0);
    assert_eq!(options["preconditions"]["uid"], "u1");
}

#[tokio::test]
async fn a_watched_object_is_told_there_or_not() {
    let (mut bed, _) = bed("shop", None, (200, json!({}))).await;
    for (name, there) in [("sec", true), ("nope", false)] {
        let watched = key(ObjectKind::Secret, "shop", name);
        bed.side.watch(watched.clone());
        let Some(Input::Object { key, digest }) = bed.inputs.recv().await else { panic!() };
        assert_eq!((key, digest.is_some()), (watched, there));
    }
}
