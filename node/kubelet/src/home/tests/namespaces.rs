//! Namespaces that are opted in, that end, and are made again.

use super::*;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::life::Lives;
use crate::testing::until;

/// The secrets of a namespace can be listed, and nothing else is there. Counts the lists.
fn with_secrets() -> (Cluster, Arc<Mutex<usize>>) {
    let lists = Arc::new(Mutex::new(0));
    let seen = lists.clone();
    let cluster = scripted(move |_, path, _| {
        if path.contains("watch=") {
            return status(503, "not watched in this test");
        }
        let items = match path {
            _ if path.contains("/secrets?") => {
                *seen.lock().unwrap() += 1;
                json!([{ "metadata": { "name": "sec" }, "data": { "pw": "eA==" } }])
            }
            _ if path.contains("/pods?") => json!([]),
            _ => return status(404, "not found"),
        };
        (200, json!({ "metadata": { "resourceVersion": "9" }, "items": items }))
    });
    (cluster, lists)
}

#[tokio::test]
async fn what_a_pod_needs_is_followed_in_each_life_of_its_namespace_and_not_between() {
    let (cluster, lists) = with_secrets();
    let known = |lives: &Lives<u8>| {
        let how = OptIn::default();
        let all = lives.get("shop").map(|life| ("shop".to_owned(), (how, life.clone())));
        Some(Arc::new(OptedIn::living(Scope::Labelled, all)))
    };
    let mut lives = Lives::default();
    let (opted_in, receiver) = watch::channel(known(&lives));
    let config = HomeConfig {
        node: "turin".into(),
        contract: mercato_protocol::id::ContractId([0x2f; 16]),
        provider: ClusterId([0x4f; 32]),
        host_ip: "10.0.0.1".parse().unwrap(),
        audiences: BTreeSet::new(),
        domain: None,
        api: None,
    };
    let claims = ClusterClaims::new(cluster.clone(), receiver.clone()).into();
    let (mut side, mut inputs) =
        HomeSide::start(cluster, config, Bodies::default(), receiver, claims);
    assert_eq!(inputs.recv().await, Some(Input::Synced(Vec::new())));
    let secret = key(ObjectKind::Secret, "shop", "sec");
    side.watch(secret.clone());
    for life in 1..=2 {
        // Nothing is asked about a namespace that is not there.
        assert_eq!(*lists.lock().unwrap(), usize::from(life - 1));
        lives.set([("shop".to_owned(), life)]);
        opted_in.send_replace(known(&lives));
        let told = tokio::time::timeout(Duration::from_secs(10), inputs.recv()).await;
        let Some(Input::Object { key, digest }) = told.unwrap() else { panic!("another input") };
        assert_eq!((key, digest.is_some()), (secret.clone(), true));
        lives.set([]);
        opted_in.send_replace(known(&lives));
    }
}

#[tokio::test]
async fn a_namespace_that_is_not_opted_in_is_refused_until_it_is() {
    let (mut bed, told) = bed("other", None, (200, json!({}))).await;
    assert_eq!(told.refusal.unwrap().path, "metadata.namespace");
    assert!(told.needs.is_empty());
    bed.opted_in.send_replace(opted_in("other", OptIn::default()));
    let Some(Input::Pod(told)) = bed.inputs.recv().await else { panic!() };
    assert_eq!((told.refusal, told.needs.len()), (None, 1), "no token without api access");
}

#[tokio::test]
async fn the_owner_of_a_pod_is_told_once_of_a_token_that_stays() {
    let (mut bed, told) = bed("shop", None, (201, json!({}))).await;
    assert_eq!((told.refusal, bed.writes.lock().unwrap().len()), (None, 0), "all leaves");
    let secrets = |name: &str| Secrets::Deny([name.to_owned()].into());
    for not in ["a", "b", "c"] {
        let how = OptIn { secrets: secrets(not), ..OptIn::default() };
        bed.opted_in.send_replace(opted_in("shop", how));
        let Some(Input::Pod(told)) = bed.inputs.recv().await else { panic!() };
        assert_eq!((told.refusal, told.needs.len()), (None, 1));
    }
    until("it is told", || !bed.writes.lock().unwrap().is_empty()).await;
    let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
    let [(request, event)] = &writes[..] else { panic!("{writes:?}") };
    assert!(request.starts_with("POST /api/v1/namespaces/shop/events"), "{request}");
    assert_eq!((&event["reason"], &event["type"]), (&json!("LeftOut"), &json!("Normal")));
    assert_eq!(event["involvedObject"]["uid"], "u1");
    let said = event["message"].as_str().unwrap();
    assert!(said.contains("sources[0].serviceAccountToken: stays at home"), "{said}");
}
