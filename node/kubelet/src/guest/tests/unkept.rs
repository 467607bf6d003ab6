//! Guests that no finalizer keeps.

use super::*;

#[tokio::test]
async fn one_that_nothing_keeps_is_made_once_it_is_on_record() {
    let mut bed = bed(None, (201, json!({})));
    let (item, mut body) = pod();
    body["metadata"]["ownerReferences"] = json!([{ "kind": "ReplicaSet", "controller": true }]);
    let waits = Input::NotWritten(item.clone(), Failure::Unrecorded);
    assert_eq!(bed.apply(&item, &body).await, waits);
    assert_eq!(bed.written(), [""; 0]);
    let Item::Pod(id) = item.clone() else { panic!() };
    bed.side.make(id, content(&body));
    assert_eq!(bed.inputs.recv().await, Some(Input::Written(item)));
    let (request, object) = bed.writes.lock().unwrap().remove(0);
    assert!(request.starts_with("POST /api/v1/namespaces/shop-rome/pods"), "{request}");
    assert_eq!(object["metadata"]["finalizers"], Value::Null);
}
