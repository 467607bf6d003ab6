//! The model behaves as a cluster does, as far as offloading sees it.

use mercato_cluster_model::sides::{self, PendingSide};
use mercato_cluster_model::{ApiError, Cluster, Event, Key, LOCAL_CLASS, Script};
use mercato_offload::placement::claims::SELECTED_NODE;
use mercato_offload::placement::export::{OptIn, Scope};
use mercato_offload::placement::spec::VOLUME_PROTECTION;
use mercato_protocol::time::Now;
use proptest::prelude::*;
use serde_json::{Value, json};

fn at(ms: u64) -> Now {
    Now { mono_ms: ms, wall_ms: 1_700_000_000_000 + ms }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new("rome");
    let resources = [("cpu", "2"), ("memory", "4Gi"), ("pods", "10")];
    cluster.add_node(at(0), "node-1", &resources, &json!({ "pool": "a" }));
    let shop = json!({ "kind": "Namespace", "metadata": { "name": "shop" } });
    cluster.create(at(0), shop).expect("an empty cluster takes a namespace");
    cluster
}

fn pod(name: &str, cpu: &str, policy: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "restartPolicy": policy, "containers": [{
            "name": "web", "image": "web:1", "resources": { "requests": { "cpu": cpu } } }] },
    })
}

fn key(name: &str) -> Key {
    Key::new("Pod", "shop", name)
}

/// Lets everything happen that is due by then.
fn run(cluster: &mut Cluster, until_ms: u64) {
    cluster.advance(at(0));
    while let Some(due) = cluster.wakeup_ms().filter(|due| *due <= until_ms) {
        cluster.advance(at(due));
    }
}

#[test]
fn a_pod_starts_runs_and_ends_after_its_script() {
    let mut cluster = cluster();
    let lines = vec!["hello".to_owned()];
    cluster.script("web:1", Script { ends: Some((5_000, 3)), lines, ..Script::default() });
    cluster.create(at(0), pod("job", "1", "Never")).unwrap();
    run(&mut cluster, 1_000);
    assert_eq!(cluster.get(&key("job")).unwrap()["status"]["phase"], "Running");
    let logs = cluster.logs(at(2_400), "shop", "job", "web").unwrap();
    assert_eq!(logs.len(), 3);
    assert!(logs[0].ends_with("[simulated] hello"));
    run(&mut cluster, 10_000);
    let status = &cluster.get(&key("job")).unwrap()["status"];
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
}

#[test]
fn what_always_restarts_counts_its_restarts() {
    let mut cluster = cluster();
    cluster.script("web:1", Script { ends: Some((1_000, 1)), ..Script::default() });
    cluster.create(at(0), pod("web", "1", "Always")).unwrap();
    run(&mut cluster, 6_000);
    let status = &cluster.get(&key("web")).unwrap()["status"];
    assert_eq!(status["phase"], "Running");
    let web = &status["containerStatuses"][0];
    assert!(web["restartCount"].as_u64().unwrap() >= 3);
    assert_eq!(web["lastState"]["terminated"]["exitCode"], 1);
}

#[test]
fn a_pod_without_room_says_so_and_fits_later() {
    let mut cluster = cluster();
    cluster.create(at(0), pod("big", "2", "Always")).unwrap();
    cluster.create(at(0), pod("late", "1", "Always")).unwrap();
    run(&mut cluster, 1_000);
    let condition = cluster.get(&key("late")).unwrap()["status"]["conditions"][0].clone();
    assert_eq!(condition["reason"], "Unschedulable");
    assert_eq!(condition["message"], "0/1 nodes are available: 1 Insufficient cpu.");
    cluster.delete(at(1_000), &key("big"), None, Some(1)).unwrap();
    run(&mut cluster, 9_000);
    assert_eq!(cluster.get(&key("big")), None);
    assert_eq!(cluster.get(&key("late")).unwrap()["status"]["phase"], "Running");
}

#[test]
fn room_on_a_node_that_would_rather_not_is_taken_last() {
    let mut cluster = cluster();
    let resources = [("cpu", "2"), ("memory", "4Gi"), ("pods", "10")];
    cluster.add_node(at(0), "away", &resources, &json!({ "rack": "a" }));
    let mut away = cluster.get(&Key::new("Node", "", "away")).unwrap().clone();
    away["spec"]["taints"] = json!([{ "key": "bought", "effect": "PreferNoSchedule" }]);
    cluster.apply(at(0), away).unwrap();
    for name in ["a", "b", "c"] {
        cluster.create(at(0), pod(name, "1", "Always")).unwrap();
        run(&mut cluster, 1_000);
    }
    let mut spread = pod("spread", "500m", "Always");
    spread["spec"]["topologySpreadConstraints"] =
        json!([{ "topologyKey": "row", "whenUnsatisfiable": "DoNotSchedule" }]);
    cluster.create(at(0), spread).unwrap();
    run(&mut cluster, 1_000);
    let node = |name| cluster.get(&key(name)).unwrap()["spec"]["nodeName"].clone();
    let nodes = ["a", "b", "c", "spread"].map(node);
    assert_eq!(nodes, [json!("node-1"), json!("node-1"), json!("away"), Value::Null]);
}

