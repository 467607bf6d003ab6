//! Daemons that are not the cluster's, and such as cannot be reached from here.

use tempfile::TempDir;
use tokio::time::Instant;

use super::*;
use crate::kubernetes::site::LEASE;

/// For what answers at once, however busy the machine is.
const ANSWER: Duration = Duration::from_secs(60);

/// What was asked of a daemon, by the first word of each request.
type Asked = Arc<Mutex<Vec<&'static str>>>;

/// A daemon of the cluster with that uid, which has a contract until that is cancelled.
struct Beside {
    uid: Option<&'static str>,
    asked: Asked,
}

impl OperatorApi for Beside {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        let mut asked = self.asked.lock().unwrap();
        let answer = match request {
            Request::Status => Answer::Status(status_of(self.uid)),
            Request::Deals if asked.contains(&"cancel") => Answer::Deals(Vec::new()),
            Request::Deals => Answer::Deals(vec![deal()]),
            Request::Cancel(..) => {
                asked.push("cancel");
                Answer::Done
            }
            other => panic!("nobody asks {other:?}"),
        };
        async move { Ok(answer) }.boxed()
    }
}

/// A socket of this machine, at which a daemon listens until it is dropped.
struct Listening {
    folder: TempDir,
    asked: Asked,
    _server: Server,
}

impl Listening {
    fn of(uid: Option<&'static str>) -> Self {
        let (folder, asked) = (tempfile::tempdir().unwrap(), Asked::default());
        let daemon = Beside { uid, asked: asked.clone() };
        let _server = Server::start(&folder.path().join("socket"), Arc::new(daemon)).unwrap();
        Self { folder, asked, _server }
    }

    fn socket(&self) -> Vec<Client> {
        vec![Client::new(self.folder.path().join("socket"), ANSWER)]
    }

    fn was_cancelled(&self) -> bool {
        self.asked.lock().unwrap().contains(&"cancel")
    }
}

/// Finds the daemon of a cluster that a person has named, or not.
async fn found(site: Site, is_named: bool, sockets: Vec<Client>) -> Leaving {
    let leaving = Leaving::from(site, is_named, sockets, silent()).await.unwrap();
    Leaving { patience: Patience { ending: ANSWER, ..SHORT }, ..leaving }
}

/// The Lease of a daemon, renewed at that moment.
fn lease(at: &str) -> Option<Value> {
    Some(json!({
        "metadata": { "name": "daemon", "annotations": { "mercato.dev/daemon-name": "turin" } },
        "spec": { "holderIdentity": "4e".repeat(32), "renewTime": at },
    }))
}

/// A cluster that has guests, with the Lease of a daemon as it is at that look at the cluster.
fn selling(lease_at: impl Fn(usize) -> Option<Value> + Send + Sync + 'static) -> (Site, Log) {
    site(move |path, log| match path {
        NAMESPACES => list(&[json!({ "metadata": { "name": "shop-rome" } })]),
        LEASE => lease_at(log.0.lock().unwrap().len()),
        _ => None,
    })
}

#[tokio::test]
async fn contracts_of_another_clusters_daemon_are_left_alone() {
    for is_named in [true, false] {
        let beside = Listening::of(Some("another"));
        let (site, log) = site(|_, _| None);
        let leaving = found(site, is_named, beside.socket()).await;
        assert!(!leaving.has_daemon());
        let others = leaving.others();
        assert!(has(others, "milan") && has(others, "another cluster"), "{others:?}");
        assert!(!has(&leaving.found().await.unwrap(), "contract"));
        let left = leaving.perform().await.unwrap();
        assert!(has(&left, "no daemon was asked"), "{left:?}");
        assert!(!beside.was_cancelled());
        assert!(log.has(&format!("DELETE {CLASS}/{SPOT}")));
    }
}

#[tokio::test]
async fn a_daemon_of_the_same_cluster_is_asked_at_its_socket() {
    for is_named in [true, false] {
        let beside = Listening::of(Some(ROME));
        let (site, log) = site(|_, _| None);
        let leaving = found(site, is_named, beside.socket()).await;
        assert!(leaving.has_daemon() && leaving.others().is_empty());
        assert!(has(&leaving.found().await.unwrap(), "contract 07070707 of milan with turin"));
        let runs = leaving.perform().await.unwrap_err();
        assert!(runs.what.contains("contracts are ended, but the daemon still runs"), "{runs}");
        assert!(beside.was_cancelled());
        assert_eq!(log.changes(), [""; 0]);
    }
}

