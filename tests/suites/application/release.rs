//! A release of the chart, and what people do with it by helm and kubectl.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::Value;

use super::caller::Caller;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/application/chart");
/// The release, and its namespace.
pub(crate) const NAMESPACE: &str = "shop";
/// The node of home's own, and the virtual one.
const HOME: &str = "rome-1";
const AWAY: &str = "mercato-turin";
const WEB: &str = "http://shop-web.shop";
/// Far more than it takes on a machine that has other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const WAIT: [&str; 3] = ["--wait", "--timeout", "120s"];
/// The label of the pods of one tier.
const TIER: &str = "app.kubernetes.io/component";
/// What a release has elsewhere.
const KINDS: &str = "pods,services,endpointslices,configmaps,secrets";

/// Where the pods of a release run when it is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Home,
    MiddleAway,
    Away,
}

impl Placement {
    /// The node of a tier's pods.
    fn of(self, tier: &str) -> &'static str {
        match (self, tier) {
            (Self::Away, _) | (Self::MiddleAway, "middle") => AWAY,
            (Self::Home | Self::MiddleAway, _) => HOME,
        }
    }
}

/// The release, by whoever has it at home.
pub(crate) struct Release<'a> {
    pub(crate) home: &'a Cluster,
    pub(crate) provider: &'a Cluster,
    pub(crate) caller: Caller<'a>,
}

