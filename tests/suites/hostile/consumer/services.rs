//! Services and endpoints that reach into the provider's network, and more of them than there may be.

use anyhow::{Result, ensure};
use mercato_offload::limits::{
    FRAME_STATEMENTS, GUEST_NAMESPACE_SERVICES as MOST, SLICE_ENDPOINTS,
};
use mercato_protocol::workload::{Item, ObjectKey, ObjectKind, Refusal, ToGuest};
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::{Consumer, GUEST, HOME, Said, id, object, pod};
use crate::Scene;
use crate::line::PATIENCE;

/// By Kubernetes' own convention: the Service that a slice is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANY: u64 = 1_000;

/// Each is refused with its path, and nothing of it is there.
pub(super) async fn are_refused(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let mut refused = of_services();
    refused.extend(of_slices());
    let named = |(n, ((kind, body), path))| {
        let (item, body) = object(kind, &format!("s{n}"), body);
        ((item, body), path)
    };
    let (all, paths): (Vec<_>, Vec<&str>) = refused.into_iter().enumerate().map(named).unzip();
    consumer.put(&all).await?;
    for ((item, body), path) in all.iter().zip(paths) {
        let refusal = consumer.refusal(item).await?;
        let said = refusal.path == path && !refusal.reason.is_empty();
        ensure!(said, "{path} of {body}: {refusal:?}");
    }
    let there = ["get", "services,endpointslices", "-n", GUEST, "-o", "name"];
    let there = scene.siena.cluster.kubectl(&there).await?.ok()?;
    ensure!(there.is_empty(), "there is {there}");
    Ok(())
}

/// A slice of addresses that guests of the lease do not know has none of them.
pub(super) async fn lead_nowhere(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let endpoints = nobodys(scene)
        .await?
        .into_iter()
        .map(|address| json!([{ "addresses": [address], "conditions": { "ready": true } }]));
    let named = |(n, endpoints)| {
        let (kind, body) = slice("web", endpoints);
        object(kind, &format!("nowhere-{n}"), body)
    };
    let all: Vec<(Item, Value)> = endpoints.enumerate().map(named).collect();
    consumer.put(&all).await?;
    let there = ["get", "endpointslices", "-n", GUEST, "-o", "json"];
    let there = async || -> Result<Vec<Value>> {
        let there = scene.siena.cluster.kubectl(&there).await?.ok()?;
        let there: Value = serde_json::from_str(&there)?;
        Ok(there["items"].as_array().cloned().unwrap_or_default())
    };
    wait::until("the slices are there", PATIENCE, || async {
        Ok(there().await?.len() == all.len())
    })
    .await?;
    for slice in there().await? {
        let endpoints = &slice["endpoints"];
        ensure!(endpoints.as_array().is_none_or(Vec::is_empty), "{endpoints} is reached");
    }
    let keys = all.into_iter().filter_map(|(item, _)| match item {
        Item::Object(key) => Some(ToGuest::Drop(key)),
        Item::Pod(_) => None,
    });
    consumer.line.say(keys.collect(), &[]).await?;
    wait::until("the slices are gone", PATIENCE, || async { Ok(there().await?.is_empty()) }).await
}

