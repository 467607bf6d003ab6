//! What the guest objects of all leases fill of the provider's etcd, which is the whole cluster's:
//! one budget, of which each buyer has a share by what it bought of what is shared, into however
//! many contracts it cut that. What is stored already stays; only more is refused.

use std::collections::BTreeMap;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::resources::Resources;

use crate::forge::Refusal;
use crate::guest::Failure;
use crate::limits;

/// The guest objects of a whole cluster, by the leases that they are of.
#[derive(Clone, Debug)]
pub struct StoredObjects {
    budget: u64,
    /// What the owner shares; none: not known yet.
    shared: Option<Resources>,
    leases: BTreeMap<ContractId, Lease>,
}

/// What is stored under one contract.
#[derive(Clone, Debug)]
struct Lease {
    buyer: ClusterId,
    bought: Resources,
    bytes: u64,
}

/// So many bytes are stored, of so many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Bytes of all guest objects.
    pub used: u64,
    /// The most bytes that more is taken up to.
    pub bound: u64,
}

/// What is stored in a cluster: in all, and by buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBy {
    /// Of all buyers of the cluster.
    pub all: Stored,
    /// Of each buyer that has a lease.
    pub buyers: BTreeMap<ClusterId, Stored>,
}

impl Default for StoredObjects {
    fn default() -> Self {
        Self { budget: limits::STORED_BYTES, shared: None, leases: BTreeMap::new() }
    }
}

impl StoredObjects {
    /// Sets the bytes for all buyers together, if the owner names them, and what the owner shares;
    /// none: what that comes to is not known yet.
    pub fn set_bounds(&mut self, budget: Option<u64>, shared: Option<Resources>) {
        self.budget = budget.unwrap_or(limits::STORED_BYTES);
        self.shared = shared;
    }

    /// A lease of this buyer is there, or is of another size from now on.
    pub fn begin(&mut self, contract: ContractId, buyer: ClusterId, bought: &Resources) {
        let bytes = self.leases.get(&contract).map_or(0, |lease| lease.bytes);
        self.leases.insert(contract, Lease { buyer, bought: bought.clone(), bytes });
    }

    /// Nothing of the lease is left.
    pub fn end(&mut self, contract: &ContractId) {
        self.leases.remove(contract);
    }

    /// The objects of a lease take so many bytes now.
    pub fn note(&mut self, contract: &ContractId, bytes: usize) {
        if let Some(lease) = self.leases.get_mut(contract) {
            lease.bytes = bytes as u64;
        }
    }

    /// Takes so many bytes more for an object of the lease.
    ///
    /// # Errors
    /// Nothing has been taken then.
    /// - [`Failure::Refused`]: the buyer's objects, or those of all, would take more than they may;
    /// - [`Failure::Transient`]: it is not known yet how much the buyer may have.
    pub fn claim(&mut self, contract: &ContractId, more: usize) -> Result<(), Failure> {
        let more = more as u64;
        if more == 0 {
            return Ok(());
        }
        let Some(lease) = self.leases.get(contract) else { return Err(Failure::Transient) };
        let (all, own) = (self.all(), self.of(&lease.buyer));
        if own.used.saturating_add(more) > own.bound {
            if self.shared.is_none() {
                return Err(Failure::Transient);
            }
            return Err(refused(format!(
                "the objects of all guests of this buyer would take {} KiB of the provider's etcd, \
                 and its share by what it bought is {} KiB: delete some, make them smaller, or buy \
                 more there",
                kib(own.used.saturating_add(more)),
                kib(own.bound)
            )));
        }
        if all.used.saturating_add(more) > all.bound {
            return Err(refused(format!(
                "the objects of all buyers' guests would take more than the {} KiB that the provider \
                 has for them in its etcd (share.objects): delete some, make them smaller, or ask the \
                 provider for more",
                kib(all.bound)
            )));
        }
        if let Some(lease) = self.leases.get_mut(contract) {
            lease.bytes = lease.bytes.saturating_add(more);
        }
        Ok(())
    }

    /// What is stored, and how much may be.
    pub fn stored(&self) -> StoredBy {
        let buyers = self.leases.values().map(|lease| (lease.buyer, self.of(&lease.buyer)));
        StoredBy { all: self.all(), buyers: buyers.collect() }
    }