#[test]
fn pods_without_room_are_told_of_where_something_may_be_bought_for_them() {
    let mut cluster = cluster();
    let mut side = PendingSide::default();
    let scope = Scope::Labelled;
    cluster.create(at(0), pod("before", "3", "Always")).unwrap();
    run(&mut cluster, 1_000);
    assert_eq!(side.news(&cluster, scope), None);
    let mut metadata = OptIn { burst: true, ..OptIn::default() }.marks();
    metadata["name"] = json!("shop");
    cluster.apply(at(0), json!({ "kind": "Namespace", "metadata": metadata })).unwrap();
    let new = sides::admit(&cluster, scope, pod("web", "3", "Always"));
    cluster.create(at(5_000), new).unwrap();
    cluster.advance(at(5_000));
    let told = side.news(&cluster, scope).unwrap();
    let [web] = &told.pods[..] else { panic!("{told:?}") };
    assert_eq!((web.name.as_str(), web.cpu_millis), ("web", 3_000));
    assert_eq!(web.since_ms, 1_700_000_005_000);
    // The scheduler looks again, for another reason: it waits since then all the same.
    cluster.add_node(at(9_000), "small", &[("cpu", "1")], &json!({}));
    cluster.advance(at(9_000));
    assert_eq!(side.news(&cluster, scope), None);
    cluster.delete(at(10_000), &key("web"), None, None).unwrap();
    assert_eq!(side.news(&cluster, scope).unwrap().pods, []);
}

#[test]
fn a_finalizer_keeps_a_stopped_pod_until_it_is_released() {
    let mut cluster = cluster();
    let mut guest = pod("web", "1", "Always");
    guest["metadata"]["finalizers"] = json!(["mercato.dev/guest"]);
    cluster.create(at(0), guest).unwrap();
    run(&mut cluster, 1_000);
    cluster.delete(at(1_000), &key("web"), None, None).unwrap();
    run(&mut cluster, 2_000);
    let left = cluster.get(&key("web")).unwrap().clone();
    assert_eq!(left["status"]["phase"], "Succeeded");
    assert_eq!(left["metadata"]["deletionGracePeriodSeconds"], 0);
    let wrong = cluster.release(at(2_000), &key("web"), Some("other"), "mercato.dev/guest");
    assert_eq!(wrong.unwrap_err().code, 409);
    cluster.release(at(2_000), &key("web"), None, "mercato.dev/guest").unwrap();
    assert_eq!(cluster.get(&key("web")), None);
}

