//! What the API server refuses by itself, by schema and by CEL.

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: mercato.dev/v1alpha1, kind: {kind}, metadata: {{name: {name}, namespace: shop}}, spec: {spec}}}"
    )
}

const ORDER: &str = "{cpu: 1, memory: 1Gi, for: 2h, dryRun: true}";

pub(crate) async fn by_schema(rome: &Cluster) -> Result<()> {
    let (order, policy, offload) = ("Order", "MarketPolicy", "NamespaceOffload");
    for (kind, name, spec, why) in [
        (order, "x", "{memory: 1Gi, for: 2h}", "cpu: Required"),
        (order, "x", "{cpu: a lot, memory: 1Gi, for: 2h}", "spec.cpu"),
        (order, "x", "{cpu: -1, memory: 1Gi, for: 2h}", "spec.cpu"),
        (order, "x", "{cpu: 1, memory: 1Gi, for: -2h}", "spec.for"),
        (order, "x", "{cpu: 1, memory: 1Gi, for: 2 hours}", "spec.for"),
        (order, "x", "{cpu: 1, memory: 1Gi, for: 2h, pods: 0}", "spec.pods"),
        (order, "x", "{cpu: 1, memory: 1Gi, for: 2h, class: firm}", "spec.class"),
        (order, "x", "{cpu: 1, memory: 1Gi, for: 2h, egress: internet}", "spec.egress"),
        (policy, "mine", "{}", "call it default"),
        (policy, "default", "{share: {cpu: 30%}}", "pods of guests need processors and memory"),
        (
            policy,
            "default",
            "{share: {cpu: 1, memory: 1Gi, approve: perhaps}}",
            r#"supported values: "auto", "ask", "deny""#,
        ),
        (
            policy,
            "default",
            "{share: {cpu: 1, memory: 1Gi, rules: [{standing: friend, then: ask}]}}",
            r#"supported values: "stranger", "trusted""#,
        ),
        (policy, "default", "{share: {cpu: 1, memory: 1Gi, reclaim: -1h}}", "spec.share.reclaim"),
        (
            policy,
            "default",
            "{share: {cpu: 1, memory: 1Gi, egress: {to: everybody}}}",
            r#"supported values: "none", "named", "internet""#,
        ),
        (policy, "default", "{buy: {trust: [turin]}}", "64 hexadecimal digits"),
        (offload, "mine", "{}", "call it default"),
        (offload, "default", "{strategy: remote}", "spec.strategy"),
        (offload, "default", "{secrets: {allow: [a], deny: [b]}}", "either allow or deny"),
        (offload, "default", "{secrets: {}}", "either allow or deny"),
        (offload, "default", "{name: Shop}", "spec.name"),
        (offload, "default", "{name: kube-mine}", "none of Kubernetes' own"),
    ] {
        let said =
            rome.kubectl_with_input(&["apply", "-f", "-"], &object(kind, name, spec)).await?;
        ensure!(said.code != Some(0), "{kind} {spec} was taken");
        ensure!(said.stderr.contains(why), "{kind} {spec}: {}", said.stderr);
    }
    immutable(rome).await
}

async fn immutable(rome: &Cluster) -> Result<()> {
    rome.apply(&object("Order", "fixed", ORDER)).await?;
    for (patch, why) in [
        (r#"{"spec":{"cpu":2}}"#, "an order cannot change"),
        (r#"{"spec":{"for":"4h"}}"#, "an order cannot change"),
        (r#"{"spec":{"selector":"carbon<=200"}}"#, "an order cannot change"),
        (r#"{"spec":{"maxPrice":"3 EUR/h"}}"#, "an order cannot change"),
        (r#"{"spec":{"egress":["internet"]}}"#, "an order cannot change"),
    ] {
        let said = patched(rome, "order/fixed", patch).await?;
        ensure!(said.contains(why), "{patch}: {said}");
    }
    let taken = patched(rome, "order/fixed", r#"{"spec":{"dryRun":false}}"#).await?;
    ensure!(taken.contains("patched"), "{taken}");
    let back = patched(rome, "order/fixed", r#"{"spec":{"dryRun":true}}"#).await?;
    ensure!(back.contains("cannot be taken back by dryRun"), "{back}");
    rome.kubectl(&["-n", "shop", "delete", "order", "fixed"]).await?.ok().map(drop)
}

async fn patched(rome: &Cluster, what: &str, patch: &str) -> Result<String> {
    let patch = ["-n", "shop", "patch", what, "--type", "merge", "-p", patch];
    let said = rome.kubectl(&patch).await?;
    Ok(said.stdout + &said.stderr)
}
