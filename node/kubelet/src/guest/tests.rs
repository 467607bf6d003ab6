//! The provider's side against scripted API servers.

mod gate;
mod kept;
mod made;
mod marks;
mod services;
mod unkept;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mercato_offload::body::Way;
use mercato_offload::forge::labels::DIGEST;
use mercato_offload::forge::{self, Content, GuestContext};
use mercato_offload::guest::{Failure, Input};
use mercato_offload::key::{Item, ObjectKind, PodId, Uid, key};
use mercato_offload::message::{Outcome, Route};
use mercato_offload::placement::Binding;
use mercato_protocol::id::{ClusterId, ContractId, Digest};
use mercato_protocol::terms::PodSecurity;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::GuestSide;
use super::stored::LeaseStored;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::life::Life;
use crate::bodies::Bodies;
use crate::names::{CONTRACT, HOME_UID};
use crate::testing::{scripted, status};
use crate::upkeep::Upkeep;

const CONTRACT_ID: ContractId = ContractId([5; 16]);

pub(super) fn context() -> GuestContext {
    GuestContext {
        contract: CONTRACT_ID,
        namespaces: BTreeMap::from([("shop".into(), "shop-rome".into())]),
        pod_security: PodSecurity::default(),
        priority_class: None,
        runtime_class: None,
        node_selector: BTreeMap::new(),
        dns_policy: "Default".into(),
        dns_config: None,
        name_server: None,
        keeps_host_names: false,
        user_namespaces: false,
        longest_grace_s: 30,
        gate: None,
        ranges: Vec::new(),
        egress: Default::default(),
        transit: false,
        default_requests: BTreeMap::new(),
        default_limits: BTreeMap::new(),
        binding: Binding::default(),
        storage_class: None,
        left_out: BTreeSet::new(),
        allocatable: [("cpu", "100"), ("memory", "8Gi"), ("pods", "9")]
            .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
            .into(),
    }
}

type Writes = Arc<Mutex<Vec<(String, Value)>>>;

struct Bed {
    side: GuestSide,
    inputs: mpsc::Receiver<Input>,
    bodies: Bodies,
    writes: Writes,
    /// Only writes there are answered as they are told to be; every other goes well.
    only_at: Arc<Mutex<&'static str>>,
}

/// What stands where the guest object should, and what a write is answered.
fn bed(present: Option<Value>, answer: (u16, Value)) -> Bed {
    let (writes, only_at) = (Writes::default(), Arc::new(Mutex::new("")));
    let (seen, at) = (writes.clone(), only_at.clone());
    let cluster = scripted(move |method, path, body| {
        if path.contains("watch=") || path.contains("limit=") {
            return status(503, "not watched in this test");
        }
        if method == "GET" {
            return present.clone().map_or_else(|| status(404, "not found"), |o| (200, o));
        }
        if method == "POST" && present.is_some() {
            return status(409, "already exists");
        }
        seen.lock().unwrap().push((format!("{method} {path}"), body));
        if path.contains(*at.lock().unwrap()) { answer.clone() } else { (200, json!({})) }
    });
    let bodies = Bodies::default();
    let (side, inputs) = start(cluster, context(), bodies.clone(), LeaseStored::alone(CONTRACT_ID));
    Bed { side, inputs, bodies, writes, only_at }
}

impl Bed {
    async fn apply(&mut self, item: &Item, body: &Value) -> Input {
        let digest = self.bodies.keep(Way::ToGuest, item, body).unwrap();
        self.side.apply(item.clone(), Content { digest, route: route(), called: None });
        self.inputs.recv().await.unwrap()
    }

    fn refuses_at(&self, path: &'static str) {
        *self.only_at.lock().unwrap() = path;
    }

    fn written(&self) -> Vec<String> {
        self.writes.lock().unwrap().iter().map(|(request, _)| request.clone()).collect()
    }
}

/// What somebody does to a guest's objects is told of at the same API server.
fn start(
    cluster: Cluster,
    context: GuestContext,
    bodies: Bodies,
    stored: Arc<LeaseStored>,
) -> (GuestSide, mpsc::Receiver<Input>) {
    let kept = Upkeep::start(cluster.clone());
    GuestSide::start(cluster, kept, context, bodies, stored)
}

fn route() -> Route {
    let origin = ClusterId([1; 32]);
    Route { origin, path: vec![origin], hops: 0 }
}

fn content(body: &Value) -> Content {
    Content { digest: forge::digest(body), route: route(), called: None }
}

