//! The end of a lease at the provider: nothing of it is left.

use mercato_kubelet::guest::namespace::{self as guest_namespace, Stored};
use mercato_kubelet::{Cluster, Failure};
use mercato_protocol::id::ContractId;
use mercato_protocol::terms;

use super::super::retry::Backoff;
use super::super::shared::Shared;
use crate::kubernetes::LeaseTask;
use crate::limits;

/// Removes all that carries the contract's label, however it came there.
pub(super) async fn remove(shared: &Shared, task: &LeaseTask) {
    let mut backoff = Backoff::default();
    let mut looks = mercato_kubelet::Backoff::new(limits::DRAIN_LOOK, limits::DRAIN_LOOK_MAX);
    loop {
        match remove_more(shared, task).await {
            Ok(true) => return,
            Ok(false) => looks.wait().await,
            Err(failure) => {
                backoff.warn(&failure, "a guest namespace stays");
                backoff.wait().await;
            }
        }
    }
}

/// Removes a guest namespace of a contract, however long it takes; of this home namespace only, if one
/// is named. The contract goes on: what is stored in it is not removed.
pub(super) async fn remove_one(
    cluster: Cluster,
    name: String,
    contract: ContractId,
    home: Option<String>,
    stored: Stored,
) {
    let mut backoff = Backoff::default();
    while let Err(failure) =
        guest_namespace::remove(&cluster, &name, &contract, home.as_deref(), stored).await
    {
        backoff.warn(&failure, "a guest namespace stays");
        backoff.wait().await;
    }
}

async fn remove_more(shared: &Shared, task: &LeaseTask) -> Result<bool, Failure> {
    let (cluster, id) = (&shared.cluster, task.contract.to_string());
    let existing = guest_namespace::existing(cluster).await?;
    let mut gone = true;
    for name in existing.iter().filter(|(_, of)| **of == id).map(|(name, _)| name) {
        shared.kept.forget(name);
        gone &= guest_namespace::remove(cluster, name, &task.contract, None, Stored::Goes).await?;
    }
    if gone && task.desire.borrow().contract.terms.class == terms::Class::Spot {
        let mut spot = shared.spot.lock().await;
        spot.remove(&task.contract);
        if spot.is_empty() {
            guest_namespace::remove_priority(cluster).await?;
        }
    }
    Ok(gone)
}
