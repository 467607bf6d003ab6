//! What of IPv6 passes tunnels: all of it follows from what is known by IPv4. Inside tunnels the
//! pool is the same for all; each cluster translates to its own at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use mercato_protocol::tunnel::{SECOND_POOL, second, second_range};

use super::table::Row;
use crate::kubernetes::PodPlace;

/// What of IPv6 passes, and why it does not.
#[derive(Debug, Default)]
pub(super) struct Second {
    /// Behind which range pods are known by IPv6, where all is there that it takes.
    pool: Option<Ipv6Net>,
    /// Why by none, though the cluster has it and the owner wants it.
    off: Option<String>,
    /// The second addresses of pods, by their first ones.
    pods: BTreeMap<IpAddr, IpAddr>,
    /// An earlier run has had it, and it is not known yet which pods there are.
    had: bool,
}

impl Second {
    /// What an earlier run has set up stays until it is known which pods there are.
    pub(super) fn remember(&mut self, had: bool) {
        self.had = had;
    }

    /// These are all pods, of which some have both families.
    pub(super) fn learn(&mut self, pods: &[PodPlace]) {
        let both = pods.iter().filter_map(|pod| Some((pod.address?, pod.second?)));
        self.pods = both.filter(|(first, second)| first.is_ipv4() && second.is_ipv6()).collect();
        self.had = false;
    }

    /// Whether pods are known to have it, or have had it.
    pub(super) fn has_pods(&self) -> bool {
        self.had || !self.pods.is_empty()
    }

    /// It passes behind this range from now on, or does not, and why.
    pub(super) fn mind(&mut self, now: Result<Option<Ipv6Net>, String>) {
        let (pool, off) = match now {
            Ok(pool) => (pool, None),
            Err(why) => (None, Some(why)),
        };
        if let Some(why) = off.as_ref().filter(|why| self.off.as_ref() != Some(why)) {
            // Once for each reason.
            tracing::warn!("pods of other clusters are reached by IPv4 alone: {why}");
        }
        (self.pool, self.off) = (pool, off);
    }

    /// Behind which range pods are known by IPv6.
    pub(super) fn pool(&self) -> Option<Ipv6Net> {
        self.pool
    }

    /// Why they are known by none.
    pub(super) fn off(&self) -> Option<&str> {
        self.off.as_deref()
    }

    /// The second address of the pod here that has this first one. One of the pool is no pod's.
    pub(super) fn of_pod(&self, first: &IpAddr) -> Option<IpAddr> {
        let pool = IpNet::V6(self.pool?);
        self.pods.get(first).copied().filter(|second| !pool.contains(second))
    }

    /// The ranges, with those in which the same addresses are known by IPv6.
    pub(super) fn ranges(&self, mut first: BTreeSet<IpNet>) -> BTreeSet<IpNet> {
        if let Some(pool) = self.pool {
            let known = first.iter().filter_map(|range| second_range(pool, *range));
            first.extend(known.collect::<Vec<_>>());
        }
        first
    }

    /// A row with what is of IPv6 too: of this cluster's addresses those that pods have, and those
    /// of the pool of IPv4, which are nodes'; and guests of the other side that are said to have
    /// both.
    pub(super) fn with_row(&self, mut row: Row, first: IpNet, guests: &BTreeSet<IpAddr>) -> Row {
        let Some(pool) = self.pool else { return row };
        let local = |local: &IpAddr| {
            if first.contains(local) { second(pool, *local) } else { self.of_pod(local) }
        };
        let guest = |guest: &IpAddr| second(pool, *guests.get(guest)?);
        let members = row.members.iter().filter_map(|(local, (inner, group))| {
            Some((guest(local)?, (second(SECOND_POOL, *inner)?, *group)))
        });
        row.members.extend(members.collect::<Vec<_>>());
        extend(&mut row.locals, local);
        extend(&mut row.guests, guest);
        // None of them has any address, said or not.
        extend(&mut row.gone, |gone| second(pool, *gone));
        let ranges = row.ranges.iter().filter_map(|(local, inner)| {
            Some((second_range(pool, *local)?, second_range(SECOND_POOL, *inner)?))
        });
        row.ranges.extend(ranges.collect::<Vec<_>>());
        row
    }
}

