//! Pods that look like guests, and guests that do not look like it any more.

use super::*;

/// A guest namespace in which these pods are, and one of them is changed to this.
fn cluster_of(pods: Vec<Value>, changed: Value) -> (GuestSide, mpsc::Receiver<Input>) {
    cluster_that_says(pods, "MODIFIED", changed)
}

/// A guest namespace in which these pods were listed, and whose watch says this of one of them, which
/// is not there then.
fn cluster_that_says(
    pods: Vec<Value>,
    says: &'static str,
    changed: Value,
) -> (GuestSide, mpsc::Receiver<Input>) {
    let cluster = scripted(move |_, path, _| {
        if path == "/api/v1/namespaces/shop-rome/pods/web" {
            return status(404, "not found");
        }
        let (place, query) = path.split_once('?').unwrap();
        let is_pods = place == "/api/v1/namespaces/shop-rome/pods";
        assert!(place.contains("/namespaces/shop-rome/"), "nothing is looked at elsewhere: {path}");
        assert_eq!(
            query.contains("labelSelector"),
            !is_pods && !place.contains("events"),
            "{path}"
        );
        if query.contains("watch=") {
            return match is_pods {
                true => (200, json!({ "type": says, "object": changed })),
                false => status(503, "not watched in this test"),
            };
        }
        let items = if is_pods { pods.clone() } else { Vec::new() };
        let metadata = json!({ "resourceVersion": "9" });
        (200, json!({ "kind": "List", "metadata": metadata, "items": items }))
    });
    start(cluster, context(), Bodies::default(), LeaseStored::alone(CONTRACT_ID))
}

async fn next(inputs: &mut mpsc::Receiver<Input>) -> Input {
    tokio::time::timeout(Duration::from_secs(10), inputs.recv()).await.unwrap().unwrap()
}

fn with_uid(mut pod: Value, uid: &str) -> Value {
    pod["metadata"]["uid"] = uid.into();
    pod
}

#[tokio::test]
async fn a_guest_without_its_labels_is_told_of_and_stays_and_its_copy_is_nobody() {
    let ours = guest(&CONTRACT_ID.to_string(), "u1");
    let mut copy = with_uid(ours.clone(), "g2");
    copy["metadata"]["name"] = "web-2".into();
    let mut robbed = ours.clone();
    robbed["metadata"]["labels"] = json!({});
    robbed["metadata"]["resourceVersion"] = "10".into();
    let (_side, mut inputs) = cluster_of(vec![ours, copy], robbed);
    let Input::Synced(list) = next(&mut inputs).await else { panic!("no list") };
    let [web] = &list[..] else { panic!("{list:?}") };
    assert_eq!(web.item, pod().0);
    let Input::Event(_, event) = next(&mut inputs).await else { panic!("nobody is told") };
    assert_eq!(event.reason, "GuestMarksChanged");
    assert_eq!(event.clone().fit(), Some(event), "it is one that can be told of");
    let Input::Observed(seen) = next(&mut inputs).await else { panic!("it is gone") };
    assert_eq!((seen.item, seen.pod.map(|pod| pod.marked)), (pod().0, Some(false)));
}

#[tokio::test]
async fn a_guest_that_is_gone_is_told_of_as_it_was_last() {
    let ours = guest(&CONTRACT_ID.to_string(), "u1");
    for deleting in [true, false] {
        let mut last = ours.clone();
        last["status"] = json!({ "phase": "Succeeded" });
        if deleting {
            last["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let (_side, mut inputs) = cluster_that_says(vec![ours.clone()], "DELETED", last);
        let Input::Synced(_) = next(&mut inputs).await else { panic!("no list") };
        let Input::Observed(seen) = next(&mut inputs).await else { panic!("not as it was last") };
        let pod = seen.pod.unwrap();
        assert_eq!((pod.terminal, pod.deleting), (Some(Outcome::Succeeded), deleting));
        // One that nobody deletes is asked for first; meanwhile this watch says the same once more.
        let mut then = next(&mut inputs).await;
        for _ in 0..100 {
            let Input::Observed(_) = then else { break };
            then = next(&mut inputs).await;
        }
        assert_eq!(then, Input::Gone(super::pod().0));
    }
}

#[tokio::test]
async fn a_guest_is_known_by_the_uid_that_is_on_record() {
    let mut robbed = guest(&CONTRACT_ID.to_string(), "u1");
    robbed["metadata"]["labels"] = json!({});
    let mut bed = bed(Some(robbed), (200, json!({})));
    bed.side.confirm(pod().0, None);
    assert_eq!(next(&mut bed.inputs).await, Input::Gone(pod().0), "no mark says that it is one");
    bed.side.confirm(pod().0, "g1".parse().ok());
    let Input::Observed(seen) = next(&mut bed.inputs).await else { panic!("it is gone") };
    assert!(!seen.pod.unwrap().marked);
    bed.side.confirm(pod().0, "g0".parse().ok());
    assert_eq!(next(&mut bed.inputs).await, Input::Gone(pod().0), "it is another in its place");
}

#[tokio::test]
async fn an_earlier_pod_of_the_name_is_waited_for() {
    let mut bed = bed(Some(guest(&CONTRACT_ID.to_string(), "u0")), (200, json!({})));
    let (item, body) = pod();
    let waits = Input::NotWritten(item.clone(), Failure::Transient);
    let Input::Event(_, event) = bed.apply(&item, &body).await else { panic!("nobody is told") };
    assert_eq!(event.reason, "NameInUse");
    assert_eq!(event.clone().fit(), Some(event), "it is one that can be told of");
    assert_eq!(bed.inputs.recv().await, Some(waits.clone()));
    assert_eq!(bed.apply(&item, &body).await, waits, "it is told once");
    assert!(bed.written().is_empty());
}

#[tokio::test]
async fn what_is_not_ours_is_not_touched() {
    let (item, body) = pod();
    for present in [guest("another", "u1"), json!({ "metadata": { "name": "web" } })] {
        let mut bed = bed(Some(present), (200, json!({})));
        let Input::NotWritten(_, Failure::Refused(why)) = bed.apply(&item, &body).await else {
            panic!("a foreign object was taken for ours");
        };
        assert_eq!(why.path, "metadata.name");
        bed.side.delete(item.clone(), Some(0));
        let absent = Some(Input::NotWritten(item.clone(), Failure::Absent));
        assert_eq!(bed.inputs.recv().await, absent);
        let Item::Pod(id) = item.clone() else { panic!() };
        bed.side.release(id);
        assert_eq!(bed.inputs.recv().await, absent);
        assert!(bed.written().is_empty(), "{:?}", bed.written());
    }
}
