//! The two daemons of the demo, before their clusters.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use mercato_discovery::{Address, Host, Transport};
use mercato_kubelet::guest::stream::{Opened, PeerStreams as _};
use mercato_net::Listen;
use mercato_protocol::kubelet_stream::{self, Ask, Logs, What};
use mercato_protocol::negotiation::State;
use mercato_protocol::workload::Uid;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;

use super::clusters::{Clusters, Place};
use super::tell::Told;
use crate::admin::Request;
use crate::daemon::identity::Identity;
use crate::daemon::{Daemon, Plan};
use crate::driver::Streams;
use crate::kubernetes::site::until;
use crate::telemetry::Metrics;

pub(super) const POD: &str = "web";

/// So that the first bill comes soon.
const METERING_S: u32 = 1;

/// Both daemons, with the clusters behind them.
pub(super) struct Stage {
    pub(super) rome: Daemon,
    pub(super) turin: Daemon,
    pub(super) clusters: Arc<dyn Clusters>,
    dir: TempDir,
}

impl Stage {
    /// Two daemons in a directory that goes with them; rome has turin in its list.
    pub(super) async fn set(clusters: Arc<dyn Clusters>) -> Told<Self> {
        let dir = tempfile::Builder::new().prefix("mercato-demo-").tempdir()?;
        let turin = start(&dir, Place::Away, Vec::new(), &*clusters).await?;
        let address = until("turin listens", async || {
            Ok(turin.driver.net().local_addresses().into_iter().next())
        });
        let rome = start(&dir, Place::Home, vec![address.await?.to_string()], &*clusters).await?;
        let mut lines = Vec::new();
        for daemon in [&rome, &turin] {
            let status = daemon.api.status().await?;
            let listening = status.addresses.first().cloned().unwrap_or_default();
            lines.push(format!("{:<6} {}   {listening}", status.name, status.cluster.short()));
        }
        clusters.prepare().await?;
        Ok((Self { rome, turin, clusters, dir }, lines))
    }

    /// Ends what is going on, and both daemons.
    pub(super) async fn strike(self) -> anyhow::Result<()> {
        let released = self.release().await;
        self.rome.stop().await;
        self.turin.stop().await;
        let path = self.dir.path().to_owned();
        self.dir.close()?;
        if path.exists() {
            bail!("{} is still there", path.display());
        }
        released
    }

    /// Lets the daemons remove what is theirs.
    async fn release(&self) -> anyhow::Result<()> {
        for deal in self.rome.api.deals().await? {
            if !matches!(deal.state, State::Closed | State::Terminated) {
                let cancel = Request::Cancel(deal.id, "the demo is over".parse()?);
                self.rome.api.tell(cancel).await?;
            }
        }
        self.clusters.release().await?;
        until("nothing is left of the lease", async || {
            Ok(self.clusters.is_clean().await?.then_some(()))
        })
        .await
    }

    /// Where the daemons' sockets are.
    pub(super) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The node on which the pod runs, as rome sees it.
    pub(super) async fn running_on(&self) -> anyhow::Result<Option<String>> {
        let pod = self.clusters.pod().await?;
        let running = pod.filter(|pod| pod["status"]["phase"] == "Running");
        Ok(running.and_then(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned())))
    }

    /// As `kubectl logs` would ask for them: from rome's daemon, over the connection.
    pub(super) async fn logs(&self) -> anyhow::Result<Vec<String>> {
        let pod = self.clusters.pod().await?.context("the pod is gone")?;
        let contracts = self.rome.api.deals().await?;
        let contract = contracts.first().context("there is no contract")?.contract();
        let request = kubelet_stream::Request {
            contract,
            namespace: self.clusters.namespace().to_owned(),
            pod: POD.to_owned(),
            uid: Uid(pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()),
            what: What::Logs(Logs { container: POD.to_owned(), ..Logs::default() }),
            upgrade: None,
        };
        let opened = Streams(self.rome.driver.clone()).open(Ask::Open(request)).await?;
        let Opened::Body(mut body) = opened else { bail!("logs are no upgraded connection") };
        let mut text = String::new();
        body.read_to_string(&mut text).await?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

async fn start(
    dir: &TempDir,
    place: Place,
    peers: Vec<String>,
    clusters: &dyn Clusters,
) -> anyhow::Result<Daemon> {
    let name = place.name();
    let data_dir = dir.path().join(name);
    let identity = Identity::open(&data_dir, name)?;
    let mut config = identity.config();
    config.metering_interval_s = METERING_S;
    let host = Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let address = Address { host, port: 0, transport: Transport::Quic };
    let plan = Plan {
        data_dir,
        identity,
        config,
        listen: vec![Listen { address, required: true }],
        public: vec![Ipv4Addr::LOCALHOST.to_string().parse()?],
        peers,
        lan: false,
        dns: None,
        kubernetes: Some(clusters.kubernetes(place)),
        admin_port: None,
        gateway: None,
        health: None,
        metrics: Metrics::new(),
        off: Vec::new(),
        defaults: crate::resources::Defaults::default(),
        restart: None,
    };
    Daemon::start(plan).await
}
