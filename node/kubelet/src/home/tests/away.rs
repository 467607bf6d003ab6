//! Pods whose provider is not reached.

use super::*;

fn running(reason: Option<&str>) -> Value {
    let mut running = pod("shop");
    running["metadata"]["resourceVersion"] = "6".into();
    let status = if reason.is_none() { "True" } else { "False" };
    running["status"] = json!({ "phase": "Running",
        "conditions": [{ "type": "Ready", "status": status, "reason": reason }] });
    running
}

/// What is written of a pod that is known so once its provider is not reached.
async fn written(known: Value, reach: Reach) -> Vec<(String, Value)> {
    let (mut bed, _) = bed("shop", None, (200, known.clone())).await;
    bed.side.shared.pods.refresh(known);
    let lost = Write::Status { status: None, outcome: None, reach, resize: None };
    assert_eq!(bed.write("shop", lost).await, Input::Written(Uid("u1".into())));
    // The event comes behind what is answered.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let writes = bed.writes.lock().unwrap().clone();
    writes.into_iter().filter(|(request, _)| request.contains("/events")).collect()
}

#[tokio::test]
async fn a_pod_is_told_once_that_its_provider_is_not_reached() {
    let lost = Reach::Lost { address: None, second: None };
    let [(made, event)] = &written(running(None), lost).await[..] else { panic!("one event") };
    assert!(made.starts_with("POST /api/v1/namespaces/shop/events"), "{made}");
    assert_eq!((&event["reason"], &event["type"]), (&json!("PeerUnreachable"), &json!("Warning")));
    assert_eq!(event["involvedObject"]["uid"], "u1");
    assert!(event["message"].as_str().unwrap().contains("node turin is not reached"), "{event}");
    let known = running(Some("PeerUnreachable"));
    assert_eq!(written(known, lost).await, [], "it was told");
    assert_eq!(written(pod("shop"), lost).await, [], "it has not run yet");
    assert_eq!(written(running(None), Reach::Not).await, [], "it is reached");
}
