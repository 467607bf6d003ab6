//! The serving certificates of virtual nodes that are shown, and what a person has to do for them.

use std::sync::{Arc, Weak};

use mercato_kubelet::certificate::Serving;
use tokio::sync::watch;

use super::Shared;
use crate::admin::{Attention, AttentionKind};

impl Shared {
    /// Tells of the certificate of a virtual node until the answer is dropped.
    pub(super) fn shows(
        self: &Arc<Self>,
        node: String,
        serving: watch::Receiver<Serving>,
    ) -> Shown {
        self.serving().insert(node.clone(), serving);
        Shown { shared: Arc::downgrade(self), node }
    }
}

/// A virtual node that is shown: its certificate is told of until this is dropped.
pub(super) struct Shown {
    shared: Weak<Shared>,
    node: String,
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.serving().remove(&self.node);
        }
    }
}

/// What a person has to do for a virtual node's certificate.
pub(super) fn waiting((node, serving): (&String, &watch::Receiver<Serving>)) -> Option<Attention> {
    let Serving::Waiting { request } = &*serving.borrow() else { return None };
    let approve = format!("kubectl certificate approve {request}");
    let text = format!("node {node} waits for its certificate");
    let waits = || Attention::of(AttentionKind::CertificateWaiting, text).command(approve);
    (!request.is_empty()).then(waits)
}
