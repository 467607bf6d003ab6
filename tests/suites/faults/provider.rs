//! What the provider's people and its cluster do to guests.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::churn::{apply, clean_up, delete, deployment, pod};
use crate::pair::{GUEST, HOME, PATIENCE, Pair, items};
use crate::{agreement, at_level};

/// The node in Turin.
const NODE: &str = "turin-1";

/// A guest is evicted by hand, then all by a taint: at home those are `Failed/Evicted`, and
/// their owner has others made.
pub(crate) async fn evicts(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &deployment(2)).await?;
    agreement::reached(&pair).await.context("before")?;
    let guest = guest_names(&pair).await?.pop().context("a guest")?;
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": { "name": guest, "namespace": GUEST },
    });
    let path = format!("/api/v1/namespaces/{GUEST}/pods/{guest}/eviction");
    let create = ["create", "--raw", &path, "-f", "-"];
    pair.turin().kubectl_with_input(&create, &eviction.to_string()).await?.ok()?;
    pair.shop().sees(&guest, "Failed Evicted").await?;
    agreement::reached(&pair).await.context("after an eviction")?;

    let taint = ["taint", "node", NODE, "mercato.test/out=all:NoExecute"];
    let all = guest_names(&pair).await?;
    pair.turin().kubectl(&taint).await?.ok()?;
    for guest in &all {
        pair.shop().sees(guest, "Failed Evicted").await?;
    }
    pair.turin().kubectl(&["taint", "node", NODE, "mercato.test/out-"]).await?.ok()?;
    let took = agreement::reached(&pair).await.context("after a taint")?;
    println!("both sides agree {took:.1?} after the taint is gone");
    clean_up(&pair).await
}

/// The node's kubelet finds memory short, and evicts by itself.
pub(crate) async fn short_of_memory(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &deployment(2)).await?;
    agreement::reached(&pair).await.context("before")?;
    let all = guest_names(&pair).await?;
    set_threshold(&pair, "99%")?;
    let evicted = evicted(&pair, &all).await;
    set_threshold(&pair, "50Mi")?;
    evicted?;
    let took = agreement::reached(&pair).await.context("after memory was short")?;
    println!("both sides agree {took:.1?} after there is memory again");
    clean_up(&pair).await
}

/// Waits until home shows that the kubelet over there has ended one of these. A guest that
/// ends well in the time that it is given has `Succeeded`, as on any node.
async fn evicted(pair: &Pair<'_>, all: &[String]) -> Result<()> {
    let fields = "jsonpath={.status.phase} \
        {.status.conditions[?(@.type==\"DisruptionTarget\")].reason}";
    wait::until("a guest is evicted", 2 * PATIENCE, || async {
        for guest in all {
            let is = pair.shop().kubectl(&["get", "pod", guest, "-o", fields]).await?;
            if ["Failed TerminationByKubelet", "Succeeded TerminationByKubelet"].contains(&&*is) {
                return Ok(true);
            }
        }
        Ok(false)
    })
    .await
}

fn set_threshold(pair: &Pair<'_>, available: &str) -> Result<()> {
    let path = pair.turin().data_outside().join("node-1/kubelet.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    config["evictionHard"]["memory.available"] = available.into();
    config["evictionPressureTransitionPeriod"] = "1s".into();
    std::fs::write(path, config.to_string())?;
    pair.turin().kill("kubelet-1")?;
    pair.turin().restart("kubelet-1")
}

/// Kubelet and containerd are gone, long enough at level full that the cluster gives the
/// node up and removes its pods.
pub(crate) async fn loses_its_node(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &deployment(2)).await?;
    apply(&pair, &pod("deleted")).await?;
    agreement::reached(&pair).await.context("before")?;
    for part in ["kubelet-1", "containerd-1"] {
        pair.turin().kill(part)?;
    }
    delete(&pair, "deleted", &["--wait=false"]).await?;
    sleep(at_level(Duration::from_secs(5), Duration::from_secs(420))).await;
    node_returns(&pair).await?;
    let back = Instant::now();
    delete(&pair, "deleted", &["--ignore-not-found", "--timeout=90s"]).await?;
    agreement::reached(&pair).await.context("after the node was gone")?;
    println!("both sides agree {:.1?} after the node is back", back.elapsed());
    clean_up(&pair).await
}

/// Starts Turin's node again, and waits until its kubelet says that it lives.
async fn node_returns(pair: &Pair<'_>) -> Result<()> {
    let turin = pair.turin();
    let lease = ["-n", "kube-node-lease", "get", "lease", NODE, "-o", "jsonpath={.spec.renewTime}"];
    let before = turin.kubectl(&lease).await?.ok()?;
    turin.restart("containerd-1")?;
    wait::until("Turin's node is back", PATIENCE, || async {
        // It ends while containerd does not answer yet, and is started again as by an init.
        if !turin.runs("kubelet-1")? {
            turin.restart("kubelet-1")?;
        }
        let renewed = turin.kubectl(&lease).await?.ok()?;
        ensure!(renewed != before, "its Lease is as it was: {before}");
        Ok(true)
    })
    .await
}

/// The guest namespace, with all that is in it.
pub(crate) async fn deletes_the_namespace(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &deployment(2)).await?;
    agreement::reached(&pair).await.context("before")?;
    let all = guest_names(&pair).await?;
    pair.turin().kubectl(&["delete", "namespace", GUEST, "--wait=false"]).await?.ok()?;
    let deleted = Instant::now();
    for guest in &all {
        pair.shop().sees(guest, "Failed Evicted").await?;
    }
    agreement::reached(&pair).await.context("after the namespace was deleted")?;
    println!("both sides agree {:.1?} after the namespace was deleted", deleted.elapsed());
    clean_up(&pair).await
}

