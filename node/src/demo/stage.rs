//! The two daemons of the demo, and the clusters that they believe in.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mercato_cluster_model::{Key, Script};
use mercato_config::FromText as _;
use mercato_discovery::{Address, Host, Transport};
use mercato_kubelet::names;
use mercato_kubelet::stream::{Opened, PeerStreams as _};
use mercato_net::Listen;
use mercato_protocol::resources::Resources;
use mercato_protocol::stream::{Ask, Logs, Request, What};
use mercato_protocol::workload::Uid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep};

use super::Told;
use crate::daemon::identity::Identity;
use crate::daemon::{Daemon, Plan};
use crate::kubernetes::simulated::Simulated;
use crate::kubernetes::streams::Streams;
use crate::telemetry::Metrics;

pub(super) const NAMESPACE: &str = "shop";
pub(super) const POD: &str = "web";
pub(super) const IMAGE: &str = "shop/web:1";

/// A condition of the story that does not come true: a guess, far above what each takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(20);
/// So that the first bill comes soon.
const METERING_S: u32 = 1;

/// All that there is.
pub(super) struct Stage {
    pub(super) rome: Daemon,
    pub(super) turin: Daemon,
    home: Simulated,
    away: Simulated,
    dir: TempDir,
}

impl Stage {
    /// Two daemons in a directory that goes with them; rome has turin in its list.
    pub(super) async fn set() -> Told<Self> {
        let dir = tempfile::Builder::new().prefix("mercato-demo-").tempdir()?;
        let size = Resources::from_text("cpu=8,memory=16Gi,pods=110")?;
        let home = Simulated::start("rome", Resources::from_text("cpu=1,memory=2Gi,pods=20")?);
        let away = Simulated::start("turin", size);
        let lines =
            ["listening on :8080", "GET / 200", "GET /cart 200"].map(str::to_owned).to_vec();
        away.script(IMAGE, Script { lines, ..Script::default() });
        let turin = start(&dir, "turin", Vec::new(), &away).await?;
        let address = until("turin listens", async || {
            Ok(turin.driver.net().local_addresses().into_iter().next())
        });
        let rome = start(&dir, "rome", vec![address.await?.to_string()], &home).await?;
        let mut lines = Vec::new();
        for daemon in [&rome, &turin] {
            let status = daemon.desk.status().await?;
            let listening = status.addresses.first().cloned().unwrap_or_default();
            lines.push(format!("{:<6} {}   {listening}", status.name, status.cluster.short()));
        }
        Ok((Self { rome, turin, home, away, dir }, lines))
    }

    /// Ends both daemons; what is left is an error.
    pub(super) async fn strike(self) -> Told<()> {
        self.rome.stop().await;
        self.turin.stop().await;
        let path = self.dir.path().to_owned();
        self.dir.close()?;
        if path.exists() {
            bail!("{} is still there", path.display());
        }
        Ok(((), Vec::new()))
    }

    /// Where the daemons' sockets are.
    pub(super) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(super) fn start_pod(&self) -> anyhow::Result<()> {
        let limits = json!({ "cpu": "500m", "memory": "256Mi" });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": NAMESPACE, "name": POD, "labels": { "app": POD } },
            "spec": {
                "containers": [{ "name": POD, "image": IMAGE,
                    "resources": { "requests": limits, "limits": limits } }],
                "nodeSelector": { "type": "virtual-kubelet" },
                "terminationGracePeriodSeconds": 5,
            },
        });
        self.home.change(|cluster, now| cluster.create(now, pod))?;
        Ok(())
    }

    fn pod(&self) -> Option<Value> {
        let key = Key::new("Pod", NAMESPACE, POD);
        self.home.look(|cluster| cluster.get(&key).cloned())
    }

    /// The node on which the pod runs, as rome sees it.
    pub(super) fn running_on(&self) -> Option<String> {
        let pod = self.pod().filter(|pod| pod["status"]["phase"] == "Running")?;
        Some(pod["spec"]["nodeName"].as_str()?.to_owned())
    }

    pub(super) fn guest_namespaces(&self) -> Vec<String> {
        let all = self.away.look(|cluster| cluster.list("Namespace").1);
        let ours = all.iter().filter(|one| !one["metadata"]["labels"][names::CONTRACT].is_null());
        ours.filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned())).collect()
    }

    /// As `kubectl logs` would ask for them: from rome's daemon, over the connection.
    pub(super) async fn logs(&self) -> anyhow::Result<Vec<String>> {
        let pod = self.pod().context("the pod is gone")?;
        let contracts = self.rome.desk.deals().await?;
        let contract = contracts.first().context("there is no contract")?.id;
        let request = Request {
            contract,
            namespace: NAMESPACE.to_owned(),
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

    /// Neither a node nor a pod at home, nor anything in the provider's cluster.
    pub(super) fn is_clean(&self) -> bool {
        let count = |cluster: &Simulated, kind| cluster.look(|cluster| cluster.list(kind).1.len());
        count(&self.home, "Node") == 1
            && count(&self.home, "Pod") == 0
            && count(&self.away, "Pod") == 0
            && self.guest_namespaces().is_empty()
    }
}

async fn start(
    dir: &TempDir,
    name: &str,
    peers: Vec<String>,
    cluster: &Simulated,
) -> anyhow::Result<Daemon> {
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
        peers,
        lan: false,
        kubernetes: Some(Arc::new(cluster.clone())),
        health: None,
        metrics: Metrics::new(),
        off: Vec::new(),
        defaults: crate::resources::Defaults::default(),
    };
    Daemon::start(plan).await
}

/// Waits for something of the story to come true.
pub(super) async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("{what}: not within {} s", PATIENCE.as_secs());
        }
        sleep(LOOK).await;
    }
}
