//! The chart in a cluster of the bed: Mercato's daemon in a pod, as `helm install` makes it.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Output};
use crate::image;
use crate::wait;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy/chart");
const RELEASE: &str = "mercato";
/// In the namespace of the chart's objects.
const NAMESPACE: &str = "mercato";
/// What the daemon keeps, in the cluster's files.
const VOLUME: &str = "volume";
/// The exit code of a command that has found nothing.
const NOTHING: i32 = 3;
/// Of the chart that is upgraded to.
const NEXT_VERSION: &str = "0.1.1";
/// What Helm waits for its own objects.
const WAIT: [&str; 3] = ["--wait", "--timeout", "120s"];

/// A daemon in a pod, and the command line in it.
#[derive(Debug)]
pub struct Installed<'a> {
    /// The cluster that it runs in.
    pub cluster: &'a Cluster,
}

impl<'a> Installed<'a> {
    /// Gives the cluster's nodes the images of this program, and the cluster a volume, installs the chart
    /// with this configuration of the daemon and an approver, and waits until the daemon is ready.
    ///
    /// # Errors
    /// When Helm fails, or the daemon does not get ready within two minutes.
    pub async fn install(cluster: &'a Cluster, program: &Path, config: &Value) -> Result<Self> {
        let this = Self::prepare(cluster, program).await?;
        this.helm(&["install", RELEASE, CHART, "--values", "-"], &WAIT, config).await?;
        Ok(this)
    }

    /// The first half of that: what the chart takes is there, and nothing of it is installed.
    ///
    /// # Errors
    /// When an image cannot be made or given to a node.
    pub async fn prepare(cluster: &'a Cluster, program: &Path) -> Result<Self> {
        let archive = image::of_program(program)?;
        for number in 1..=cluster.spec().nodes {
            cluster.import(number, &archive).await?;
        }
        let this = Self { cluster };
        cluster.apply(&this.volume().to_string()).await?;
        Ok(this)
    }

    /// Takes away what an earlier installation has kept: the next one is of a new cluster.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget(cluster: &Cluster) -> Result<()> {
        match std::fs::remove_dir_all(cluster.data_outside().join(VOLUME)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What somebody else has installed there, from [`Installed::prepare`] on.
    #[must_use]
    pub fn at(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// Gives it another configuration, and turns these values of the chart on. Waits until the daemon is
    /// ready with that.
    ///
    /// # Errors
    /// As [`Installed::install`].
    pub async fn upgrade(&self, config: &Value, on: &[&str]) -> Result<()> {
        let on: Vec<_> = on.iter().map(|value| format!("--set={value}=true")).collect();
        let more: Vec<_> = on.iter().map(String::as_str).chain(WAIT).collect();
        self.helm(&["upgrade", RELEASE, CHART, "--values", "-"], &more, config).await
    }

    /// Goes on to a later version of the chart, with another image of the same program. Waits until the
    /// daemon is ready with that.
    ///
    /// # Errors
    /// As [`Installed::install`].
    pub async fn upgrade_to_next(&self) -> Result<()> {
        let (helm, place) = (self.cluster.program_path("helm"), tempfile::tempdir()?);
        let to = place.path().to_string_lossy();
        let version = ["--version", NEXT_VERSION, "--app-version", NEXT_VERSION];
        let package = [&["package", CHART, "--destination", &to][..], &version].concat();
        self.cluster.run(&helm, &package, "").await?.ok()?;
        let (_, tag) = image::MERCATO_NEXT.rsplit_once(':').context("an image has a tag")?;
        let (chart, tag) =
            (format!("{to}/{RELEASE}-{NEXT_VERSION}.tgz"), format!("--set-string=image.tag={tag}"));
        let upgrade = ["upgrade", RELEASE, &chart, "--reuse-values", &tag];
        self.cluster.run(&helm, &[&upgrade[..], &WAIT].concat(), "").await?.ok().map(drop)
    }

    /// Goes back to what was before the last upgrade. Waits as that does.
    ///
    /// # Errors
    /// As [`Installed::install`].
    pub async fn roll_back(&self) -> Result<()> {
        let helm = self.cluster.program_path("helm");
        let back = [&["rollback", RELEASE][..], &WAIT].concat();
        self.cluster.run(&helm, &back, "").await?.ok().map(drop)
    }

    /// The image and the version of the chart that the daemon runs with, such as `1 0.1.0`.
    ///
    /// # Errors
    /// When there is no daemon.
    pub async fn build(&self) -> Result<String> {
        let deploy = ["-n", NAMESPACE, "get", "deploy/mercato", "-o"];
        let both = "jsonpath={.spec.template.spec.containers[0].image} \
                    {.metadata.labels.app\\.kubernetes\\.io/version}";
        let said = self.cluster.kubectl(&[&deploy[..], &[both]].concat()).await?.ok()?;
        let (_, tag) = said.rsplit_once(':').with_context(|| format!("no tag in {said}"))?;
        Ok(tag.to_owned())
    }

    /// Runs the chart's own test, and waits for it.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn test(&self) -> Result<()> {
        let helm = self.cluster.program_path("helm");
        let said = self.cluster.run(&helm, &["test", RELEASE, "--timeout", "60s"], "").await?;
        let logs = self.cluster.kubectl(&["-n", NAMESPACE, "logs", "pod/mercato-test"]).await?;
        said.ok().with_context(|| format!("{logs:?}")).map(drop)
    }

    /// Takes all of it away again, the volume too.
    ///
    /// # Errors
    /// When Helm fails, with what the chart's own job says.
    pub async fn uninstall(&self) -> Result<()> {
        let helm = self.cluster.program_path("helm");
        let all = [&["uninstall", RELEASE][..], &WAIT].concat();
        let said = self.cluster.run(&helm, &all, "").await?;
        if said.code != Some(0) {
            let job = ["-n", NAMESPACE, "logs", "job/mercato-uninstall"];
            let job = self.cluster.kubectl(&job).await?;
            return said.ok().with_context(|| format!("{job:?}")).map(drop);
        }
        let volume = ["delete", "persistentvolume/mercato", "--timeout=180s"];
        self.cluster.kubectl(&volume).await?.ok().map(drop)
    }

    /// Takes the daemon away as nobody should, and waits until it has ended.
    ///
    /// # Errors
    /// When it does not within three minutes.
    pub async fn loses_its_daemon(&self) -> Result<()> {
        let delete = ["-n", NAMESPACE, "delete", "deploy/mercato", "--cascade=foreground"];
        self.cluster.kubectl(&[&delete[..], &["--timeout=180s"]].concat()).await?.ok().map(drop)
    }

    /// Runs `mercato` in the daemon's pod.
    ///
    /// # Errors
    /// When it cannot be started; its own failure is in the answer.
    pub async fn mercato(&self, args: &[&str]) -> Result<Output> {
        let exec = ["-n", NAMESPACE, "exec", "deploy/mercato", "--", "mercato"];
        self.cluster.kubectl(&[&exec[..], args].concat()).await
    }

    /// What `mercato` answers with `-o json`.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn json(&self, args: &[&str]) -> Result<Value> {
        let text = self.mercato(&[args, &["-o", "json"]].concat()).await?.ok()?;
        serde_json::from_str(&text)
            .with_context(|| format!("mercato {} says {text}", args.join(" ")))
    }

