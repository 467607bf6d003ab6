//! What must be true of both clusters once nothing is broken any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::wait;
use serde_json::Value;

use crate::churn;
use crate::pair::{NODE, PATIENCE, Pair, items};

/// Waits until both sides agree, and says how long that took.
pub(crate) async fn reached(pair: &Pair<'_>) -> Result<Duration> {
    let start = Instant::now();
    wait::until("both clusters agree", PATIENCE, || async {
        churn::as_wanted(pair).await?;
        pods(pair).await?;
        objects(pair).await?;
        contract(pair).await?;
        Ok(true)
    })
    .await?;
    ran_once(pair)?;
    Ok(start.elapsed())
}

/// Every pod that lives at home has one guest of its uid, which is as it is, and there is
/// no guest beside those but of pods that have ended: they keep their logs.
async fn pods(pair: &Pair<'_>) -> Result<()> {
    let (mut living, mut ended) = (BTreeMap::new(), BTreeSet::new());
    for pod in items(&pair.shop(), "pods").await? {
        ensure!(pod["spec"]["nodeName"] == NODE, "{} has no node", pod["metadata"]["name"]);
        let uid = text(&pod["metadata"]["uid"]).to_owned();
        if has_ended(&pod) {
            ended.insert(uid);
        } else {
            living.insert(uid, how(&pod));
        }
    }
    let mut guests = BTreeMap::new();
    for guest in items(&pair.guests(), "pods").await? {
        let uid = text(&guest["metadata"]["labels"]["mercato.dev/home-uid"]).to_owned();
        if ended.contains(&uid) && has_ended(&guest) {
            continue;
        }
        let double = guests.insert(uid, how(&guest));
        ensure!(double.is_none(), "two guests for one uid: {double:?}");
    }
    ensure!(living == guests, "at home {living:#?}, over there {guests:#?}");
    Ok(())
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

/// A pod's name, phase, readiness, and whether it is to end.
fn how(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    let ready = ready.map_or("unknown", |ready| text(&ready["status"]));
    let ending = pod["metadata"]["deletionTimestamp"].is_string();
    let (name, phase) = (&pod["metadata"]["name"], &pod["status"]["phase"]);
    format!("{name} {phase} ready {ready} ending {ending}")
}

/// What guests read is there as long as home has it, and no longer.
async fn objects(pair: &Pair<'_>) -> Result<()> {
    let mut home: BTreeSet<String> =
        items(&pair.shop(), "configmaps,secrets").await?.iter().map(named).collect();
    // Variables of Services, for pods that have others from objects.
    let has_others = |container: &Value| !container["envFrom"].is_null();
    let all = |pod: &Value| pod["spec"]["containers"].as_array().cloned().unwrap_or_default();
    if items(&pair.shop(), "pods").await?.iter().flat_map(all).any(|one| has_others(&one)) {
        home.insert("ConfigMap mercato-env-links".to_owned());
    }
    for guest in items(&pair.guests(), "configmaps,secrets").await? {
        let metadata = &guest["metadata"];
        if metadata["labels"]["mercato.dev/contract"].is_string() {
            let original = text(&metadata["annotations"]["mercato.dev/home-name"]);
            let original = format!("{} {original}", text(&guest["kind"]));
            ensure!(home.contains(&original), "{original} is only over there");
        }
    }
    Ok(())
}

fn named(object: &Value) -> String {
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Both hold the same contract, which is active, and the provider has it in its ledger.
async fn contract(pair: &Pair<'_>) -> Result<()> {
    let show = ["contracts", "show", &pair.contract];
    let (here, there) = (pair.home.json(&show).await?, pair.provider.json(&show).await?);
    for field in ["id", "state", "reason", "terms", "change", "disputed", "untilMs", "billed"] {
        ensure!(here[field] == there[field], "{field}: {} and {}", here[field], there[field]);
    }
    ensure!(here["state"] == "active", "it is {}", here["state"]);
    let share = pair.provider.json(&["share"]).await?;
    let sold = |of: &Value, what: &str| of[what].as_u64().unwrap_or_default();
    let (free, total) = (&share["onSale"][0]["free"], &share["onSale"][0]["pool"]["total"]);
    for what in ["cpuMillis", "memoryBytes", "pods"] {
        let quantity = sold(&here["terms"]["quantity"], what);
        let whole = sold(free, what) + quantity == sold(total, what);
        ensure!(quantity > 0 && whole, "{what} of {share}");
    }
    Ok(())
}

/// No uid of home's has had two pods in Turin: its API server's own record says so.
pub(crate) fn ran_once(pair: &Pair<'_>) -> Result<()> {
    let log = fs::read_to_string(pair.turin().data_outside().join("audit.log"))?;
    let mut made = BTreeMap::<String, Vec<String>>::new();
    for line in log.lines().filter(|line| line.contains("mercato.dev/home-uid")) {
        let event: Value = serde_json::from_str(line)?;
        let object = &event["objectRef"];
        let created = event["verb"] == "create" && event["responseStatus"]["code"] == 201;
        if created && object["resource"] == "pods" && object["subresource"].is_null() {
            ensure!(text(&object["namespace"]).ends_with("-rome"), "a guest in {object}");
            let labels = &event["requestObject"]["metadata"]["labels"];
            let uid = labels["mercato.dev/home-uid"].as_str().context("a guest's label")?;
            made.entry(uid.to_owned()).or_default().push(text(&object["name"]).to_owned());
        }
    }
    ensure!(!made.is_empty(), "the audit log knows no guest");
    made.retain(|_, names| names.len() > 1);
    ensure!(made.is_empty(), "made more than once: {made:#?}");
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
