//! The pool of addresses by which pods are known inside tunnels, and whom each range of it was
//! given to. A range keeps its owner over restarts; which one it is is as good as drawn by lot,
//! so that two clusters with the same pool seldom give the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::id::{ClusterId, ContractId, Digest};
use mercato_protocol::tunnel::is_reserved;

use crate::record::{Change, RangeOwner, Record, RecordKey};

/// The pool, and what was given of it.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Of this cluster: another one draws other ranges for the same owners.
    lot: Vec<u8>,
    pool: Option<IpNet>,
    given: BTreeMap<RangeOwner, IpNet>,
}

impl Ranges {
    pub(super) fn of(own: ClusterId) -> Self {
        Self { lot: own.0.to_vec(), ..Self::default() }
    }

    pub(super) fn set_pool(&mut self, pool: Option<IpNet>) {
        self.pool = pool;
    }

    /// As a record has it.
    pub(super) fn restore(&mut self, owner: RangeOwner, range: IpNet) {
        self.given.insert(owner, range);
    }

    /// The owner's range of at least so many addresses, as a power of two: the one that it has, else
    /// the one that it wishes for if that is free, else another; and the record of a new one.
    /// None: there is no pool, or no room in it.
    pub(super) fn give(
        &mut self,
        owner: RangeOwner,
        bits: u8,
        wish: Option<IpNet>,
    ) -> Option<Given> {
        let pool = self.pool.filter(|pool| is_of_family(owner, *pool))?;
        let length = pool.max_prefix_len().checked_sub(bits)?;
        let held = self.given.get(&owner).copied();
        let fits = |range: &IpNet| {
            range.prefix_len() <= length && pool.contains(range) && !is_reserved(pool, *range)
        };
        if let Some(range) = held.filter(fits) {
            return Some(Given { range, record: None });
        }
        let range = self.free(pool, owner, length, wish)?;
        self.given.insert(owner, range);
        Some(Given { range, record: Some(Change::Put(Record::Range(owner, range))) })
    }

    fn free(
        &self,
        pool: IpNet,
        owner: RangeOwner,
        length: u8,
        wish: Option<IpNet>,
    ) -> Option<IpNet> {
        let others = self.given.iter().filter(|(other, _)| **other != owner);
        let others: Vec<&IpNet> = others.map(|(_, range)| range).collect();
        let overlaps = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
        let is_free = |range: &IpNet| {
            pool.contains(range)
                && !is_reserved(pool, *range)
                && !others.iter().any(|other| overlaps(range, other))
        };
        let wish = wish.filter(|wish| wish.prefix_len() == length && is_free(wish));
        wish.or_else(|| {
            let more = u32::from(length.checked_sub(pool.prefix_len())?).min(TRIES_BITS);
            let places = 1_u128 << more;
            let owner = RecordKey::Range(owner).to_bytes();
            let lot = Digest::of(&[&self.lot[..], &owner].concat()).0;
            let lot = u128::from_be_bytes(lot[..16].try_into().ok()?);
            let mut turn = (0..places).map(|step| nth(pool, length, (lot + step) % places));
            turn.find(is_free)
        })
    }

    /// What has this owner no longer needs a range; nothing if it has none.
    pub(super) fn give_back(&mut self, owner: RangeOwner) -> Option<Change> {
        self.given.remove(&owner)?;
        Some(Change::Erase(RecordKey::Range(owner)))
    }

    /// The ranges in which the guests here of a lease are known.
    pub(super) fn of_guests(&self, lease: ContractId) -> impl Iterator<Item = IpNet> {
        self.owners().filter_map(move |owner| match owner {
            RangeOwner::Guests(of, range) => (of == lease).then_some(range),
            RangeOwner::Lease(_)
            | RangeOwner::Nodes
            | RangeOwner::Own(_)
            | RangeOwner::Peer(..) => None,
        })
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = RangeOwner> {
        self.given.keys().copied()
    }
}

/// A range, and the change of the records that goes before its use.
pub(super) struct Given {
    pub(super) range: IpNet,
    pub(super) record: Option<Change>,
}

/// Whether what it has of a pool stands for addresses of the same family.
fn is_of_family(owner: RangeOwner, pool: IpNet) -> bool {
    match owner {
        RangeOwner::Own(range) | RangeOwner::Peer(_, range) | RangeOwner::Guests(_, range) => {
            range.max_prefix_len() == pool.max_prefix_len()
        }
        RangeOwner::Lease(_) | RangeOwner::Nodes => true,
    }
}

/// The nth range of that prefix length in the pool.
fn nth(pool: IpNet, length: u8, n: u128) -> IpNet {
    let bits = pool.max_prefix_len();
    let offset = n.checked_shl(u32::from(bits - length)).unwrap_or(0);
    let address = match pool.network() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) | offset as u32).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) | offset).into()),
    };
    IpNet::new_assert(address, length)
}

