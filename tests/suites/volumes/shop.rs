//! The namespaces whose pods leave, and what is seen of their claims on both sides.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::Value;

/// The virtual node of the contract.
pub(crate) const NODE: &str = "mercato-turin";

/// Pods of it run over there.
pub(crate) const AWAY: &str = "shop";
/// Pods of it may run anywhere.
pub(crate) const BOTH: &str = "both";

pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A customer and a provider, with a contract on storage between them.
pub(crate) struct Shop<'a> {
    pub(crate) home: &'a Daemon<'a>,
    pub(crate) provider: &'a Daemon<'a>,
    pub(crate) contract: String,
}

impl Shop<'_> {
    /// Makes the namespaces whose pods leave.
    pub(crate) async fn opens(&self) -> Result<()> {
        for (namespace, strategy) in [(AWAY, "Remote"), (BOTH, "Both")] {
            self.home.cluster.kubectl(&["create", "namespace", namespace]).await?.ok()?;
            self.home.offload(namespace, strategy).await?;
        }
        Ok(())
    }

    pub(crate) fn user(&self, namespace: &'static str) -> User<'_> {
        User::new(self.home.cluster, namespace)
    }

    /// Makes a claim at home.
    pub(crate) async fn claims(&self, namespace: &str, name: &str, spec: &Value) -> Result<()> {
        let claim = serde_json::json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "namespace": namespace }, "spec": spec,
        });
        self.home.cluster.apply(&claim.to_string()).await
    }

    /// What a claim is called at the provider, and its volume at home.
    pub(crate) async fn called(&self, namespace: &str, claim: &str) -> Result<String> {
        let ask = ["get", "-n", namespace, "pvc", claim, "-o", "jsonpath={.metadata.uid}"];
        let uid = self.home.cluster.kubectl(&ask).await?.ok()?;
        ensure!(!uid.is_empty(), "claim {claim} has no uid");
        Ok(format!("mercato-{uid}"))
    }

    /// The claims that the provider holds, in all namespaces.
    pub(crate) async fn held(&self) -> Result<Vec<String>> {
        let ask = ["get", "pvc", "-A", "-o", "jsonpath={.items[*].metadata.name}"];
        let names = self.provider.cluster.kubectl(&ask).await?.ok()?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Waits so long until the provider does not hold a claim any more.
    pub(crate) async fn is_gone(&self, called: &str, patience: Duration) -> Result<()> {
        wait::until(&format!("{called} is gone"), patience, || async {
            Ok(!self.held().await?.iter().any(|held| held == called))
        })
        .await
    }

    /// Waits until a claim has an event of this reason, with these words.
    pub(crate) async fn hears(
        &self,
        namespace: &str,
        claim: &str,
        reason: &str,
        words: &str,
    ) -> Result<()> {
        let about = format!("involvedObject.name={claim},reason={reason}");
        let ask = ["get", "events", "-n", namespace, "--field-selector", &about];
        let ask = [&ask[..], &["-o", "jsonpath={..message}"]].concat();
        wait::until(&format!("claim {claim} hears {words:?}"), PATIENCE, || async {
            let said = self.home.cluster.kubectl(&ask).await?.ok()?;
            ensure!(said.contains(words), "it hears {said:?}");
            Ok(true)
        })
        .await
    }

    /// A field of a pod at home.
    pub(crate) async fn of_pod(&self, namespace: &str, pod: &str, path: &str) -> Result<String> {
        let path = format!("jsonpath={path}");
        let ask = ["get", "-n", namespace, "pod", pod, "-o", &path];
        self.home.cluster.kubectl(&ask).await?.ok()
    }

    /// The real node of the provider on which the guest of a pod runs.
    pub(crate) async fn real_node_of(&self, namespace: &str, pod: &str) -> Result<String> {
        let uid = self.of_pod(namespace, pod, "{.metadata.uid}").await?;
        let label = format!("mercato.dev/home-uid={uid}");
        let ask = ["get", "pods", "-A", "-l", &label, "-o", "jsonpath={.items[*].spec.nodeName}"];
        let node = self.provider.cluster.kubectl(&ask).await?.ok()?;
        ensure!(!node.is_empty(), "the guest of {pod} is on no node");
        Ok(node)
    }

    /// Runs a script in a pod at home.
    pub(crate) async fn executes(
        &self,
        namespace: &str,
        pod: &str,
        script: &str,
    ) -> Result<String> {
        let command = ["exec", "-n", namespace, pod, "--", "sh", "-c", script];
        let output = self.home.cluster.kubectl(&command).await?;
        output.ok().with_context(|| format!("in pod {pod}: {script}"))
    }
}

/// A claim on so much of the class that leaves.
pub(crate) fn of_ours(amount: &str) -> Value {
    serde_json::json!({
        "storageClassName": "mercato", "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": amount } },
    })
}

/// A pod of busybox that sleeps, and mounts these claims at `/0`, `/1` and so on.
pub(crate) fn mounting(claims: &[&str]) -> Value {
    let volumes = claims.iter().enumerate().map(|(n, claim)| {
        serde_json::json!({ "name": format!("v{n}"), "persistentVolumeClaim": { "claimName": claim } })
    });
    let mounts = (0..claims.len())
        .map(|n| serde_json::json!({ "name": format!("v{n}"), "mountPath": format!("/{n}") }));
    serde_json::json!({
        "terminationGracePeriodSeconds": 1,
        "volumes": volumes.collect::<Vec<_>>(),
        "containers": [{ "name": "main", "image": "mercato.test/busybox:1",
            "command": ["sleep", "3600"], "volumeMounts": mounts.collect::<Vec<_>>() }],
    })
}
