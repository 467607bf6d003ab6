//! How a daemon is.

use std::path::PathBuf;

use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::resources::Resources;
use serde::{Deserialize, Serialize};

use super::attention::Attention;
use super::tunnel::{OwnGateway, TunnelState};

/// Who a daemon is, and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// The version of the program.
    pub(crate) version: String,
    /// Which cluster; the fingerprint that others are shown.
    pub(crate) cluster: ClusterId,
    /// What its owner calls it.
    pub(crate) name: String,
    /// The key that signs for it.
    pub(crate) key: PublicKey,
    /// Where identity and records are kept.
    pub(crate) data_dir: PathBuf,
    /// Where peers can reach it, as multiaddresses.
    pub(crate) addresses: Vec<String>,
    /// Where health and metrics are to be had, `IP:PORT`; none: nowhere.
    pub(crate) health: Option<String>,
    /// The address of the Kubernetes API server; none: without a cluster.
    pub(crate) kubernetes: Option<String>,
    /// Which cluster that is: the uid of its namespace `kube-system`; none: that is not known yet.
    pub(crate) kubernetes_uid: Option<String>,
    /// This cluster's end of the tunnels.
    pub(crate) gateway: OwnGateway,
    /// The tunnels, one to each peer with a lease in force.
    pub(crate) tunnels: Vec<TunnelState>,
    /// What guests fill of the cluster's etcd; none: without a cluster.
    #[serde(default)]
    pub(crate) guest_objects: Option<GuestObjects>,
    /// What is bought by itself for pods without room; none: nothing may be.
    #[serde(default)]
    pub(crate) bursts: Option<Bursts>,
    /// What waits for a person, the most pressing first.
    pub(crate) attention: Vec<Attention>,
}

/// What the objects of guests fill of the cluster's etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GuestObjects {
    /// Bytes of those of all buyers.
    pub(crate) used_bytes: u64,
    /// How many more are taken up to.
    pub(crate) bound_bytes: u64,
    /// The same of each buyer that has a contract in force.
    pub(crate) buyers: Vec<BuyersObjects>,
}

/// What the objects of one buyer's guests fill of the cluster's etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuyersObjects {
    pub(crate) cluster: ClusterId,
    pub(crate) name: Option<String>,
    /// Bytes of those of all its contracts.
    pub(crate) used_bytes: u64,
    /// How many more are taken up to: its share by what it bought.
    pub(crate) bound_bytes: u64,
}

/// What is bought by itself for pods without room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bursts {
    /// What all contracts of bursts may have together.
    pub(crate) most: Resources,
    /// What they have, open orders included.
    pub(crate) bought: Resources,
    /// How many contracts and open orders those are.
    pub(crate) contracts: usize,
    /// Each namespace for which something is bought, or whose pods wait, by name.
    pub(crate) namespaces: Vec<NamespaceBursts>,
}

/// What is bought by itself for the pods of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NamespaceBursts {
    pub(crate) namespace: String,
    /// What its contracts and open orders have.
    pub(crate) bought: Resources,
    /// How many contracts and open orders those are.
    pub(crate) contracts: usize,
    /// How many of its pods find no room, and could run elsewhere.
    pub(crate) waiting: usize,
    /// Why nothing is bought for some of them, in a word, as events on pods have it; none: nothing
    /// stands in the way.
    pub(crate) reason: Option<String>,
    /// The same in a sentence.
    pub(crate) message: Option<String>,
}
