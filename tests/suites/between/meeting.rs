//! Pods at home and at two providers, behind one Service.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{Carried, Sender};
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

/// Offloaded, with the Service in it,
pub(crate) const NAMESPACE: &str = "shop";
/// and what stands for it at each provider.
const GUESTS: &str = "shop-rome";
/// Where pods are: in rome, turin and milan.
const NODES: [&str; 3] = ["rome-1", "mercato-turin", "mercato-milan"];
/// Who serves by every protocol in each of these.
const COURIERS: [&str; 3] = ["courier-rome", "courier-turin", "courier-milan"];
/// Who answers behind the Service, and asks.
const WEB: [&str; 3] = ["web-rome", "web-turin", "web-milan"];
const MILAN: usize = 2;
/// Answers with the pod's name, and ends when it is told to.
const SERVES: &str = "mkdir /w; hostname > /w/index.html; trap 'exit 0' TERM; \
    httpd -f -p 8080 -h /w & wait";
const MARKER: &str = "from-one-provider-to-another";
const BYTES: u64 = 5_000_000;
const DATAGRAMS: u64 = 40;
const REQUESTS: usize = 90;
/// So many that each of three would answer one, but for once in thousands.
const FEW: usize = 24;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Meeting<'a> {
    daemon: &'a Daemon<'a>,
    /// Rome, which is home, turin and milan.
    clusters: [&'a Cluster; 3],
    user: User<'a>,
}

