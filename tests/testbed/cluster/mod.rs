//! A cluster on the bed: what it is made of, and how it is used.
//!
//! The parts: `spec` says what a cluster shall be, `kind` what its simulated nodes have;
//! `machine` makes namespaces, `pki` keys; `devices` are what drivers hand out on real nodes; `control_plane`, `node`, `dns`, `metrics` and `simulated` start programs; `usage` is
//! what they cost; `sandbox` ends what they hold.

mod access;
pub mod audit;
mod control_plane;
mod devices;
mod dns;
mod dump;
mod kind;
mod machine;
mod metrics;
mod node;
mod objects;
mod pki;
mod sandbox;
mod simulated;
mod spec;
mod usage;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Api;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};

pub use access::Output;
pub use kind::Kind;
pub use machine::Machine;
pub use spec::{Cidrs, ClusterSpec, Families, PodNetwork, ProxyMode};
pub use usage::Usage;

use crate::supervisor::Program;
use crate::testbed::Place;
use crate::toolchain::Toolchain;
use crate::wait;
use spec::Layout;

/// How long any part may take to come up.
const PATIENCE: Duration = Duration::from_secs(180);

/// A cluster, up or coming up.
#[derive(Clone, Debug)]
pub struct Cluster {
    place: Place,
    toolchain: Toolchain,
    spec: ClusterSpec,
    layout: Layout,
}

/// What the bed's folder says of a cluster, for who attaches later.
#[derive(Serialize, Deserialize)]
struct Entry {
    spec: ClusterSpec,
    layout: Layout,
}