    fn all(&self) -> Stored {
        let used = self.leases.values().map(|lease| lease.bytes);
        Stored { used: used.fold(0, u64::saturating_add), bound: self.budget }
    }

    /// Its share is the larger part that it has of processors, memory or devices, of all that is
    /// shared or was sold before less was.
    fn of(&self, buyer: &ClusterId) -> Stored {
        let (mut used, mut own, mut sold) = (0_u64, [0_u128; 3], [0_u128; 3]);
        for lease in self.leases.values() {
            let bought = amounts(&lease.bought);
            sold = sum(sold, bought);
            if lease.buyer == *buyer {
                own = sum(own, bought);
                used = used.saturating_add(lease.bytes);
            }
        }
        let shared = self.shared.as_ref().map(amounts);
        let share = |n: usize| {
            let of = shared?[n].max(sold[n]);
            (of > 0).then(|| u128::from(self.budget) * own[n] / of)
        };
        let share = (0..own.len()).filter_map(share).max().unwrap_or(0);
        let share = u64::try_from(share).unwrap_or(self.budget);
        Stored { used, bound: share.max(limits::STORED_LEAST).min(self.budget) }
    }
}

/// Processors, memory and devices: what has a price. Pods have none.
fn amounts(of: &Resources) -> [u128; 3] {
    let gpus = of.gpus.values().map(|count| u128::from(*count)).sum();
    [of.cpu_millis.into(), of.memory_bytes.into(), gpus]
}

