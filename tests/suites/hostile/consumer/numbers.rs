//! More than was bought: of pods, of namespaces, of bytes.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use mercato_protocol::workload::{
    Item, ObjectKey, ObjectKind, Outcome, PodId, Report, Stage, ToGuest, Uid,
};
use mercato_tests::suite::{Level, level};
use mercato_tests::wait;
use serde_json::json;

use super::{Consumer, GUEST, Said, id, object, pod};
use crate::Scene;
use crate::line::{Line, PATIENCE};

/// The first that finds no room says so, and what runs is what was bought.
pub(super) async fn of_pods(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let many = if level() == Level::Full { 10_000 } else { 1_000 };
    let spec = json!({ "containers": [{ "resources": { "requests":
        { "cpu": "1m", "memory": "1Mi" } } }] });
    let (_, body) = pod("many", spec);
    let digest = mercato_offload::forge::digest(&body);
    let body = [bytes::Bytes::from(body.to_string())];
    let all: Vec<Item> = (0..many).map(|n| Item::Pod(id(&format!("many-{n}")))).collect();
    for some in all.chunks(64) {
        let puts = some.iter().map(|item| consumer.wants(item.clone(), digest)).collect();
        consumer.line.say(puts, &body).await?;
    }
    let last = all[many - 1].clone();
    // What is beyond 8,192 pods is not even listened to.
    let heard = if many > 8_000 { all[8_000].clone() } else { last };
    let answer = consumer.hears(&heard, out_of_room("OutOfpods")).await;
    answer.with_context(|| {
        let silent: Vec<_> = all.iter().filter(|item| !consumer.said.contains_key(item)).collect();
        format!(
            "no word of {} of {many} pods: {:?} to {:?}",
            silent.len(),
            silent.first(),
            silent.last()
        )
    })?;
    let pods = ["get", "pods", "-n", GUEST, "-o", "name"];
    let there = scene.siena.cluster.kubectl(&pods).await?.ok()?.lines().count();
    ensure!(there <= 10, "{there} pods run of 10 that were bought");
    let all: Vec<PodId> = (0..many).map(|n| id(&format!("many-{n}"))).collect();
    consumer.end(scene, &all, 1).await
}

/// Each namespace has a quota of its own; together they get no more than one.
pub(super) async fn of_namespaces(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let spec = json!({ "containers": [{ "resources": { "requests": { "cpu": "300m" } } }] });
    let (first, body) = pod("first", spec.clone());
    consumer.put(&[(first.clone(), body)]).await?;
    consumer.hears(&first, |said| matches!(said, Said::Is(_))).await?;
    let (_, mut body) = pod("second", spec);
    body["metadata"]["namespace"] = json!("bank");
    let namespace = "bank".to_owned();
    let second = PodId { uid: Uid("uid-second".to_owned()), namespace, name: "second".to_owned() };
    let second = Item::Pod(second);
    consumer.put(&[(second.clone(), body)]).await?;
    consumer.hears(&second, out_of_room("OutOfcpu")).await?;
    // What the pod says of itself as a whole stands in the place of nothing.
    let sum = json!({ "resources": { "requests": { "cpu": "1m" } },
        "containers": [{ "resources": { "requests": { "cpu": "501m" } } }] });
    let (sum, body) = pod("sum", sum);
    consumer.put(&[(sum.clone(), body)]).await?;
    consumer.hears(&sum, out_of_room("OutOfcpu")).await?;
    let gpu = json!({ "containers": [{ "resources": { "limits": { "nvidia.com/gpu": "1" } } }] });
    let (gpu, body) = pod("gpu", gpu);
    consumer.put(&[(gpu.clone(), body)]).await?;
    consumer.hears(&gpu, out_of_room("OutOfnvidia.com/gpu")).await?;
    let (_, body) = object(ObjectKind::ConfigMap, "mine", json!({ "kind": "ConfigMap" }));
    let (kind, namespace) = (ObjectKind::ConfigMap, "kube-system".to_owned());
    let mine = Item::Object(ObjectKey { kind, namespace, name: "mine".to_owned() });
    consumer.put(&[(mine, body)]).await?;
    let theirs = ["get", "configmap", "-n", "guest-kube-system-pisa", "mine", "-o", "name"];
    wait::until("a namespace of its own is made", PATIENCE, || async {
        scene.siena.cluster.kubectl(&theirs).await?.ok()?;
        Ok(true)
    })
    .await?;
    let kept =
        ["get", "configmaps", "-n", "kube-system", "mine", "--ignore-not-found", "-o", "name"];
    ensure!(scene.siena.cluster.kubectl(&kept).await?.ok()?.is_empty(), "in kube-system");
    consumer.end(scene, &[id("first")], 1).await
}

