//! Rome's owner, and whoever works in its namespace `shop`, with kubectl.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::sample_app;
use mercato_tests::user::User;
use mercato_tests::wait;

use crate::objects::{condition, field, show};
use crate::seller;

const PATIENCE: Duration = Duration::from_secs(60);

const ORDER: &str = "
apiVersion: mercato.dev/v1alpha1
kind: Order
metadata: {name: web, namespace: shop}
spec:
  cpu: 1
  memory: 2Gi
  storage: 2Gi
  for: 2h
  note: for the shop
  dryRun: true
---
apiVersion: mercato.dev/v1alpha1
kind: Order
metadata: {name: mistaken, namespace: shop}
spec: {selector: 'gpu.modle=h100', cpu: 1, memory: 2Gi, for: 2h}
---
apiVersion: mercato.dev/v1alpha1
kind: Order
metadata: {name: large, namespace: shop}
spec: {cpu: 64, memory: 2Gi, for: 2h, dryRun: true}
---
apiVersion: mercato.dev/v1alpha1
kind: Order
metadata: {name: open, namespace: shop}
spec: {cpu: 1, memory: 2Gi, for: 2h, egress: [8.8.8.0/24], dryRun: true}
---
apiVersion: mercato.dev/v1alpha1
kind: Order
metadata: {name: inner, namespace: shop}
spec: {cpu: 1, memory: 2Gi, for: 2h, egress: [10.0.0.0/8]}
";

/// Candidates with reasons, without a contract.
pub(crate) async fn browses(rome: &Cluster) -> Result<()> {
    rome.apply(ORDER).await?;
    condition(rome, "order/web", "DryRun").await?;
    condition(rome, "order/mistaken", "Invalid").await?;
    let said = field(rome, "order/mistaken", "{.status.conditions[0].message}").await?;
    ensure!(said.starts_with("spec.selector: expected gpu.model"), "{said}");
    condition(rome, "order/inner", "Invalid").await?;
    let said = field(rome, "order/inner", "{.status.conditions[0].message}").await?;
    ensure!(said == "spec.egress: 10.0.0.0/8 is nobody's on the Internet", "{said}");
    wait::until("an Order lists the candidates", PATIENCE, || async {
        let web = field(rome, "order/web", "{.status.candidates[0]}").await?;
        ensure!(web.contains("turin") && web.contains("is not trusted yet"), "{web}");
        let large = field(rome, "order/large", "{.status.candidates[0]}").await?;
        ensure!(large.contains("\"suits\":false") && large.contains("cpu free"), "{large}");
        let open = field(rome, "order/open", "{.status.candidates[0]}").await?;
        ensure!(open.contains("\"suits\":false") && open.contains("offers no egress"), "{open}");
        Ok(true)
    })
    .await?;
    show(rome, "-n shop get orders -o wide").await?;
    show(rome, "-n shop get order web -o jsonpath={.status.candidates}").await?;
    show(rome, "-n shop get order large -o jsonpath={.status.candidates}").await?;
    let delete = ["-n", "shop", "delete", "order", "mistaken", "large", "open", "inner"];
    rome.kubectl(&delete).await?.ok().map(drop)
}

/// Nothing is bought of a stranger; its fingerprint is shown, and trusted in the policy.
pub(crate) async fn trusts(rome: &Cluster, turin: &Cluster) -> Result<()> {
    let buy = r#"{"spec":{"dryRun":false}}"#;
    rome.kubectl(&["-n", "shop", "patch", "order", "web", "--type", "merge", "-p", buy])
        .await?
        .ok()?;
    condition(rome, "order/web", "Untrusted").await?;
    let message = field(rome, "order/web", "{.status.conditions[0].message}").await?;
    let theirs = field(turin, "marketpolicy/default", "{.status.fingerprint}").await?;
    ensure!(message.contains(&theirs) && message.contains("spec.buy.trust"), "{message}");
    rome.apply(&format!(
        "{{apiVersion: mercato.dev/v1alpha1, kind: MarketPolicy, metadata: {{name: default}}, \
         spec: {{buy: {{trust: ['{theirs}'], budget: 100 EUR/d}}}}}}"
    ))
    .await
}

