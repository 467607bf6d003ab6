//! That changes of the address table are in force: all lanes look addresses up in it.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};

use mercato_protocol::id::ContractId;
use mercato_session::{LeaseCounters, Refused};

/// What has come of the changes of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The version that is in force. If it is a later one than was asked for, nothing was changed.
    pub version: u64,
    /// Changes that were refused, by their place, and why; all others are made.
    pub refused: Vec<(usize, Refused)>,
    /// What the leases that were removed have carried, to the last packet.
    pub ended: BTreeMap<ContractId, LeaseCounters>,
}

/// Waits until all lanes have it in force.
#[derive(Debug)]
pub(crate) struct InForce {
    /// Leases that this version removes.
    removed: Vec<ContractId>,
    waiting: Mutex<Waiting>,
    done: SyncSender<Applied>,
}

#[derive(Debug)]
struct Waiting {
    lanes: usize,
    applied: Applied,
}

impl InForce {
    /// To be said to so many lanes, after the table.
    pub(crate) fn new(
        lanes: usize,
        removed: Vec<ContractId>,
        applied: Applied,
        done: SyncSender<Applied>,
    ) -> Self {
        Self { removed, waiting: Mutex::new(Waiting { lanes, applied }), done }
    }

    /// Leases that this version removes.
    pub(crate) fn removed(&self) -> &[ContractId] {
        &self.removed
    }

    /// One more lane has it, in which these leases had carried this much. Whoever waits is told by
    /// the last one.
    pub(crate) fn is_had(&self, ended: impl IntoIterator<Item = (ContractId, LeaseCounters)>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (lease, counters) in ended {
            waiting.applied.ended.entry(lease).or_default().add(&counters);
        }
        waiting.lanes -= 1;
        if waiting.lanes == 0 {
            // Whoever asked may have gone.
            let _ = self.done.try_send(waiting.applied.clone());
        }
    }
}
