//! What is written of a guest that its gate holds back.

use mercato_offload::forge::Gate;

use super::*;

fn gated() -> GuestContext {
    let image = Some("registry.example/mercato:1".to_owned());
    GuestContext { gate: Some(Gate { image, ..Gate::default() }), ..context() }
}

/// The pod of home with a container of `kubectl debug`.
fn debugged() -> (Item, Value) {
    let (item, mut body) = pod();
    body["spec"]["ephemeralContainers"] = json!([{ "name": "debugger", "image": "b" }]);
    (item, body)
}

/// The guest as it stands there, with its gate in this state.
fn standing(gate: &Value) -> Value {
    let (item, body) = pod();
    let forged = forge::forge(&item, &body, &content(&body), &gated());
    let mut stored = forged.unwrap();
    stored["metadata"]["uid"] = "g1".into();
    stored["metadata"]["resourceVersion"] = "7".into();
    stored["status"] =
        json!({ "initContainerStatuses": [{ "name": "mercato-gate", "state": gate }] });
    stored
}

/// A cluster with this guest, which a write at the pod itself gives back.
fn with(stored: Value) -> Bed {
    let bed = bed(Some(stored.clone()), (200, stored));
    bed.side.set_context(gated());
    bed
}

#[tokio::test]
async fn a_debugger_waits_for_the_gate() {
    let (item, body) = debugged();
    let running = json!({ "running": {} });
    let mut bed = with(standing(&running));
    let answer = bed.apply(&item, &body).await;
    assert_eq!(answer, Input::NotWritten(item.clone(), Failure::Transient), "it is tried again");
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    assert_eq!(writes.len(), 1, "{writes:?}");
    let annotations = &writes[0].1["metadata"]["annotations"];
    assert!(annotations.is_object() && annotations[DIGEST].is_null(), "it is not what home wants");

    let mut bed = with(standing(&json!({ "terminated": { "exitCode": 0 } })));
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    let (request, change) = &writes[1];
    assert!(request.contains("/ephemeralcontainers"), "{request}");
    assert_eq!(change["spec"]["ephemeralContainers"][0]["name"], "debugger");
    assert_eq!(change["metadata"]["resourceVersion"], "7", "to the pod that was looked at");
    assert!(writes[2].1["metadata"]["annotations"][DIGEST].is_string());
}

#[tokio::test]
async fn a_pod_with_a_debugger_is_made_without_and_that_follows() {
    let (item, body) = debugged();
    let mut bed = bed(None, (201, standing(&Value::Null)));
    bed.side.set_context(gated());
    let Item::Pod(id) = item.clone() else { panic!() };
    let made = Input::Created(id, "g1".parse().unwrap());
    assert_eq!(bed.apply(&item, &body).await, made, "its uid is known at once");
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    assert_eq!(writes.len(), 1, "{writes:?}");
    let made = &writes[0].1;
    assert!(made["spec"]["ephemeralContainers"].is_null());
    assert_eq!(made["spec"]["initContainers"][0]["name"], "mercato-gate");
    let nothing = forge::digest(&Value::Null).to_string();
    assert_eq!(made["metadata"]["annotations"][DIGEST], nothing, "it is not what home wants");
}

#[tokio::test]
async fn a_gate_stays_as_it_was_made() {
    let mut bed = with(standing(&json!({ "terminated": { "exitCode": 0 } })));
    let image = Some("registry.example/mercato:2".to_owned());
    bed.side
        .set_context(GuestContext { gate: Some(Gate { image, ..Gate::default() }), ..context() });
    let (item, mut body) = pod();
    body["spec"]["containers"][0]["image"] = "a:2".into();
    assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
    let (_, change) = bed.writes.lock().unwrap().remove(0);
    assert_eq!(change["spec"], json!({ "containers": [{ "name": "app", "image": "a:2" }] }));
    assert!(!change.to_string().contains("mercato:2"), "{change}");
}