fn sum(a: [u128; 3], b: [u128; 3]) -> [u128; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn refused(reason: String) -> Failure {
    Failure::Refused(Refusal { path: String::new(), reason })
}

fn kib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    fn contract(n: u8) -> ContractId {
        ContractId([n; 16])
    }

    fn buyer(n: u8) -> ClusterId {
        ClusterId([n; 32])
    }

    fn cpu(cpu_millis: u64) -> Resources {
        Resources { cpu_millis, memory_bytes: cpu_millis << 20, pods: 9, ..Resources::default() }
    }

    /// Ten processors are shared, and 100 MiB of etcd for guests.
    fn cluster() -> StoredObjects {
        let mut cluster = StoredObjects::default();
        cluster.set_bounds(Some(100 << 20), Some(cpu(10_000)));
        cluster
    }

    /// How many objects of a MiB are taken under this contract.
    fn fill(cluster: &mut StoredObjects, of: u8) -> usize {
        (0..).take_while(|_| cluster.claim(&contract(of), MIB).is_ok()).count()
    }

    fn reason(cluster: &mut StoredObjects, of: u8, more: usize) -> String {
        match cluster.claim(&contract(of), more) {
            Err(Failure::Refused(Refusal { reason, .. })) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_buyer_has_a_share_by_what_it_bought() {
        let mut cluster = cluster();
        cluster.begin(contract(1), buyer(1), &cpu(2_000));
        cluster.begin(contract(2), buyer(2), &cpu(10));
        assert_eq!((fill(&mut cluster, 1), fill(&mut cluster, 2)), (20, 2));
        let said = reason(&mut cluster, 2, 1);
        assert!(said.contains("would take 2049 KiB") && said.contains("is 2048 KiB"), "{said}");
        // The larger part counts, and devices of all models together.
        let gpus = [("h100".parse().unwrap(), 1), ("l4".parse().unwrap(), 1)].into();
        let four = [("h100".parse().unwrap(), 4)].into();
        let shared = Resources { gpus: four, ..cpu(10_000) };
        cluster.set_bounds(Some(100 << 20), Some(shared));
        cluster.begin(contract(3), buyer(3), &Resources { gpus, ..cpu(1_000) });
        assert_eq!(cluster.stored().buyers[&buyer(3)], Stored { used: 0, bound: 50 << 20 });
    }

    #[test]
    fn contracts_of_one_buyer_have_one_share() {
        let mut cluster = cluster();
        for n in 0..100 {
            cluster.begin(contract(n), buyer(1), &cpu(10));
        }
        let all: usize = (0..100).map(|n| fill(&mut cluster, n)).sum();
        assert_eq!(all, 10, "a tenth is one processor");
        let mut one = self::cluster();
        one.begin(contract(1), buyer(1), &cpu(1_000));
        assert_eq!(fill(&mut one, 1), all);
    }

    #[test]
    fn all_buyers_together_have_the_budget_and_no_more() {
        let mut cluster = cluster();
        for n in 0..60 {
            cluster.begin(contract(n), buyer(n), &cpu(10));
        }
        let all: usize = (0..60).map(|n| fill(&mut cluster, n)).sum();
        assert_eq!(all, 100, "and each could have two");
        let said = reason(&mut cluster, 59, 1);
        assert!(said.contains("102400 KiB") && said.contains("share.objects"), "{said}");
        cluster.end(&contract(0));
        assert_eq!(fill(&mut cluster, 59), 2);
    }

    #[test]
    fn what_is_there_stays_and_only_more_is_refused() {
        let mut cluster = cluster();
        cluster.begin(contract(1), buyer(1), &cpu(5_000));
        assert_eq!(fill(&mut cluster, 1), 50);
        cluster.begin(contract(1), buyer(1), &cpu(1_000));
        let stored = cluster.stored().buyers[&buyer(1)];
        assert_eq!(stored, Stored { used: 50 << 20, bound: 10 << 20 });
        assert_eq!(cluster.claim(&contract(1), 0), Ok(()), "a change that takes no more");
        assert!(cluster.claim(&contract(1), 1).is_err());
        cluster.note(&contract(1), 9 << 20);
        assert_eq!(fill(&mut cluster, 1), 1);
    }

    #[test]
    fn what_is_sold_counts_also_where_less_is_shared_by_now() {
        let mut cluster = cluster();
        cluster.set_bounds(Some(100 << 20), Some(Resources::default()));
        cluster.begin(contract(1), buyer(1), &cpu(3_000));
        cluster.begin(contract(2), buyer(2), &cpu(1_000));
        assert_eq!((fill(&mut cluster, 1), fill(&mut cluster, 2)), (75, 25));
    }

    #[test]
    fn before_it_is_known_what_is_shared_a_buyer_has_the_least_and_waits() {
        let mut cluster = StoredObjects::default();
        cluster.begin(contract(1), buyer(1), &cpu(5_000));
        assert_eq!(fill(&mut cluster, 1), 2);
        assert_eq!(cluster.claim(&contract(1), MIB), Err(Failure::Transient));
        cluster.set_bounds(None, Some(cpu(10_000)));
        assert_eq!(fill(&mut cluster, 1), 254, "half of 512 MiB");
    }

    proptest! {
        /// Whatever is claimed, noted and sold: more is taken only within both bounds.
        #[test]
        fn the_sum_over_buyers_is_never_above_the_budget(
            sizes in prop::collection::vec((0_u8..8, 0_u8..4, 0_u64..4_000), 1..8),
            claims in prop::collection::vec((0_u8..8, 0_usize..8 << 20), 1..60),
        ) {
            let mut cluster = cluster();
            for (n, of, millis) in sizes {
                cluster.begin(contract(n), buyer(of), &cpu(millis));
            }
            for (of, more) in claims {
                let _ = cluster.claim(&contract(of), more);
                let stored = cluster.stored();
                let sum: u64 = stored.buyers.values().map(|of| of.used).sum();
                prop_assert_eq!(sum, stored.all.used);
                prop_assert!(sum <= stored.all.bound);
                prop_assert!(stored.buyers.values().all(|of| of.used <= of.bound));
            }
        }

        /// Into however many pieces a purchase is cut, its buyer may store the same.
        #[test]
        fn a_purchase_that_is_cut_gives_no_more(
            pieces in prop::collection::vec(1_u64..3_000, 1..12),
            other in 0_u64..9_000,
        ) {
            let bound = |pieces: &[u64]| {
                let mut cluster = cluster();
                cluster.begin(contract(200), buyer(2), &cpu(other));
                for (n, millis) in (0_u8..).zip(pieces) {
                    cluster.begin(contract(n), buyer(1), &cpu(*millis));
                }
                cluster.stored().buyers[&buyer(1)].bound
            };
            prop_assert_eq!(bound(&pieces), bound(&[pieces.iter().sum()]));
        }
    }
}