/// The contract's name.
pub(crate) async fn orders(rome: &Cluster) -> Result<String> {
    condition(rome, "order/web", "Review").await?;
    field(rome, "order/web", "{.status.contract}").await
}

/// However often the daemon starts, and whatever it finds said of the order, it buys once.
pub(crate) async fn restarted(home: &Daemon<'_>, contract: &str) -> Result<()> {
    let rome = home.cluster;
    rome.kill(PART)?;
    let forgotten = r#"[{"op":"remove","path":"/status"}]"#;
    let patch = ["patch", "order", "web", "--subresource", "status", "--type", "json"];
    rome.kubectl(&[&["-n", "shop"], &patch[..], &["-p", forgotten]].concat()).await?.ok()?;
    rome.restart(PART)?;
    home.answers().await?;
    condition(rome, "order/web", "Review").await?;
    ensure!(field(rome, "order/web", "{.status.contract}").await? == contract);
    once(home, contract).await
}

async fn once(home: &Daemon<'_>, contract: &str) -> Result<()> {
    let all = home.json(&["contracts", "list", "--all"]).await?;
    let all = all.as_array().cloned().unwrap_or_default();
    let [one] = &all[..] else { anyhow::bail!("{} contracts: {all:?}", all.len()) };
    ensure!(one["id"].as_str().is_some_and(|id| id.starts_with(contract)), "{one}");
    Ok(())
}

pub(crate) async fn ready(home: &Daemon<'_>, contract: &str) -> Result<()> {
    let wait = ["-n", "shop", "wait", "order/web", "--for=condition=Ready", "--timeout=90s"];
    home.cluster.kubectl(&wait).await?.ok()?;
    let ready = ["wait", "--for=condition=Ready", "node/mercato-turin", "--timeout=1s"];
    home.cluster.kubectl(&ready).await?.ok()?;
    once(home, contract).await
}

/// Longer and larger by the Contract's spec; Turin's owner is asked.
pub(crate) async fn changes(rome: &Cluster, turin: &Cluster, contract: &str) -> Result<()> {
    let which = format!("contract/{contract}");
    let change = r#"{"spec":{"for":"3h","cpu":"1200m"}}"#;
    rome.kubectl(&["patch", &which, "--type", "merge", "-p", change]).await?.ok()?;
    wait::until("Turin's owner is asked for a change", PATIENCE, || async {
        let asked = field(turin, &which, "{.status.change}").await?;
        let what = asked.starts_with("term 2h -> 3h (+1h), cpu 1 -> 1200m, ");
        ensure!(what && asked.contains(" instead of "), "{asked:?}");
        ensure!(asked.ends_with(": needs the provider's approval"), "{asked:?}");
        Ok(true)
    })
    .await?;
    seller::desire(turin, contract, "Accepted").await?;
    wait::until("both sides say what the contract is now", PATIENCE, || async {
        for side in [rome, turin] {
            let is = field(side, &which, "{.status.what} {.status.change}").await?;
            ensure!(is == "cpu=1200m,memory=2Gi,pods=20,storage=2Gi ", "{is:?}");
        }
        let node = field(rome, "node/mercato-turin", "{.status.capacity.cpu}").await?;
        ensure!(node == "1200m", "the node has {node}");
        Ok(true)
    })
    .await
}

