//! Objects of a kind, beside a scripted API server.

use std::sync::{Arc, Mutex};

use kube::Resource as _;

use super::*;
use crate::crd::Condition;
use crate::testing::{scripted, status};

type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

fn order(version: &str, finalizers: &[&str]) -> Order {
    serde_json::from_value(json!({
        "apiVersion": "mercato.dev/v1alpha1", "kind": "Order",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1",
            "resourceVersion": version, "finalizers": finalizers },
        "spec": { "cpu": 1, "memory": "1Gi", "for": "2h" },
    }))
    .unwrap()
}

/// Objects of a server that answers every write with this object, or refuses it.
fn objects(answer: Result<Order, u16>) -> (Objects<Order>, Asked) {
    let asked = Asked::default();
    let seen = asked.clone();
    let cluster = scripted(move |method, path, body| {
        seen.lock().unwrap().push((method.to_string(), path.to_owned(), body));
        match &answer {
            Ok(order) => (200, serde_json::to_value(order).unwrap()),
            Err(code) => status(*code, "no"),
        }
    });
    let mut objects = Objects::follow(cluster);
    assert!(objects.all().is_none(), "nothing is known before the first list");
    objects.take(Change::Synced(vec![Some(order("5", &[])), None]));
    (objects, asked)
}

#[tokio::test]
async fn what_is_said_already_is_not_written_again() {
    let (mut objects, asked) = objects(Ok(order("6", &[])));
    let [known] = &objects.all().unwrap()[..] else { panic!() };
    objects.say(known, known.said()).await.unwrap();
    assert!(asked.lock().unwrap().is_empty());
    let conditions = Condition::ready(true, ("Active", String::new()), 1, &[]);
    let status = OrderStatus { conditions, ..OrderStatus::default() };
    objects.say(known, status).await.unwrap();
    let (method, path, body) = asked.lock().unwrap().pop().unwrap();
    assert_eq!(method, "PATCH");
    assert!(path.starts_with("/apis/mercato.dev/v1alpha1/namespaces/shop/orders/web/status?"));
    assert_eq!(body["metadata"]["uid"], "u1", "another of the name is not meant");
    assert_eq!(body["status"]["conditions"][0]["status"], "True");
}

