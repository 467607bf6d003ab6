//! What has passed through a gateway, and what has not.

use std::collections::BTreeMap;

use mercato_protocol::id::ContractId;
use mercato_session::{Counters, LeaseCounters};

use crate::outer::OuterCounters;

/// What has passed through a gateway, and what has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// All packets that the address table was asked about, by its word alone.
    pub all: Counters,
    /// Those of each lease.
    pub leases: BTreeMap<ContractId, LeaseCounters>,
    /// Datagrams between gateways that were of no use.
    pub outer: OuterCounters,
}

impl Traffic {
    /// Adds what another shard has carried.
    pub(crate) fn add(&mut self, other: &Self) {
        self.all.add(&other.all);
        self.outer.add(&other.outer);
        for (lease, counters) in &other.leases {
            self.leases.entry(*lease).or_default().add(counters);
        }
    }
}
