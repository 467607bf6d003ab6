//! A cluster that buys, with pods of it that run elsewhere: one that serves, one that calls it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};
use tokio::time::sleep;

/// The virtual node, and the namespace whose pods run there.
const NODE: &str = "mercato-turin";
const NAMESPACE: &str = "shop";
/// Another, whose pods are made also while the webhook is away with its daemon.
const WAITING: &str = "waiting";
const AWAY: &str = "mercato.dev/DaemonAway";
const TUNNEL: &str = "mercato.dev/TunnelReady";
const TAINT: &str = "mercato.dev/daemon-away";
/// How long what is to come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The room that is bought.
const PODS: usize = 6;
const SERVES: &str =
    "echo served; mkdir /w; echo here > /w/index.html; exec httpd -f -p 8080 -h /w";
const WAITS: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

/// One pod, as it is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    name: String,
    uid: String,
    is_ending: bool,
}

/// A consumer that buys of Turin.
pub(crate) struct Home<'a> {
    daemon: Daemon<'a>,
    provider: &'a Cluster,
    /// What its namespace is called over there.
    guests: String,
}

impl<'a> Home<'a> {
    /// Buys of the provider, and has two pods run there; the daemon has this configuration.
    pub(crate) async fn open(
        cluster: &'a Cluster,
        provider: &Daemon<'a>,
        program: &Path,
        config: &str,
    ) -> Result<Self> {
        let daemon = Daemon::start(cluster, program, config).await?;
        daemon.leases_from(provider, PODS).await?;
        for (namespace, strategy) in [(NAMESPACE, "Remote"), (WAITING, "Both")] {
            cluster.kubectl(&["create", "namespace", namespace]).await?.ok()?;
            daemon.offload(namespace, strategy).await?;
        }
        let this = Self::of(daemon, provider.cluster);
        this.has_pods().await?;
        Ok(this)
    }

    /// One that has lost its pods, with others.
    pub(crate) async fn again(
        cluster: &'a Cluster,
        provider: &Daemon<'a>,
        program: &Path,
    ) -> Result<Self> {
        let this = Self::of(Daemon::attach(cluster, program), provider.cluster);
        this.says_away(false).await?;
        this.user().kubectl(&["delete", "pods", "--all", "--timeout=90s"]).await?;
        this.has_pods().await?;
        Ok(this)
    }

