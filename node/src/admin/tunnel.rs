//! What is known of the tunnels by which pods of two clusters call each other.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use ipnet::IpNet;
use mercato_protocol::id::{ClusterId, ContractId};
use serde::{Deserialize, Serialize};

/// Whoever runs the tunnels of a daemon.
pub(crate) trait Tunnels: Send + Sync {
    /// How the tunnel to each peer with a lease in force is.
    fn states(&self) -> BoxFuture<'static, Vec<TunnelState>>;

    /// This cluster's end of them.
    fn own(&self) -> OwnGateway;
}

/// In a daemon that has no tunnels.
pub(crate) struct NoTunnels;

impl Tunnels for NoTunnels {
    fn states(&self) -> BoxFuture<'static, Vec<TunnelState>> {
        ready(Vec::new()).boxed()
    }

    fn own(&self) -> OwnGateway {
        OwnGateway::default()
    }
}

/// How the tunnel to a peer with a lease in force is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TunnelState {
    /// The cluster at the other end.
    pub(crate) cluster: ClusterId,
    /// Whether packets pass it now.
    pub(crate) link: TunnelLink,
    /// Which way packets are lost, as far as this end can tell; none: they are not, or nobody asks.
    #[serde(default)]
    pub(crate) lost: Option<TunnelLost>,
    /// Since when it is so, wall clock; none: that is not known.
    pub(crate) since_ms: Option<u64>,
    /// Where its gateway was last heard.
    pub(crate) address: Option<SocketAddr>,
    /// The last round trip, in ms.
    pub(crate) round_trip_ms: Option<u64>,
    /// Why it is not up, and what to do; perhaps in the peer's words.
    pub(crate) reason: Option<String>,
    /// Packets that did not pass since the tunnel began, by reason.
    pub(crate) drops: BTreeMap<String, u64>,
}

/// Whether packets pass a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TunnelLink {
    /// They pass in both directions.
    Up,
    /// The gateways know of each other, and at least one does not hear the other.
    Down,
    /// There is none, or none yet.
    None,
}

/// Which way packets of a tunnel are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TunnelLost {
    /// Nothing comes from the peer; whether anything arrives there, its own end knows.
    FromPeer,
    /// The peer is heard, and hears nothing.
    ToPeer,
}

/// This cluster's end of all tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnGateway {
    /// Whether there is one at all.
    pub(crate) enabled: bool,
    /// The UDP port of the gateway.
    pub(crate) port: Option<u16>,
    /// The range by whose addresses pods are known in tunnels.
    pub(crate) pool: Option<IpNet>,
    /// The range behind which they are known by IPv6, while packets pass by it.
    #[serde(default)]
    pub(crate) pool_v6: Option<IpNet>,
    /// Why none pass by IPv6, though the cluster has it, and what to do.
    #[serde(default)]
    pub(crate) reason_v6: Option<String>,
    /// Why there is none, and what to do.
    pub(crate) reason: Option<String>,
    /// Nodes of this cluster whose pods reach no other cluster.
    #[serde(default)]
    pub(crate) cut_off: Vec<NodeTrouble>,
    /// Nodes of this cluster that its owner leaves out by their label: they run no guests, and their pods
    /// reach no other cluster.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
    /// Nodes of this cluster that do not close guests: as long as there is one, nothing is sold
    /// with `networkIsolation: required`.
    #[serde(default)]
    pub(crate) open: Vec<NodeTrouble>,
    /// On how many nodes of this cluster that run pods guests are closed.
    #[serde(default)]
    pub(crate) closed: usize,
    /// Whether `networkIsolation: required` can be sold: a node may be away for a moment before it
    /// cannot.
    #[serde(default)]
    pub(crate) isolates: bool,
    /// Nodes of this cluster on which guests are told no names of their home, though they should be.
    #[serde(default)]
    pub(crate) unnamed: Vec<NodeTrouble>,
    /// Nodes of this cluster on which guests cannot be kept to the egress of their contracts: as long as there is
    /// one, none is sold with `networkIsolation: required`.
    #[serde(default)]
    pub(crate) unkept: Vec<NodeTrouble>,
    /// Nodes of this cluster that are not told all that leases need.
    #[serde(default)]
    pub(crate) untold: Vec<NodeTrouble>,
    /// How guests elsewhere reach this cluster's API server.
    #[serde(default)]
    pub(crate) api: OwnApiServer,
    /// Namespaces of this cluster that open Services to guests of others.
    #[serde(default)]
    pub(crate) opened: Vec<OpenNamespace>,
}

/// A namespace of this cluster that opens Services to guests of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenNamespace {
    /// The namespace, by its name at home.
    pub(crate) namespace: String,
    /// Which Services, by name; `*`: all.
    pub(crate) services: Vec<String>,
    /// The namespaces whose guests may call them; `*`: all.
    pub(crate) callers: Vec<String>,
    /// The contracts with guests that may call them now.
    pub(crate) contracts: Vec<ContractId>,
    /// How many contracts have such guests, and no room for one more namespace.
    pub(crate) left_out: usize,
}

/// How guests elsewhere, of namespaces with `apiAccess: home`, reach this cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnApiServer {
    /// At which address inside the tunnels, while there is anybody who may.
    pub(crate) address: Option<IpAddr>,
    /// How many guests may do so now.
    pub(crate) guests: usize,
    /// How many connections they have.
    pub(crate) connections: usize,
    /// How many were refused since the daemon began.
    pub(crate) refused: u64,
    /// Why they do not reach it, and what to do.
    pub(crate) reason: Option<String>,
}

/// A node of this cluster that lacks something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeTrouble {
    /// The node's name in this cluster.
    pub(crate) node: String,
    /// Why, and what to do.
    pub(crate) reason: String,
}