/// With the second addresses; between gateways all are behind the same range.
fn extend(pairs: &mut BTreeMap<IpAddr, IpAddr>, local: impl Fn(&IpAddr) -> Option<IpAddr>) {
    let known = pairs.iter();
    let known = known.filter_map(|(one, inner)| Some((local(one)?, second(SECOND_POOL, *inner)?)));
    pairs.extend(known.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ClusterId;
    use mercato_session::Role;

    use super::super::table::group;
    use super::*;

    const OWN: &str = "fd00:1:2:3:4:5::/96";

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn pairs(all: &[(&str, &str)]) -> BTreeMap<IpAddr, IpAddr> {
        all.iter().map(|(one, other)| (address(one), address(other))).collect()
    }

    fn row(role: Role) -> Row {
        Row::new(ClusterId([1; 32]), role, 60_000)
    }

    fn first() -> IpNet {
        "10.200.0.0/13".parse().unwrap()
    }

    fn of_pods(all: &[(&str, Option<&str>)]) -> Second {
        let place = |(first, second): &(&str, Option<&str>)| PodPlace {
            namespace: "shop".to_owned(),
            node: "n1".to_owned(),
            address: Some(address(first)),
            second: second.map(address),
            guest: None,
        };
        let mut of_pods = Second::default();
        of_pods.learn(&all.iter().map(place).collect::<Vec<_>>());
        of_pods.mind(Ok(OWN.parse().ok()));
        of_pods
    }

    #[test]
    fn a_provider_brings_ipv6_to_guests_that_have_it() {
        let pods = of_pods(&[
            ("10.42.0.5", Some("fd42::5")),
            ("10.42.0.6", None),
            ("10.42.0.7", Some("fd00:1:2:3:4:5:0:7")),
            ("fd42::8", Some("10.42.0.8")),
        ]);
        let locals = pairs(&[
            ("10.42.0.5", "10.203.8.5"),
            ("10.42.0.6", "10.203.8.6"),
            ("10.42.0.7", "10.203.8.7"),
        ]);
        let ranges = [("10.201.0.0/24".parse().unwrap(), "10.203.5.0/24".parse().unwrap())].into();
        let before = Row { locals, ranges, ..row(Role::Provider) };
        let after = pods.with_row(before.clone(), first(), &BTreeSet::new());
        let mut locals = before.locals;
        locals.extend(pairs(&[("fd42::5", "fd4d:6572:6361:746f::10.203.8.5")]));
        assert_eq!(after.locals, locals, "one of the pool is nobody's");
        let own: IpNet = "fd00:1:2:3:4:5:10.201.0.0/120".parse().unwrap();
        let inner = "fd4d:6572:6361:746f::10.203.5.0/120".parse().unwrap();
        assert_eq!((after.ranges[&own], after.ranges.len()), (inner, 2));
    }

    #[test]
    fn home_sends_ipv6_to_guests_alone_that_are_said_to_have_it() {
        let pods = of_pods(&[("10.42.0.5", Some("fd42::5"))]);
        let locals = pairs(&[("10.42.0.5", "10.203.5.5"), ("10.203.7.0", "10.203.7.0")]);
        let guests = pairs(&[("10.203.8.5", "10.203.8.5"), ("10.203.8.6", "10.203.8.6")]);
        let member = |inner: &str| (address(inner), group("shop"));
        let members = [("10.203.8.5", "10.203.8.5"), ("10.203.8.6", "10.203.8.6")];
        let members = members.map(|(local, inner)| (address(local), member(inner))).into();
        let before = Row { locals, guests, members, ..row(Role::Consumer) };
        let said = [address("10.203.8.6")].into();
        let after = pods.with_row(before.clone(), first(), &said);
        let (mut locals, mut guests) = (before.locals, before.guests);
        locals.extend(pairs(&[
            ("fd42::5", "fd4d:6572:6361:746f::10.203.5.5"),
            ("fd00:1:2:3:4:5:10.203.7.0", "fd4d:6572:6361:746f::10.203.7.0"),
        ]));
        assert_eq!(after.locals, locals);
        guests.extend(pairs(&[("fd00:1:2:3:4:5:10.203.8.6", "fd4d:6572:6361:746f::10.203.8.6")]));
        assert_eq!(after.guests, guests);
        let met = &after.members[&address("fd00:1:2:3:4:5:10.203.8.6")];
        assert_eq!(*met, member("fd4d:6572:6361:746f::10.203.8.6"));
        assert_eq!(after.members.len(), 3, "the other one has IPv4 alone");
    }

    #[test]
    fn without_a_pool_all_is_as_if_there_were_no_ipv6() {
        let mut pods = of_pods(&[("10.42.0.5", Some("fd42::5"))]);
        let own: BTreeSet<IpNet> = ["10.201.0.0/24".parse().unwrap()].into();
        assert_eq!((pods.ranges(own.clone()).len(), pods.off()), (2, None));
        pods.mind(Err("it is too small".to_owned()));
        assert_eq!((pods.pool(), pods.off()), (None, Some("it is too small")));
        let before = Row { locals: pairs(&[("10.42.0.5", "10.203.5.5")]), ..row(Role::Consumer) };
        assert_eq!(pods.with_row(before.clone(), first(), &BTreeSet::new()), before);
        assert_eq!(pods.ranges(own.clone()), own);
        assert!(pods.has_pods());
        pods.learn(&[]);
        pods.remember(true);
        assert!(pods.has_pods(), "those of an earlier run");
        pods.learn(&[]);
        assert!(!pods.has_pods());
    }
}
