//! How a guest namespace is made, against a scripted API server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::PodSecurity;

use super::*;
use crate::testing::{scripted, status};

fn wanted() -> GuestNamespace {
    GuestNamespace {
        resources: BTreeMap::new(),
        name: "shop-rome".into(),
        home: "shop".into(),
        contract: ContractId([5; 16]),
        quantity: Resources::default(),
        pod_security: PodSecurity::Baseline,
        ranges: Vec::new(),
        name_servers: Vec::new(),
        egress: Egress::None,
        gate_port: None,
        login: None,
    }
}

fn anna() -> Account {
    Account { user: "anna".into() }
}

fn kept(cluster: &Cluster) -> Upkeep {
    Upkeep::start(cluster.clone())
}

/// What is missing after an attempt that failed in the middle, nobody has deleted; nor where the answer to
/// the first write never came.
#[tokio::test]
async fn what_an_attempt_has_not_come_to_write_is_no_change_of_somebody() {
    for is_lost in [false, true] {
        let (is_made, patches) = (Mutex::new(false), Mutex::new(Vec::new()));
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&events);
        let cluster = scripted(move |method, path, body| {
            let name = path.split('?').next().unwrap_or_default();
            let (mut is_made, mut patches) = (is_made.lock().unwrap(), patches.lock().unwrap());
            match method.as_str() {
                "POST" if path.ends_with("/events") => {
                    seen.lock().unwrap().push(body.clone());
                    (201, body)
                }
                "POST" if name.ends_with("/namespaces") => {
                    *is_made = true;
                    if is_lost { status(503, "away") } else { (201, body) }
                }
                "POST" => (201, json!({ "status": { "allowed": true } })),
                "PATCH" => {
                    patches.push(name.to_owned());
                    if patches.len() == 1 && !is_lost { status(503, "away") } else { (200, body) }
                }
                _ if patches.iter().any(|it| it == name) && name.contains("quotas") => {
                    let mut quota = wanted().quota();
                    quota["status"] = json!({ "hard": {} });
                    (200, quota)
                }
                _ if name.ends_with("/shop-rome") && *is_made => (200, wanted().namespace()),
                _ if name.ends_with("/serviceaccounts/default") => (200, json!({})),
                _ => status(404, "not found"),
            }
        });
        let kept = kept(&cluster);
        assert!(ensure(&cluster, &anna(), &kept, wanted()).await.is_err());
        ensure(&cluster, &anna(), &kept, wanted()).await.unwrap();
        assert_eq!(*events.lock().unwrap(), Vec::<Value>::new(), "{is_lost}");
        assert_eq!(kept.recent(), [], "{is_lost}");
    }
}

/// What a restart finds: the daemon was away while somebody deleted the policy and changed the quota.
#[tokio::test]
async fn what_was_changed_while_the_daemon_was_away_is_put_back_and_told() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let cluster = scripted(move |method, path, body| {
        let name = path.split('?').next().unwrap_or_default();
        match method.as_str() {
            "POST" if path.ends_with("/events") => {
                seen.lock().unwrap().push(body["involvedObject"]["kind"].clone());
                (201, body)
            }
            "POST" => (201, json!({ "status": { "allowed": true } })),
            "PATCH" => (200, body),
            _ if name.ends_with("/shop-rome") => (200, wanted().namespace()),
            _ if name.ends_with("/networkpolicies/mercato") => status(404, "not found"),
            _ if name.ends_with("/rolebindings/mercato-namespace") => status(404, "not found"),
            _ if name.ends_with("/resourcequotas/mercato") => {
                let mut quota = wanted().quota();
                quota["spec"]["hard"]["pods"] = "1".into();
                quota["status"] = json!({ "hard": {} });
                quota["metadata"]["managedFields"] = json!([{ "manager": "kubectl-edit",
                    "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:spec": {} } }]);
                (200, quota)
            }
            _ if name.ends_with("/limitranges/mercato") => (200, wanted().limit_range()),
            _ if name.ends_with("/serviceaccounts/default") => (200, json!({})),
            _ => status(404, "not found"),
        }
    });
    let kept = kept(&cluster);
    ensure(&cluster, &anna(), &kept, wanted()).await.unwrap();
    assert_eq!(*events.lock().unwrap(), ["ResourceQuota", "NetworkPolicy"]);
    let told: Vec<_> = kept.recent().iter().map(ToString::to_string).collect();
    assert!(told[0].ends_with("it was deleted"), "{told:?}");
    assert!(told[1].ends_with("it was changed by kubectl-edit"), "{told:?}");
    // Within the same run only those are at work who are followed.
    events.lock().unwrap().clear();
    ensure(&cluster, &anna(), &kept, wanted()).await.unwrap();
    assert_eq!(*events.lock().unwrap(), [""; 0]);
}

