//! How much waits in the driver, for the metrics.

use super::Driver;
use super::workload::outbound::Outbound;
use crate::kubernetes::LeaseHandle;
use crate::telemetry::Queue;

impl Driver {
    /// How much waits in each queue.
    pub(crate) fn backlog(&self) -> [(Queue, usize); 3] {
        [
            (Queue::Inputs, self.handle.backlog()),
            (Queue::LeaseWork, self.leases.values().map(LeaseHandle::backlog).sum()),
            (Queue::Frames, self.outbound.values().map(Outbound::backlog).sum()),
        ]
    }

    /// Guest namespaces that there are to be.
    pub(crate) fn guest_namespaces(&self) -> usize {
        self.leases.values().map(|lease| lease.desire().namespaces.len()).sum()
    }

    /// Who waits for an answer, by what it is of.
    pub(crate) fn waiting(&self) -> [(&'static str, usize); 2] {
        [("commands", self.replies.len()), ("federation", self.askers.len())]
    }
}