#[tokio::test]
async fn who_does_not_say_whose_daemon_it_is_is_asked_for_nothing_else() {
    let beside = Listening::of(None);
    let (rome, log) = site(|_, _| None);
    let runs = found(rome, false, beside.socket()).await.perform().await.unwrap_err();
    assert!(runs.what.contains("the daemon still runs"), "{runs}");
    assert!(!beside.was_cancelled());
    assert_eq!(log.changes(), [""; 0]);
    // Who has named a cluster does not mean that one.
    let (rome, log) = site(|_, _| None);
    let leaving = found(rome, true, beside.socket()).await;
    assert!(has(leaving.others(), "does not say that it is of rome"));
    leaving.perform().await.unwrap();
    assert!(!beside.was_cancelled() && log.has(&format!("DELETE {CLASS}/{SPOT}")));
}

#[tokio::test]
async fn a_daemon_elsewhere_that_only_sells_keeps_all() {
    let (site, log) = selling(|looks| lease(&format!("2026-01-01T00:00:00.{looks:06}Z")));
    let leaving = found(site, false, Vec::new()).await;
    let runs = leaving.perform().await.unwrap_err();
    assert!(runs.what.contains("nothing was removed"), "{runs}");
    assert!(runs.what.contains("turin (4e4e4e4e)"), "{runs}");
    assert!(runs.todo.iter().any(|line| line.contains("end the daemon there")), "{runs}");
    assert_eq!(log.changes(), [""; 0]);
}

/// Guests, and nothing else of a daemon: one of an earlier release that only sells renews nothing.
fn selling_silently(namespace: Value, pods: Vec<Value>) -> (Site, Log) {
    site(move |path, _| match path {
        NAMESPACES => list(std::slice::from_ref(&namespace)),
        "/api/v1/namespaces/shop-rome/pods" => list(&pods),
        _ => None,
    })
}

#[tokio::test]
async fn a_daemon_of_an_earlier_release_that_only_sells_keeps_its_guests() {
    let namespace = json!({ "metadata": { "name": "shop-rome" } });
    let (site, log) = selling_silently(namespace, vec![pod("Succeeded"), pod("Running")]);
    let runs = found(site, false, Vec::new()).await.perform().await.unwrap_err();
    assert!(runs.what.contains("pod mercato-1 in namespace shop-rome runs"), "{runs}");
    let way_out = "kubectl delete namespace shop-rome";
    assert!(runs.todo.iter().any(|line| line.contains(way_out)), "{runs}");
    assert_eq!(log.changes(), [""; 0]);
}

#[tokio::test]
async fn guests_that_are_over_or_go_are_of_no_daemon() {
    let here = json!({ "metadata": { "name": "shop-rome" } });
    let mut leaving = here.clone();
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut ends = pod("Running");
    ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for (namespace, pods) in [
        (here.clone(), vec![pod("Failed"), ends]),
        (here, Vec::new()),
        (leaving, vec![pod("Running")]),
    ] {
        let (site, log) = selling_silently(namespace, pods);
        found(site, false, Vec::new()).await.perform().await.unwrap();
        assert!(log.has("DELETE /api/v1/namespaces/shop-rome"));
    }
}

#[tokio::test]
async fn the_lease_of_a_daemon_that_is_gone_goes_with_the_rest() {
    let (site, log) = selling(|_| lease("2026-01-01T00:00:00.000000Z"));
    let leaving = found(site, false, Vec::new()).await;
    assert!(has(&leaving.found().await.unwrap(), "lease/daemon in mercato"));
    leaving.perform().await.unwrap();
    assert!(log.has("DELETE /api/v1/namespaces/shop-rome") && log.has(&format!("DELETE {LEASE}")));
}

#[tokio::test]
async fn a_pod_that_is_not_ready_and_a_daemon_beside_it_are_two() {
    let (site, log) = site(|path, log| match path {
        DAEMON => Some(json!({ "spec": { "replicas": 1 } })),
        "/api/v1/namespaces/mercato/pods" if log.has(&format!("PATCH {DAEMON}/scale")) => list(&[]),
        "/api/v1/namespaces/mercato/pods" => list(&[pod("Pending")]),
        LEASE => {
            let looks = log.0.lock().unwrap().len();
            lease(&format!("2026-01-01T00:00:00.{looks:06}Z"))
        }
        _ => None,
    });
    let runs = found(site, false, Vec::new()).await.perform().await.unwrap_err();
    assert!(runs.what.contains("renews the Lease daemon"), "{runs}");
    assert_eq!(log.changes(), [format!("PATCH {DAEMON}/scale")]);
}

