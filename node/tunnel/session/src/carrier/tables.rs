//! Two copies of an address table: shards look into one, and the other is changed and takes its
//! place. So nobody waits for anybody, and a change costs what it changes, as long as the shards
//! have let go of the copy from before.

use std::sync::Arc;

use crate::address_table::{AddressTable, Change, Refused};
use crate::limits;
use crate::peer_index::PeerIndex;

/// Two copies of an address table.
pub(super) struct Tables {
    active: Arc<AddressTable>,
    /// The one before, perhaps still looked into.
    spare: Arc<AddressTable>,
    /// What it lacks.
    last: Option<Step>,
    /// When what is over is dropped next.
    drop_ms: Option<u64>,
}

/// What made the active table of the one before.
struct Step {
    mono_ms: u64,
    changes: Vec<Change<PeerIndex>>,
}

impl Tables {
    pub(super) fn new(seed: [u8; 16]) -> Self {
        let active = Arc::new(AddressTable::new(seed));
        Self { spare: Arc::clone(&active), active, last: None, drop_ms: None }
    }

    pub(super) fn active(&self) -> &Arc<AddressTable> {
        &self.active
    }

    /// When something is over that is to be dropped, on the monotonic clock.
    pub(super) fn drop_ms(&self) -> Option<u64> {
        self.drop_ms
    }

    /// Makes changes. Gives those that were refused, by their place, and why.
    pub(super) fn apply(
        &mut self,
        mono_ms: u64,
        changes: Vec<Change<PeerIndex>>,
    ) -> Vec<(usize, Refused)> {
        let spare = std::mem::replace(&mut self.spare, Arc::clone(&self.active));
        let mut next = match (Arc::try_unwrap(spare), self.last.take()) {
            (Ok(mut spare), Some(step)) => {
                // Refused there as well.
                let _ = spare.apply(step.mono_ms, &step.changes);
                spare
            }
            (Ok(_) | Err(_), _) => AddressTable::clone(&self.active),
        };
        let refused = next.apply(mono_ms, &changes);
        // Once a second, so that leases that end one after the other cost little.
        let least_ms = mono_ms + limits::DROP_ENDED_MS;
        self.drop_ms = next.next_end_ms().map(|end_ms| end_ms.max(least_ms));
        self.active = Arc::new(next);
        self.last = Some(Step { mono_ms, changes });
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mercato_protocol::id::{ClusterId, ContractId};

    use super::*;
    use crate::address_table::{Entry, Role};

    /// A lease of this number, and an address of it.
    fn lease(number: u8) -> Vec<Change<PeerIndex>> {
        let (cluster, lease) = (ClusterId([1; 32]), ContractId([number; 16]));
        let peer = PeerIndex::FIRST;
        let left = Duration::from_secs(number.into());
        let local = [10, 0, 0, number].into();
        vec![
            Change::Link { cluster, gateways: vec![peer], active: peer },
            Change::Lease { lease, cluster, role: Role::Consumer, left },
            Change::AddRemote(Entry { lease, local, inner: local }),
        ]
    }

    #[test]
    fn both_copies_get_each_change_whoever_looks_into_them() {
        for holds in [false, true] {
            let mut tables = Tables::new([1; 16]);
            let mut held = Vec::new();
            for number in 1..20 {
                assert_eq!(tables.apply(0, lease(number)), []);
                if holds {
                    held.push(Arc::clone(tables.active()));
                }
                let has = |number| tables.active().has_lease(ContractId([number; 16]));
                assert!((1..=number).all(has) && !has(number + 1));
            }
            for (nth, table) in held.iter().enumerate() {
                let has = |number| table.has_lease(ContractId([number; 16]));
                assert!(has(nth as u8 + 1) && !has(nth as u8 + 2), "what is looked into stays");
            }
        }
    }

    #[test]
    fn what_is_over_is_dropped_once_a_second() {
        let mut tables = Tables::new([1; 16]);
        (1..4).for_each(|number| drop(tables.apply(0, lease(number))));
        assert_eq!(tables.drop_ms(), Some(1_000));
        assert_eq!(tables.apply(2_500, Vec::new()), []);
        let has = |number| tables.active().has_lease(ContractId([number; 16]));
        assert_eq!([1, 2, 3].map(has), [false, false, true]);
        assert_eq!(tables.drop_ms(), Some(3_500));
    }
}