impl Cluster {
    /// Takes a place on the bed for a cluster; [`Cluster::up`] brings it up.
    ///
    /// # Errors
    /// When one of that name is there, or the name is no DNS label.
    pub fn new(place: &Place, toolchain: &Toolchain, spec: ClusterSpec) -> Result<Self> {
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            !spec.name.is_empty() && spec.name.len() <= 40 && spec.name.chars().all(label),
            "{:?} is no name for a cluster: lower-case letters, digits and dashes",
            spec.name
        );
        let others = Self::all(place, toolchain)?;
        ensure!(others.iter().all(|c| c.spec.name != spec.name), "{} is up already", spec.name);
        let taken = |index: &u8| others.iter().any(|other| other.layout.index == *index);
        let index =
            (1..=99).find(|index| !taken(index)).context("a bed has 99 clusters at most")?;
        let layout = Layout::new(&spec, index)?;
        let entry = serde_json::to_vec(&Entry { spec: spec.clone(), layout: layout.clone() })?;
        fs::write(place.dir().join(format!("{}.cluster", spec.name)), entry)?;
        Ok(Self { place: place.clone(), toolchain: toolchain.clone(), spec, layout })
    }

    /// The clusters of a bed, by name.
    ///
    /// # Errors
    /// When the bed's folder cannot be read.
    pub fn all(place: &Place, toolchain: &Toolchain) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(place.dir())? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "cluster") {
                let Entry { spec, layout } = serde_json::from_slice(&fs::read(&path)?)?;
                all.push(Self { place: place.clone(), toolchain: toolchain.clone(), spec, layout });
            }
        }
        all.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(all)
    }

    /// The cluster of that name.
    ///
    /// # Errors
    /// When there is none; says which there are.
    pub fn attach(place: &Place, toolchain: &Toolchain, name: &str) -> Result<Self> {
        let all = Self::all(place, toolchain)?;
        let names: Vec<_> = all.iter().map(|cluster| cluster.spec.name.clone()).collect();
        let found = all.into_iter().find(|cluster| cluster.spec.name == name);
        found.with_context(|| format!("no cluster {name}; there are: {}", names.join(", ")))
    }

    /// Brings the cluster up; returns when its nodes are ready and names resolve.
    /// The caller's runtime lives in the bed's network.
    ///
    /// # Errors
    /// When a part does not come up within a minute; the logs tell why.
    pub async fn up(&self) -> Result<()> {
        let machines = self.spec.nodes.max(1);
        for number in 1..=machines {
            machine::make(&self.place, &self.spec.name, self.layout.index, number)?;
        }
        for number in 1..=machines {
            machine::connect(&self.place, &self.layout, number, machines)?;
        }
        control_plane::write_files(self)?;
        control_plane::start_api_server(self)?;
        let runtimes = (1..=self.spec.nodes).map(|number| node::start_runtime(self, number));
        futures::try_join!(self.start_rest(), futures::future::try_join_all(runtimes))?;
        self.nodes_ready().await?;
        if self.spec.metrics {
            metrics::start(self).await?;
        }
        Ok(())
    }

    /// What needs the API server.
    async fn start_rest(&self) -> Result<()> {
        let what = format!("the API server of {} is ready", self.spec.name);
        wait::until(&what, PATIENCE, || self.api_server_ready()).await?;
        control_plane::start_controllers(self)?;
        for number in 1..=self.spec.nodes {
            node::start_kubelet(self, number)?;
        }
        if !self.spec.simulated.is_empty() {
            simulated::start(self).await?;
        }
        if self.spec.nodes > 0 {
            dns::start(self).await?;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, "default");
        wait::until("the default service account", PATIENCE, || async {
            Ok(accounts.get_opt("default").await?.is_some())
        })
        .await
    }

    async fn api_server_ready(&self) -> Result<bool> {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        Ok(self.client().await?.request_text(request).await? == "ok")
    }

    async fn nodes_ready(&self) -> Result<()> {
        let wanted = usize::from(self.spec.nodes) + self.spec.simulated_nodes() as usize;
        let nodes: Api<Node> = Api::all(self.client().await?);
        wait::until(
            &format!("{wanted} nodes of {} are ready", self.spec.name),
            PATIENCE,
            || async {
                let certified = match self.spec.verify_kubelets {
                    true => self.approve_kubelets().await? == usize::from(self.spec.nodes),
                    false => true,
                };
                let all = nodes.list(&ListParams::default()).await?;
                Ok(certified && all.iter().filter(|node| is_ready(node)).count() == wanted)
            },
        )
        .await
    }

    /// What it was made as.
    #[must_use]
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// The cluster's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Where its API server listens.
    #[must_use]
    pub fn api_server(&self) -> SocketAddr {
        (machine::address(self.layout.index, 1), control_plane::PORT).into()
    }

    /// The cluster's files, as programs in the bed see them.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.place.data().join(&self.spec.name)
    }

    /// The cluster's files, as they can be opened from outside the bed.
    #[must_use]
    pub fn data_outside(&self) -> PathBuf {
        self.place.from_outside(&self.data())
    }

    fn file(&self, name: &str) -> String {
        self.data().join(name).to_string_lossy().into_owned()
    }

    /// Starts a program of the toolchain on one of the cluster's machines.
    fn start(&self, number: u8, name: &str, program: &str, args: &[String]) -> Result<()> {
        let path = self.toolchain.program(program);
        self.start_system(number, name, &path.to_string_lossy(), args)
    }

    /// The same, for one that ends when it has lost its API server and counts on its kubelet to
    /// start it again.
    fn keep_up(&self, name: &str, args: &[String]) -> Result<()> {
        let path = self.toolchain.program(name);
        let program = self.program(1, name, &path.to_string_lossy(), args)?;
        self.place.supervisor().start(Program { restarts: true, ..program })
    }

    fn start_system(&self, number: u8, name: &str, path: &str, args: &[String]) -> Result<()> {
        self.place.supervisor().start(self.program(number, name, path, args)?)
    }

    fn program(&self, number: u8, name: &str, path: &str, args: &[String]) -> Result<Program> {
        let process = machine::process(&self.place, &self.spec.name, number)?;
        let enter = ["nsenter", "--net", "--mount", "--target", &process.to_string(), "--", path]
            .map(str::to_owned);
        Ok(Program {
            name: format!("{}/{name}", self.spec.name),
            argv: enter.into_iter().chain(args.iter().cloned()).collect(),
            env: Vec::new(),
            log: self.data().join("logs").join(name),
            restarts: false,
        })
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}
