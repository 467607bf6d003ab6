//! Tokens of pods that left home.

use mercato_offload::key::ObjectKey;

use super::*;

/// The token that this pod needs.
fn token_of(told: &HomePod) -> ObjectKey {
    let mut tokens = told.needs.iter().filter(|key| key.kind == ObjectKind::ServiceAccountToken);
    tokens.next().unwrap().clone()
}

#[tokio::test]
async fn a_token_is_bound_to_its_pod() {
    let token = json!({ "status": { "token": "secret.jwt" } });
    let (mut bed, told) = bed("shop", None, (201, token)).await;
    let wanted = token_of(&told);
    bed.side.watch(wanted.clone());
    let Some(Input::Object { key, digest: Some(digest) }) = bed.inputs.recv().await else {
        panic!()
    };
    assert_eq!(key, wanted);
    assert!(bed.bodies.object(&digest).here().unwrap()["data"]["token"].is_string());
    let (request, review) = bed.writes.lock().unwrap().remove(0);
    assert!(
        request.starts_with("POST /api/v1/namespaces/shop/serviceaccounts/reader/token"),
        "{request}"
    );
    assert_eq!(review["spec"]["boundObjectRef"]["uid"], "u1");
    assert_eq!(review["spec"]["audiences"], json!(["vault"]));
    assert_eq!(review["spec"]["expirationSeconds"], 3600, "never longer than an hour");
}

#[tokio::test]
async fn a_token_that_is_refused_is_told_at_the_pod_once() {
    let policy = "a token is for an audience of optional/token-audiences.yaml";
    let (mut bed, told) = bed("shop", None, status(403, policy)).await;
    bed.side.watch(token_of(&told));
    let events = || -> Vec<Value> {
        let writes = bed.writes.lock().unwrap();
        let events = writes.iter().filter(|(request, _)| request.contains("/events"));
        events.map(|(_, event)| event.clone()).collect()
    };
    for _ in 0..50 {
        if !events().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let events = events();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        (event["reason"].as_str(), event["type"].as_str()),
        (Some("LeftOut"), Some("Warning"))
    );
    let note = event["note"].as_str().or(event["message"].as_str()).unwrap();
    assert!(note.contains("token for vault") && note.contains(policy), "{note}");
}