impl<'a> Meeting<'a> {
    /// The Service, and pods at home and in turin.
    pub(crate) async fn open(
        daemon: &'a Daemon<'a>,
        turin: &'a Cluster,
        milan: &'a Cluster,
    ) -> Result<Self> {
        let home = daemon.cluster;
        let this =
            Self { daemon, clusters: [home, turin, milan], user: User::new(home, NAMESPACE) };
        let service = json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "namespace": NAMESPACE },
            "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] } });
        home.apply(&service.to_string()).await?;
        futures::try_join!(this.run(0), this.run(1))?;
        Ok(this)
    }

    async fn run(&self, at: usize) -> Result<()> {
        let there = self.user.on(NODES[at]);
        there.start(WEB[at], SERVES, &["--labels=app=web"]).await?;
        there.serves(COURIERS[at]).await?;
        let web = format!("pod/{}", WEB[at]);
        let ready = ["wait", &web, "--for=condition=Ready", "--timeout=120s"];
        self.user.kubectl(&ready).await?;
        self.user.address_of(WEB[at]).await.map(drop)
    }

    pub(crate) async fn comes_to_milan(&self) -> Result<()> {
        self.run(MILAN).await
    }

    /// Each to each by every protocol, and each is known by the address that home has for it.
    pub(crate) async fn is_called_by_address(&self) -> Result<()> {
        let [turin, milan] = [self.address_of(1).await?, self.address_of(MILAN).await?];
        for (from, own, to) in [(1, turin, milan), (MILAN, milan, turin)] {
            self.meets(COURIERS[from], to).await?;
            let sender = Sender::Pod(self.user, COURIERS[from]);
            let seen = carried(sender, to).await;
            let seen = seen.with_context(|| format!("{} to {to}", COURIERS[from]))?;
            ensure!(seen == own, "{}, which is {own} at home, is seen as {seen}", COURIERS[from]);
        }
        for at in [1, MILAN] {
            let neighbour = self.user.address_of(WEB[at]).await?;
            self.meets(COURIERS[at], neighbour).await.context("at one provider, as ever")?;
        }
        for to in [turin, milan] {
            carried(Sender::Pod(self.user, COURIERS[0]), to).await.context("from home")?;
        }
        Ok(())
    }

    /// By the Service's address on its own side each has answers of all pods.
    pub(crate) async fn is_called_by_service(&self) -> Result<()> {
        for (at, caller) in WEB.into_iter().enumerate() {
            let address = self.service(at).await?;
            wait::until(&format!("{caller} has answers of all"), PATIENCE, || async {
                let answers = self.called(caller, &address, REQUESTS).await?;
                let has_few =
                    |pod: &&str| answers.get(*pod).copied().unwrap_or_default() < REQUESTS / 9;
                let all: usize = answers.values().sum();
                ensure!(!WEB.iter().any(has_few) && all == REQUESTS, "it had {answers:?}");
                Ok(true)
            })
            .await?;
        }
        Ok(())
    }

    /// Guests of turin and milan call what another namespace opens, as far as it is open to them.
    pub(crate) async fn calls_what_is_open(&self) -> Result<()> {
        let guests = [1, MILAN].map(|at| (COURIERS[at], self.clusters[at]));
        super::open::is_called_from_where_it_says(self.daemon, self.user, guests).await
    }

    /// Milan and home do not reach each other, and turin reaches both, but milan's guests at home
    /// alone.
    pub(crate) async fn does_without_milan(&self) -> Result<()> {
        let milan = self.address_of(MILAN).await?;
        self.set_apart(true)?;
        let cut = self.is_done_without(milan).await;
        self.set_apart(false)?;
        cut?;
        self.meets(COURIERS[1], milan).await?;
        self.is_called_by_service().await.context("once the link is back")
    }

    async fn is_done_without(&self, milan: IpAddr) -> Result<()> {
        let turin = self.address_of(1).await?;
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}";
        wait::until("home knows that milan is away", PATIENCE, || async {
            let said = self.user.kubectl(&["get", "pod", WEB[MILAN], "-o", ready]).await?;
            Ok(said == "PeerUnreachable")
        })
        .await?;
        for (at, caller) in WEB.into_iter().enumerate().take(MILAN) {
            let address = self.service(at).await?;
            wait::until(&format!("{caller} does without milan"), PATIENCE, || async {
                let answers = self.called(caller, &address, FEW).await?;
                let names: Vec<&str> = answers.keys().map(String::as_str).collect();
                ensure!(names == [WEB[0], WEB[1]], "it had {answers:?}");
                Ok(true)
            })
            .await?;
        }
        carried(Sender::Pod(self.user, COURIERS[0]), turin).await.context("home to turin")?;
        let answered = Sender::Pod(self.user, COURIERS[1]).ping(milan, 1).await?;
        ensure!(answered == 0, "turin reaches milan by another way than home");
        Ok(())
    }

    /// Its guests end with it, and nobody is led to where they were.
    pub(crate) async fn ends_in_milan(&self) -> Result<()> {
        let milan = self.address_of(MILAN).await?;
        let turin = self.clusters[1];
        let before = said(turin, &["ip", "route", "show", "table", "7475"]).await?;
        let contracts = self.daemon.json(&["contracts", "list"]).await?;
        let contracts = contracts.as_array().context("a list")?;
        let of_milan = contracts.iter().find(|contract| contract.to_string().contains("milan"));
        let of_milan = of_milan.with_context(|| format!("none of milan in {contracts:?}"))?;
        let id = of_milan["id"].as_str().context("no id")?;
        let cancel = ["contracts", "cancel", id, "--reason", "done", "--yes"];
        self.daemon.mercato(&cancel).await?.ok()?;
        // Their end comes with the lease, or before.
        let pods = ["delete", "pod", WEB[MILAN], COURIERS[MILAN], "--wait=false"];
        self.user.kubectl(&[&pods[..], &["--ignore-not-found"]].concat()).await?;
        wait::until("turin has fewer ranges", PATIENCE, || async {
            let now = said(turin, &["ip", "route", "show", "table", "7475"]).await?;
            ensure!(now.lines().count() < before.lines().count(), "{now}, and before {before}");
            Ok(true)
        })
        .await?;
        let address = self.service(1).await?;
        wait::until("turin calls nobody in milan", PATIENCE, || async {
            let answers = self.called(WEB[1], &address, FEW).await?;
            let names: Vec<&str> = answers.keys().map(String::as_str).collect();
            ensure!(names == [WEB[0], WEB[1]], "it had {answers:?}");
            Ok(true)
        })
        .await?;
        let answered = Sender::Pod(self.user, COURIERS[1]).ping(milan, 1).await?;
        ensure!(answered == 0, "somebody answers at {milan}");
        let turin = self.address_of(1).await?;
        carried(Sender::Pod(self.user, COURIERS[0]), turin).await.context("home to turin")?;
        Ok(())
    }

    async fn address_of(&self, at: usize) -> Result<IpAddr> {
        self.user.address_of(COURIERS[at]).await
    }

    /// Waits until one is answered by the other.
    async fn meets(&self, from: &str, to: IpAddr) -> Result<()> {
        wait::until(&format!("{to} answers {from}"), PATIENCE, || async {
            Ok(Sender::Pod(self.user, from).ping(to, 1).await? == 1)
        })
        .await
    }

    fn set_apart(&self, apart: bool) -> Result<()> {
        let [home, _, milan] = self.clusters;
        home.set_apart(apart)?;
        milan.set_apart(apart)
    }

    /// The address of the Service in one of the clusters.
    async fn service(&self, at: usize) -> Result<String> {
        let namespace = if at == 0 { NAMESPACE } else { GUESTS };
        let get = ["-n", namespace, "get", "service", "web", "-o", "json"];
        let service: Value = serde_json::from_str(&self.clusters[at].kubectl(&get).await?.ok()?)?;
        Ok(service["spec"]["clusterIP"].as_str().context("no address")?.to_owned())
    }

    /// Who has answered how often at port 80.
    async fn called(
        &self,
        caller: &str,
        address: &str,
        times: usize,
    ) -> Result<BTreeMap<String, usize>> {
        let script = format!(
            "for i in $(seq {times}); do \
             printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 2 {address} 80 | \
             busybox tail -n 1 | busybox grep . || echo lost; done"
        );
        let said = self.user.kubectl(&["exec", caller, "--", "sh", "-c", &script]).await?;
        let mut counts = BTreeMap::new();
        for line in said.lines() {
            *counts.entry(line.trim().to_owned()).or_default() += 1;
        }
        Ok(counts)
    }
}

/// What a program says on a cluster's machine.
async fn said(cluster: &Cluster, words: &[&str]) -> Result<String> {
    let output = cluster.command(words[0])?.args(&words[1..]).output().await?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// By everything; gives as whom the other end has seen the sender.
async fn carried(from: Sender<'_>, to: IpAddr) -> Result<IpAddr> {
    let tcp = from.tcp(to, BYTES, MARKER).await?;
    let seen_as = tcp.seen_as;
    ensure!(tcp == Carried { there: BYTES, back: BYTES, ..tcp }, "by TCP {tcp:?}");
    let udp = from.udp(to, DATAGRAMS, MARKER).await?;
    ensure!(udp == Carried { there: DATAGRAMS, back: DATAGRAMS, seen_as, ..udp }, "by UDP {udp:?}");
    Ok(seen_as)
}
