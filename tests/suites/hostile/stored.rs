//! What the honest consumer has stored, which is to be there afterwards as it was.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use serde_json::{Value, json};

/// Nobody makes volumes of it: what is asked for is seen, and not what is written.
pub(crate) const CLASS: &str = r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass",
    "metadata":{"name":"disks","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},
    "provisioner":"disks.example","volumeBindingMode":"WaitForFirstConsumer"}"#;
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until storage is on offer, which is some time after the rest.
pub(crate) async fn is_sold(buyer: &Daemon<'_>, seller: &Daemon<'_>) -> Result<()> {
    wait::until("storage is on offer", PATIENCE, || async {
        let market = buyer.mercato(&["browse", "storage>=2Gi", "-o", "json"]).await?;
        Ok(market.stdout.contains(&format!("{:?}", seller.cluster.name())))
    })
    .await
}

/// A claim of Milan's that is stored at Siena.
pub(crate) struct Stored {
    /// The claim's uid at home, by which it is called everywhere.
    pub(crate) uid: String,
    /// As Siena and Milan had it at first.
    was: [String; 2],
}

impl Stored {
    /// Milan makes a claim, and a pod that has it stored at Siena.
    pub(crate) async fn at(siena: &Daemon<'_>, milan: &Daemon<'_>) -> Result<Self> {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "kept", "namespace": "lab" },
            "spec": { "storageClassName": "mercato", "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "100Mi" } } },
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "keeper", "namespace": "lab" },
            "spec": {
                "nodeSelector": { "kubernetes.io/hostname": "mercato-siena" },
                "containers": [{ "name": "keeper", "image": "mercato.test/busybox:1",
                    "command": ["sleep", "3600"],
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
                "volumes": [{ "name": "data",
                    "persistentVolumeClaim": { "claimName": "kept" } }],
            },
        });
        for object in [claim, pod] {
            milan.cluster.apply(&object.to_string()).await?;
        }
        let bound = ["-n", "lab", "wait", "pvc/kept", "--for=jsonpath={.status.phase}=Bound"];
        let bound = [&bound[..], &["--timeout=60s"]].concat();
        milan.cluster.kubectl(&bound).await?.ok()?;
        let uid = ["-n", "lab", "get", "pvc", "kept", "-o", "jsonpath={.metadata.uid}"];
        let uid = milan.cluster.kubectl(&uid).await?.ok()?;
        let mut this = Self { uid, was: Default::default() };
        wait::until("it is stored", PATIENCE, || async {
            Ok(!this.now(siena, milan).await?[0].is_empty())
        })
        .await?;
        this.was = this.now(siena, milan).await?;
        Ok(this)
    }

    /// That nobody has touched it.
    pub(crate) async fn is_there(&self, siena: &Daemon<'_>, milan: &Daemon<'_>) -> Result<()> {
        let now = self.now(siena, milan).await?;
        ensure!(now == self.was, "it was {:?}, and is {now:?}", self.was);
        let volumes = ["get", "pv", "-o", "json"];
        let volumes: Value = serde_json::from_str(&milan.cluster.kubectl(&volumes).await?.ok()?)?;
        let volumes = volumes["items"].as_array().context("a list")?;
        ensure!(volumes.len() == 1, "milan has other volumes, too: {volumes:?}");
        Ok(())
    }

    /// The claim at Siena and the volume at Milan: uid, class and phase.
    async fn now(&self, siena: &Daemon<'_>, milan: &Daemon<'_>) -> Result<[String; 2]> {
        let what = "jsonpath={.metadata.uid} {.spec.storageClassName} {.status.phase} \
                    {.metadata.deletionTimestamp}";
        let name = format!("mercato-{}", self.uid);
        let claim = ["-n", "lab-milan", "get", "pvc", &name, "--ignore-not-found", "-o", what];
        let volume = ["get", "pv", &name, "--ignore-not-found", "-o", what];
        Ok([
            siena.cluster.kubectl(&claim).await?.ok()?,
            milan.cluster.kubectl(&volume).await?.ok()?,
        ])
    }
}
