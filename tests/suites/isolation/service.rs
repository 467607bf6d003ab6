//! A Service of home that guests call by its address at home, and one that is none of theirs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::found::{Found, Targets};
use super::names;
use super::{GUESTS, LOCAL, NAMESPACE, NODE};

/// The pod of home's that is behind the one, and what that is called.
const NEAR: &str = "near";
/// The same of the provider's own.
const OTHER: &str = "neighbour-1";
/// How long what changes takes to be so everywhere, at most: far more than it does.
const SOON: Duration = Duration::from_secs(30);
/// Guests that are made, at most, until there is one on each node.
const CALLERS: usize = 8;

/// A Service in front of home's pod.
pub(crate) struct Service<'a> {
    home: &'a Cluster,
    provider: &'a Cluster,
    /// By its address at home, by which guests call it.
    own: Targets,
    own_address: IpAddr,
    /// By that over there, which they do not know.
    there: Targets,
    address_there: IpAddr,
    /// One of the provider's own, in front of a pod that its neighbours reach.
    other: Targets,
    /// A guest on each node, in the order of these.
    callers: Vec<String>,
}

impl<'a> Service<'a> {
    /// Makes both, and guests who call.
    pub(crate) async fn open(
        home: &'a Cluster,
        provider: &'a Cluster,
        targets: &Targets,
    ) -> Result<Self> {
        make(home, NAMESPACE, NEAR, None).await?;
        make(provider, LOCAL, OTHER, None).await?;
        wait::until("the Service has an endpoint over there", SOON, || async {
            let label = format!("kubernetes.io/service-name={NEAR}");
            let slices = ["-n", GUESTS, "get", "endpointslices", "-l", &label, "-o", "json"];
            let slices: Value = serde_json::from_str(&provider.kubectl(&slices).await?.ok()?)?;
            Ok(slices["items"][0]["endpoints"][0]["conditions"]["ready"] == true)
        })
        .await?;
        let own_address = address(home, NAMESPACE, NEAR).await?;
        let address_there = address(provider, GUESTS, NEAR).await?;
        let [own, there] = [own_address, address_there].map(|address| targets.only(address));
        let other = targets.only(address(provider, LOCAL, OTHER).await?);
        let callers = callers(home, provider).await?;
        let this = Self { home, provider, own, own_address, there, address_there, other, callers };
        this.is_called_there(&this.other).await?;
        Ok(this)
    }

    /// Guests call the one, and not the other.
    pub(crate) async fn is_called_alone(&self) -> Result<()> {
        let user = User::new(self.home, NAMESPACE);
        for guest in &self.callers {
            wait::until(&format!("{guest} calls the Service"), SOON, || async {
                Ok(Found::again(&user, guest, &self.own).await? == self.own.all())
            })
            .await?;
            let other = Found::again(&user, guest, &self.other).await?;
            ensure!(other == Found::default(), "{guest} calls turin's Service: {other:?}");
        }
        Ok(())
    }

    /// Guests of both nodes find it by its names and nothing else, and that of the second one while the
    /// provider's daemon is away, too.
    pub(crate) async fn is_found_by_name(&self, provider: &Daemon<'_>) -> Result<()> {
        let user = User::new(self.home, NAMESPACE);
        self.names_are_found().await?;
        for guest in &self.callers {
            names::lead_there(&user, guest).await?;
        }
        let far = self.callers.last().context("there are none")?;
        names::outlive(provider, far, self.own_address).await.context("without the daemon")
    }

    /// Guests of both nodes find it by its names, and no other.
    pub(crate) async fn names_are_found(&self) -> Result<()> {
        let user = User::new(self.home, NAMESPACE);
        for guest in &self.callers {
            names::are_home_alone(&user, guest, self.own_address).await.context(guest.clone())?;
        }
        Ok(())
    }

    /// A guest that calls it.
    pub(crate) fn caller(&self) -> Result<&str> {
        self.callers().next().context("no guest calls the Service")
    }

    /// The guests that call it: one on each node, in their order.
    pub(crate) fn callers(&self) -> impl Iterator<Item = &str> {
        self.callers.iter().map(String::as_str)
    }

    /// With the Service its addresses go: another one of turin's that gets it is not called by either.
    pub(crate) async fn closes(&self) -> Result<()> {
        self.is_called_alone().await.context("after all have started again")?;
        User::new(self.home, NAMESPACE).kubectl(&["delete", "service", NEAR]).await?;
        wait::until("the Service is gone over there", SOON, || async {
            let there = ["-n", GUESTS, "get", "services", "-o", "name"];
            Ok(!self.provider.kubectl(&there).await?.ok()?.contains(NEAR))
        })
        .await?;
        make(self.provider, LOCAL, OTHER, Some(self.address_there)).await?;
        self.is_called_there(&self.there).await?;
        self.calls_no_heir().await?;
        // Until then the node's rules have been enough; from then on the guests' own are.
        for number in [1, 2] {
            self.provider.on_nth_machine(number, "nft delete table ip mercato").await?;
        }
        self.calls_no_heir().await.context("without the rules of the nodes")
    }

    async fn calls_no_heir(&self) -> Result<()> {
        let user = User::new(self.home, NAMESPACE);
        for guest in &self.callers {
            for address in [&self.own, &self.there] {
                let found = Found::again(&user, guest, address).await?;
                ensure!(found == Found::default(), "{guest} calls whoever has got it: {found:?}");
            }
        }
        Ok(())
    }

    /// Waits until the provider's own pods reach them.
    async fn is_called_there(&self, targets: &Targets) -> Result<()> {
        let user = User::new(self.provider, LOCAL);
        wait::until("a pod of turin's own calls turin's Service", SOON, || async {
            Ok(Found::again(&user, "scout", targets).await? == targets.all())
        })
        .await
    }
}

/// Makes guests until there is one on each of the two nodes.
async fn callers(home: &Cluster, provider: &Cluster) -> Result<Vec<String>> {
    let user = User::new(home, NAMESPACE).on(NODE);
    let mut callers = BTreeMap::new();
    for number in 1..=CALLERS {
        let name = format!("caller-{number}");
        user.start(&name, "sleep 36000", &[]).await?;
        let pod = format!("pod/{name}");
        user.kubectl(&["wait", &pod, "--for=condition=Ready", "--timeout=120s"]).await?;
        let there = ["get", "pod", &name, "-o", "jsonpath={.spec.nodeName}"];
        callers.insert(User::new(provider, GUESTS).kubectl(&there).await?, name);
        if callers.len() == 2 {
            return Ok(callers.into_values().collect());
        }
    }
    anyhow::bail!("all guests are on {callers:?}")
}

/// In front of the pod of its name, of whichever address.
async fn make(cluster: &Cluster, namespace: &str, pod: &str, at: Option<IpAddr>) -> Result<()> {
    let name = if at.is_some() { "heir" } else { pod };
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "run": pod }, "clusterIP": at,
            "ports": [{ "port": courier::PORT }] } });
    cluster.apply(&service.to_string()).await
}

async fn address(cluster: &Cluster, namespace: &str, name: &str) -> Result<IpAddr> {
    let get = ["-n", namespace, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}"];
    let said = cluster.kubectl(&get).await?.ok()?;
    said.trim().parse().with_context(|| format!("{name} has the address {said:?}"))
}
