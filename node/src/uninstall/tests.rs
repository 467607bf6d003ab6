//! Uninstalling, beside a scripted API server and scripted daemons.

#![allow(clippy::wildcard_enum_match_arm, reason = "a script is of a few requests")]

mod others;
mod storage;

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Response;
use kube::client::Body;
use mercato_protocol::id::{ClusterId, PublicKey};

use super::*;
use crate::admin::{Answer, Class, NoTunnels, Server, Status, Tunnels as _};

const CHART: &str = include_str!("../../../config/deploy/chart/templates/uninstall.yaml");
const SOON: Duration = Duration::from_millis(400);
const SHORT: Patience =
    Patience { ending: SOON, stopping: SOON, sign: SOON, cleaning: SOON, going: SOON };

/// What was asked of an API server: method and path, without the query.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn has(&self, what: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line == what)
    }

    fn changes(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|line| !line.starts_with("GET ")).cloned().collect()
    }
}

const SYSTEM: &str = "/api/v1/namespaces/kube-system";
/// The uid of the cluster that is left.
const ROME: &str = "0b1c";

/// A cluster where `look` says what is at a path; all changes succeed.
fn site(look: impl Fn(&str, &Log) -> Option<Value> + Send + Sync + 'static) -> (Site, Log) {
    let (log, look) = (Log::default(), Arc::new(look));
    let kept = log.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        let found = match method {
            "GET" if path == SYSTEM => Some(json!({ "metadata": { "uid": ROME } })),
            "GET" => look(path, &log),
            _ => Some(json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" })),
        };
        log.0.lock().unwrap().push(format!("{method} {path}"));
        let status = if found.is_some() { 200 } else { 404 };
        let object = found.unwrap_or_else(|| {
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                "message": "not found", "reason": "NotFound" })
        });
        let answer =
            Response::builder().status(status).body(Body::from(object.to_string().into_bytes()));
        async move { answer }
    });
    let client = kube::Client::new(service, "default");
    (Site { name: "rome".to_owned(), client }, kept)
}

fn list(objects: &[Value]) -> Option<Value> {
    Some(json!({ "kind": "List", "apiVersion": "v1", "items": objects }))
}

fn node(id: &str) -> Value {
    json!({ "metadata": { "name": "turin" }, "spec": { "providerID": id } })
}

