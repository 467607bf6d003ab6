//! Claims: of others, larger and more than was bought, and such as ask for what is stored already.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use mercato_offload::limits::CLAIMS;
use mercato_protocol::workload::{Item, ObjectKey, ObjectKind, ToGuest};
use mercato_tests::wait;
use serde_json::{Value, json};

use super::{Consumer, GUEST, HOME, Other, object, pod};
use crate::Scene;
use crate::line::PATIENCE;

/// Each is refused with the field, and the volumes that are there are nobody's to choose.
pub(super) async fn are_refused(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let data = json!({ "kind": "PersistentVolumeClaim", "name": "data" });
    let cases = [
        ("spec.accessModes", json!({ "accessModes": ["ReadWriteMany"] })),
        ("spec.volumeMode", json!({ "volumeMode": "Block" })),
        ("spec.dataSource", json!({ "dataSource": data })),
        ("spec.dataSourceRef", json!({ "dataSourceRef": data })),
        ("spec.selector", json!({ "selector": { "matchLabels": { "a": "b" } } })),
        ("spec.volumeAttributesClassName", json!({ "volumeAttributesClassName": "fast" })),
        ("spec.surprise", json!({ "surprise": true })),
    ];
    // What is refused has a place among those of the lease, until it is given up.
    let mut all = vec![key(HOME, "large"), key(HOME, "named")];
    for (n, (path, more)) in cases.into_iter().enumerate() {
        all.push(key(HOME, &format!("refused-{n}")));
        let (item, body) = claim(&format!("refused-{n}"), more);
        consumer.put(&[(item.clone(), body)]).await?;
        let refusal = consumer.refusal(&item).await?;
        ensure!(refusal.path == path, "{path}: {refusal:?}");
    }
    let (item, body) = claim("large", json!({ "resources": { "requests": { "storage": "3Gi" } } }));
    consumer.put(&[(item.clone(), body)]).await?;
    let refusal = consumer.refusal(&item).await?;
    ensure!(refusal.reason.contains("storage"), "{refusal:?}");
    let named = json!({ "storageClassName": "gold", "volumeName": "somebodys" });
    let (item, body) = claim("named", named);
    consumer.put(&[(item, body)]).await?;
    let what = "jsonpath={.spec.storageClassName} {.spec.volumeName}";
    let made = ["-n", GUEST, "get", "pvc", "mercato-named", "-o", what];
    wait::until("it is made without them", PATIENCE, || async {
        let made = scene.siena.cluster.kubectl(&made).await?.ok()?;
        ensure!(made.trim() == "disks", "{made}");
        Ok(true)
    })
    .await?;
    // A pod has the claims of its own lease alone, whatever names it knows.
    let data = json!([{ "name": "a", "persistentVolumeClaim": { "claimName": "data" } }]);
    let (item, body) = pod("thief", json!({ "volumes": data }));
    consumer.put(&[(item.clone(), body)]).await?;
    let refusal = consumer.refusal(&item).await?;
    ensure!(refusal.path.starts_with("spec.volumes[0].persistentVolumeClaim"), "{refusal:?}");
    discard(scene, consumer, all).await
}

/// By another tenant's uid it has a claim of its own, and discards that alone.
pub(super) async fn are_its_own(
    scene: &Scene<'_>,
    consumer: &mut Consumer<'_>,
    other: &Other,
) -> Result<()> {
    let uid = &scene.stored.uid;
    let (item, body) = claim(uid, json!({}));
    consumer.put(&[(item, body)]).await?;
    let theirs = Item::Object(key("lab", uid));
    let (_, body) = claim(uid, json!({}));
    consumer.put(&[(theirs, body)]).await?;
    let name = format!("mercato-{uid}");
    for namespace in [GUEST, "lab-pisa"] {
        let own = ["-n", namespace, "get", "pvc", &name, "-o", "name"];
        wait::until("it has one of its own", PATIENCE, || async {
            scene.siena.cluster.kubectl(&own).await?.ok()?;
            Ok(true)
        })
        .await?;
    }
    discard(scene, consumer, vec![key(HOME, uid), key("lab", uid)]).await?;
    scene.stored.is_there(&scene.siena, &scene.milan).await.context(other.uid.0.clone())
}

/// As many as a lease may have are made, of whatever namespaces; all else goes on.
pub(super) async fn too_many(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let all: Vec<_> = (0..CLAIMS + 40).map(|n| claim(&format!("u-{n}"), json!({}))).collect();
    for some in all.chunks(32) {
        consumer.put(some).await?;
    }
    consumer.line.delivered().await?;
    let (item, body) = object(ObjectKind::ConfigMap, "beside", json!({ "kind": "ConfigMap" }));
    consumer.put(&[(item, body)]).await?;
    let beside = ["-n", GUEST, "get", "configmap", "beside", "-o", "name"];
    wait::until("as many as it may have, and what else it wants", PATIENCE, || async {
        let there = claims(scene).await?.len();
        ensure!(there == CLAIMS, "{there} claims of {CLAIMS}");
        scene.siena.cluster.kubectl(&beside).await?.ok()?;
        Ok(true)
    })
    .await?;
    const SOME: usize = 8;
    let keys = (0..SOME).map(|n| key(HOME, &format!("u-{n}"))).collect();
    discard(scene, consumer, keys).await?;
    let there = claims(scene).await?.len();
    ensure!(there == CLAIMS - SOME, "what was beyond came later: {there} are there");
    Ok(())
}

/// Has them removed, and waits until none of them is there.
async fn discard(
    scene: &Scene<'_>,
    consumer: &mut Consumer<'_>,
    keys: Vec<ObjectKey>,
) -> Result<()> {
    let names: BTreeSet<_> = keys.iter().map(|key| format!("mercato-{}", key.name)).collect();
    let discards: Vec<_> = keys.into_iter().map(ToGuest::Discard).collect();
    for some in discards.chunks(64) {
        consumer.line.say(some.to_vec(), &[]).await?;
    }
    consumer.line.delivered().await?;
    wait::until("they are gone", PATIENCE, || async {
        let left: Vec<_> = claims(scene).await?;
        let left = left.iter().filter(|name| names.contains(*name)).count();
        ensure!(left == 0, "{left} are left");
        Ok(true)
    })
    .await
}

/// The claims that it has over there, of all its namespaces.
async fn claims(scene: &Scene<'_>) -> Result<Vec<String>> {
    let of_it = format!("mercato.dev/contract={}", scene.bought);
    let names = "jsonpath={.items[*].metadata.name}";
    let names = ["get", "pvc", "-A", "-l", &of_it, "-o", names];
    let names = scene.siena.cluster.kubectl(&names).await?.ok()?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// A claim of that uid.
pub(super) fn key(namespace: &str, uid: &str) -> ObjectKey {
    ObjectKey { kind: ObjectKind::Claim, namespace: namespace.into(), name: uid.into() }
}

/// One of 1 MiB, with what the attack adds to its spec.
fn claim(uid: &str, spec: Value) -> (Item, Value) {
    let mut body = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Mi" } } },
    });
    super::merge(&mut body["spec"], spec);
    (Item::Object(key(HOME, uid)), body)
}
