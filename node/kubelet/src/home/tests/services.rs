//! Services of the namespaces that pods leave, as they come and go with these.

use mercato_offload::address::MappedRange;

use super::*;
use crate::apiserver::cluster::Cluster;

/// One pod on the node, the only one of its namespace, until it is told of as gone.
fn with_one_pod() -> (Cluster, Arc<Mutex<bool>>) {
    let is_gone = Arc::new(Mutex::new(false));
    let gone = is_gone.clone();
    let cluster = scripted(move |_, path, _| {
        let list = |object: Value| {
            (200, json!({ "metadata": { "resourceVersion": "9" }, "items": [object] }))
        };
        let is_of_pods = path.contains("fieldSelector");
        match path {
            _ if path.contains("watch=") && is_of_pods && *gone.lock().unwrap() => {
                (200, json!({ "type": "DELETED", "object": pod("shop") }))
            }
            _ if path.contains("watch=") => status(503, "not watched in this test"),
            _ if is_of_pods => list(pod("shop")),
            _ if path.contains("/services?") => (200, services()),
            _ if path.contains("/endpointslices?") => list(json!({ "addressType": "IPv4",
                "metadata": { "name": "redis-1", "namespace": "shop",
                    "labels": { "kubernetes.io/service-name": "redis" } },
                "endpoints": [{ "addresses": ["10.1.0.7"] }] })),
            _ => status(404, "not found"),
        }
    });
    (cluster, is_gone)
}

#[tokio::test]
async fn services_come_with_the_first_pod_of_a_namespace_and_go_with_the_last() {
    let (cluster, is_gone) = with_one_pod();
    let (_opted_in, receiver) = watch::channel(opted_in("shop", OptIn::default()));
    let config = HomeConfig {
        node: "turin".into(),
        contract: mercato_protocol::id::ContractId([0x2f; 16]),
        provider: ClusterId([0x4f; 32]),
        host_ip: "10.0.0.1".parse().unwrap(),
        audiences: BTreeSet::new(),
        domain: None,
        api: None,
    };
    let bodies = Bodies::default();
    let claims = ClusterClaims::new(cluster.clone(), receiver.clone()).into();
    let (side, mut inputs) = HomeSide::start(cluster, config, bodies.clone(), receiver, claims);
    let mut told = async || {
        let told = tokio::time::timeout(Duration::from_secs(30), inputs.recv()).await;
        told.unwrap().unwrap()
    };
    let redis = key(ObjectKind::Service, "shop", "redis");
    let slice = key(ObjectKind::EndpointSlice, "shop", "redis-1");
    let (mut pods, mut services) = (None, None);
    while pods.is_none() || services.is_none() {
        let told = told().await;
        if let Input::Services { namespace, objects } = told {
            services = Some((namespace, objects));
        } else if let Input::Synced(all) = told {
            pods = Some(all);
        } else {
            panic!("{told:?}");
        }
    }
    let (namespace, objects) = services.unwrap();
    assert_eq!(namespace, "shop");
    assert_eq!(objects.keys().collect::<Vec<_>>(), [&redis, &slice]);
    // Guests know home's pods by these from now on.
    let (inner, local) = ("100.64.0.0/16".parse().unwrap(), "10.1.0.0/16".parse().unwrap());
    side.set_ranges(vec![MappedRange { inner, local }]);
    let Input::Object { key, digest: Some(digest) } = told().await else { panic!("no change") };
    assert_eq!(key, slice);
    let address = &bodies.object(&digest).here().unwrap()["endpoints"][0]["addresses"][0];
    assert_eq!(address, "100.64.0.7");
    *is_gone.lock().unwrap() = true;
    // Said once, and before the pod is.
    let (namespace, objects) = ("shop".to_owned(), BTreeMap::new());
    assert_eq!(told().await, Input::Services { namespace, objects });
    assert_eq!(told().await, Input::PodGone(Uid("u1".into())));
    let kept = [redis, slice].map(Item::Object);
    let forgotten = async {
        while kept.iter().any(|item| bodies.has_one_of(item)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), forgotten).await.unwrap();
}
