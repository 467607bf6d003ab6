//! A Secret that is called as the provider's own is, by which nodes pull the image of gates.

use anyhow::{Result, ensure};
use mercato_offload::forge::registry::SECRET;
use mercato_offload::key::key;
use mercato_protocol::workload::{ObjectKind, ToGuest};
use mercato_tests::wait;
use serde_json::{Value, json};

use super::{Consumer, GUEST, HOME, Said, id, object, pod};
use crate::Scene;
use crate::line::PATIENCE;

/// What home says so is another Secret over there, and whatever names it names that one: it is neither
/// written, nor read, nor shown to a registry.
pub(super) async fn of_gates_is_not_named(
    scene: &Scene<'_>,
    consumer: &mut Consumer<'_>,
) -> Result<()> {
    let data = json!({ "kind": "Secret", "stringData": { "WORD": "homes" } });
    let named = json!({ "name": SECRET });
    let (reader, body) = pod(
        "reader",
        json!({
            "imagePullSecrets": [named],
            "volumes": [
                { "name": "a", "secret": { "secretName": SECRET } },
                { "name": "b", "projected": { "sources": [{ "secret": named }] } },
            ],
            "containers": [{
                "envFrom": [{ "secretRef": named }],
                "env": [{ "name": "X", "valueFrom": {
                    "secretKeyRef": { "name": SECRET, "key": "WORD" } } }],
            }],
        }),
    );
    consumer.put(&[object(ObjectKind::Secret, SECRET, data), (reader.clone(), body)]).await?;
    consumer.hears(&reader, |said| matches!(said, Said::Is(_))).await?;
    let get = ["-n", GUEST, "get", "pod", "reader", "-o", "json"];
    let guest: Value = serde_json::from_str(&scene.siena.cluster.kubectl(&get).await?.ok()?)?;
    let spec = guest["spec"].to_string();
    ensure!(!spec.contains(&format!("\"{SECRET}\"")), "it names the provider's: {spec}");
    let secrets = ["-n", GUEST, "get", "secrets", "-o", "name"];
    wait::until("home's Secret is there by another name", PATIENCE, || async {
        let there = scene.siena.cluster.kubectl(&secrets).await?.ok()?;
        let is_ours = |line: &str| line == format!("secret/{SECRET}");
        ensure!(!there.lines().any(is_ours), "home has written {SECRET}");
        ensure!(there.lines().any(|line| line == "secret/mercato-home-gate"), "{there}");
        Ok(true)
    })
    .await?;
    let says = ["-n", GUEST, "exec", "reader", "--", "sh", "-c", "echo $WORD $X"];
    wait::until("the pod reads home's", PATIENCE, || async {
        let says = scene.siena.cluster.kubectl(&says).await?.ok()?;
        ensure!(says.trim() == "homes homes", "{says}");
        Ok(true)
    })
    .await?;
    let dropped = ToGuest::Drop(key(ObjectKind::Secret, HOME, SECRET));
    consumer.line.say(vec![dropped], &[]).await?;
    consumer.line.delivered().await?;
    consumer.end(scene, &[id("reader")], 1).await
}
