//! What a virtual node's kubelet API answers from.

use std::sync::Arc;

use mercato_protocol::id::ContractId;

use super::access::Access;
use crate::format::packed::Packed;
use crate::guest::stream::PeerStreams;

/// The pods of one virtual node, as home has them.
pub trait NodePods: Send + Sync + 'static {
    /// The uid of the pod of this name.
    fn uid(&self, namespace: &str, name: &str) -> Option<String>;
    /// Why nothing of the pod of this name runs anywhere, where the node answers for it all the same.
    fn not_offloaded(&self, namespace: &str, name: &str) -> Option<String>;
    /// All of them, as a kubelet lists them.
    fn list(&self) -> Vec<Packed>;
}

/// What stands behind one virtual node's listener.
pub struct VirtualKubelet {
    /// The name of the virtual node.
    pub name: String,
    /// The lease that the node stands for.
    pub contract: ContractId,
    /// Decides who may ask for what at this node.
    pub access: Arc<Access>,
    /// The pods that are bound to the node.
    pub pods: Arc<dyn NodePods>,
    /// The way to the provider.
    pub peer: Arc<dyn PeerStreams>,
}
