//! Namespaces whose pods leave home, as their people say it.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Daemon, PATIENCE};
use crate::wait;

impl Daemon<'_> {
    /// Lets pods of a namespace leave home by this strategy (`Remote`, `Both`), and waits for it; its node
    /// may come later.
    ///
    /// # Errors
    /// When they may not within half a minute.
    pub async fn offload(&self, namespace: &str, strategy: &str) -> Result<()> {
        self.offload_as(namespace, &json!({ "strategy": strategy })).await
    }

    /// The same with all that its people say of it: the spec of a NamespaceOffload.
    ///
    /// # Errors
    /// As [`Daemon::offload`].
    pub async fn offload_as(&self, namespace: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "mercato.dev/v1alpha1", "kind": "NamespaceOffload",
            "metadata": { "name": "default", "namespace": namespace },
            "spec": spec,
        });
        self.cluster.apply(&object.to_string()).await?;
        let asks = ["get", "-n", namespace, "namespaceoffload/default", "-o", "json"];
        wait::until("pods may leave home", PATIENCE, || async {
            let is: Value = serde_json::from_str(&self.cluster.kubectl(&asks).await?.ok()?)?;
            let all = is["status"]["conditions"].as_array().into_iter().flatten();
            let ready = all.into_iter().find(|condition| condition["type"] == "Ready");
            let ready = ready.context("nothing is said of it yet")?;
            ensure!(ready["observedGeneration"] == is["metadata"]["generation"], "{ready}");
            ensure!(ready["reason"] == "Offloaded" || ready["reason"] == "NoNode", "{ready}");
            Ok(true)
        })
        .await
    }

    /// Brings the pods of a namespace home, as its people do.
    ///
    /// # Errors
    /// When the daemon does not let go of it.
    pub async fn unoffload(&self, namespace: &str) -> Result<()> {
        let delete = ["delete", "-n", namespace, "namespaceoffload/default", "--timeout=180s"];
        self.cluster.kubectl(&delete).await?.ok().map(drop)
    }
}
