//! What is put back, against a scripted API server.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::testing::{scripted, status, until};

/// An API server that keeps one policy in the namespace `shop-rome`, and what was done there.
#[derive(Default)]
struct Server {
    policy: Option<Value>,
    is_leaving: bool,
    applied: u32,
    events: Vec<Value>,
}

fn policy(rules: Value) -> Value {
    json!({ "metadata": { "name": OURS, "namespace": "shop-rome", "uid": "u1" },
        "spec": { "podSelector": {}, "ingress": rules } })
}

/// A cluster whose watches fail, so that only what a test tells is known.
fn bed(policy: Option<Value>) -> (Upkeep, Arc<Mutex<Server>>) {
    let server = Arc::new(Mutex::new(Server { policy, ..Server::default() }));
    let kept = server.clone();
    let cluster = scripted(move |method, path, body| {
        let mut server = kept.lock().unwrap();
        let path = path.split('?').next().unwrap_or_default();
        match (method.as_str(), path.rsplit('/').next().unwrap_or_default()) {
            ("GET", "shop-rome") => {
                let mut found = json!({ "metadata": { "labels": { CONTRACT: "c" } } });
                if server.is_leaving {
                    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                (200, found)
            }
            ("GET", OURS) => match &server.policy {
                Some(policy) => (200, policy.clone()),
                None => status(404, "not found"),
            },
            ("PATCH", OURS) => {
                server.applied += 1;
                server.policy = Some(body.clone());
                (200, body)
            }
            ("POST", "events") => {
                server.events.push(body.clone());
                (201, body)
            }
            _ => status(503, "not in this test"),
        }
    });
    (Upkeep::start(cluster), server)
}

fn told(kept: &Upkeep, change: Change<LookedAt>) {
    kept.inner.state().on_change((NETWORK_POLICY, OURS), change);
    kept.inner.asked.notify_one();
}

fn seen(kept: &Upkeep, object: &Value) -> LookedAt {
    kept.inner.read(NETWORK_POLICY, OURS, object)
}

fn settle(kept: &Upkeep) {
    assert!(!kept.begin("shop-rome"));
    kept.settle("shop-rome", &[(NETWORK_POLICY, policy(json!([])))]);
}

#[tokio::test]
async fn what_was_deleted_or_changed_is_put_back_with_one_event() {
    let (kept, server) = bed(Some(policy(json!([]))));
    settle(&kept);
    let spot = in_guests(NETWORK_POLICY, "shop-rome");
    // As a watch tells that it is not there.
    server.lock().unwrap().policy = None;
    told(&kept, Change::Synced(Vec::new()));
    until("it is back", || server.lock().unwrap().applied == 1).await;
    until("that is over", || kept.inner.state().busy.is_empty()).await;
    let mut edited = policy(json!([{}]));
    edited["metadata"]["managedFields"] = json!([{ "manager": "kubectl-edit",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:spec": {} } }]);
    server.lock().unwrap().policy = Some(edited.clone());
    let change = seen(&kept, &edited);
    assert!(!change.holds && change.spot == spot);
    told(&kept, Change::Changed(change));
    until("it is as it was", || server.lock().unwrap().applied == 2).await;
    until("all is told", || !kept.recent().is_empty() && kept.recent()[0].times == 2).await;
    let [one] = &kept.recent()[..] else { panic!("one object: {:?}", kept.recent()) };
    let by = Some("kubectl-edit".to_owned());
    assert_eq!(one.change, put_back::Meddling::Edited(by));
    let events = server.lock().unwrap().events.clone();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["reason"], "PutBack");
    assert_eq!(events[0]["involvedObject"]["kind"], "NetworkPolicy");
}

#[tokio::test]
async fn a_label_that_somebody_adds_is_no_change() {
    let (kept, server) = bed(Some(policy(json!([]))));
    settle(&kept);
    let mut labelled = policy(json!([]));
    labelled["metadata"]["labels"] = json!({ "team": "a" });
    assert!(seen(&kept, &labelled).holds);
    // A watch may be behind: what is there now counts.
    told(&kept, Change::Changed(seen(&kept, &policy(json!([{}])))));
    until("it is looked at", || kept.inner.state().due.is_empty()).await;
    until("that is over", || kept.inner.state().busy.is_empty()).await;
    assert_eq!(server.lock().unwrap().applied, 0);
    assert_eq!(kept.recent(), []);
}

#[tokio::test]
async fn in_a_namespace_that_goes_nothing_is_put_back() {
    let (kept, server) = bed(None);
    settle(&kept);
    server.lock().unwrap().is_leaving = true;
    told(&kept, Change::Synced(Vec::new()));
    until("it is looked at", || kept.inner.state().due.is_empty()).await;
    until("that is over", || kept.inner.state().busy.is_empty()).await;
    kept.forget("shop-rome");
    server.lock().unwrap().is_leaving = false;
    told(&kept, Change::Synced(Vec::new()));
    assert!(kept.inner.state().due.is_empty());
    assert_eq!(server.lock().unwrap().applied, 0);
}

#[tokio::test]
async fn what_changes_while_all_is_written_is_looked_at_afterwards() {
    let (kept, server) = bed(Some(policy(json!([{}]))));
    kept.begin("shop-rome");
    told(&kept, Change::Changed(seen(&kept, &policy(json!([{}])))));
    assert!(kept.inner.state().due.is_empty());
    kept.settle("shop-rome", &[(NETWORK_POLICY, policy(json!([])))]);
    until("it is put back", || server.lock().unwrap().applied == 1).await;
    assert!(kept.begin("shop-rome"), "it was kept");
}

/// Somebody whose program writes against ours at once, each time, for a minute.
#[tokio::test(start_paused = true)]
async fn who_writes_against_ours_for_a_minute_brings_about_under_twenty_writes_and_one_event() {
    let (kept, server) = bed(Some(policy(json!([]))));
    settle(&kept);
    for _ in 0..600 {
        let edited = policy(json!([{}]));
        server.lock().unwrap().policy = Some(edited.clone());
        told(&kept, Change::Changed(seen(&kept, &edited)));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let applied = server.lock().unwrap().applied;
    assert!((12..20).contains(&applied), "{applied}");
    assert_eq!(server.lock().unwrap().events.len(), 1);
    let [one] = &kept.recent()[..] else { panic!("one object") };
    assert!(one.times + 1 >= applied, "{} of {applied}", one.times);
}

/// What is the cluster's own is kept as well, at a pace, and told without a namespace.
#[tokio::test(start_paused = true)]
async fn the_webhook_of_home_is_put_back_at_a_pace_until_it_is_left() {
    let there: Arc<Mutex<(Option<Value>, u32)>> = Arc::default();
    let server = there.clone();
    let cluster = scripted(move |method, path, body| {
        let mut server = server.lock().unwrap();
        match method.as_str() {
            "GET" if path.contains("watch=") || path.contains("limit=") => status(503, "no"),
            "GET" => server.0.clone().map_or_else(|| status(404, "no"), |it| (200, it)),
            "PATCH" => {
                *server = (Some(body.clone()), server.1 + 1);
                (200, body)
            }
            _ => (201, body),
        }
    });
    let kept = Upkeep::start(cluster);
    let registered = json!({ "webhooks": [{ "name": "a", "failurePolicy": "Fail" }] });
    let of = (WEBHOOK, names::WEBHOOK);
    kept.keep(WEBHOOK, "", names::WEBHOOK, &registered);
    until("it is looked at", || there.lock().unwrap().1 == 1).await;
    for _ in 0..600 {
        there.lock().unwrap().0 = None;
        kept.inner.state().on_change(of, Change::Synced(Vec::new()));
        kept.inner.asked.notify_one();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let written = there.lock().unwrap().1;
    assert!((12..20).contains(&written), "{written}");
    let [one] = &kept.recent()[..] else { panic!("one object") };
    assert_eq!(one.place.to_string(), "MutatingWebhookConfiguration offload.mercato.dev");
    kept.leave("", None);
    tokio::time::sleep(limits::WRITES_EACH * 2).await;
    let written = there.lock().unwrap().1;
    there.lock().unwrap().0 = None;
    kept.inner.state().on_change(of, Change::Synced(Vec::new()));
    kept.inner.asked.notify_one();
    tokio::time::sleep(limits::WRITES_EACH * 2).await;
    assert_eq!(there.lock().unwrap().1, written, "nothing is kept any more");
}

#[tokio::test]
async fn a_binding_of_home_is_left_by_its_name_and_guests_are_forgotten_beside_it() {
    let (kept, _) = bed(None);
    for name in [NAMESPACE_ROLE, API_ACCESS_ROLE] {
        kept.keep(ROLE_BINDING, "shop", name, &json!({ "subjects": [] }));
    }
    kept.forget("shop");
    kept.leave("shop", Some(API_ACCESS_ROLE));
    let names: Vec<_> = kept.inner.state().written.keys().map(|spot| spot.name).collect();
    assert_eq!(names, [NAMESPACE_ROLE]);
    kept.leave("shop", None);
    assert!(kept.inner.state().written.is_empty());
}
