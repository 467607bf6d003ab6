//! Two clusters with a contract between them, and pods of one that run on the other.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::suite::Stage;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::Value;

/// How long both sides may take to agree again once nothing is broken any more. Kubernetes' own
/// controllers come back to an API server that was away for a minute only after a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The virtual node in Rome.
pub(crate) const NODE: &str = "mercato-turin";
/// The namespace that is offloaded,
pub(crate) const HOME: &str = "shop";
/// and what stands for it in Turin.
pub(crate) const GUEST: &str = "shop-rome";

const SHARE: &str = "share set --cpu 1500m --memory 4Gi --pods 100 --price free --approve auto \
                     --network-isolation none";
const ORDER: &str = "order --cpu 1 --memory 2Gi --pods 80 --for 12h --wait --timeout 60s";

/// Rome and Turin, with their daemons.
pub(crate) struct Pair<'a> {
    pub(crate) home: Daemon<'a>,
    pub(crate) provider: Daemon<'a>,
    pub(crate) contract: String,
}

impl<'a> Pair<'a> {
    /// The pair that the test before has left, or a new one.
    pub(crate) async fn open(stage: &'a Stage) -> Result<Self> {
        let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
        let program = stage.program("mercato")?;
        let (home, provider) = if Daemon::runs(rome)? {
            (Daemon::attach(rome, &program), Daemon::attach(turin, &program))
        } else {
            // A configuration that may be replaced later.
            (
                Daemon::start(rome, &program, "{}").await?,
                Daemon::start(turin, &program, "{}").await?,
            )
        };
        let mut this = Self { home, provider, contract: String::new() };
        this.contract = match this.active().await? {
            Some(contract) => contract,
            None => this.buy().await.context("buy")?,
        };
        Ok(this)
    }

    async fn buy(&self) -> Result<String> {
        let words = |line: &'static str| line.split_whitespace().collect::<Vec<_>>();
        let namespaces = self.rome().kubectl(&["get", "namespace", HOME]).await?;
        if namespaces.code != Some(0) {
            self.rome().kubectl(&["create", "namespace", HOME]).await?.ok()?;
        }
        self.provider.mercato(&words(SHARE)).await?.ok()?;
        self.home.sees_offer_of("turin").await?;
        self.home.mercato(&["peer", "trust", "turin", "--yes"]).await?.ok()?;
        // What a contract before this one had is on sale again with the next offer.
        wait::until("the order comes to a contract", PATIENCE, || async {
            self.home.mercato(&words(ORDER)).await?.ok()?;
            Ok(true)
        })
        .await?;
        self.home.offload(HOME, "Remote").await?;
        self.active().await?.context("the order has come to a contract")
    }

    async fn active(&self) -> Result<Option<String>> {
        let all = self.home.json(&["contracts"]).await?;
        let all = all.as_array().context("a list")?;
        let active = all.iter().find(|contract| contract["state"] == "active");
        Ok(active.and_then(|contract| contract["id"].as_str()).map(str::to_owned))
    }

    pub(crate) fn rome(&self) -> &'a Cluster {
        self.home.cluster
    }

    pub(crate) fn turin(&self) -> &'a Cluster {
        self.provider.cluster
    }

    /// Somebody with pods in the offloaded namespace.
    pub(crate) fn shop(&self) -> User<'a> {
        User::new(self.rome(), HOME)
    }

    /// The provider's people, in the guest namespace.
    pub(crate) fn guests(&self) -> User<'a> {
        User::new(self.turin(), GUEST)
    }

    /// The status of a condition of the virtual node: `True`, `False`, `Unknown`.
    pub(crate) async fn node(&self, condition: &str) -> Result<String> {
        let path = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")].status}}");
        self.rome().kubectl(&["get", "node", NODE, "-o", &path]).await?.ok()
    }

    /// Waits until the virtual node is ready, and its peer reachable or not.
    pub(crate) async fn peer_is(&self, reachable: bool) -> Result<()> {
        let wanted = if reachable { "True" } else { "False" };
        wait::until(&format!("PeerReachable is {wanted}"), PATIENCE, || async {
            let (ready, is) = (self.node("Ready").await?, self.node("PeerReachable").await?);
            ensure!(ready == "True" && is == wanted, "Ready {ready}, PeerReachable {is}");
            Ok(true)
        })
        .await
    }
}

/// The items of a list that kubectl prints.
pub(crate) async fn items(user: &User<'_>, kind: &str) -> Result<Vec<Value>> {
    let all: Value = serde_json::from_str(&user.kubectl(&["get", kind, "-o", "json"]).await?)?;
    Ok(all["items"].as_array().context("a list")?.clone())
}