fn pod(phase: &str) -> Value {
    let ready = if phase == "Running" { "True" } else { "False" };
    json!({ "metadata": { "name": "mercato-1" }, "status": {
        "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] } })
}

/// Answers with the deals that are not cancelled, or with a problem.
struct Scripted {
    status: Result<Status, Problem>,
    deals: Result<Vec<Deal>, Problem>,
    cancel: Result<Answer, Problem>,
}

impl OperatorApi for Scripted {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        let answer = match request {
            Request::Status => self.status.clone().map(Answer::Status),
            Request::Deals => self.deals.clone().map(Answer::Deals),
            Request::Cancel(..) => self.cancel.clone(),
            other => panic!("nobody asks {other:?}"),
        };
        async move { answer }.boxed()
    }
}

fn silent() -> Box<Scripted> {
    let late = || Problem::new(Class::TimedOut, "the daemon took over 15 s to answer");
    Box::new(Scripted { status: Err(late()), deals: Err(late()), cancel: Err(late()) })
}

/// Of the cluster with that uid, if it knows it.
fn status_of(uid: Option<&str>) -> Status {
    Status {
        version: String::new(),
        cluster: ClusterId([7; 32]),
        name: "milan".to_owned(),
        key: PublicKey([7; 32]),
        data_dir: "/var/lib/mercato".into(),
        addresses: Vec::new(),
        health: None,
        kubernetes: Some("https://192.0.2.1:6443/".to_owned()),
        kubernetes_uid: uid.map(str::to_owned),
        gateway: NoTunnels.own(),
        tunnels: Vec::new(),
        guest_objects: None,
        bursts: None,
        attention: Vec::new(),
    }
}

fn deal() -> Deal {
    let (id, peer) = ("07".repeat(16), "07".repeat(32));
    let value = json!({
        "id": id, "side": "consumer", "peer": peer, "peerName": "turin", "state": "active",
        "reason": null, "passing": false, "round": null, "asked": null, "change": null,
        "disputed": false, "note": "", "untilMs": null, "total": null, "billed": null,
        "credits": null, "node": null, "namespaces": {},
        "terms": {
            "pool": "amd64", "platform": { "arch": "amd64", "os": "linux" },
            "quantity": { "cpuMillis": 8_000, "memoryBytes": 34_359_738_368_u64, "pods": 20 },
            "class": "reserved", "termS": 14_400, "isolation": "runc", "networkIsolation": "none",
            "price": "free", "podSecurity": "baseline", "network": {}, "transitHops": 0,
            "onDisconnect": "keep", "reclaimNoticeS": 3_600, "sla": null,
            "meteringIntervalS": 300, "disputeTolerancePpm": 10_000,
        },
    });
    serde_json::from_value(value).unwrap()
}

async fn leaving(site: Site, sockets: Vec<Client>, pod: Box<Scripted>) -> Result<Leaving, Problem> {
    let leaving = Leaving::from(site, false, sockets, pod).await?;
    Ok(Leaving { patience: SHORT, ..leaving })
}

fn has(left: &[String], part: &str) -> bool {
    left.iter().any(|line| line.contains(part))
}

#[tokio::test]
async fn only_a_socket_that_nobody_listens_at_is_of_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| Client::new(folder.path().join(path), SOON);
    assert_eq!(at("none").is_there().await, Ok(false));
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("dead")).unwrap());
    assert_eq!(at("dead").is_there().await, Ok(false));
    // As little to be looked at as what is another user's.
    let (site, log) = site(|_, _| None);
    let unknown = leaving(site, vec![at("none"), at("dead/socket")], silent()).await.err().unwrap();
    assert_eq!(unknown.class, Class::Unreachable, "{unknown}");
    assert!(!unknown.todo.is_empty(), "{unknown}");
    assert_eq!(log.changes(), [""; 0]);
}

#[tokio::test]
async fn a_daemon_that_is_hung_beside_the_cluster_is_to_be_ended_first() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _server = Server::start(&socket, Arc::new(Forever)).unwrap();
    let (site, log) = site(|_, _| None);
    let leaving = leaving(site, vec![Client::new(socket, SOON)], silent()).await.unwrap();
    let runs = leaving.perform().await.unwrap_err();
    assert!(runs.what.contains("the daemon still runs, and no contract was ended"), "{runs}");
    assert!(runs.todo.iter().any(|line| line.contains("--context")), "{runs}");
    assert_eq!(log.changes(), [""; 0]);
}

/// Never answers.
struct Forever;