impl Release<'_> {
    /// Installs it so that its tiers are where they are to be.
    pub(crate) async fn install(&self, placement: Placement) -> Result<()> {
        let apart = placement == Placement::MiddleAway;
        if apart {
            self.node(&["cordon", AWAY]).await?;
        }
        self.helm(&[&["install", NAMESPACE, CHART][..], &WAIT].concat()).await?;
        if apart {
            self.node(&["uncordon", AWAY]).await?;
            self.node(&["cordon", HOME]).await?;
            self.kubectl(&["rollout", "restart", "deploy/shop-middle"]).await?;
            self.rolled_out("deploy/shop-middle").await?;
            self.node(&["uncordon", HOME]).await?;
        }
        self.is_at(placement).await
    }

    /// Each tier is where it was installed.
    pub(crate) async fn is_at(&self, placement: Placement) -> Result<()> {
        for tier in ["web", "middle", "db"] {
            let (nodes, wanted) = (self.nodes_of(tier).await?, placement.of(tier));
            ensure!(
                nodes.iter().map(String::as_str).eq([wanted]),
                "{tier} runs on {nodes:?}, and not on {wanted}"
            );
        }
        Ok(())
    }

    /// The way through all tiers: what is written is read, with this greeting of the web tier.
    pub(crate) async fn answers(&self, greeting: &str, key: &str, value: &str) -> Result<()> {
        let url = format!("{WEB}/cgi-bin/app?{key}={value}");
        self.says(&url, greeting, key, value).await?;
        self.has(greeting, key, value).await
    }

    /// The same of what was written before.
    pub(crate) async fn has(&self, greeting: &str, key: &str, value: &str) -> Result<()> {
        self.says(&format!("{WEB}/cgi-bin/app?{key}"), greeting, key, value).await
    }

    async fn says(&self, url: &str, greeting: &str, key: &str, value: &str) -> Result<()> {
        wait::until(&format!("{key} is {value}"), PATIENCE, || async {
            let said = self.caller.asks(url).await?;
            let lines: Vec<_> = said.lines().collect();
            let [web, middle] = lines[..] else { return Err(anyhow::anyhow!("it says {said:?}")) };
            let by = |line: &str, tier: &str, rest: &str| {
                line.starts_with(&format!("{tier} shop-{tier}-")) && line.ends_with(rest)
            };
            let right = by(web, "web", &format!(": {greeting}"))
                && by(middle, "middle", &format!(": {key} is {value}"));
            ensure!(right, "it says {said:?}");
            Ok(true)
        })
        .await
    }

    pub(crate) async fn tests(&self) -> Result<()> {
        self.helm(&["test", NAMESPACE, "--timeout", "120s"]).await
    }

    /// Gives it another greeting while it is called. How many requests that costs is printed: a plain
    /// cluster loses some, too, where an application ends at once when it is asked to.
    pub(crate) async fn upgrades(&self, greeting: &str) -> Result<()> {
        self.caller.asks_on(&format!("{WEB}/cgi-bin/app?dish")).await?;
        let set = format!("--set=greeting={greeting}");
        let upgrade = ["upgrade", NAMESPACE, CHART, "--reuse-values", &set];
        self.helm(&[&upgrade[..], &WAIT].concat()).await?;
        for tier in ["deploy/shop-web", "deploy/shop-middle"] {
            self.rolled_out(tier).await?;
        }
        self.has(greeting, "dish", "carbonara").await?;
        let (asked, lost) = self.caller.ends().await?;
        println!("of {asked} requests in the upgrade {lost} were lost");
        Ok(())
    }

    /// The middle tier gets another pod, which answers too, and loses it again.
    pub(crate) async fn scales(&self) -> Result<()> {
        let answered = || async {
            let said = self.caller.asks(&format!("{WEB}/cgi-bin/app?dish")).await?;
            let middle = said.lines().find_map(|line| line.strip_prefix("middle "));
            let (name, _) =
                middle.and_then(|line| line.split_once(':')).with_context(|| said.clone())?;
            anyhow::Ok(name.to_owned())
        };
        let scale = ["scale", "deploy/shop-middle"];
        self.kubectl(&[&scale[..], &["--replicas=2"]].concat()).await?;
        self.rolled_out("deploy/shop-middle").await?;
        let seen = Mutex::new(BTreeSet::new());
        wait::until("both pods have answered", PATIENCE, || async {
            let name = answered().await?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(name);
            let seen = seen.len();
            ensure!(seen <= 2, "{seen} have answered");
            Ok(seen == 2)
        })
        .await?;
        self.kubectl(&[&scale[..], &["--replicas=1"]].concat()).await?;
        wait::until("one pod is left", PATIENCE, || async {
            Ok(self.pods_of("middle").await?.len() == 1)
        })
        .await?;
        answered().await.map(drop)
    }

    /// Its words, a command in it, and a container beside it.
    pub(crate) async fn is_looked_into(&self) -> Result<()> {
        let logs = self.kubectl(&["logs", "deploy/shop-web"]).await?;
        ensure!(logs.lines().any(|line| line == "web opens"), "its logs are {logs:?}");
        let exec = ["exec", "deploy/shop-middle", "--", "sh", "-c", "echo $SHOP_DB_PORT"];
        let port = self.kubectl(&exec).await?;
        ensure!(
            port.trim() == "2379",
            "its settings say {port:?}, and not what its ConfigMap says"
        );
        let pods = self.pods_of("web").await?;
        let pod = pods.first().and_then(|pod| pod["metadata"]["name"].as_str());
        let pod = pod.context("no pod of the web tier")?;
        let debug =
            ["debug", pod, "--image=mercato.test/busybox:1", "--profile=baseline", "-c", "near"];
        let wget = ["--", "wget", "-q", "-O", "-", "http://localhost:8080/"];
        self.kubectl(&[&debug[..], &wget].concat()).await?;
        wait::until("the container beside it has asked it", PATIENCE, || async {
            let said = self.kubectl(&["logs", pod, "-c", "near"]).await?;
            ensure!(said.trim() == "open", "it says {said:?}");
            Ok(true)
        })
        .await
    }

    /// Neither pods nor what they used are left at home, which was so before, nor elsewhere.
    pub(crate) async fn uninstalls(
        &self,
        placement: Placement,
        before: &BTreeSet<String>,
    ) -> Result<()> {
        let elsewhere = self.elsewhere().await?;
        for kind in ["pod/", "service/", "endpointslice.discovery.k8s.io/", "configmap/"] {
            let is_there = elsewhere.lines().any(|line| line.starts_with(kind));
            ensure!(is_there == (placement != Placement::Home), "elsewhere is {elsewhere}");
        }
        self.helm(&[&["uninstall", NAMESPACE][..], &WAIT].concat()).await.context("helm")?;
        // Helm waits for what it has made itself. Members of etcd that end together take seconds.
        let gone = ["wait", "pod", "--all", "--for=delete", "--timeout=120s"];
        self.kubectl(&gone).await?;
        wait::until("nothing of it is left elsewhere", PATIENCE, || async {
            let left = self.elsewhere().await?;
            ensure!(left.is_empty(), "there is {left}");
            Ok(true)
        })
        .await?;
        self.home.is_as_before(before).await.context("at home")
    }

    /// What the provider has of the release.
    async fn elsewhere(&self) -> Result<String> {
        let all = ["get", KINDS, "-A", "-l", "mercato.dev/contract", "-o", "name"];
        self.provider.kubectl(&all).await?.ok()
    }

    pub(crate) async fn rolled_out(&self, what: &str) -> Result<()> {
        self.kubectl(&["rollout", "status", what, "--timeout=120s"]).await.map(drop)
    }

    /// The pods of a tier that are there.
    pub(crate) async fn pods_of(&self, tier: &str) -> Result<Vec<Value>> {
        let of = format!("{TIER}={tier}");
        let pods = self.kubectl(&["get", "pods", "-l", &of, "-o", "json"]).await?;
        let pods: Value = serde_json::from_str(&pods)?;
        Ok(pods["items"].as_array().context("a list")?.clone())
    }

    /// Where those run that are not ending.
    async fn nodes_of(&self, tier: &str) -> Result<BTreeSet<String>> {
        let pods = self.pods_of(tier).await?;
        let pods = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        Ok(pods.filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned).collect())
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        User::new(self.home, NAMESPACE).kubectl(args).await
    }

    async fn node(&self, args: &[&str]) -> Result<()> {
        self.home.kubectl(args).await?.ok().map(drop)
    }

    async fn helm(&self, args: &[&str]) -> Result<()> {
        let helm = self.home.program_path("helm");
        let args = [&["--namespace", NAMESPACE], args].concat();
        self.home.run(&helm, &args, "").await?.ok().map(drop)
    }
}