/// Only to Turin; what is put elsewhere stays, and says why. Where nobody is, that is said.
pub(crate) async fn offloads(rome: &Cluster, turin: &Cluster) -> Result<()> {
    rome.apply(&offload("mercato-truin")).await?;
    condition(rome, "nso/default", "NoNode").await?;
    let said = field(rome, "nso/default", "{.status.conditions[0].message}").await?;
    ensure!(said.contains("mercato-truin is no virtual node"), "{said}");
    let names = "{.status.conditions[?(@.type=='NamesKnown')].reason}";
    let said = field(rome, "nso/default", names).await?;
    let events = ["-n", "shop", "get", "events", "--field-selector=reason=UnknownNames"];
    let told = rome.kubectl(&events).await?.ok()?;
    ensure!(said == "UnknownNames" && told.contains("mean mercato-turin?"), "{said}: {told}");
    let shop = User::new(rome, "shop");
    shop.on("mercato-turin").start("stray", "sleep 3600", &[]).await?;
    waits(&shop, "stray", "may not go to mercato-turin").await?;
    let theirs = field(turin, "marketpolicy/default", "{.status.fingerprint}").await?;
    rome.apply(&offload(&theirs)).await?;
    condition(rome, "nso/default", "Offloaded").await?;
    let ready = ["wait", "pod/stray", "--for=condition=Ready", "--timeout=180s"];
    shop.kubectl(&ready).await?;
    let quota = ["-n", "shop-rome", "get", "resourcequota", "-o", "jsonpath={.items[0].spec.hard}"];
    let hard = turin.kubectl(&quota).await?.ok()?;
    let bytes = format!("\"requests.storage\":\"{}\"", 2u64 << 30);
    ensure!(hard.contains(&bytes) && hard.contains("\"persistentvolumeclaims\":\"256\""), "{hard}");
    shop.kubectl(&["delete", "pod", "stray", "--grace-period=1"]).await.map(drop)
}

fn offload(to: &str) -> String {
    format!(
        "{{apiVersion: mercato.dev/v1alpha1, kind: NamespaceOffload, \
         metadata: {{name: default, namespace: shop}}, \
         spec: {{strategy: Remote, to: ['{to}'], secrets: {{deny: [private]}}}}}}"
    )
}

const LEAKY: &str = "
apiVersion: v1
kind: Secret
metadata: {name: private, namespace: shop}
stringData: {key: hidden}
---
apiVersion: v1
kind: Pod
metadata: {name: leaky, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: mercato.test/busybox:1
    command: [sleep, '3600']
    envFrom:
    - {secretRef: {name: private}}
";

pub(crate) async fn runs(rome: &Cluster) -> Result<()> {
    sample_app::opens(rome, "mercato-turin").await?;
    rome.apply(LEAKY).await?;
    let shop = User::new(rome, "shop");
    waits(&shop, "leaky", "secret private").await?;
    shop.kubectl(&["delete", "pod", "leaky"]).await.map(drop)
}

/// A pod stays where it is, and says why.
pub(crate) async fn waits(shop: &User<'_>, pod: &str, why: &str) -> Result<()> {
    let path = "jsonpath={.status.containerStatuses[0].state.waiting.message}";
    wait::until(&format!("{pod} says why it waits"), PATIENCE, || async {
        let said = shop.kubectl(&["get", "pod", pod, "-o", path]).await?;
        ensure!(said.contains(why), "{said}");
        Ok(true)
    })
    .await
}

/// kubectl returns when the contract is closed and the node is gone.
pub(crate) async fn deletes(rome: &Cluster, turin: &Cluster, contract: &str) -> Result<()> {
    sample_app::closes(rome).await?;
    let delete = ["-n", "shop", "delete", "order", "web", "--timeout=90s"];
    rome.kubectl(&delete).await?.ok()?;
    let node = rome.kubectl(&["get", "node", "mercato-turin"]).await?;
    ensure!(node.stderr.contains("not found"), "{node:?}");
    let which = format!("contract/{contract}");
    for side in [rome, turin] {
        condition(side, &which, "Closed").await?;
    }
    let why = field(turin, &which, "{.status.conditions[0].message}").await?;
    ensure!(why.contains("its Order was deleted"), "{why}");
    Ok(())
}

pub(crate) async fn tidies_up(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    shop.kubectl(&["delete", "nso", "default"]).await?;
    shop.kubectl(&["delete", "secret", "private"]).await?;
    rome.kubectl(&["delete", "marketpolicy", "default"]).await?.ok().map(drop)
}
