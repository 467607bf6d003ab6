//! What crosses of a pod that asks for more than a guest should have, what a guest may reach,
//! and what people do to the virtual node.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::Value;

use crate::pods::NODE;

const PATIENCE: Duration = Duration::from_secs(60);
/// Of milan's `lab`, in siena.
const GUESTS: &str = "lab-milan";
/// The notice of the contract, by default.
const NOTICE_S: u64 = 3_600;

/// Keys for container runtimes and injectors, ten years to end in, a question for the address of the
/// node, a full name that no host name may be, and a token for home's API server.
const FLAGS: [&str; 4] = [
    "--labels=app=quiet,sidecar.istio.io/inject=true",
    "--annotations=io.katacontainers.config.hypervisor.default_vcpus=64",
    "--annotations=org.systemd.property.MemoryMax=infinity",
    r#"--overrides={"spec":{"terminationGracePeriodSeconds":315360000,"hostUsers":false,
        "subdomain":"one-of-more-than-twenty-eight-letters","setHostnameAsFQDN":true,
        "volumes":[{"name":"own","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}],
        "containers":[{"name":"steers","image":"mercato.test/busybox:1","env":[{"name":"HOST",
        "valueFrom":{"fieldRef":{"fieldPath":"status.hostIP"}}}]}]}}"#,
];

/// What its owner is told: reason and words.
const TOLD: [(&str, &str); 3] = [
    ("GracePeriodShortened", "is 3600 here, not 315360000"),
    ("HostnameTooLong", "mercato offload lab --name NAME"),
    ("LeftOut", "spec.volumes[0].projected.sources[0].serviceAccountToken: stays at home"),
];

/// Nothing of it does anything over there, and home sees what it has written.
pub(crate) async fn steers_nothing(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let lab = User::new(home.cluster, "lab");
    lab.start("steers", "sleep 3600", &FLAGS).await?;
    wait::until("the guest is there", PATIENCE, || async {
        Ok(object(provider.cluster, GUESTS, "pod", "steers").await.is_ok())
    })
    .await?;
    let guest = object(provider.cluster, GUESTS, "pod", "steers").await?;
    let (metadata, spec) = (&guest["metadata"], &guest["spec"]);
    for keys in [&metadata["labels"], &metadata["annotations"]] {
        for key in keys.as_object().context("there are some")?.keys() {
            // The last ones siena's own API server writes.
            let quiet =
                ["app", "home.", "mercato.dev/", "field.mercato.dev/", "topology.kubernetes.io/"];
            ensure!(quiet.iter().any(|known| key.starts_with(known)), "{key} may steer");
        }
    }
    ensure!(metadata["labels"]["home.sidecar.istio.io.mercato.dev/inject"] == "true", "{guest}");
    ensure!(spec["terminationGracePeriodSeconds"] == NOTICE_S, "{guest}");
    ensure!(spec["hostUsers"] == false, "{guest}");
    ensure!(spec["affinity"]["nodeAffinity"].to_string().contains("virtual-kubelet"), "{guest}");
    let node = object(home.cluster, "default", "node", NODE).await?;
    let address = &node["status"]["addresses"][0]["address"];
    let env = spec["containers"][0]["env"].as_array().context("variables")?;
    let host = env.iter().find(|env| env["name"] == "HOST").context("the host's")?;
    ensure!(address.is_string() && host["value"] == *address, "{host} is not {address}");

    wait::until("home shows its own node, and what is not over there", PATIENCE, || async {
        let pod = object(home.cluster, "lab", "pod", "steers").await?;
        let hosts = &pod["status"]["hostIPs"];
        ensure!(pod["status"]["hostIP"] == *address && hosts[0]["ip"] == *address, "{pod}");
        ensure!(pod["spec"]["terminationGracePeriodSeconds"] == 315_360_000, "{pod}");
        for (reason, words) in TOLD {
            let about = format!("involvedObject.name=steers,reason={reason}");
            let form = r#"-o=jsonpath={range .items[*]}{.message}{"\n"}{end}"#;
            let said = lab.kubectl(&["get", "events", "--field-selector", &about, form]).await?;
            ensure!(said.contains(words) && said.lines().count() == 1, "{reason}: {said:?}");
        }
        Ok(true)
    })
    .await
}

/// Port 53 is open to name servers alone.
pub(crate) async fn no_way_out(provider: &Daemon<'_>) -> Result<()> {
    let policy = object(provider.cluster, GUESTS, "networkpolicy", "mercato").await?;
    let egress = policy["spec"]["egress"].as_array().context("egress")?;
    let to_some = |rule: &Value| rule["to"].as_array().is_some_and(|to| !to.is_empty());
    ensure!(egress.len() == 2 && egress.iter().all(to_some), "{policy}");
    ensure!(policy.to_string().contains(r#"{"k8s-app":"kube-dns"}"#), "{policy}");
    let types = policy["spec"]["policyTypes"].to_string();
    ensure!(types.contains("Ingress") && types.contains("Egress"), "{policy}");
    Ok(())
}

/// What people do to the virtual node stays, however often the daemon looks at it.
pub(crate) async fn a_cordon_stays(home: &Daemon<'_>) -> Result<()> {
    let cluster = home.cluster;
    for change in [
        &["cordon", NODE][..],
        &["taint", "node", NODE, "team=a:NoSchedule"],
        &["label", "node", NODE, "team=a"],
        &["annotate", "node", NODE, "why=maintenance"],
    ] {
        cluster.kubectl(change).await?.ok()?;
    }
    // Before it renews the Lease, it looks whether the node is as it has written it.
    let renewed = || async {
        let lease = object(cluster, "kube-node-lease", "lease", NODE).await?;
        anyhow::Ok(lease["spec"]["renewTime"].to_string())
    };
    for _ in 0..2 {
        let last = &renewed().await?;
        let differs = || async move { Ok(renewed().await? != *last) };
        wait::until("the Lease is renewed", PATIENCE, differs).await?;
    }
    let node = object(cluster, "default", "node", NODE).await?;
    ensure!(node["spec"]["unschedulable"] == true, "uncordoned: {}", node["spec"]);
    let taints = node["spec"]["taints"].as_array().context("taints")?;
    ensure!(taints.iter().any(|taint| taint["key"] == "team"), "{taints:?}");
    ensure!(taints.iter().any(|taint| taint["key"] == "mercato.dev/provider"), "{taints:?}");
    let metadata = &node["metadata"];
    let kept = metadata["labels"]["team"] == "a" && metadata["annotations"]["why"] == "maintenance";
    ensure!(kept, "{metadata}");
    cluster.kubectl(&["taint", "node", NODE, "team-"]).await?.ok()?;
    cluster.kubectl(&["uncordon", NODE]).await?.ok().map(drop)
}

async fn object(cluster: &Cluster, namespace: &str, kind: &str, name: &str) -> Result<Value> {
    let get = ["-n", namespace, "get", kind, name, "-o", "json"];
    Ok(serde_json::from_str(&cluster.kubectl(&get).await?.ok()?)?)
}
