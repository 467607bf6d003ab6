//! All that a lease is at home, as one value: the virtual node, its kubelet API
//! with its certificate, and the pods' way out. A thin joint of the parts, for
//! the driver.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::home::Input;
use mercato_offload::home::leaving::Left;
use mercato_offload::placement::spec::NodeSpec;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::listener::Listener;
use crate::bodies::Bodies;
use crate::guest::stream::PeerStreams;
use crate::home::node::{NodeNews, VirtualNode};
use crate::home::{ClusterClaims, HomeConfig, HomeSide, Leavers};
use crate::kubelet_api::certificate::{self, Serving, Subject};
use crate::kubelet_api::{Access, Tls, TlsError, VirtualKubelet, follow_client_ca, router};
use crate::limits;
use crate::offload_namespace::Known;

/// What a lease at home is made of.
pub struct HomeLeaseConfig {
    /// The node; its port is replaced by the one that the listener gets.
    pub node: NodeSpec,
    /// Where the kubelet API listens; port 0 for any free one.
    pub listen: SocketAddr,
    /// How the kubelet API has its certificate.
    pub certificate: certificate::Source,
    /// Whom tokens may be for that leave home with pods, where the namespace gives none for home's
    /// API server.
    pub audiences: BTreeSet<String>,
    /// What this cluster calls itself, where guests may find its names.
    pub domain: Option<String>,
    /// At which address inside the tunnel its API server is reached by guests that have access; none:
    /// nowhere.
    pub api: Option<IpAddr>,
    /// By what it is heard that somebody else has changed the node.
    pub news: Arc<NodeNews>,
    /// The claims of home's cluster.
    pub claims: Arc<ClusterClaims>,
    /// What all virtual nodes that leave have in common.
    pub leavers: Arc<Leavers>,
    /// How many seconds guests have to end at most.
    pub longest_grace_s: u64,
    /// Takes how many pods have still to go from the node, while it leaves.
    pub left: watch::Sender<Left>,
}

/// One lease as home's cluster sees it: a virtual node and its kubelet API.
pub struct HomeLease {
    /// Pods and what they need: the session's effects.
    pub side: HomeSide,
    /// The node in the cluster: link state, draining.
    pub node: VirtualNode,
    /// Which certificate serves, for `status` and `doctor`.
    pub serving: watch::Receiver<Serving>,
    listener: Listener,
    _background: JoinSet<()>,
}

/// Why a lease could not be shown at home.
#[derive(Debug, thiserror::Error)]
pub enum HomeLeaseError {
    /// The first certificate of its kubelet API could not be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Its kubelet API could not listen on its port.
    #[error("the kubelet API of a virtual node cannot listen: {0}")]
    Listen(#[from] std::io::Error),
}

impl HomeLease {
    /// Listens, makes the node, and follows its pods; the receiver yields the
    /// session's inputs.
    pub fn start(
        cluster: Cluster,
        config: HomeLeaseConfig,
        bodies: Bodies,
        opted_in: watch::Receiver<Known>,
        peer: Arc<dyn PeerStreams>,
    ) -> BoxFuture<'static, Result<(Self, mpsc::Receiver<Input>), HomeLeaseError>> {
        async move {
            let HomeLeaseConfig { mut node, listen, audiences, domain, api, news, .. } = config;
            let (claims, leavers, left) = (config.claims, config.leavers, config.left);
            let longest_grace_s = config.longest_grace_s;
            let source = config.certificate;
            let (name, address): (String, IpAddr) = (node.name.clone(), node.address);
            let subject = Subject { node: name.clone(), addresses: vec![address] };
            let tls = Tls::new(certificate::self_signed(&subject)?)?;
            let (host_ip, provider) = (address, node.provider);
            let (node_name, contract) = (name.clone(), node.contract);
            let home =
                HomeConfig { node: node_name, contract, provider, host_ip, audiences, domain, api };
            let (side, inputs) = HomeSide::start(cluster.clone(), home, bodies, opted_in, claims);
            side.sees_to_leaving(leavers, longest_grace_s, left);
            let kubelet = VirtualKubelet {
                name: name.clone(),
                contract: node.contract,
                access: Access::new(&cluster, name),
                pods: side.pods(),
                peer,
            };
            let listener =
                Listener::bind(listen, tls.clone(), router(kubelet), Some(limits::STRANGERS_TIME))
                    .await?;
            node.port = listener.address().port();
            let (tell, serving) = watch::channel(Serving::Waiting { request: String::new() });
            let mut background = JoinSet::new();
            background.spawn(follow_client_ca(&cluster, tls.clone()));
            background.spawn(certificate::maintain(cluster.clone(), subject, source, tls, tell));
            let node = VirtualNode::start(cluster, node, &news);
            Ok((Self { side, node, serving, listener, _background: background }, inputs))
        }
        .boxed()
    }

    /// Ends with the lease: node, Lease and listener go. To stop for a
    /// restart, drop it.
    pub fn end(self) -> Answer<()> {
        async move {
            self.listener.close().await;
            self.node.remove().await
        }
        .boxed()
    }
}
