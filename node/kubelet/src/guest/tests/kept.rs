//! A guest that has lost a field of what it was forged with, as its API server gives it back.

use super::*;

/// A pod of home that is bounded as a whole alone.
fn whole() -> (Item, Value) {
    let (item, mut body) = pod();
    body["spec"]["resources"] = json!({ "limits": { "memory": "64Mi" } });
    (item, body)
}

/// As a cluster before 1.34 stores its guest.
fn without() -> Value {
    let (item, body) = whole();
    let mut stored = forge::forge(&item, &body, &content(&body), &context()).unwrap();
    stored["metadata"]["uid"] = "g1".into();
    stored["spec"]["resources"] = Value::Null;
    stored
}

#[tokio::test]
async fn a_guest_that_lost_a_bound_is_told_with_the_path_and_made_no_more() {
    let mut bed = bed(None, (201, without()));
    let (item, body) = whole();
    let Input::Observed(seen) = bed.apply(&item, &body).await else { panic!("as it is stored") };
    let why = seen.pod.unwrap().unlike.unwrap();
    assert_eq!(why.path, "spec.resources.limits[memory]");
    assert!(matches!(bed.inputs.recv().await, Some(Input::Created(..))));
    // At home another takes its place at once.
    let again = bed.apply(&item, &body).await;
    let Input::NotWritten(_, Failure::Refused(why)) = again else { panic!("{again:?}") };
    assert_eq!(why.path, "spec.resources");
    assert_eq!(bed.written().len(), 1);
    let (item, body) = pod();
    assert!(!matches!(bed.apply(&item, &body).await, Input::NotWritten(..)), "one without it");
}

#[tokio::test]
async fn one_that_was_made_without_an_answer_is_looked_at() {
    let mut bed = bed(Some(without()), (200, without()));
    let (item, body) = whole();
    let Input::Observed(seen) = bed.apply(&item, &body).await else { panic!("as it is stored") };
    assert_eq!(seen.pod.unwrap().unlike.unwrap().path, "spec.resources.limits[memory]");
}

#[tokio::test]
async fn one_that_runs_without_a_bound_is_told_of_once_and_runs_on() {
    let mut bed = bed(None, (200, json!({})));
    let limits = BTreeMap::from([("memory".to_owned(), "1Gi".to_owned())]);
    bed.side.set_context(GuestContext { default_limits: limits, ..context() });
    for told in [true, false] {
        assert!(bed.side.shared.observe(&without()).unwrap().pod.unwrap().unlike.is_none());
        match bed.inputs.try_recv() {
            Ok(Input::Event(_, event)) => {
                assert_eq!((event.reason.as_str(), told), ("GuestUnbounded", true));
                assert!(event.message.starts_with("spec.containers[0].resources.limits[memory]"));
            }
            other => assert!(!told && other.is_err(), "{other:?}"),
        }
    }
}