/// A server that keeps one Order, takes each status of it, and tells of it by its watch.
fn kept(written: Arc<Mutex<Vec<Value>>>) -> Objects<Order> {
    let (tell, told) = futures::channel::mpsc::unbounded();
    let cluster = scripted(move |_, _, body| {
        let mut written = written.lock().unwrap();
        written.push(body["status"].clone());
        let mut kept =
            serde_json::to_value(order(&format!("{}", 10 + written.len()), &[])).unwrap();
        kept["status"] = body["status"].clone();
        let change = Change::Changed(serde_json::from_value(kept.clone()).ok());
        let _ = tell.unbounded_send(change);
        (200, kept)
    });
    let first = Change::Synced(vec![Some(order("5", &[]))]);
    let changes = futures::stream::once(async { first }).chain(told).boxed();
    Objects { cluster, changes, known: None, again: None }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_comes_back_by_the_watch_begins_nothing() {
    let written = Arc::default();
    let mut objects = kept(Arc::clone(&written));
    let serve = async {
        loop {
            objects.changed().await;
            let [known] = &objects.all().unwrap()[..] else { panic!() };
            // Whoever serves says what is so at the moment, to the millisecond.
            let now = format!("{:?}", Instant::now());
            let conditions = Condition::ready(true, ("Active", now), 1, &[]);
            let status = OrderStatus { conditions, ..OrderStatus::default() };
            objects.say(known, status).await.unwrap();
        }
    };
    let ended: Result<(), _> = tokio::time::timeout(Duration::from_hours(1), serve).await;
    assert!(ended.is_err());
    assert_eq!(written.lock().unwrap().len(), 1, "for an hour");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_changes_without_end_is_written_at_a_pace_and_the_last_one_stays() {
    let written = Arc::default();
    let mut objects = kept(Arc::clone(&written));
    let said = |nth: u32| {
        let conditions = Condition::ready(true, ("Active", nth.to_string()), 1, &[]);
        OrderStatus { conditions, ..OrderStatus::default() }
    };
    objects.changed().await;
    let begun = Instant::now();
    for nth in 0..600 {
        let next = begun + Duration::from_millis(100) * nth;
        let _ = tokio::time::timeout_at(next, objects.changed()).await;
        let [known] = &objects.all().unwrap()[..] else { panic!() };
        objects.say(known, said(nth)).await.unwrap();
    }
    let in_a_minute = written.lock().unwrap().len();
    assert!((10..20).contains(&in_a_minute), "{in_a_minute}");
    assert_eq!(objects.cluster.held()[0].name, "web");
    // Once its turn comes it is looked at again, though nothing has changed.
    objects.changed().await;
    let [known] = &objects.all().unwrap()[..] else { panic!() };
    assert!(objects.say(known, said(599)).await.unwrap());
    let last = written.lock().unwrap().last().unwrap().clone();
    assert_eq!(last["conditions"][0]["message"], "599");
}

#[tokio::test]
async fn what_somebody_else_wrote_just_before_is_looked_at() {
    let mut theirs = order("6", &[]);
    theirs.meta_mut().generation = Some(2);
    let (mut objects, _) = objects(Ok(theirs));
    let [known] = &objects.all().unwrap()[..] else { panic!() };
    let conditions = Condition::ready(true, ("Active", String::new()), 1, &[]);
    let status = OrderStatus { conditions, ..OrderStatus::default() };
    objects.say(known, status).await.unwrap();
    assert!(objects.again.is_some_and(|at| at <= Instant::now()));
}

#[tokio::test]
async fn a_finalizer_is_added_to_those_of_others_and_taken_away_alone() {
    let (mut objects, asked) = objects(Ok(order("6", &["theirs", FINALIZER])));
    let mine = order("5", &["theirs"]);
    objects.hold(&mine, true).await.unwrap();
    let sent = || asked.lock().unwrap().pop().map(|(.., body)| body["metadata"].clone());
    let wanted =
        json!({ "uid": "u1", "resourceVersion": "5", "finalizers": ["theirs", FINALIZER] });
    assert_eq!(sent(), Some(wanted));
    let [held] = &objects.all().unwrap()[..] else { panic!() };
    assert!(is_held(held));
    objects.hold(held, true).await.unwrap();
    assert_eq!(sent(), None);
    objects.hold(held, false).await.unwrap();
    assert_eq!(sent().unwrap()["finalizers"], json!(["theirs"]));
}

#[tokio::test]
async fn a_refused_write_changes_nothing_and_an_old_state_comes_too_late() {
    let (mut objects, _) = objects(Err(409));
    assert!(objects.hold(&order("5", &[]), true).await.is_err());
    objects.take(Change::Changed(Some(order("4", &["old"]))));
    assert_eq!(objects.all().unwrap()[0].meta().resource_version.as_deref(), Some("5"));
    objects.take(Change::Changed(Some(order("10", &["new"]))));
    assert_eq!(objects.all().unwrap()[0].meta().resource_version.as_deref(), Some("10"));
    objects.take(Change::Deleted(Some(order("11", &[]))));
    assert!(objects.all().unwrap().is_empty());
}

#[tokio::test]
async fn the_kinds_are_there_when_all_are() {
    let of = |names: &'static [&'static str]| {
        let kinds: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        installed(&scripted(move |_, _, _| (200, json!({ "resources": kinds }))))
    };
    let all = &["contracts", "marketpolicies", "namespaceoffloads", "orders", "orders/status"];
    assert_eq!(of(all).await, Ok(true));
    assert_eq!(of(&["orders"]).await, Ok(false));
    assert_eq!(installed(&scripted(|_, _, _| status(404, "no"))).await, Ok(false));
    assert!(installed(&scripted(|_, _, _| status(503, "later"))).await.is_err());
}