/// Of so many places, as a power of two, one is looked for; of IPv6 there would be no end.
const TRIES_BITS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn book(pool: &str) -> Ranges {
        book_of(1, pool)
    }

    fn book_of(cluster: u8, pool: &str) -> Ranges {
        let mut book = Ranges::of(ClusterId([cluster; 32]));
        book.set_pool(Some(pool.parse().unwrap()));
        book
    }

    fn range(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn peer(n: u8, text: &str) -> RangeOwner {
        RangeOwner::Peer(ClusterId([n; 32]), range(text))
    }

    #[test]
    fn a_range_is_one_owners_until_there_is_no_room() {
        let mut book = book("10.200.0.0/29");
        let mut seen = Vec::new();
        for n in 0..4 {
            let given = book.give(peer(n, "10.1.0.0/31"), 1, None).unwrap();
            assert!(given.record.is_some());
            assert!(!seen.contains(&given.range), "{:?}", given.range);
            seen.push(given.range);
        }
        assert!(book.give(peer(9, "10.1.0.0/31"), 1, None).is_none());
        let again = book.give(peer(2, "10.1.0.0/31"), 1, None).unwrap();
        assert!(again.range == seen[2] && again.record.is_none(), "it keeps its range");
        assert!(book.give_back(peer(2, "10.1.0.0/31")).is_some());
        assert_eq!(book.give(peer(9, "10.1.0.0/31"), 1, None).unwrap().range, seen[2]);
    }

    #[test]
    fn two_clusters_draw_other_ranges_for_the_same_owners() {
        let drawn = [1, 2].map(|cluster| {
            let mut book = book_of(cluster, "10.200.0.0/13");
            let owners = [RangeOwner::Nodes, RangeOwner::Own(range("10.42.0.0/24"))];
            owners.map(|owner| book.give(owner, 8, None).unwrap().range)
        });
        assert!(drawn[0].iter().all(|range| !drawn[1].contains(range)), "{drawn:?}");
    }

    #[test]
    fn a_wish_is_heard_where_it_is_free_and_of_the_pool() {
        let mut book = book("10.200.0.0/13");
        let wish = |n: u8, text: &str| (peer(n, text), Some(range(text)));
        let (owner, wished) = wish(1, "10.201.7.0/24");
        assert_eq!(book.give(owner, 8, wished).unwrap().range, range("10.201.7.0/24"));
        let (owner, wished) = wish(2, "10.201.7.0/24");
        let other = book.give(owner, 8, wished).unwrap().range;
        assert!(other != range("10.201.7.0/24") && range("10.200.0.0/13").contains(&other));
        let (owner, wished) = wish(3, "192.168.7.0/24");
        assert!(range("10.200.0.0/13").contains(&book.give(owner, 8, wished).unwrap().range));
    }

    #[test]
    fn the_addresses_at_the_end_are_nobodys() {
        let pool = range("10.200.0.0/16");
        let mut book = book("10.200.0.0/16");
        // As an earlier release may have given it.
        book.restore(peer(7, "10.1.0.0/32"), range("10.200.255.253/32"));
        let again = book.give(peer(7, "10.1.0.0/32"), 0, None).unwrap();
        assert!(again.record.is_some() && !is_reserved(pool, again.range), "{}", again.range);
        book.give_back(peer(7, "10.1.0.0/32"));
        let (owner, wished) = (peer(1, "10.200.255.0/24"), Some(range("10.200.255.0/24")));
        assert_ne!(book.give(owner, 8, wished).unwrap().range, range("10.200.255.0/24"));
        for n in 0..254 {
            let owner = RangeOwner::Own(range(&format!("10.1.{n}.0/24")));
            let given = book.give(owner, 8, None).unwrap().range;
            assert!(!is_reserved(pool, given), "{given}");
        }
        assert!(book.give(peer(2, "10.1.0.0/24"), 8, None).is_none(), "no other one is left");
    }

    #[test]
    fn one_that_is_too_small_or_of_another_pool_is_replaced() {
        let mut book = book("10.200.0.0/13");
        let owner = peer(1, "10.1.0.0/24");
        let small = book.give(owner, 6, None).unwrap().range;
        let larger = book.give(owner, 8, None).unwrap();
        assert!(larger.range != small && larger.record.is_some());
        book.set_pool(Some(range("fd00:7::/48")));
        assert!(book.give(owner, 8, None).is_none(), "of another family");
        let nodes = book.give(RangeOwner::Nodes, 0, None).unwrap().range;
        assert!(range("fd00:7::/48").contains(&nodes) && nodes.prefix_len() == 128);
        book.set_pool(None);
        assert!(book.give(RangeOwner::Nodes, 0, None).is_none());
    }
}