/// The closed list of `config/deploy/policies.yaml`, without which no namespace is made.
#[test]
fn the_admission_policies_know_its_labels() {
    const POLICIES: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/policies.yaml");
    let text = std::fs::read_to_string(POLICIES).unwrap();
    let (_, list) = text.split_once("variables.labels.all(k, k in [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let known: BTreeSet<&str> = list.split(',').map(|one| one.trim().trim_matches('"')).collect();
    let metadata = wanted().namespace()["metadata"].clone();
    let labels = metadata["labels"].as_object().unwrap();
    let made = labels.keys().map(String::as_str).chain(["kubernetes.io/metadata.name"]);
    assert_eq!(known, made.collect());
    assert_eq!(labels[MANAGED_BY], "mercato");
    assert_eq!(metadata.as_object().unwrap().len(), 2, "a name and labels: {metadata}");
}

#[tokio::test]
async fn only_its_own_namespace_is_left() {
    let deleted = Arc::new(AtomicBool::new(false));
    let seen = deleted.clone();
    let cluster = scripted(move |method, path, _| match method.as_str() {
        "DELETE" => {
            seen.store(true, Ordering::Relaxed);
            (200, json!({}))
        }
        _ if path.contains("/pods") => (200, json!({ "items": [] })),
        _ if path.contains("/persistentvolumeclaims") => {
            (200, json!({ "items": [{ "metadata": { "name": "mercato-1" } }] }))
        }
        _ => (200, wanted().namespace()),
    });
    let (contract, another) = (wanted().contract, ContractId([6; 16]));
    let removed = |of, home, stored| remove(&cluster, "shop-rome", of, Some(home), stored);
    assert_eq!(removed(&contract, "other", Stored::Goes).await, Ok(true));
    assert_eq!(removed(&another, "shop", Stored::Goes).await, Ok(true));
    let kept = removed(&contract, "shop", Stored::Stays).await.unwrap_err();
    assert!(kept.message.contains("shop-rome"), "{kept}");
    assert!(!deleted.load(Ordering::Relaxed));
    assert_eq!(removed(&contract, "shop", Stored::Goes).await, Ok(false));
    assert!(deleted.load(Ordering::Relaxed));
}

#[tokio::test]
async fn who_comes_second_looks_again() {
    let cluster = scripted(|method, _, _| match method.as_str() {
        "GET" => status(404, "not found"),
        _ => status(409, "already exists"),
    });
    let made = ensure(&cluster, &anna(), &kept(&cluster), wanted()).await;
    assert!(made.unwrap_err().is_transient());
}

#[tokio::test]
async fn anothers_namespace_is_a_conflict() {
    let cluster = scripted(|method, _, _| {
        assert_eq!(method.as_str(), "GET", "it is never touched");
        (200, json!({ "metadata": { "name": "shop-rome" } }))
    });
    let made = ensure(&cluster, &anna(), &kept(&cluster), wanted()).await;
    assert_eq!(made.unwrap_err().class, Class::Conflict);
}