#[test]
fn a_virtual_node_is_left_to_whoever_made_it() {
    let mut cluster = cluster();
    let taint = json!([{ "key": "mercato.dev/virtual", "effect": "NoSchedule" }]);
    let node = json!({ "kind": "Node", "metadata": { "name": "a-virtual" },
        "spec": { "taints": taint } });
    cluster.create(at(0), node).unwrap();
    let status = json!({ "allocatable": { "cpu": "8", "pods": "5" } });
    cluster.write_status(at(0), &Key::new("Node", "", "a-virtual"), None, status).unwrap();
    cluster.create(at(0), pod("local", "1", "Always")).unwrap();
    let mut away = pod("away", "4", "Always");
    away["spec"]["tolerations"] = json!([{ "key": "mercato.dev/virtual", "operator": "Exists" }]);
    cluster.create(at(0), away).unwrap();
    run(&mut cluster, 5_000);
    assert_eq!(cluster.get(&key("local")).unwrap()["spec"]["nodeName"], "node-1");
    let away = cluster.get(&key("away")).unwrap().clone();
    assert_eq!(away["spec"]["nodeName"], "a-virtual");
    assert_eq!(away["status"]["phase"], "Pending");
    cluster.delete(at(5_000), &key("away"), None, None).unwrap();
    run(&mut cluster, 9_000);
    assert!(cluster.get(&key("away")).is_some(), "waits for its kubelet, which is not ours");
    cluster.delete(at(9_000), &key("away"), away["metadata"]["uid"].as_str(), Some(0)).unwrap();
    assert_eq!(cluster.get(&key("away")), None);
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it() {
    let mut cluster = cluster();
    cluster.create(at(0), pod("web", "1", "Always")).unwrap();
    let config = json!({ "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "shop" } });
    cluster.create(at(0), config).unwrap();
    run(&mut cluster, 1_000);
    let shop = Key::new("Namespace", "", "shop");
    cluster.delete(at(1_000), &shop, None, None).unwrap();
    assert_eq!(cluster.create(at(1_000), pod("new", "1", "Always")).unwrap_err().code, 403);
    run(&mut cluster, 2_000);
    assert_eq!(cluster.get(&shop), None);
    assert_eq!(cluster.list("Pod").1, Vec::<Value>::new());
}

#[test]
fn writes_can_be_made_to_fail() {
    let mut cluster = cluster();
    cluster.fail_next(ApiError::internal("etcd"));
    assert_eq!(cluster.create(at(0), pod("web", "1", "Always")).unwrap_err().code, 500);
    cluster.create(at(0), pod("web", "1", "Always")).unwrap();
    assert_eq!(
        cluster.create(at(0), pod("web", "1", "Always")).unwrap_err().reason,
        "AlreadyExists"
    );
    let mut other = pod("web", "1", "Always");
    other["metadata"]["uid"] = json!("other");
    assert_eq!(cluster.apply(at(0), other).unwrap_err().reason, "Conflict");
}

proptest! {
    #[test]
    fn a_watch_shows_all_that_a_list_would(steps in prop::collection::vec((0..4_u8, 0..5_u8), 1..60)) {
        let mut cluster = cluster();
        let (mut version, list) = cluster.list("Pod");
        let mut seen: std::collections::BTreeMap<String, Value> = Default::default();
        assert!(list.is_empty());
        for (n, (what, name)) in steps.into_iter().enumerate() {
            let (now, name) = (at(n as u64 * 70), format!("web-{name}"));
            match what {
                0 => drop(cluster.create(now, pod(&name, "100m", "Always"))),
                1 => drop(cluster.delete(now, &key(&name), None, Some(1))),
                2 => cluster.advance(now),
                _ => drop(cluster.apply(now, pod(&name, "200m", "Always"))),
            }
            for (at, event) in cluster.events_since("Pod", version).unwrap() {
                version = at;
                let text = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
                match event {
                    Event::Applied(pod) => drop(seen.insert(text(&pod), pod)),
                    Event::Deleted(pod) => drop(seen.remove(&text(&pod))),
                }
            }
            let listed: Vec<Value> = cluster.list("Pod").1;
            prop_assert_eq!(seen.values().cloned().collect::<Vec<_>>(), listed);
        }
        cluster.forget_events();
        if version > 1 {
            prop_assert_eq!(cluster.events_since("Pod", 1).unwrap_err().code, 410);
        }
    }
}

#[test]
fn a_pod_has_an_address_of_its_own_until_it_has_ended() {
    let mut cluster = cluster();
    for name in ["a", "b"] {
        cluster.create(at(0), pod(name, "500m", "Always")).unwrap();
    }
    let address =
        |cluster: &Cluster, name| cluster.get(&key(name)).unwrap()["status"]["podIP"].clone();
    run(&mut cluster, 1_000);
    assert_eq!(address(&cluster, "a"), "10.42.0.1");
    assert_eq!(address(&cluster, "b"), "10.42.0.2");
    assert!(cluster.renew_sandbox(at(1_000), &key("a")));
    assert_eq!(address(&cluster, "a"), "10.42.0.3", "a new sandbox has another one");
    assert!(!cluster.renew_sandbox(at(1_000), &key("a")), "it is on its way already");
    run(&mut cluster, 2_000);
    let status = &cluster.get(&key("a")).unwrap()["status"];
    assert_eq!(status["podIPs"], json!([{ "ip": "10.42.0.3" }]));
    assert_eq!(status["containerStatuses"][0]["restartCount"], 1);
    cluster.delete(at(2_000), &key("b"), None, Some(1)).unwrap();
    run(&mut cluster, 4_000);
    cluster.create(at(4_000), pod("c", "500m", "Always")).unwrap();
    run(&mut cluster, 5_000);
    assert_eq!(address(&cluster, "c"), "10.42.0.4", "one that was given back rests for a while");
}

/// A claim on that class; where a node is chosen for it, one is.
fn claim(name: &str, class: &str) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": "shop" },
        "spec": { "storageClassName": class,
            "resources": { "requests": { "storage": "2Gi" } } },
    })
}

fn claim_key(name: &str) -> Key {
    Key::new("PersistentVolumeClaim", "shop", name)
}

fn mounting(name: &str, claim: &str) -> Value {
    let mut pod = pod(name, "100m", "Always");
    pod["spec"]["volumes"] =
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    pod
}

