//! The Kubernetes boundary: what a daemon needs of a cluster, be it a real one or the
//! model, which is labelled simulated wherever it shows.
//!
//! A lease's part in the cluster is a task of its own, which is told how the lease is to
//! be, does its [`Work`] and reports inputs. What is to be done is the agent's to say.

pub(crate) mod real;
pub(crate) mod simulated;
pub(crate) mod site;
mod telling;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use mercato_agent::{Input, LeaseDesire, LeaseInput, LeaseNews, Work};
use mercato_broker::{BurstNews, BurstPolicy, DevicePolicy, Inventory, PodDemand, StoragePolicy};
use mercato_kubelet::guest::stream::{Opened, PeerStreams, Refused};
pub(crate) use mercato_kubelet::inventory::{ClusterRange, NodeMachine, PodPlace};
use mercato_kubelet::offload_namespace::Waiting;
use mercato_kubelet::{Bodies, Cluster};
use mercato_offload::home::leaving::Left;
use mercato_offload::placement::StoredBy;
use mercato_offload::placement::export::Consent;
pub(crate) use mercato_offload::placement::spec::TunnelWord;
use mercato_offload::{guest, home};
use mercato_protocol::contract::Terms;
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::kubelet_stream::{NodeFacts, Request, Usage};
use mercato_protocol::resources::Resources;
use mercato_protocol::workload::Uid;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tracing::Instrument as _;

pub(crate) use self::telling::{
    Leads, NameServerAt, Report, TellLeads, TellNames, TellServices, Telling,
};
use crate::admin::{Attention, Offload};
use crate::doctor::Finding;
use crate::driver::workload::allowance::Allowance;
use crate::limits;
use crate::telemetry::spans;

/// What a cluster tells of its network.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterNetwork {
    /// Which addresses it has given to pods and Services, as far as it says.
    pub(crate) ranges: Vec<ClusterRange>,
    /// What it calls itself, as names of its Services end; none where it is simulated.
    pub(crate) domain: Option<String>,
    /// Where its API servers are, as far as they say so by address.
    pub(crate) servers: BTreeSet<IpAddr>,
}