fn pod() -> (Item, Value) {
    let id = PodId { uid: Uid("u1".into()), namespace: "shop".into(), name: "web".into() };
    let body = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
        "spec": { "containers": [{ "name": "app", "image": "a:1" }] } });
    (Item::Pod(id), body)
}

pub(super) fn guest(contract: &str, uid: &str) -> Value {
    let (item, body) = pod();
    let forged = forge::forge(&item, &body, &content(&body), &context()).unwrap();
    json!({ "metadata": { "name": "web", "namespace": "shop-rome", "uid": "g1",
        "resourceVersion": "7", "labels": { CONTRACT: contract, HOME_UID: uid },
        "annotations": forged["metadata"]["annotations"] }, "spec": forged["spec"] })
}

#[tokio::test]
async fn a_guest_is_created_with_our_marks() {
    let mut bed = bed(None, (201, json!({})));
    let (item, body) = pod();
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
    let (request, object) = bed.writes.lock().unwrap().remove(0);
    assert!(request.starts_with("POST /api/v1/namespaces/shop-rome/pods"), "{request}");
    assert_eq!(object["metadata"]["labels"][HOME_UID], "u1");
    assert_eq!(object["metadata"]["finalizers"][0], forge::FINALIZER);
}

#[tokio::test]
async fn a_namespace_that_was_left_is_not_looked_at_any_more() {
    let cluster = scripted(move |_, path, _| {
        // Nothing can be listed where the rights have gone.
        if path.contains("watch=") || path.contains("/shop-rome/") {
            return status(403, "forbidden");
        }
        (200, json!({ "kind": "List", "metadata": { "resourceVersion": "9" }, "items": [] }))
    });
    let (side, mut inputs) =
        start(cluster, context(), Bodies::default(), LeaseStored::alone(CONTRACT_ID));
    let moved = BTreeMap::from([("shop".into(), "shop-eu".into())]);
    side.set_context(GuestContext { namespaces: moved, ..context() });
    // The list is whole without what the old namespace would tell.
    let told = tokio::time::timeout(Duration::from_secs(10), inputs.recv()).await;
    assert_eq!(told.unwrap(), Some(Input::Synced(Vec::new())));
    let living: Vec<_> =
        side.shared.living.borrow().iter().map(|life| life.namespace().to_owned()).collect();
    assert_eq!(living, ["shop-eu"]);
}

#[tokio::test]
async fn a_namespace_that_is_left_and_taken_again_is_looked_at_anew() {
    let listed = Arc::new(Mutex::new(0));
    let seen = listed.clone();
    let cluster = scripted(move |_, path, _| {
        if path.contains("watch=") {
            return status(503, "not watched in this test");
        }
        if path.contains("/namespaces/shop-rome/secrets") {
            *seen.lock().unwrap() += 1;
        }
        (200, json!({ "kind": "List", "metadata": { "resourceVersion": "9" }, "items": [] }))
    });
    let (side, mut inputs) =
        start(cluster, context(), Bodies::default(), LeaseStored::alone(CONTRACT_ID));
    let mut synced = async || {
        let told = tokio::time::timeout(Duration::from_secs(10), inputs.recv()).await;
        assert_eq!(told.unwrap(), Some(Input::Synced(Vec::new())));
    };
    synced().await;
    let before = side.shared.living.borrow().clone();
    // At once, so that whoever follows sees the latest state alone.
    side.set_context(GuestContext { namespaces: BTreeMap::new(), ..context() });
    side.set_context(context());
    assert!(before.iter().all(Life::is_over));
    synced().await;
    assert_eq!(*listed.lock().unwrap(), 2);
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let (item, body) = pod();
    for (code, message, expected) in [
        (403, "pods \"web\" is forbidden: status unknown for quota: mercato", "transient"),
        (403, "error looking up service account shop-rome/default: not found", "transient"),
        (403, "exceeded quota: mercato, requested: requests.cpu=2, used: x", "out"),
        (403, "violates PodSecurity \"baseline:latest\"", "refused"),
        (422, "invalid", "refused"),
        (409, "already exists", "transient"),
        (500, "etcd", "unanswered"),
    ] {
        let mut bed = bed(None, status(code, message));
        let Input::NotWritten(_, failure) = bed.apply(&item, &body).await else { panic!() };
        let class = match &failure {
            Failure::Transient => "transient",
            Failure::Unanswered => "unanswered",
            Failure::Full(Outcome::Failed { reason, .. }) if reason == "OutOfcpu" => "out",
            Failure::Refused(_) => "refused",
            Failure::OutOf(_)
            | Failure::Full(_)
            | Failure::Unrecorded
            | Failure::MissingBody
            | Failure::Absent => "another",
        };
        assert_eq!(class, expected, "{code} {message}");
    }
}

