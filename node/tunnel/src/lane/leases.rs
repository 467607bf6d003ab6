//! What this shard knows of each lease: what it may carry, and what it has carried here.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::id::ContractId;
use mercato_session::{Count, DropReason, LeaseCounters, RateLimit};

/// How much a lease may carry, each way; all shards of a gateway share one of these.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseLimits {
    pub(crate) outbound: Option<Arc<RateLimit>>,
    pub(crate) inbound: Option<Arc<RateLimit>>,
}

/// Leases whose packets have passed here, or that have a limit.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: BTreeMap<ContractId, Lease>,
}

#[derive(Debug, Default)]
struct Lease {
    limits: LeaseLimits,
    counters: LeaseCounters,
}

impl Leases {
    pub(super) fn set_limits(&mut self, lease: ContractId, limits: LeaseLimits) {
        self.leases.entry(lease).or_default().limits = limits;
    }

    /// Forgets a lease. Gives what it has carried here, if it is known.
    pub(super) fn remove(&mut self, lease: ContractId) -> Option<LeaseCounters> {
        Some(self.leases.remove(&lease)?.counters)
    }

    pub(super) fn counters(&self) -> BTreeMap<ContractId, LeaseCounters> {
        self.leases.iter().map(|(lease, known)| (*lease, known.counters)).collect()
    }

    /// Lets so many bytes leave, or says from when on they may.
    pub(super) fn admit_outbound(
        &mut self,
        mono_ms: u64,
        lease: ContractId,
        bytes: u64,
    ) -> Result<(), u64> {
        let limit = self.leases.get(&lease).and_then(|known| known.limits.outbound.as_ref());
        limit.map_or(Ok(()), |limit| limit.admit(mono_ms, bytes))
    }

    /// Lets a packet in; or drops it and counts that, if its lease has received more than it may.
    pub(super) fn admit_inbound(&mut self, mono_ms: u64, lease: ContractId, count: Count) -> bool {
        let Lease { limits, counters } = self.leases.entry(lease).or_default();
        let limit = limits.inbound.as_ref();
        let is_within = limit.is_none_or(|limit| limit.admit(mono_ms, count.bytes).is_ok());
        if !is_within {
            counters.inbound.drop(DropReason::Rate, count);
        }
        is_within
    }

    pub(super) fn pass_inbound(&mut self, lease: ContractId, count: Count) {
        self.leases.entry(lease).or_default().counters.inbound.pass(count);
    }

    pub(super) fn pass_outbound(&mut self, lease: ContractId, count: Count) {
        self.leases.entry(lease).or_default().counters.outbound.pass(count);
    }

    pub(super) fn drop_outbound(&mut self, lease: ContractId, reason: DropReason, count: Count) {
        self.leases.entry(lease).or_default().counters.outbound.drop(reason, count);
    }

    pub(super) fn drop_inbound(&mut self, lease: ContractId, reason: DropReason, count: Count) {
        self.leases.entry(lease).or_default().counters.inbound.drop(reason, count);
    }
}
