//! What the guest objects of all leases fill of this cluster's etcd, as the leases share it. How much
//! each may have is `mercato_offload::placement::StoredObjects`'.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_offload::placement::{StoredBy, StoredObjects};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::resources::Resources;

/// What is stored in one cluster; clones share it.
#[derive(Clone, Default)]
pub struct ClusterStored(Arc<Mutex<StoredObjects>>);

impl ClusterStored {
    /// Sets the bytes for all buyers together, if the owner names them, and what the owner shares.
    pub fn set_bounds(&self, budget: Option<u64>, shared: Option<Resources>) {
        self.lock().set_bounds(budget, shared);
    }

    /// Counts what is stored under a contract, of this buyer and size, until that is dropped.
    pub fn lease(&self, contract: ContractId, buyer: ClusterId, bought: &Resources) -> LeaseStored {
        self.lock().begin(contract, buyer, bought);
        LeaseStored { of: self.clone(), contract, buyer }
    }

    /// What is stored, and how much may be.
    pub fn stored(&self) -> StoredBy {
        self.lock().stored()
    }

    fn lock(&self) -> MutexGuard<'_, StoredObjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is stored of one lease, as long as something of it may be there.
pub struct LeaseStored {
    of: ClusterStored,
    contract: ContractId,
    buyer: ClusterId,
}

impl LeaseStored {
    /// The lease is of this size from now on.
    pub fn set_bought(&self, bought: &Resources) {
        self.of.lock().begin(self.contract, self.buyer, bought);
    }

    /// Of a lease that is alone in its cluster.
    #[cfg(test)]
    pub(super) fn alone(contract: ContractId) -> Arc<Self> {
        let (cluster, nothing) = (ClusterStored::default(), Resources::default());
        cluster.set_bounds(None, Some(nothing.clone()));
        Arc::new(cluster.lease(contract, ClusterId([2; 32]), &nothing))
    }

    /// What all leases of the cluster have stored, to be changed.
    pub(super) fn cluster(&self) -> MutexGuard<'_, StoredObjects> {
        self.of.lock()
    }

    /// The objects of the lease take so many bytes now.
    pub(super) fn note(&self, bytes: usize) {
        self.of.lock().note(&self.contract, bytes);
    }
}

impl Drop for LeaseStored {
    fn drop(&mut self) {
        self.of.lock().end(&self.contract);
    }
}