#[tokio::test]
async fn a_running_pod_gets_only_what_can_change() {
    let mut bed = bed(Some(guest(&CONTRACT_ID.to_string(), "u1")), (200, json!({})));
    let (item, mut body) = pod();
    body["spec"]["containers"][0]["image"] = "a:2".into();
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item.clone()));
    let (request, patch) = bed.writes.lock().unwrap().remove(0);
    assert!(request.starts_with("PATCH"), "{request}");
    assert_eq!(patch["spec"], json!({ "containers": [{ "name": "app", "image": "a:2" }] }));
    assert_eq!(patch["metadata"]["uid"], "g1");
    bed.side.delete(item.clone(), Some(3));
    assert_eq!(bed.inputs.recv().await, Some(Input::Written(item)));
    let (_, options) = bed.writes.lock().unwrap().remove(0);
    assert_eq!(options["preconditions"]["uid"], "g1");
    assert_eq!(options["gracePeriodSeconds"], 3);
}

#[tokio::test]
async fn a_guest_that_is_known_is_not_asked_for_before_its_end() {
    let (item, _) = pod();
    let Item::Pod(id) = item.clone() else { panic!() };
    // Nobody would find it: it is known by its uid alone.
    let mut bed = bed(None, (200, json!({})));
    bed.side.shared.guests().note(&item, &guest(&CONTRACT_ID.to_string(), "u1"));
    bed.side.delete(item.clone(), Some(3));
    assert_eq!(bed.inputs.recv().await, Some(Input::Written(item.clone())));
    bed.side.release(id.clone());
    assert_eq!(bed.inputs.recv().await, Some(Input::Written(item.clone())));
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    let uids = [&writes[0].1["preconditions"]["uid"], &writes[1].1["metadata"]["uid"]];
    assert_eq!(uids, ["g1", "g1"]);
    bed.side.shared.tell(Input::Gone(item.clone())).await;
    bed.inputs.recv().await.unwrap();
    bed.side.release(id);
    let absent = Some(Input::NotWritten(item, Failure::Absent));
    assert_eq!(bed.inputs.recv().await, absent, "it has gone, and is asked for");
}

#[tokio::test]
async fn a_pod_that_has_the_name_of_a_known_guest_stays() {
    let (item, _) = pod();
    let Item::Pod(id) = item.clone() else { panic!() };
    let mut present = guest("another", "u9");
    present["metadata"]["uid"] = "g2".into();
    let mut bed = bed(Some(present), status(409, "uid"));
    bed.side.shared.guests().note(&item, &guest(&CONTRACT_ID.to_string(), "u1"));
    bed.side.release(id);
    assert_eq!(bed.inputs.recv().await, Some(Input::NotWritten(item, Failure::Absent)));
    assert_eq!(bed.written().len(), 1, "{:?}", bed.written());
}

#[tokio::test]
async fn a_label_that_home_takes_off_goes_and_the_providers_own_stay() {
    let mut running = guest(&CONTRACT_ID.to_string(), "u1");
    for key in ["app", "tier", "home.x.io.mercato.dev/y", "topology.kubernetes.io/zone"] {
        running["metadata"]["labels"][key] = "a".into();
    }
    let mut bed = bed(Some(running), (200, json!({})));
    let (item, mut body) = pod();
    body["metadata"]["labels"] = json!({ "app": "b", "x.io/z": "c" });
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
    let labels = bed.writes.lock().unwrap().remove(0).1["metadata"]["labels"].take();
    let wanted = json!({ "app": "b", "tier": null, "home.x.io.mercato.dev/y": null,
        "home.x.io.mercato.dev/z": "c", CONTRACT: CONTRACT_ID.to_string(), HOME_UID: "u1" });
    assert_eq!(labels, wanted);
}

#[tokio::test]
async fn the_owner_is_told_once_of_a_shorter_grace() {
    let mut bed = bed(None, (201, json!({})));
    let (item, mut body) = pod();
    body["spec"]["terminationGracePeriodSeconds"] = 600.into();
    let Input::Event(pod, event) = bed.apply(&item, &body).await else { panic!("no event") };
    assert_eq!((Item::Pod(pod), event.reason.as_str()), (item.clone(), "GracePeriodShortened"));
    assert_eq!(event.clone().fit(), Some(event), "it is one that can be told of");
    assert_eq!(bed.inputs.recv().await, Some(Input::Written(item)));
    let grace = &bed.writes.lock().unwrap()[0].1["spec"]["terminationGracePeriodSeconds"];
    assert_eq!(*grace, 30);
}