    /// Waits until a provider's offer has come.
    ///
    /// # Errors
    /// When it has not within a minute and a half.
    pub async fn sees_offer_of(&self, provider: &str) -> Result<()> {
        wait::until(&format!("{provider}'s offer is seen"), wait::OFFERED, || async {
            let market = self.mercato(&["browse", "-o", "json"]).await?;
            if market.code == Some(NOTHING) {
                return Ok(false);
            }
            let market: Value = serde_json::from_str(&market.ok()?)?;
            let offers = market["offers"].as_array().context("a list of offers")?;
            Ok(offers.iter().any(|offer| offer["name"] == provider))
        })
        .await
    }

    /// The daemon's pod: its UID, once the one that is there is not being deleted.
    ///
    /// # Errors
    /// When there is none.
    pub async fn pod(&self) -> Result<String> {
        let pods = ["-n", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=daemon"];
        let uid = ["-o", "jsonpath={.items[0].metadata.uid}"];
        self.cluster.kubectl(&[&pods[..], &uid].concat()).await?.ok()
    }

    async fn helm(&self, words: &[&str], more: &[&str], config: &Value) -> Result<()> {
        let (repository, tag) = image::MERCATO.rsplit_once(':').context("an image has a tag")?;
        let values = json!({
            "image": { "repository": repository, "tag": tag },
            "persistence": { "storageClass": "-" },
            "approver": true,
            "config": config,
        });
        let helm = self.cluster.program_path("helm");
        let said = self.cluster.run(&helm, &[words, more].concat(), &values.to_string()).await?;
        said.ok().map(drop)
    }

    /// The bed has nobody who makes volumes.
    fn volume(&self) -> Value {
        let path = self.cluster.data().join(VOLUME);
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "mercato" },
            "spec": {
                "capacity": { "storage": "1Gi" },
                "accessModes": ["ReadWriteOnce"],
                "hostPath": { "path": path, "type": "DirectoryOrCreate" },
            },
        })
    }
}
