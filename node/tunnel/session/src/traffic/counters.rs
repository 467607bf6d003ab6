//! What one lease has carried.

use crate::address_table::Counters;

/// What one lease has carried, by its direction as this cluster sees it. Bytes are those of the
/// packets between the two gateways, so that both count the same, however the devices at the ends
/// cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounters {
    /// From this cluster to the other.
    pub outbound: Counters,
    /// From the other cluster to this one.
    pub inbound: Counters,
}

impl LeaseCounters {
    /// Adds what another shard has counted.
    pub fn add(&mut self, other: &Self) {
        self.outbound.add(&other.outbound);
        self.inbound.add(&other.inbound);
    }
}
