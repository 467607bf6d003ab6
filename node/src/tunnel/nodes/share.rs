//! How much of all leases nodes are told: a message has room for so many. Who is left out is not
//! waited for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_protocol::id::ContractId;
use mercato_protocol::limits;

use crate::nodes::control::WishLease;

/// What no node is told.
#[derive(Default)]
pub(super) struct LeftOut {
    ranges: BTreeSet<IpNet>,
    pods: BTreeSet<IpAddr>,
    /// The leases that they are of.
    leases: BTreeSet<ContractId>,
    /// How many Services closed guests do not reach.
    services: usize,
}

impl LeftOut {
    pub(super) fn has_range(&self, range: &IpNet) -> bool {
        self.ranges.contains(range)
    }

    pub(super) fn has_pod(&self, pod: IpAddr) -> bool {
        self.pods.contains(&pod)
    }

    /// The leases of which no node is told.
    pub(super) fn leases(&self) -> impl Iterator<Item = &ContractId> {
        self.leases.iter()
    }

    /// Those of the leases that nodes are told, the first ones; keeps what the others have.
    pub(super) fn leave(&mut self, leases: &[WishLease]) -> Vec<WishLease> {
        let Self { services: closed_before, .. } = std::mem::take(self);
        let (mut told, mut ranges, mut named, mut pods) = (Vec::new(), BTreeSet::new(), 0, 0);
        for lease in leases {
            let new = lease.ranges.iter().filter(|range| !ranges.contains(*range)).count();
            let fits = told.len() < limits::NODE_LEASES
                && ranges.len() + new <= limits::NODE_RANGES
                && named + lease.ranges.len() <= limits::NODE_LEASE_RANGES
                // As if all were on one node.
                && pods + lease.pods.len() <= limits::NODE_PODS;
            if !fits {
                self.leases.insert(lease.id);
                self.ranges.extend(lease.ranges.iter());
                self.pods.extend(&lease.pods);
                continue;
            }
            ranges.extend(lease.ranges.iter().copied());
            named += lease.ranges.len();
            pods += lease.pods.len();
            // Nobody reaches Services who is not closed.
            let services = match lease.closed.is_empty() {
                true => Arc::default(),
                false => lease.services.clone(),
            };
            told.push(WishLease { services, ..lease.clone() });
        }
        let shares = shares(told.iter().map(|lease| lease.services.len()), limits::NODE_SERVICES);
        for (lease, share) in told.iter_mut().zip(shares) {
            self.services += lease.services.len() - share;
            if share < lease.services.len() {
                lease.services = Arc::new(lease.services.iter().take(share).copied().collect());
            }
        }
        self.ranges.retain(|range| !ranges.contains(range));
        if self.services > 0 && closed_before == 0 {
            // Once for each time that it begins.
            tracing::warn!(
                services = self.services,
                "nodes are not told of all Services of guests, which are too many: guests that are \
                 closed do not reach those that are left out"
            );
        }
        told
    }
}

/// How much of the room each gets that asks for so much of it: whoever asks for less than an equal part
/// gets all, and the others share the rest equally. A lease with many leaves none without.
fn shares(asked: impl Iterator<Item = usize>, mut room: usize) -> Vec<usize> {
    let mut shares: Vec<_> = asked.collect();
    let mut least_first: Vec<_> = (0..shares.len()).collect();
    least_first.sort_by_key(|place| shares[*place]);
    for (nth, place) in least_first.iter().enumerate() {
        let share = shares[*place].min(room / (least_first.len() - nth));
        shares[*place] = share;
        room -= share;
    }
    shares
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use mercato_protocol::egress::Egress;
    use mercato_protocol::node::{NodeGuest, ServiceAddress};

    use super::*;

    /// Each has a pod of its own, by which it is known.
    fn lease(first: u32, ranges: usize, pod: u32) -> WishLease {
        let range = |n: usize| IpNet::from(IpAddr::from(Ipv4Addr::from(first + n as u32)));
        let mut id = ContractId([0; 16]);
        id.0[..4].copy_from_slice(&pod.to_be_bytes());
        WishLease {
            id,
            until_ms: 1,
            ranges: Arc::new((0..ranges).map(range).collect()),
            pods: [Ipv4Addr::from(pod).into()].into(),
            guests: true,
            closed: BTreeSet::new(),
            services: Arc::default(),
            askers: BTreeSet::new(),
            egress: Egress::None,
        }
    }

    #[test]
    fn leases_of_one_cluster_share_their_ranges() {
        let mut left_out = LeftOut::default();
        let many: Vec<_> = (0..limits::NODE_LEASES as u32).map(|n| lease(7, 64, n)).collect();
        assert_eq!(left_out.leave(&many), many);
        assert!(!left_out.has_range(&many[0].ranges[0]) && left_out.leases().next().is_none());
    }

    #[test]
    fn who_has_no_room_is_named() {
        let mut left_out = LeftOut::default();
        let (large, other) = (lease(0, limits::NODE_RANGES - 1, 1), lease(100_000, 2, 2));
        let small = lease(200_000, 1, 3);
        let all = [large.clone(), other.clone(), small.clone()];
        assert_eq!(left_out.leave(&all), [large, small]);
        assert!(left_out.has_range(&other.ranges[1]));
        assert!(other.pods.iter().all(|pod| left_out.has_pod(*pod)));
        assert_eq!(left_out.leases().collect::<Vec<_>>(), [&other.id]);
        assert!(!left_out.has_range(&all[2].ranges[0]));
        left_out.leave(&all[1..]);
        assert_eq!(left_out.leases().count(), 0, "there is room again");
    }

    #[test]
    fn services_without_room_are_left_out_and_their_lease_is_told() {
        let one = |n: u32| ServiceAddress { here: Ipv4Addr::from(n).into(), home: None };
        let services = |count: usize| Arc::new((0..count as u32).map(one).collect());
        let closed =
            BTreeSet::from([NodeGuest { uid: "a".parse().unwrap(), pod: None, called: None }]);
        let of = |count, pod| WishLease { services: services(count), ..lease(7, 1, pod) };
        let with = |count, pod| WishLease { closed: closed.clone(), ..of(count, pod) };
        let mut left_out = LeftOut::default();
        let told = left_out.leave(&[with(limits::NODE_SERVICES - 1, 1), with(2, 2), with(3, 3)]);
        let counts: Vec<_> = told.iter().map(|lease| lease.services.len()).collect();
        assert_eq!((counts, left_out.services), (vec![limits::NODE_SERVICES - 5, 2, 3], 4));
        let told = left_out.leave(&[with(2, 2), of(4, 4)]);
        assert_eq!((left_out.services, told[0].services.len()), (0, 2), "there is room again");
        assert!(told[1].services.is_empty(), "nobody is closed");
    }

    #[test]
    fn whoever_asks_for_little_gets_it_and_the_others_share() {
        assert_eq!(shares([9, 1, 9, 0].into_iter(), 10), [4, 1, 5, 0]);
        assert_eq!(shares([3, 3].into_iter(), 10), [3, 3]);
        assert_eq!(shares([4; 3].into_iter(), 2), [0, 1, 1]);
        assert_eq!(shares([].into_iter(), 2), [0; 0]);
    }
}
