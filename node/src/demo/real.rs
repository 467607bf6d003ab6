//! The demo on two real clusters. Nothing is begun where something could not be ended, and
//! nothing of it is left, whatever happens: what the daemons do not remove is found by
//! their labels, since there was none of theirs before.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::try_join;
use mercato_config::gateway::Nodes;
use mercato_config::settings::{self, Offload};
use mercato_kubelet::{Cluster, names, rights};
use serde_json::{Value, json};

use super::clusters::{Asked, Clusters, Place, pod};
use super::stage::POD;
use crate::admin::{Class, Problem};
use crate::kubernetes::Kubernetes;
use crate::kubernetes::real::{Certificates, Real};
use crate::kubernetes::site::{Site, until};
use crate::telemetry::Metrics;

/// What the pod runs unless another image is named: small, and has a shell.
pub(crate) const IMAGE: &str = "docker.io/library/busybox:1.37";
/// Says the same as the simulated one.
const SCRIPT: &str = "echo listening on :8080; echo GET / 200; echo GET /cart 200; sleep 3600";
/// So many of the things that are in the way are named.
const NAMED: usize = 10;
/// For a sign of a daemon, as long as its Lease promises one.
const SIGN: Duration = mercato_kubelet::limits::DAEMON_LEASE;
/// For an API server to answer at the beginning.
const ANSWER: Duration = Duration::from_secs(10);

/// Two clusters that others use, too.
pub(super) struct Pair {
    home: Side,
    away: Side,
    namespace: String,
    image: String,
}

struct Side {
    site: Site,
    kubernetes: Arc<Real>,
    /// Certificate requests that an earlier daemon has left.
    others: Vec<String>,
}

impl Pair {
    /// Looks whether the story can be played there, and changes nothing.
    pub(super) async fn find(files: [PathBuf; 2], image: String) -> anyhow::Result<Self> {
        let [home, away] = files;
        let (home, away) =
            try_join(Side::find(Place::Home, home), Side::find(Place::Away, away)).await?;
        if home.site.id().await? == away.site.id().await? {
            return Err(Problem::new(Class::Usage, "both kubeconfigs lead to the same cluster")
                .todo("name two: mercato demo --kubeconfig A --kubeconfig B")
                .into());
        }
        let suffix: u32 = rand::random();
        Ok(Self { home, away, namespace: format!("mercato-demo-{suffix:08x}"), image })
    }
}

impl Side {
    async fn find(place: Place, file: PathBuf) -> anyhow::Result<Self> {
        let settings = settings::Kubernetes {
            kubeconfig: Some(file.clone()),
            offload: Offload::Chosen,
            ..settings::Kubernetes::default()
        };
        let name = format!("{} ({})", place.name(), file.display());
        let site = Site::open(name.clone(), &settings).await?;
        let late = |_| Problem::failed(format!("{name} does not answer"));
        tokio::time::timeout(ANSWER, site.answers()).await.map_err(late)??;
        may_all(&site).await?;
        is_unused(&site, &name, SIGN).await?;
        let certificates = Certificates::approved_here();
        let kubernetes =
            Real::start(&settings, Nodes::default(), Metrics::new(), certificates).await?;
        let others = site.requests().await?;
        Ok(Self { site, kubernetes: Arc::new(kubernetes), others })
    }
}

/// Whether nobody trades for the cluster already: its daemon and that of the demo would each remove what
/// the other makes, and buy what is ordered here.
async fn is_unused(site: &Site, name: &str, sign: Duration) -> Result<(), Problem> {
    let mut ours = site.ours().await?;
    ours.extend(site.resources().await?);
    if !ours.is_empty() {
        let what = format!("{name} has things of Mercato already, which a demo would disturb");
        let more = ours.len().saturating_sub(NAMED);
        let named = ours.into_iter().take(NAMED).fold(Problem::failed(what), Problem::todo);
        let named = if more == 0 { named } else { named.todo(format!("and {more} more")) };
        return Err(named
            .todo("where Mercato runs there, use another cluster")
            .todo("if a demo was killed, or Mercato was uninstalled: kubectl delete them"));
    }
    match site.sign_of_life(sign).await? {
        Some(sign) => {
            let what =
                format!("a daemon of {name} runs, which a demo would disturb: it {}", sign.does);
            let problem =
                Problem::failed(what).todo("use another cluster, or end that daemon first");
            Err(sign.dead.into_iter().fold(problem, Problem::todo))
        }
        None => Ok(()),
    }
}