/// A Kubernetes cluster, real or simulated.
pub(crate) trait Kubernetes: Send + Sync + 'static {
    /// What it is, for people: where its API server is, or that it is simulated.
    fn describe(&self) -> String;

    /// What no other cluster has, as Kubernetes tells clusters apart; none where it has not answered yet,
    /// or does not let the daemon know.
    fn uid(&self) -> Option<String>;

    /// What it has, now and whenever that changes.
    fn inventory(&self) -> BoxStream<'static, Inventory>;

    /// Which of its pods find no room and could run elsewhere, now and whenever that changes; empty while
    /// nothing may be bought for them.
    fn pending(&self) -> BoxStream<'static, PodDemand>;

    /// Takes what may be bought by itself for such pods; none: nothing may.
    fn tell_bursts(&self, bursts: Option<&BurstPolicy>);

    /// Says on some of its pods what was decided for them.
    fn tell_pods(&self, news: &BurstNews);

    /// Takes what its owner says of the devices of its nodes; what it has is read with that from then
    /// on.
    fn tell_devices(&self, said: &DevicePolicy);

    /// Takes what its owner says of the storage that is shared; none: none is.
    fn tell_storage(&self, shared: Option<&StoragePolicy>);

    /// Takes how many bytes guests may fill of its etcd, if the owner says so, and what is shared, by
    /// which buyers have their part of them; none: that is not known yet.
    fn tell_stored(&self, bound: Option<u64>, shared: Option<Resources>);

    /// What guests fill of its etcd, in all and by buyer; none where there is no such thing.
    fn stored(&self) -> Option<StoredBy>;

    /// Where its pods are, now and whenever that changes: of all that are bound to a node, not
    /// over, and not on the host network.
    fn pods(&self) -> BoxStream<'static, Vec<PodPlace>>;

    /// Which real nodes it has, now and whenever that changes.
    fn machines(&self) -> BoxStream<'static, Vec<NodeMachine>>;

    /// Says to the processes on its nodes where the daemon is, and by which certificate (PEM) they
    /// know it; or why that cannot be said.
    fn tell_nodes(
        &self,
        at: SocketAddr,
        certificate: String,
    ) -> BoxFuture<'static, Result<(), String>>;

    /// Says of one of its nodes what happened there, for people; or why that cannot be said.
    fn tell_of_node(&self, told: ToldOfNode) -> BoxFuture<'static, Result<(), String>>;

    /// The name of the node whose process has this token; or why it is nobody's.
    fn node_of(&self, token: String) -> BoxFuture<'static, Result<String, String>>;

    /// What it tells of its network, once it answers; or why it does not tell.
    fn network(&self) -> BoxFuture<'static, Result<ClusterNetwork, String>>;

    /// Where its API servers take requests, the one to be tried first first: a host and a port each.
    fn api_servers(&self) -> BoxFuture<'static, Vec<(String, u16)>>;

    /// What the owners of its namespaces have opened to other clusters, now and whenever that changes.
    fn consent(&self) -> BoxStream<'static, Consent>;

    /// Whether guests can be kept apart on its network.
    fn isolates(&self) -> bool;

    /// Whether what guests reach of the Internet is kept to what their contracts say.
    fn enforces_egress(&self) -> bool;

    /// Does what a lease calls for until nothing of it is left. Dropped, it leaves the
    /// cluster as it is.
    fn follow(&self, task: LeaseTask) -> BoxFuture<'static, ()>;

    /// Lets a namespace's pods leave home.
    fn offload(&self, offload: Offload) -> BoxFuture<'static, Result<(), String>>;

    /// Whether all namespaces may leave home unless it is said otherwise.
    fn offloads_all(&self) -> bool;

    /// Keeps a namespace's pods at home from now on. Those that wait for a virtual node are made again,
    /// by whoever makes them; the names of the others come back.
    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<Vec<String>, String>>;

    /// How many pods of a namespace are bound to no node, and can be to virtual ones alone.
    fn waiting(&self, namespace: String) -> BoxFuture<'static, Result<Waiting, String>>;

    /// Why it does not answer now, if so.
    fn trouble(&self) -> Option<String>;

    /// What `mercato doctor` says of it.
    fn examine(&self) -> BoxFuture<'static, Vec<Finding>>;

    /// The cluster itself, once it has answered; none where it has no custom resources.
    fn resources(&self) -> BoxFuture<'static, Option<Cluster>>;

    /// How many of its objects change so often that they are written to at a pace.
    fn held(&self) -> usize;

    /// What a person has to do for it.
    fn attention(&self) -> Vec<Attention>;

    /// Opens a stream into a guest pod, by its name here.
    fn open(
        &self,
        namespace: String,
        pod: String,
        request: Request,
    ) -> BoxFuture<'static, Result<Opened, Refused>>;

    /// What the guests of a lease use, a page of it: those in these namespaces here,
    /// after that uid at home.
    fn usage(
        &self,
        contract: ContractId,
        namespaces: Vec<String>,
        after: Option<Uid>,
    ) -> BoxFuture<'static, Result<Usage, Refused>>;

    /// What the nodes are like on which guests of these terms run.
    fn node_facts(&self, terms: &Terms) -> Result<NodeFacts, Refused>;
}

/// What is told of a node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToldOfNode {
    /// The name of the node.
    pub(crate) node: String,
    /// Whether somebody should look at it.
    pub(crate) warns: bool,
    /// What it is, as a word for programs.
    pub(crate) reason: &'static str,
    /// All of it, in a line.
    pub(crate) text: String,
}

/// What a lease's task is given.
pub(crate) struct LeaseTask {
    pub(crate) contract: ContractId,
    /// How the lease is to be; said before any work that depends on it.
    pub(crate) desire: watch::Receiver<LeaseDesire>,
    /// Consumer: how the tunnel to the other side is, for the virtual node to say.
    pub(crate) tunnel: watch::Receiver<TunnelWord>,
    /// What is to be done, in this order.
    pub(crate) work: mpsc::Receiver<Work>,
    /// Takes what there is to report.
    pub(crate) report: Report,
    /// Provider: takes which addresses its Services have.
    pub(crate) services: TellServices,
    /// Provider: takes the names of its guests.
    pub(crate) names: TellNames,
    /// Consumer: takes where Services lead that are open to it.
    pub(crate) leads: TellLeads,
    /// Provider: where guests are told names.
    pub(crate) name_server: watch::Receiver<NameServerAt>,
    /// Whether there are tunnels at all.
    pub(crate) has_tunnels: bool,
    /// Consumer: at which address inside of them guests reach this cluster's API server.
    pub(crate) home_api: Option<IpAddr>,
    /// Consumer: opens streams at the provider.
    pub(crate) peer: Arc<dyn PeerStreams>,
    /// The bytes of what crosses.
    pub(crate) bodies: Bodies,
    /// Consumer: what the virtual node is called, once that is known.
    pub(crate) node: Arc<OnceLock<String>>,
    /// Consumer: takes how many pods have still to go from it, while it leaves.
    pub(crate) left: watch::Sender<Left>,
}

