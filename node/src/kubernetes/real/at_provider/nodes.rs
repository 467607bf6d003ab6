//! Where the guests of a lease run: on the nodes of the pool that was bought.

use mercato_config::settings::UserNamespaces;
use mercato_kubelet::{Failure, inventory};
use mercato_offload::placement::{Binding, NodeLabels};
use mercato_protocol::terms;

use super::super::shared::Shared;
use crate::kubernetes::LeaseTask;

/// Looked for as guest namespaces are made, and named unlike any.
const NODES: &str = "nodes of the pool";

/// How guests find their nodes.
#[derive(Default)]
pub(super) struct GuestNodes {
    binding: Option<Binding>,
}

impl GuestNodes {
    /// None: that is not known yet, or the pool has had no node since the daemon began.
    pub(super) fn binding(&self) -> Option<&Binding> {
        self.binding.as_ref()
    }

    /// Looks again: whether guests find their nodes in another way than before. Where none is left
    /// they wait for those that there were.
    pub(super) fn look(&mut self, shared: &Shared, task: &LeaseTask) -> bool {
        let known = shared.bindings.borrow();
        let Some(known) = known.as_ref() else { return false };
        let desire = task.desire.borrow();
        let terms = &desire.contract.terms;
        let Some(binding) = Binding::of(known, &terms.pool, &terms.quantity.gpus) else {
            let why = format!("the pool {} has no node that guests could find", terms.pool);
            shared.note_unmade(&task.contract, NODES, &Failure::transient(why));
            return false;
        };
        // What is told home alone changes nothing of guests.
        let binding = Binding { said: NodeLabels::default(), ..binding };
        shared.unmade().remove(&(task.contract, NODES.to_owned()));
        let is_other = self.binding.as_ref() != Some(&binding);
        self.binding = Some(binding);
        is_other
    }
}

/// Whether the owner wants all guests to have users of their own, and the nodes can. One
/// that comes later and cannot is not noticed before the lease is taken up again.
pub(super) async fn have_user_namespaces(shared: &Shared, task: &LeaseTask) -> bool {
    let terms = task.desire.borrow().contract.terms.clone();
    // Other runtimes keep guests apart by themselves.
    let asked = shared.user_namespaces == UserNamespaces::Asked;
    if asked || terms.isolation != terms::Isolation::Runc {
        return false;
    }
    let nodes = inventory::user_namespaces(&shared.cluster, &terms.platform).await;
    nodes.unwrap_or_else(|failure| {
        // Once for each start of the lease.
        tracing::warn!(%failure,
            "nodes do not say whether they have user namespaces: only guests that ask get them");
        false
    })
}
