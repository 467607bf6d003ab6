//! Pods for which nothing is bought, one after the other: what keeps each from it, and how that is said.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::market::{Allowed, Market, PATIENCE, USUAL, cpu_spec, pod};

/// For its pods is bought; for those of the other, which leave home as well, is not.
const NAMESPACE: &str = "rows";
const SILENT: &str = "silent";

/// A volume that nobody makes.
const CLAIM: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: by-hand}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: rows}
spec:
  storageClassName: by-hand
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"#;

/// A pod, what of its spec keeps it at home, and by which words it says so.
struct Row {
    name: &'static str,
    spec: fn(&mut Value),
    says: &'static str,
}

/// Those that are made before their namespace may leave. Of the second somebody says by then that it is to
/// have room.
const BEFORE: [Row; 2] = [
    Row { name: "before", spec: |_| (), says: "spec.tolerations: " },
    Row {
        name: "nominated",
        spec: |spec| {
            let any = json!({ "key": "mercato.dev/provider", "operator": "Exists" });
            spec["tolerations"] = json!([any]);
        },
        says: "status.nominatedNodeName: ",
    },
];
const NOMINATED: &str = r#"{"status":{"nominatedNodeName":"rome-simulated-0"}}"#;

const ROWS: [Row; 3] = [
    Row {
        name: "claim",
        spec: |spec| {
            let claim = json!({ "claimName": "data" });
            spec["volumes"] = json!([{ "name": "data", "persistentVolumeClaim": claim }]);
        },
        says: "spec.volumes: ",
    },
    Row {
        name: "label",
        spec: |spec| spec["nodeSelector"] = json!({ "disk": "ssd" }),
        says: "spec.nodeSelector: no virtual node has the label disk",
    },
    Row {
        name: "gate",
        spec: |spec| spec["schedulingGates"] = json!([{ "name": "mercato.test/queue" }]),
        says: "spec.schedulingGates: ",
    },
];

pub(crate) async fn all(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let market = Market::open(stage).await?;
    timer.step("a cluster that is full, and two that sell");
    market.allows(USUAL).await?;
    for namespace in [NAMESPACE, SILENT] {
        market.rome().kubectl(&["create", "namespace", namespace]).await?.ok()?;
    }
    market.rome().apply(CLAIM).await?;
    makes(&market, NAMESPACE, &BEFORE).await?;
    let nominate = ["-n", NAMESPACE, "patch", "pod", "nominated", "--subresource", "status"];
    market.rome().kubectl(&[&nominate[..], &["-p", NOMINATED]].concat()).await?.ok()?;
    market.opens(NAMESPACE, true).await?;
    market.opens(SILENT, false).await?;
    timer.step("namespaces");
    makes(&market, SILENT, &[Row { name: "silent", spec: |_| (), says: "" }]).await?;
    makes(&market, NAMESPACE, &ROWS).await?;
    for row in ROWS.iter().chain(&BEFORE) {
        says(&market, row.name, "NotBought", row.says).await?;
    }
    timer.step("what of a pod keeps it from it");
    ends(&market).await?;
    for (name, max_price, says_so) in [
        (
            "dear",
            "cpu=0.01 EUR/h",
            "turin: price.cpu.EUR is 0.02 EUR/h; wanted is price.cpu.EUR<=0.01/h",
        ),
        ("abroad", "cpu=9 USD/h", "price.cpu.USD"),
    ] {
        market.allows(Allowed { max_price, ..USUAL }).await?;
        makes(&market, NAMESPACE, &[Row { name, spec: |_| (), says: "" }]).await?;
        says(&market, name, "NoOffer", says_so).await?;
        ends(&market).await?;
    }
    timer.step("what of the price");
    bought_nothing(&market).await
}

async fn makes(market: &Market<'_>, namespace: &str, rows: &[Row]) -> Result<()> {
    let made = |row: &Row| {
        let mut spec = cpu_spec("500m");
        (row.spec)(&mut spec);
        pod(namespace, row.name, &spec)
    };
    let items: Vec<Value> = rows.iter().map(made).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    market.rome().apply(&list.to_string()).await
}

async fn says(market: &Market<'_>, pod: &str, reason: &str, words: &str) -> Result<()> {
    wait::until(&format!("{pod} says why nothing is bought for it"), PATIENCE, || async {
        let told = market.told(NAMESPACE, reason).await?;
        let said = told.get(pod).with_context(|| format!("no {reason} of it: {told:?}"))?;
        ensure!(said.contains(words), "it says {said:?}, not {words:?}");
        Ok(true)
    })
    .await
}

/// None of the pods is there any more.
async fn ends(market: &Market<'_>) -> Result<()> {
    let delete = ["-n", NAMESPACE, "delete", "pods", "--all", "--timeout=30s"];
    market.rome().kubectl(&delete).await?.ok().map(drop)
}

async fn bought_nothing(market: &Market<'_>) -> Result<()> {
    for side in [&market.home, &market.turin, &market.lyon] {
        let all = side.json(&["contracts", "list", "--all"]).await?;
        ensure!(all == json!([]), "{} has {all}", side.cluster.name());
    }
    let mut silent = BTreeMap::new();
    for reason in ["NotBought", "NoOffer", "OverBudget", "Bought"] {
        silent.extend(market.told(SILENT, reason).await?);
    }
    ensure!(silent.is_empty(), "where nobody wants it: {silent:?}");
    let events = market.home.json(&["events"]).await?;
    let all = events.as_array().context("a list of events")?;
    let said = all.iter().any(|event| event["kind"] == "burst_no_offer");
    ensure!(said, "mercato events does not say it: {events}");
    let delete = ["delete", "namespace", SILENT, NAMESPACE, "--timeout=60s"];
    market.rome().kubectl(&delete).await?.ok().map(drop)
}