/// Config maps fill no more of etcd than the share of what was bought, a third; who sells says how much.
pub(super) async fn of_bytes(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let data = json!({ "a": "x".repeat(600_000) });
    let map = |n: usize| {
        let map = json!({ "kind": "ConfigMap", "data": data });
        object(ObjectKind::ConfigMap, &format!("etcd-{n}"), map)
    };
    for n in 0..MAPS {
        consumer.put(&[map(n)]).await?;
    }
    let refusal = consumer.refusal(&map(MAPS - 1).0).await?;
    // With the small contracts of level full it is a little more.
    ensure!(refusal.reason.contains("its share by what it bought is 3"), "{refusal:?}");
    let there = ["get", "configmaps", "-n", GUEST, "-o", "name"];
    let there = scene.siena.cluster.kubectl(&there).await?.ok()?;
    let there = there.lines().filter(|name| name.contains("etcd-")).count();
    ensure!((2..=5).contains(&there), "{there} of {MAPS} are there");
    let status = scene.siena.mercato(&["status"]).await?.ok()?;
    ensure!(status.contains("guests fill") && status.contains("of 3"), "{status}");
    let keys = (0..MAPS).filter_map(|n| match map(n).0 {
        Item::Object(key) => Some(ToGuest::Drop(key)),
        Item::Pod(_) => None,
    });
    consumer.line.say(keys.collect(), &[]).await
}

/// Six contracts of a hundredth of a processor fill no more than the one share of their buyer.
pub(super) async fn of_small_contracts(
    scene: &Scene<'_>,
    consumer: &mut Consumer<'_>,
) -> Result<()> {
    let data = json!({ "a": "x".repeat(600_000) });
    let map = |n: usize| {
        let map = json!({ "kind": "ConfigMap", "data": data });
        object(ObjectKind::ConfigMap, &format!("small-{n}"), map)
    };
    let before = etcd_mib(scene).await?;
    let mut all = Vec::new();
    for contract in &scene.small {
        let (impostor, victim) = (consumer.impostor, consumer.victim);
        let line = Line::open(impostor, victim, *contract).await?;
        let mut one = Consumer { line, impostor, victim, said: BTreeMap::new() };
        for n in 0..MAPS {
            one.put(&[map(n)]).await?;
        }
        let refusal = one.refusal(&map(MAPS - 1).0).await?;
        ensure!(refusal.reason.contains("its share by what it bought is"), "{refusal:?}");
        all.push(one);
    }
    let there = ["get", "configmaps", "-A", "-o", "name"];
    let there = scene.siena.cluster.kubectl(&there).await?.ok()?;
    let there = there.lines().filter(|name| name.contains("small-")).count();
    let after = etcd_mib(scene).await?;
    println!("{there} of {} are there; etcd: {before} MiB, then {after} MiB", all.len() * MAPS);
    ensure!((1..=6).contains(&there), "{there} are there");
    ensure!(after < before + 16, "etcd has grown from {before} to {after} MiB");
    for one in &mut all {
        let keys = (0..MAPS).filter_map(|n| match map(n).0 {
            Item::Object(key) => Some(ToGuest::Drop(key)),
            Item::Pod(_) => None,
        });
        one.line.say(keys.collect(), &[]).await?;
    }
    Ok(())
}

/// How large the file of the provider's etcd is.
async fn etcd_mib(scene: &Scene<'_>) -> Result<u64> {
    let metrics = scene.siena.cluster.kubectl(&["get", "--raw", "/metrics"]).await?.ok()?;
    let line = metrics.lines().find(|line| line.starts_with("apiserver_storage_size_bytes{"));
    let bytes = line.and_then(|line| line.split_whitespace().last()).context("no size of etcd")?;
    let bytes: f64 = bytes.parse()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a file")]
    Ok(bytes as u64 >> 20)
}

/// More of these than it may fill: by the bytes of each, five.
const MAPS: usize = 8;

/// A uid is one life under one name.
pub(super) async fn of_lives(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let (_, body) = pod("twin", json!({}));
    let twin = PodId { name: "twin".to_owned(), ..id("plain") };
    consumer.put(&[(Item::Pod(twin), body)]).await?;
    let (after, body) = object(ObjectKind::ConfigMap, "after-twin", json!({ "more": 1 }));
    consumer.put(&[(after.clone(), body)]).await?;
    consumer.refusal(&after).await?;
    let twin = ["get", "pods", "-n", GUEST, "twin", "--ignore-not-found", "-o", "name"];
    ensure!(scene.siena.cluster.kubectl(&twin).await?.ok()?.is_empty(), "one uid ran twice");
    Ok(())
}

fn out_of_room(reason: &str) -> impl Fn(&Said) -> bool {
    move |said| {
        let Said::Is(Report { stage: Stage::Gone(Outcome::Failed { reason: why, .. }), .. }) = said
        else {
            return false;
        };
        why == reason
    }
}