/// Objects of the provider's own stand where guests should: they are left alone, home says
/// so, and once they are gone the guests come.
pub(crate) async fn has_such_objects(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &pod("opener")).await?;
    agreement::reached(&pair).await.context("before")?;
    let mut foreign = pod("clash");
    foreign["metadata"]["namespace"] = GUEST.into();
    pair.turin().apply(&foreign.to_string()).await?;
    for kind in ["configmap", "secret generic"] {
        let create = format!("create {kind} clash --from-literal=whose=provider");
        pair.guests().kubectl(&create.split(' ').collect::<Vec<_>>()).await?;
        let create = format!("create {kind} clash --from-literal=whose=consumer");
        pair.shop().kubectl(&create.split(' ').collect::<Vec<_>>()).await?;
    }
    let before = untouched(&pair).await?;

    let mut reader = pod("reader");
    let from = [json!({ "configMapRef": { "name": "clash" } })];
    reader["spec"]["containers"][0]["envFrom"] = json!(from);
    reader["spec"]["volumes"] = json!([{ "name": "s", "secret": { "secretName": "clash" } }]);
    for wanted in [pod("clash"), reader] {
        apply(&pair, &wanted).await?;
    }
    pair.shop().sees("clash", "Pending OffloadRefused").await?;
    for kind in ["ConfigMap", "Secret", "Pod"] {
        refused(&pair, kind).await?;
    }
    ensure!(untouched(&pair).await? == before, "what is not ours was touched");
    pair.guests().kubectl(&["delete", "pod,configmap,secret", "clash", "--grace-period=1"]).await?;
    let gone = Instant::now();
    let ready = ["wait", "pod/clash", "--for=condition=Ready", "--timeout=90s"];
    pair.shop().kubectl(&ready).await?;
    agreement::reached(&pair).await.context("after the others are gone")?;
    println!("both sides agree {:.1?} after the others are gone", gone.elapsed());
    pair.shop().kubectl(&["delete", "configmap,secret", "clash"]).await?;
    clean_up(&pair).await
}

/// A namespace of the provider's own is called as one for guests would be: it is left alone,
/// both sides say so, and once it is gone the guests come.
pub(crate) async fn has_such_a_namespace(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let (rome, turin) = (pair.rome(), pair.turin());
    let theirs = User::new(turin, "other-rome");
    turin.kubectl(&["create", "namespace", "other-rome"]).await?.ok()?;
    theirs.kubectl(&["create", "configmap", "theirs", "--from-literal=whose=provider"]).await?;
    let before = turin.kubectl(&["get", "namespace", "other-rome", "-o", "yaml"]).await?.ok()?;

    let ours = User::new(rome, "other");
    rome.kubectl(&["create", "namespace", "other"]).await?.ok()?;
    pair.home.offload("other", "Remote").await?;
    let mut waits = pod("waits");
    waits["metadata"]["namespace"] = "other".into();
    apply(&pair, &waits).await?;
    ours.sees("waits", "Pending OffloadRefused").await?;
    let status = pair.provider.mercato(&["status"]).await?.ok()?;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(status.contains("other-rome exists and is not this contract"), "{status}");
    let after = turin.kubectl(&["get", "namespace", "other-rome", "-o", "yaml"]).await?.ok()?;
    let made = "pods,secrets,rolebindings,resourcequotas,limitranges,networkpolicies";
    let made = theirs.kubectl(&["get", made, "-o", "name"]).await?;
    ensure!(before == after && made.is_empty(), "what is not ours was touched: {after} {made}");

    turin.kubectl(&["delete", "namespace", "other-rome"]).await?.ok()?;
    let gone = Instant::now();
    ours.kubectl(&["wait", "pod/waits", "--for=condition=Ready", "--timeout=90s"]).await?;
    println!("its guest runs {:.1?} after the other namespace is gone", gone.elapsed());
    ours.kubectl(&["delete", "pod", "waits"]).await?;
    pair.home.unoffload("other").await?;
    rome.kubectl(&["delete", "namespace", "other"]).await?.ok().map(drop)
}

/// The provider's own objects: what they hold and how often they were changed, but for what
/// their kubelet writes.
async fn untouched(pair: &Pair<'_>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for kind in ["configmaps", "secrets", "pods"] {
        for mut object in items(&pair.guests(), kind).await? {
            if object["metadata"]["name"] == "clash" {
                let metadata = &object["metadata"];
                let uid = (metadata["uid"].clone(), metadata["labels"].clone());
                let rest = (object["data"].take(), object["spec"].take());
                all.push(format!("{uid:?} {rest:?}"));
            }
        }
    }
    ensure!(all.len() == 3, "{all:?}");
    Ok(all)
}

async fn refused(pair: &Pair<'_>, kind: &str) -> Result<()> {
    let about = format!("reason=OffloadRefused,involvedObject.kind={kind}");
    wait::until(&format!("an event tells of the {kind}"), PATIENCE, || async {
        let events = ["get", "events", "--field-selector", &about, "-o", "name"];
        Ok(!pair.shop().kubectl(&events).await?.is_empty())
    })
    .await
}

pub(crate) async fn guest_names(pair: &Pair<'_>) -> Result<Vec<String>> {
    let all = items(&pair.guests(), "pods").await?;
    ensure!(!all.is_empty(), "no pods of {HOME} are in {GUEST}");
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(all.iter().map(name).collect())
}