    fn of(daemon: Daemon<'a>, provider: &'a Cluster) -> Self {
        let guests = format!("{NAMESPACE}-{}", daemon.cluster.name());
        Self { daemon, provider, guests }
    }

    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.daemon.cluster
    }

    pub(crate) fn daemon(&self) -> &Daemon<'a> {
        &self.daemon
    }

    fn user(&self) -> User<'a> {
        User::new(self.cluster(), NAMESPACE)
    }

    /// The provider's people, in the guest namespace.
    fn over_there(&self) -> User<'_> {
        User::new(self.provider, &self.guests)
    }

    async fn has_pods(&self) -> Result<()> {
        for (name, script) in [("serves", SERVES), ("calls", WAITS)] {
            self.user().makes(name, &spec(script)).await?;
        }
        for pod in ["pod/serves", "pod/calls"] {
            let ready = ["wait", pod, "--for=condition=Ready", "--timeout=120s"];
            self.user().kubectl(&ready).await?;
        }
        self.guests_meet().await
    }

    fn waiting(&self) -> User<'a> {
        User::new(self.cluster(), WAITING)
    }

    /// Makes one more pod, which may run on a virtual node alone, and waits for nothing.
    pub(crate) async fn starts(&self, name: &str) -> Result<()> {
        let mut spec = spec(WAITS);
        spec["nodeSelector"] = json!({ "type": "virtual-kubelet" });
        spec["tolerations"] = json!([{ "key": "mercato.dev/provider", "operator": "Exists" }]);
        self.waiting().makes(name, &spec).await
    }

    /// The first two pods at home, and their guests at the provider.
    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        let mut all = pods(&self.user()).await?;
        all.extend(pods(&self.over_there()).await?);
        all.retain(|pod| ["serves", "calls"].contains(&&*pod.name));
        Ok(all)
    }

    /// Until so long after the daemon's death the node is ready, the pods are those, and guests call each
    /// other.
    pub(crate) async fn stays(&self, before: &[Pod], gone: Instant, until: Duration) -> Result<()> {
        while gone.elapsed() < until {
            let now = self.pods().await?;
            let after = gone.elapsed();
            ensure!(now == before, "{after:.0?} after the daemon's death: {now:?}, {before:?}");
            ensure!(self.is_ready().await?, "the node is not ready after {after:.0?}");
            self.guests_meet().await?;
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Waits until all pods at home are asked to end, within so long after the daemon's death; when they
    /// were.
    pub(crate) async fn evicts(
        &self,
        before: &[Pod],
        gone: Instant,
        within: Duration,
    ) -> Result<Duration> {
        ensure!(before.iter().all(|pod| !pod.is_ending), "{before:?}");
        wait::until("home evicts", within.saturating_sub(gone.elapsed()), || async {
            let now = pods(&self.user()).await?;
            ensure!(now.iter().all(|pod| pod.is_ending), "{now:?}");
            Ok(true)
        })
        .await?;
        Ok(gone.elapsed())
    }

    /// A command runs in a guest as home asks for it, within so long.
    pub(crate) async fn is_called_again(&self, within: Duration) -> Result<()> {
        let exec = ["--request-timeout=3s", "exec", "calls", "--", "echo", "heard"];
        wait::until("a command runs in a guest", within, || async {
            Ok(self.user().kubectl(&exec).await?.trim() == "heard")
        })
        .await
    }

    /// What a guest has said is read at home.
    pub(crate) async fn says(&self) -> Result<()> {
        let said = self.user().kubectl(&["logs", "serves"]).await?;
        ensure!(said.trim() == "served", "{said:?}");
        Ok(())
    }

    /// Waits until pods of both clusters reach each other.
    pub(crate) async fn has_tunnel(&self) -> Result<()> {
        wait::until("the tunnel is up", PATIENCE, || async {
            let is = condition(&self.node().await?, TUNNEL);
            ensure!(is["status"] == "True", "{is}");
            Ok(true)
        })
        .await
    }

    /// The virtual node's kubelet API is at that machine of the cluster.
    pub(crate) async fn is_at(&self, machine: u8) -> Result<()> {
        let address = self.cluster().machine(machine).address().to_string();
        let node = self.node().await?;
        let at = &node["status"]["addresses"][0]["address"];
        ensure!(*at == address, "it is at {at}, and not {address}");
        Ok(())
    }

    /// The one calls the other, over there.
    async fn guests_meet(&self) -> Result<()> {
        let guests = self.over_there();
        let address = guests.address_of("serves").await?;
        let url = format!("http://{address}:8080/");
        let call = ["exec", "calls", "--", "timeout", "5", "wget", "-q", "-O", "-", &url];
        let said = guests.kubectl(&call).await?;
        ensure!(said.trim() == "here", "{said:?}");
        Ok(())
    }

    /// Waits until the virtual node says that its daemon is away, or that it is not; new pods wait for so
    /// long.
    pub(crate) async fn says_away(&self, is_away: bool) -> Result<()> {
        let wanted = if is_away { "True" } else { "False" };
        wait::until(&format!("{AWAY} is {wanted}"), PATIENCE, || async {
            let node = self.node().await?;
            let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let is_tainted = taints.iter().any(|taint| taint["key"] == TAINT);
            let is = condition(&node, AWAY);
            ensure!(is["status"] == wanted && is_tainted == is_away, "{is}, {taints:?}");
            Ok(true)
        })
        .await
    }

    /// The provider takes back what was sold; when that ends, in milliseconds since 1970, as home's node
    /// says by then.
    pub(crate) async fn is_taken_back(&self, provider: &Daemon<'_>, notice: &str) -> Result<i64> {
        let contracts = self.daemon.json(&["contracts", "list"]).await?;
        let id = contracts[0]["id"].as_str().context("a contract")?;
        let before = self.ends_ms().await?;
        provider.mercato(&["reclaim", id, "--notice", notice, "--yes"]).await?.ok()?;
        wait::until("the node says when it ends", PATIENCE, || async {
            Ok(self.ends_ms().await? < before)
        })
        .await?;
        self.ends_ms().await
    }

    async fn ends_ms(&self) -> Result<i64> {
        let node = self.node().await?;
        let said = node["metadata"]["annotations"]["mercato.dev/not-after"].as_str();
        moment(said.context("the node says when it ends")?)
    }

    /// When the node's Lease was renewed last, in milliseconds since 1970.
    pub(crate) async fn renewed_ms(&self) -> Result<i64> {
        let lease = ["-n", "kube-node-lease", "get", "lease", NODE, "-o"];
        let get = [&lease[..], &["jsonpath={.spec.renewTime}"]].concat();
        moment(&self.cluster().kubectl(&get).await?.ok()?)
    }

    pub(crate) async fn has_no_node(&self) -> Result<()> {
        wait::until("the node is gone", PATIENCE, || async {
            let nodes = self.cluster().kubectl(&["get", "nodes", "-o", "name"]).await?.ok()?;
            ensure!(!nodes.contains(NODE), "{nodes}");
            Ok(true)
        })
        .await
    }

    pub(crate) async fn is_ready(&self) -> Result<bool> {
        Ok(condition(&self.node().await?, "Ready")["status"] == "True")
    }

    /// Both that keep the node would tell of it: one does.
    pub(crate) async fn has_one_event(&self) -> Result<()> {
        let select = format!("--field-selector=involvedObject.name={NODE},reason=DaemonAway");
        let get = ["-n", "default", "get", "events", &select, "-o", "json"];
        let events: Value = serde_json::from_str(&self.cluster().kubectl(&get).await?.ok()?)?;
        let events = events["items"].as_array().context("a list")?;
        ensure!(events.len() == 1 && events[0]["count"] == 1, "{events:?}");
        Ok(())
    }

    pub(crate) async fn has_node(&self, pod: &str) -> Result<bool> {
        let node = ["get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"];
        Ok(!self.waiting().kubectl(&node).await?.is_empty())
    }

    pub(crate) async fn is_bound(&self, pod: &str) -> Result<()> {
        wait::until(&format!("{pod} is bound"), PATIENCE, || self.has_node(pod)).await
    }

    async fn node(&self) -> Result<Value> {
        let node = self.cluster().kubectl(&["get", "node", NODE, "-o", "json"]).await?.ok()?;
        Ok(serde_json::from_str(&node)?)
    }
}

fn condition(node: &Value, kind: &str) -> Value {
    let all = node["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}

/// Milliseconds since 1970 of a moment as an API server writes it.
fn moment(text: &str) -> Result<i64> {
    let at: MicroTime = serde_json::from_value(text.into()).with_context(|| text.to_owned())?;
    Ok(at.0.as_millisecond())
}

async fn pods(user: &User<'_>) -> Result<Vec<Pod>> {
    let all: Value = serde_json::from_str(&user.kubectl(&["get", "pods", "-o", "json"]).await?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pod = |pod: &Value| Pod {
        name: text(&pod["metadata"]["name"]),
        uid: text(&pod["metadata"]["uid"]),
        is_ending: !pod["metadata"]["deletionTimestamp"].is_null(),
    };
    Ok(all["items"].as_array().context("a list")?.iter().map(pod).collect())
}

/// A pod that tolerates a node that is gone for 15 s.
fn spec(script: &str) -> Value {
    let gone = |key: &str| {
        json!({ "key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 15 })
    };
    json!({
        "terminationGracePeriodSeconds": 5,
        "tolerations": [gone("not-ready"), gone("unreachable")],
        "containers": [{
            "name": "main", "image": "mercato.test/busybox:1", "command": ["sh", "-c", script],
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
        }],
    })
}