#[tokio::test]
async fn a_debugger_and_a_resize_go_to_their_subresources_and_the_digest_comes_last() {
    let mut running = guest(&CONTRACT_ID.to_string(), "u1");
    running["spec"] = json!({ "containers": [{ "name": "app", "image": "a:1",
        "resources": { "requests": { "cpu": "100m", "memory": "1Mi" } } }] });
    let mut bed = bed(Some(running), (200, json!({})));
    let (item, mut body) = pod();
    let size = json!({ "requests": { "cpu": "200m", "memory": "1Mi" } });
    body["spec"]["containers"][0]["resources"] = size;
    body["spec"]["ephemeralContainers"] = json!([{ "name": "debugger", "image": "b" }]);
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    let at: Vec<_> = writes.iter().map(|(request, _)| request.split(['?', ' ']).nth(1)).collect();
    let path = "/api/v1/namespaces/shop-rome/pods/web";
    let debug = format!("{path}/ephemeralcontainers");
    let resize = format!("{path}/resize");
    assert_eq!(at, [Some(path), Some(&debug), Some(&resize), Some(path)]);
    assert!(writes.iter().all(|(_, patch)| patch["metadata"]["uid"] == "g1"));
    let first = writes[0].1["metadata"]["annotations"].as_object().unwrap();
    assert!(!first.is_empty() && !first.contains_key(DIGEST), "not before it is done");
    assert_eq!(writes[1].1["spec"]["ephemeralContainers"][0]["name"], "debugger");
    let sized = json!([{ "name": "app", "resources": { "requests": { "cpu": "200m" } } }]);
    assert_eq!(writes[2].1["spec"], json!({ "containers": sized }));
    assert!(writes[3].1["metadata"]["annotations"][DIGEST].is_string());
}

#[tokio::test]
async fn a_pod_is_made_before_its_debugger() {
    let made = guest(&CONTRACT_ID.to_string(), "u1");
    let mut bed = bed(None, (201, made));
    let (item, mut body) = pod();
    body["spec"]["ephemeralContainers"] = json!([{ "name": "debugger", "image": "b" }]);
    let Input::Created(..) = bed.apply(&item, &body).await else { panic!("it is not made") };
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    assert!(writes[0].0.starts_with("POST"), "{writes:?}");
    assert!(writes[0].1["spec"]["ephemeralContainers"].is_null());
    let digest = |n: usize| writes[n].1["metadata"]["annotations"][DIGEST].clone();
    assert!(digest(0).is_string() && digest(0) != digest(writes.len() - 1));
}

#[tokio::test]
async fn a_resize_without_room_is_refused_and_the_pod_goes_on() {
    let mut running = guest(&CONTRACT_ID.to_string(), "u1");
    running["spec"] = json!({ "containers": [{ "name": "app", "image": "a:1" }] });
    let (item, mut body) = pod();
    body["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "64" } });
    for (code, message) in [
        (403, "exceeded quota: mercato, requested: requests.cpu=64, used: x"),
        (404, "the server could not find the requested resource"),
    ] {
        let mut bed = bed(Some(running.clone()), status(code, message));
        bed.refuses_at("/resize");
        let Input::NotWritten(_, Failure::Refused(why)) = bed.apply(&item, &body).await else {
            panic!("{message}");
        };
        assert_eq!(why.path, "spec.containers.resources", "{}", why.reason);
    }
}

#[tokio::test]
async fn an_update_makes_nothing() {
    let mut bed = bed(None, (201, json!({})));
    let (item, body) = pod();
    let Item::Pod(id) = item.clone() else { panic!() };
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item.clone()));
    let digest = bed.bodies.keep(Way::ToGuest, &item, &body).unwrap();
    bed.side.update(id, Content { digest, route: route(), called: None });
    assert_eq!(bed.inputs.recv().await, Some(Input::NotWritten(item, Failure::Absent)));
    assert_eq!(bed.written().len(), 1);
}

#[tokio::test]
async fn a_body_that_is_not_here_is_asked_for() {
    let mut bed = bed(None, (201, json!({})));
    let item = Item::Object(key(ObjectKind::Secret, "shop", "sec"));
    let digest = Digest::of(b"nothing");
    bed.side.apply(item.clone(), Content { digest, route: route(), called: None });
    let answer = bed.inputs.recv().await.unwrap();
    assert_eq!(answer, Input::NotWritten(item, Failure::MissingBody));
}