impl OperatorApi for Forever {
    fn ask(&self, _: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn a_daemon_elsewhere_that_renews_its_nodes_keeps_all() {
    let (site, log) = site(|path, log| match path {
        "/api/v1/nodes" => list(&[node("mercato://a/b")]),
        path if path.ends_with("/leases/turin") => {
            let renewals = log.0.lock().unwrap().len();
            Some(json!({ "spec": { "renewTime": format!("2026-01-01T00:00:00.{renewals:06}Z") } }))
        }
        _ => None,
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    assert!(!leaving.has_daemon());
    let runs = leaving.perform().await.unwrap_err();
    assert!(runs.what.contains("keeps the virtual node turin alive"), "{runs}");
    assert_eq!(log.changes(), [""; 0]);
}

#[tokio::test]
async fn without_a_daemon_it_is_said_what_was_not_done() {
    let (site, log) = site(|path, _| match path {
        "/api/v1/nodes" => list(&[node("mercato://a/b")]),
        path if path.ends_with("/leases/turin") => {
            Some(json!({ "spec": { "renewTime": "2026-01-01T00:00:00.000000Z" } }))
        }
        _ => None,
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    let left = leaving.perform().await.unwrap();
    assert!(has(&left, "no daemon was asked") && has(&left, "mercato gateway clean"), "{left:?}");
    assert!(log.has("DELETE /api/v1/nodes/turin"));
}

#[tokio::test]
async fn a_copied_label_costs_a_node_nothing() {
    for id in ["aws:///eu-south-1a/i-1", ""] {
        let (site, log) = site(move |path, _| match path {
            "/api/v1/nodes" => list(&[node(id)]),
            "/api/v1/pods" => list(&[json!({ "metadata": { "name": "a", "namespace": "b" } })]),
            _ => None,
        });
        let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
        assert_eq!(leaving.found().await, Ok(Vec::new()));
        leaving.perform().await.unwrap();
        assert!(
            log.changes().iter().all(|line| !line.contains("/nodes/") && !line.contains("/pods/"))
        );
    }
}

#[tokio::test]
async fn neither_an_evicted_pod_nor_a_silent_daemon_nor_a_stuck_namespace_stops_the_rest() {
    let (site, log) = site(|path, log| {
        let scaled = log.has(&format!("PATCH {DAEMON}/scale"));
        match path {
            DAEMON => Some(json!({ "spec": { "replicas": 1 } })),
            "/api/v1/namespaces/mercato/pods" if scaled => list(&[pod("Failed")]),
            "/api/v1/namespaces/mercato/pods" => list(&[pod("Failed"), pod("Running")]),
            NAMESPACES => list(&[json!({ "metadata": { "name": "shop-rome" } })]),
            "/api/v1/namespaces/shop-rome" => Some(json!({ "metadata": { "name": "shop-rome" } })),
            NODES => Some(json!({
                "metadata": { "generation": 2 },
                "spec": { "template": { "spec": { "containers": [{}] } } },
                "status": { "observedGeneration": 1, "desiredNumberScheduled": 2 },
            })),
            _ => None,
        }
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    assert!(leaving.has_daemon());
    let found = leaving.found().await.unwrap();
    assert!(
        has(&found, "deployment/mercato") && has(&found, "daemonset/mercato-node"),
        "{found:?}"
    );
    assert!(has(&found, "marks of namespace/shop-rome"), "{found:?}");
    let left = leaving.perform().await.unwrap();
    for part in ["does not answer", "not every node is clean", "namespace shop-rome"] {
        assert!(has(&left, part), "{part}: {left:?}");
    }
    assert!(log.has(&format!("DELETE {CLASS}/{SPOT}")) && log.has(&format!("PATCH {NODES}")));
    assert!(log.has(&format!("PATCH {DAEMON}/scale")));
}

const DAEMON: &str = "/apis/apps/v1/namespaces/mercato/deployments/mercato";

#[tokio::test]
async fn a_pod_that_does_not_let_itself_be_asked_is_not_stopped() {
    let (site, log) = site(|path, _| match path {
        "/api/v1/namespaces/mercato/pods" => list(&[pod("Running")]),
        _ => None,
    });
    let refused = Problem::new(Class::Unreachable, "shows another certificate");
    let status = Ok(status_of(Some(ROME)));
    let pod = Box::new(Scripted { status, deals: Err(refused.clone()), cancel: Err(refused) });
    let leaving = leaving(site, Vec::new(), pod).await.unwrap();
    let said = leaving.perform().await.unwrap_err();
    assert!(said.to_string().contains("--replicas=0"), "{said}");
    assert_eq!(log.changes(), [""; 0]);
}

#[tokio::test]
async fn a_contract_that_cannot_be_ended_is_named_and_the_rest_goes_on() {
    let (site, _) = site(|path, log| match path {
        DAEMON => Some(json!({ "spec": { "replicas": 1 } })),
        "/api/v1/namespaces/mercato/pods" if log.has(&format!("PATCH {DAEMON}/scale")) => list(&[]),
        "/api/v1/namespaces/mercato/pods" => list(&[pod("Running")]),
        _ => None,
    });
    let refused = Err(Problem::failed("the disk is full"));
    let status = Ok(status_of(Some(ROME)));
    let pod = Box::new(Scripted { status, deals: Ok(vec![deal()]), cancel: refused });
    let leaving = leaving(site, Vec::new(), pod).await.unwrap();
    let left = leaving.perform().await.unwrap();
    assert!(has(&left, "is not ended: the disk is full"), "{left:?}");
    assert!(has(&left, "not every other cluster has agreed yet"), "{left:?}");
}

#[tokio::test]
async fn the_rights_of_the_chart_s_job_go_last_and_not_before_all_is_done() {
    let (site, log) = site(|path, _| match path {
        JOB | JOB_CONNECTS => Some(json!({ "metadata": { "name": "mercato-uninstall" } })),
        NAMESPACES => list(&[json!({ "metadata": { "name": "shop-rome" } })]),
        _ => None,
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    let found = leaving.found().await.unwrap();
    let bindings = found.iter().filter(|line| line.contains("rolebinding/mercato-uninstall"));
    assert_eq!(bindings.count(), 2, "{found:?}");
    leaving.perform().await.unwrap();
    assert!(log.has("DELETE /api/v1/namespaces/shop-rome"));
    let changes = log.changes();
    let last = [JOB_CONNECTS, JOB].map(|path| format!("DELETE {path}"));
    assert!(changes.ends_with(&last), "{changes:?}");
}

/// What the chart's job may do by its ClusterRole: `VERB RESOURCE`, with a name if it is of that alone.
fn rights_of_the_job() -> Vec<String> {
    let (_, role) = CHART.split_once("kind: ClusterRole\n").unwrap();
    let (_, rules) = role.split_once("\nrules:\n").unwrap();
    let (rules, _) = rules.split_once("\n---\n").unwrap();
    let rules: Vec<Value> = serde_saphyr::from_str(rules).unwrap();
    let words = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule[key].as_array().into_iter().flatten();
        all.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    for rule in &rules {
        let mut names = words(rule, "resourceNames");
        names.resize(names.len().max(1), String::new());
        for (verb, resource) in words(rule, "verbs").iter().flat_map(|verb| {
            words(rule, "resources").into_iter().map(move |resource| (verb, resource))
        }) {
            rights.extend(names.iter().map(|name| format!("{verb} {resource} {name}")));
        }
    }
    rights
}

#[test]
fn the_job_of_the_chart_may_take_its_own_rights_and_nobody_else_s() {
    let rights = rights_of_the_job();
    let name = names::UNINSTALL;
    for (path, kind) in [(JOB, "clusterrolebindings"), (JOB_CONNECTS, "rolebindings")] {
        let own = |right: &&String| {
            right.contains(&format!(" {kind} ")) && (right.ends_with(name) || path == JOB)
        };
        let own: Vec<_> = rights.iter().filter(own).collect();
        let expected = ["get", "delete"].map(|verb| format!("{verb} {kind} {name}"));
        assert_eq!(own, expected.each_ref());
        assert!(path.ends_with(&format!("/{kind}/{name}")));
    }
    let (_, binding) = CHART.split_once("kind: ClusterRoleBinding\n").unwrap();
    assert!(binding.starts_with(&format!("metadata:\n  name: {name}\n")));
    // Without a daemon it looks at its Lease, and takes that away.
    for right in ["get leases ", "delete leases ", "get namespaces "] {
        assert!(rights.iter().any(|one| one == right), "{right}: {rights:?}");
    }
}

#[test]
fn the_job_of_the_chart_has_the_time_that_all_waits_take() {
    let number = |before: &str| -> u64 {
        let (_, after) = CHART.split_once(before).unwrap();
        after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let Patience { ending, stopping, sign, cleaning, going } = PATIENCE;
    // Either contracts are ended, or a sign is waited for; contracts are listed before.
    let all = ending.max(sign) + stopping + cleaning + going;
    let asked = Duration::from_secs(number("args: [uninstall, --yes, --timeout, "));
    assert!(all + 2 * asked < Duration::from_secs(number("activeDeadlineSeconds: ")));
}
