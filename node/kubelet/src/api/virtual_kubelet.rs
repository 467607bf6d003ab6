//! What a virtual node's kubelet API answers from.

use std::sync::Arc;

use mercato_protocol::id::ContractId;

use super::access::Access;
use crate::packed::Packed;
use crate::stream::PeerStreams;

/// The pods of one virtual node, as home has them.
pub trait NodePods: Send + Sync + 'static {
    /// The uid of the pod of this name.
    fn uid(&self, namespace: &str, name: &str) -> Option<String>;
    /// All of them, as a kubelet lists them.
    fn list(&self) -> Vec<Packed>;
}

/// What stands behind one virtual node's listener.
pub struct VirtualKubelet {
    /// The node's name.
    pub name: String,
    /// The lease that the node stands for.
    pub contract: ContractId,
    /// Who may ask.
    pub access: Arc<Access>,
    /// The node's pods.
    pub pods: Arc<dyn NodePods>,
    /// The way to the provider.
    pub peer: Arc<dyn PeerStreams>,
}
