//! How much of all leases nodes are told: a message has room for so many. Who is left out is not
//! waited for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::limits;

use crate::nodes::control::WishLease;

/// What no node is told.
#[derive(Default)]
pub(super) struct LeftOut {
    ranges: BTreeSet<IpNet>,
    pods: BTreeSet<IpAddr>,
    /// How many leases they are of.
    leases: usize,
}

impl LeftOut {
    pub(super) fn has_range(&self, range: &IpNet) -> bool {
        self.ranges.contains(range)
    }

    pub(super) fn has_pod(&self, pod: IpAddr) -> bool {
        self.pods.contains(&pod)
    }

    /// Those of the leases that nodes are told, the first ones; keeps what the others have.
    pub(super) fn leave(&mut self, leases: &[WishLease]) -> Vec<WishLease> {
        let before = std::mem::take(self).leases;
        let (mut told, mut ranges, mut named, mut pods) = (Vec::new(), BTreeSet::new(), 0, 0);
        for lease in leases {
            let new = lease.ranges.iter().filter(|range| !ranges.contains(*range)).count();
            let fits = told.len() < limits::NODE_LEASES
                && ranges.len() + new <= limits::NODE_RANGES
                && named + lease.ranges.len() <= limits::NODE_LEASE_RANGES
                // As if all were on one node.
                && pods + lease.pods.len() <= limits::NODE_PODS;
            if !fits {
                self.leases += 1;
                self.ranges.extend(lease.ranges.iter());
                self.pods.extend(&lease.pods);
                continue;
            }
            ranges.extend(lease.ranges.iter().copied());
            named += lease.ranges.len();
            pods += lease.pods.len();
            told.push(lease.clone());
        }
        self.ranges.retain(|range| !ranges.contains(range));
        if self.leases > 0 && before == 0 {
            // Once for each time that it begins.
            tracing::warn!(
                leases = self.leases,
                "nodes are not told of all leases, which are too many: pods of other nodes do not \
                 reach those that are left out, nor are reached by them"
            );
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;

    fn lease(first: u32, ranges: usize, pod: u32) -> WishLease {
        let range = |n: usize| IpNet::from(IpAddr::from(Ipv4Addr::from(first + n as u32)));
        WishLease {
            until_ms: 1,
            ranges: Arc::new((0..ranges).map(range).collect()),
            pods: vec![Ipv4Addr::from(pod).into()],
            guests: true,
        }
    }

    #[test]
    fn leases_of_one_cluster_share_their_ranges() {
        let mut left_out = LeftOut::default();
        let many: Vec<_> = (0..limits::NODE_LEASES as u32).map(|n| lease(7, 64, n)).collect();
        assert_eq!(left_out.leave(&many), many);
        assert!(!left_out.has_range(&many[0].ranges[0]) && !left_out.has_pod(many[0].pods[0]));
    }

    #[test]
    fn who_has_no_room_is_named() {
        let mut left_out = LeftOut::default();
        let (large, other) = (lease(0, limits::NODE_RANGES - 1, 1), lease(100_000, 2, 2));
        let small = lease(200_000, 1, 3);
        let all = [large.clone(), other.clone(), small.clone()];
        assert_eq!(left_out.leave(&all), [large, small]);
        assert!(left_out.has_range(&other.ranges[1]) && left_out.has_pod(other.pods[0]));
        assert!(!left_out.has_range(&all[2].ranges[0]));
        left_out.leave(&all[1..]);
        assert!(!left_out.has_pod(other.pods[0]), "there is room again");
    }
}