#[test]
fn a_pod_waits_for_its_claim_and_a_claim_for_its_pods() {
    let mut cluster = cluster();
    cluster.create(at(0), mounting("db", "data")).unwrap();
    run(&mut cluster, 1_000);
    assert!(cluster.get(&key("db")).unwrap()["spec"]["nodeName"].is_null());
    cluster.create(at(1_000), claim("data", LOCAL_CLASS)).unwrap();
    cluster.create(at(1_000), claim("other", LOCAL_CLASS)).unwrap();
    run(&mut cluster, 3_000);
    assert_eq!(cluster.get(&key("db")).unwrap()["status"]["phase"], "Running");
    assert_eq!(cluster.get(&claim_key("other")).unwrap()["status"]["phase"], "Pending");
    let volume = cluster.get(&claim_key("data")).unwrap()["spec"]["volumeName"].clone();
    let volume = Key::new("PersistentVolume", "", volume.as_str().unwrap());
    assert_eq!(cluster.get(&volume).unwrap()["status"]["phase"], "Bound");
    // Neither goes while the pod runs.
    cluster.delete(at(3_000), &claim_key("data"), None, None).unwrap();
    run(&mut cluster, 4_000);
    assert!(cluster.get(&claim_key("data")).is_some());
    cluster.delete(at(4_000), &key("db"), None, None).unwrap();
    run(&mut cluster, 9_000);
    assert_eq!((cluster.get(&claim_key("data")), cluster.get(&volume)), (None, None));
}

#[test]
fn a_claim_of_another_class_is_bound_by_its_uid_where_there_is_room() {
    let mut cluster = cluster();
    let node = json!({ "kind": "Node",
        "metadata": { "name": "a-virtual", "labels": { "of": "c1", "volumes/c1": "" } } });
    cluster.create(at(0), node).unwrap();
    let status = json!({ "allocatable": { "cpu": "8", "pods": "5" } });
    cluster.write_status(at(0), &Key::new("Node", "", "a-virtual"), None, status).unwrap();
    let made = cluster.create(at(0), claim("data", "far")).unwrap();
    cluster.create(at(0), mounting("db", "data")).unwrap();
    run(&mut cluster, 1_000);
    let said = |cluster: &Cluster| {
        let pod = cluster.get(&key("db")).unwrap();
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert!(said(&cluster).contains("2 node(s) did not have enough free storage"));
    let capacity = |amount: &str| {
        json!({
            "kind": "CSIStorageCapacity", "metadata": { "namespace": "shop", "name": "c1" },
            "nodeTopology": { "matchLabels": { "of": "c1" } }, "storageClassName": "far",
            "capacity": amount,
        })
    };
    cluster.apply(at(1_000), capacity("1Gi")).unwrap();
    run(&mut cluster, 2_000);
    assert!(said(&cluster).contains("enough free storage"));
    cluster.apply(at(2_000), capacity("2Gi")).unwrap();
    run(&mut cluster, 3_000);
    let chosen = |cluster: &Cluster| {
        cluster.get(&claim_key("data")).unwrap()["metadata"]["annotations"][SELECTED_NODE].clone()
    };
    assert_eq!(chosen(&cluster), "a-virtual");
    // The scheduler chooses again, and the same.
    cluster.unmark(at(3_000), &claim_key("data"), None, SELECTED_NODE).unwrap();
    run(&mut cluster, 4_000);
    assert_eq!(chosen(&cluster), "a-virtual");
    assert!(cluster.get(&key("db")).unwrap()["spec"]["nodeName"].is_null());
    let volume = json!({
        "kind": "PersistentVolume", "metadata": { "name": "v1", "finalizers": ["ours"] },
        "spec": {
            "storageClassName": "far", "capacity": { "storage": "2Gi" },
            "claimRef": { "namespace": "shop", "name": "data", "uid": made["metadata"]["uid"] },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "volumes/c1", "operator": "Exists" }] }] } },
        },
    });
    let v1 = Key::new("PersistentVolume", "", "v1");
    cluster.create(at(4_000), volume).unwrap();
    run(&mut cluster, 5_000);
    assert_eq!(cluster.get(&key("db")).unwrap()["spec"]["nodeName"], "a-virtual");
    // By force it is gone, and the claim is lost; a later pod of it runs nowhere.
    cluster.delete(at(5_000), &v1, None, None).unwrap();
    cluster.release(at(5_000), &v1, None, "ours").unwrap();
    assert!(cluster.get(&v1).is_some(), "a claim is bound to it");
    cluster.release(at(5_000), &v1, None, VOLUME_PROTECTION).unwrap();
    cluster.delete(at(5_000), &key("db"), None, Some(0)).unwrap();
    cluster.create(at(5_000), mounting("db", "data")).unwrap();
    run(&mut cluster, 6_000);
    assert_eq!(cluster.get(&claim_key("data")).unwrap()["status"]["phase"], "Lost");
    assert!(said(&cluster).contains("non-existent"), "{}", said(&cluster));
}