#[tokio::test(start_paused = true)]
async fn with_the_daemon_gone_it_goes_on_within_forty_seconds() {
    let (site, log) = selling(|_| lease("2026-01-01T00:00:00.000000Z"));
    let (start, changed) = (Instant::now(), format!("DELETE {LEASE}"));
    Leaving::from(site, false, Vec::new(), silent()).await.unwrap().perform().await.unwrap();
    assert!(log.has(&changed));
    let waited = start.elapsed();
    assert!(waited >= limits::DAEMON_LEASE && waited < Duration::from_secs(40), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_on_this_machine_that_is_hung_does_not_keep_it_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _server = Server::start(&socket, Arc::new(Forever)).unwrap();
    let (site, log) = selling(|_| lease("2026-01-01T00:00:00.000000Z"));
    let (start, hung) = (Instant::now(), vec![Client::new(socket, ANSWER)]);
    Leaving::from(site, true, hung, silent()).await.unwrap().perform().await.unwrap();
    assert!(log.has(&format!("DELETE {LEASE}")));
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_given_up() {
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let client = kube::Client::new(service, "default");
    let site = Site { name: "rome".to_owned(), client };
    let start = Instant::now();
    let late = Leaving::from(site, true, Vec::new(), silent()).await.err().unwrap();
    assert!(start.elapsed() < Duration::from_secs(40));
    assert!(late.to_string().contains("the daemon's pods"), "{late}");
}

#[test]
fn the_lease_is_the_one_that_daemons_renew() {
    let [namespace, name] = [names::DAEMON_NAMESPACE, names::DAEMON_LEASE];
    assert!(LEASE.ends_with(&format!("/namespaces/{namespace}/leases/{name}")));
}

/// `mercato heartbeat` goes on until the virtual nodes are gone.
#[tokio::test]
async fn who_keeps_the_nodes_of_a_daemon_that_is_away_is_no_daemon() {
    let (site, log) = site(|path, log| match path {
        "/api/v1/nodes" => list(&[node("mercato://a/b")]),
        LEASE => lease("2026-01-01T00:00:00.000000Z"),
        path if path.ends_with("/leases/turin") => {
            let looks = log.0.lock().unwrap().len();
            Some(json!({ "spec": { "renewTime": format!("2026-01-01T00:01:00.{looks:06}Z") } }))
        }
        _ => None,
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    leaving.perform().await.unwrap();
    assert!(log.has("DELETE /api/v1/nodes/turin") && log.has(&format!("DELETE {LEASE}")));
}

#[tokio::test]
async fn pods_that_wait_for_a_virtual_node_do_not_wait_for_ever() {
    let (site, log) = site(|path, _| match path {
        NAMESPACES => list(&[json!({ "metadata": { "name": "shop" } })]),
        "/api/v1/namespaces/shop/pods" => {
            let term = json!({ "matchExpressions": [
                { "key": "mercato.dev/provider", "operator": "Exists" }] });
            let affinity = json!({ "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } } });
            let owned = json!([{ "kind": "ReplicaSet", "controller": true }]);
            list(&[
                json!({ "metadata": { "name": "bare" }, "spec": { "affinity": affinity } }),
                json!({ "metadata": { "name": "web", "ownerReferences": owned },
                    "spec": { "affinity": affinity } }),
                json!({ "metadata": { "name": "home", "ownerReferences": owned }, "spec": {} }),
            ])
        }
        _ => None,
    });
    let leaving = leaving(site, Vec::new(), silent()).await.unwrap();
    let left = leaving.perform().await.unwrap();
    assert!(has(&left, "kubectl -n shop delete pod bare"), "{left:?}");
    let before = log.changes().len();
    assert!(leaving.free("shop").await.unwrap().unwrap().ends_with("delete pod bare"));
    assert_eq!(log.changes()[before..], ["DELETE /api/v1/namespaces/shop/pods/web"]);
}