impl LeaseTask {
    /// Tells the agent how the lease's part in this cluster is.
    pub(crate) async fn news(&self, news: LeaseNews) {
        (self.report)(Input::Lease(self.contract, LeaseInput::News(news))).await;
    }

    /// Tells the session at home.
    pub(crate) async fn home(&self, input: home::Input) {
        (self.report)(Input::Lease(self.contract, LeaseInput::Home(input))).await;
    }

    /// Tells the session at the provider.
    pub(crate) async fn guest(&self, input: guest::Input) {
        (self.report)(Input::Lease(self.contract, LeaseInput::Guest(input))).await;
    }
}

/// The driver's end of a lease's task, which ends with it.
pub(crate) struct LeaseHandle {
    desire: watch::Sender<LeaseDesire>,
    tunnel: watch::Sender<TunnelWord>,
    work: mpsc::Sender<Work>,
    node: Arc<OnceLock<String>>,
    left: watch::Receiver<Left>,
    bodies: Bodies,
    allowance: Arc<Allowance>,
    task: AbortHandle,
}

impl LeaseHandle {
    /// Starts a lease's task in the cluster.
    pub(crate) fn start(
        cluster: &dyn Kubernetes,
        desire: LeaseDesire,
        telling: Telling,
        peer: Arc<dyn PeerStreams>,
        bodies: Bodies,
    ) -> Self {
        let Telling { report, services, names, leads, name_server, has_tunnels, home_api } =
            telling;
        let contract = desire.contract.id;
        let (desire, wanted) = watch::channel(desire);
        let (tunnel, word) = watch::channel(TunnelWord::default());
        let (work, queue) = mpsc::channel(limits::WORK);
        let node = Arc::new(OnceLock::new());
        let (tell_left, left) = watch::channel(Left::new());
        let task = LeaseTask {
            contract,
            desire: wanted,
            tunnel: word,
            work: queue,
            report,
            services,
            names,
            leads,
            name_server,
            has_tunnels,
            home_api,
            peer,
            bodies: bodies.clone(),
            node: node.clone(),
            left: tell_left,
        };
        // What its task logs, and what that begins, says whose it is.
        let span = spans::of_lease(&contract);
        let task = tokio::spawn(cluster.follow(task).instrument(span)).abort_handle();
        let allowance = Arc::new(Allowance::new(Instant::now()));
        Self { desire, tunnel, work, node, left, bodies, allowance, task }
    }

    /// The bytes of what crosses under it.
    pub(crate) fn bodies(&self) -> Bodies {
        self.bodies.clone()
    }

    /// What its other party may ask of us.
    pub(crate) fn allowance(&self) -> Arc<Allowance> {
        self.allowance.clone()
    }

    /// The lease is to be so from now on.
    pub(crate) fn set_desired(&self, desire: LeaseDesire) {
        self.desire.send_if_modified(|before| {
            let differs = *before != desire;
            *before = desire;
            differs
        });
    }

    /// Consumer: the tunnel to the other side is so from now on.
    pub(crate) fn set_tunnel(&self, word: TunnelWord) {
        self.tunnel.send_if_modified(|before| {
            let differs = *before != word;
            *before = word;
            differs
        });
    }

    /// Gives the task something to do; false where it is lost, since too much waits.
    #[must_use]
    pub(crate) fn work(&self, work: Work) -> bool {
        // One that has ended needs nothing done any more.
        !matches!(self.work.try_send(work), Err(mpsc::error::TrySendError::Full(_)))
    }

    /// How the lease is to be.
    pub(crate) fn desire(&self) -> watch::Ref<'_, LeaseDesire> {
        self.desire.borrow()
    }

    /// Consumer: what its virtual node is called, once that is known.
    pub(crate) fn node(&self) -> Option<&String> {
        self.node.get()
    }

    /// Consumer: how many pods have still to go from its virtual node, while that leaves.
    pub(crate) fn left(&self) -> Left {
        self.left.borrow().clone()
    }

    /// How much work waits for the task.
    pub(crate) fn backlog(&self) -> usize {
        self.work.max_capacity() - self.work.capacity()
    }

    /// The key that speaks for the other side.
    pub(crate) fn peer(&self) -> PublicKey {
        self.desire.borrow().peer
    }
}

impl Drop for LeaseHandle {
    /// A stream that went on would fill this one's place, and leave the next without.
    fn drop(&mut self) {
        self.allowance.end();
        self.task.abort();
    }
}