/// Whether the user has all rights that the story takes, by name.
async fn may_all(site: &Site) -> anyhow::Result<()> {
    let cluster = Cluster::new(site.client.clone());
    let missing = rights::missing_for_demo(&cluster).await;
    let missing = missing.with_context(|| format!("{}: the rights are not known", site.name))?;
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("{}: rights are missing, so nothing was begun", site.name);
    let line = |one: &rights::Missing| format!("{}, {}", one.right, one.purpose);
    let problem = missing.iter().fold(Problem::failed(what), |all, one| all.todo(line(one)));
    Err(problem.into())
}

impl Clusters for Pair {
    fn kind(&self) -> &'static str {
        "real"
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn image(&self) -> &str {
        &self.image
    }

    fn wanted(&self) -> &'static str {
        "cpu=200m,memory=256Mi,pods=5"
    }

    fn kubernetes(&self, place: Place) -> Arc<dyn Kubernetes> {
        match place {
            Place::Home => self.home.kubernetes.clone(),
            Place::Away => self.away.kubernetes.clone(),
        }
    }

    fn prepare(&self) -> Asked<'_, ()> {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": self.namespace, "labels": { names::MANAGED_BY: "mercato-demo" } } });
        async move { self.home.site.create("/api/v1/namespaces", &object).await }.boxed_local()
    }

    fn start_pod(&self) -> Asked<'_, ()> {
        let limits = json!({ "cpu": "50m", "memory": "32Mi" });
        let container = json!({ "resources": { "requests": limits, "limits": limits },
            "command": ["sh", "-c", SCRIPT] });
        let mut pod = pod(&self.namespace, POD, &self.image, &container);
        // Also where the API server does not reach the webhook that would add it.
        pod["spec"]["tolerations"] =
            json!([{ "key": names::PROVIDER, "operator": "Exists", "effect": "NoSchedule" }]);
        let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
        async move { self.home.site.create(&path, &pod).await }.boxed_local()
    }

    fn pod(&self) -> Asked<'_, Option<Value>> {
        let path = format!("/api/v1/namespaces/{}/pods/{POD}", self.namespace);
        async move { self.home.site.get(&path).await }.boxed_local()
    }

    fn guest_namespaces(&self) -> Asked<'_, Vec<String>> {
        self.away.site.guest_namespaces().boxed_local()
    }

    fn is_clean(&self) -> Asked<'_, bool> {
        async move {
            Ok(self.home.site.virtual_nodes().await?.is_empty()
                && self.away.site.guest_namespaces().await?.is_empty())
        }
        .boxed_local()
    }

    fn release(&self) -> Asked<'_, ()> {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        async move {
            self.home.site.delete(&path, None).await?;
            // The webhook goes with the last namespace that may leave.
            until("the demo's namespace is gone", async || {
                let gone = self.home.site.get(&path).await?.is_none();
                Ok((gone && self.home.site.webhook().await?.is_none()).then_some(()))
            })
            .await
        }
        .boxed_local()
    }

    fn clear(&self) -> Asked<'_, ()> {
        async move {
            let namespace = [self.namespace.clone()];
            let home = self.home.site.clear(&namespace, &self.home.others);
            try_join(home, self.away.site.clear(&[], &self.away.others)).await?;
            Ok(())
        }
        .boxed_local()
    }
}