/// Addresses that are no guest's of the lease, nor any pod's of home's.
async fn nobodys(scene: &Scene<'_>) -> Result<Vec<String>> {
    let pod_ip = "jsonpath={.items[0].status.podIP}";
    let node_ip = r#"jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#;
    User::new(scene.siena.cluster, "default").run("theirs", "sleep 3600").await?;
    let mut all = ["169.254.169.254", "127.0.0.1", "0.0.0.0", "fd00::1", "10.203.5.7"]
        .map(str::to_owned)
        .to_vec();
    for get in [
        &["nodes", "-o", node_ip][..],
        // The other tenant's, and the provider's own.
        &["pods", "-n", "lab-milan", "-o", pod_ip],
        &["pods", "-n", "default", "-o", pod_ip],
        &["service", "-n", "default", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"],
    ] {
        let address = scene.siena.cluster.kubectl(&[&["get"], get].concat()).await?.ok()?;
        let address = address.split_whitespace().next().unwrap_or_default().to_owned();
        let is_one = address.parse::<std::net::IpAddr>().is_ok();
        ensure!(is_one, "{get:?} says {address:?}");
        all.push(address);
    }
    Ok(all)
}

/// What is said of one object: its kind and content, and the field that is refused.
type Refused = ((ObjectKind, Value), &'static str);

fn of_services() -> Vec<Refused> {
    let of = |spec: Value, path| (service(&spec), path);
    let port = |more: Value| json!({ "ports": [more] });
    vec![
        of(json!({ "externalIPs": ["192.0.2.1"] }), "spec.externalIPs"),
        of(json!({ "selector": { "app": "theirs" } }), "spec.selector"),
        of(
            json!({ "type": "ExternalName", "externalName": "kubernetes.default" }),
            "spec.externalName",
        ),
        of(json!({ "type": "LoadBalancer", "loadBalancerIP": "192.0.2.1" }), "spec.loadBalancerIP"),
        of(json!({ "loadBalancerClass": "theirs" }), "spec.loadBalancerClass"),
        of(json!({ "loadBalancerSourceRanges": ["::/0"] }), "spec.loadBalancerSourceRanges"),
        // The address of its name server.
        of(json!({ "clusterIP": "10.96.0.10" }), "spec.clusterIP"),
        of(port(json!({ "port": 80, "nodePort": 30_080 })), "spec.ports[0].nodePort"),
        of(port(json!({ "port": 80, "protocol": "SCTP" })), "spec.ports[0].protocol"),
        of(json!({ "more": 1 }), "spec.more"),
    ]
}

fn of_slices() -> Vec<Refused> {
    let label = "metadata.labels[kubernetes.io/service-name]";
    let none = ["", "kube-system/kube-dns", "Web", "kube.dns"];
    let mut all: Vec<Refused> =
        none.into_iter().map(|name| (slice(name, json!([])), label)).collect();
    let many = vec![json!({ "addresses": ["10.203.5.7"] }); 10 * SLICE_ENDPOINTS];
    all.push((slice("web", json!(many)), "endpoints"));
    let two = json!([{ "addresses": ["10.203.5.7", "169.254.169.254"] }]);
    all.push((slice("web", two), "endpoints[0].addresses"));
    let (kind, mut named) = slice("web", json!([]));
    named["addressType"] = json!("FQDN");
    all.push(((kind, named), "addressType"));
    all
}

fn service(spec: &Value) -> (ObjectKind, Value) {
    let mut body = json!({ "kind": "Service", "spec": { "ports": [{ "port": 80 }] } });
    super::merge(&mut body["spec"], spec.clone());
    (ObjectKind::Service, body)
}

pub(super) fn slice(of: &str, endpoints: Value) -> (ObjectKind, Value) {
    let body = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "labels": { SERVICE_NAME: of } }, "endpoints": endpoints, "ports": [],
    });
    (ObjectKind::EndpointSlice, body)
}

/// Those that find no room are refused, and whoever wants anything else gets it.
pub(super) async fn too_many(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let (kind, body) = service(&json!({}));
    let (_, body) = object(kind, "many", body);
    let digest = mercato_offload::forge::digest(&body);
    let body = [bytes::Bytes::from(body.to_string())];
    let keys: Vec<ObjectKey> =
        (0..MANY).map(|n| mercato_offload::key::key(kind, HOME, &format!("many-{n}"))).collect();
    for some in keys.chunks(FRAME_STATEMENTS) {
        let puts = some.iter().map(|key| consumer.wants(Item::Object(key.clone()), digest));
        consumer.line.say(puts.collect(), &body).await?;
    }
    let is_refused = |said: &Said| matches!(said, Said::Refused(Refusal { reason, .. }) if reason.contains("exceeded quota"));
    let mut over = 0;
    while over < MANY - MOST {
        consumer.listens().await?;
        let said = keys.iter().filter_map(|key| consumer.said.get(&Item::Object(key.clone())));
        over = said.filter(|said| is_refused(said)).count() as u64;
    }
    let (beside, body) = pod("beside", json!({}));
    let map = object(ObjectKind::ConfigMap, "beside", json!({ "kind": "ConfigMap" }));
    consumer.put(&[map, (beside.clone(), body)]).await?;
    consumer.hears(&beside, |said| matches!(said, Said::Is(_))).await?;
    let map = ["get", "configmap", "-n", GUEST, "beside", "-o", "name"];
    wait::until("what is no Service is made", PATIENCE, || async {
        scene.siena.cluster.kubectl(&map).await?.ok()?;
        Ok(true)
    })
    .await?;
    are(scene, MOST).await?;
    for some in keys.chunks(FRAME_STATEMENTS) {
        consumer.line.say(some.iter().cloned().map(ToGuest::Drop).collect(), &[]).await?;
    }
    consumer.line.delivered().await?;
    consumer.end(scene, &[id("beside")], 1).await?;
    are(scene, 0).await
}

/// So many Services are there, or will be, and no more are.
async fn are(scene: &Scene<'_>, many: u64) -> Result<()> {
    let there = ["get", "services", "-n", GUEST, "-o", "name"];
    wait::until("as many Services are there as may be", PATIENCE, || async {
        let there = scene.siena.cluster.kubectl(&there).await?.ok()?.lines().count() as u64;
        ensure!(there <= MOST, "{there} Services of {MOST}");
        ensure!(there == many, "{there} Services instead of {many}");
        Ok(true)
    })
    .await
}
