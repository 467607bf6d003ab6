//! One guest namespace at the provider: how it is, and what makes it.

use mercato_kubelet::{Account, Cluster, Failure, guest_namespace};
use mercato_offload::placement::spec::GuestNamespace;
use tokio::task::AbortHandle;

use super::super::retry::Backoff;

/// A guest namespace; kept by home namespace.
pub(super) struct Namespace {
    pub(super) name: String,
    pub(super) state: State,
    /// What makes it, or will look at it again: one at a time.
    pub(super) making: AbortHandle,
}

/// How a guest namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    BeingMade,
    There,
    /// The cluster will not have it as it is; it is tried again now and then.
    Refused(String),
}

/// Makes a guest namespace, however long the cluster takes to be able to.
pub(super) async fn make(
    cluster: Cluster,
    account: Account,
    wanted: GuestNamespace,
) -> (GuestNamespace, Result<(), Failure>) {
    let mut backoff = Backoff::default();
    loop {
        match guest_namespace::ensure(&cluster, &account, wanted.clone()).await {
            Err(failure) if failure.is_transient() => {
                tracing::debug!(%failure, namespace = wanted.name, "not yet made");
                backoff.wait().await;
            }
            done => return (wanted, done),
        }
    }
}
