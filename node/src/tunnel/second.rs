//! What of IPv6 passes tunnels: all of it follows from what is known by IPv4. Inside tunnels the
//! pool is the same for all; each cluster translates to its own at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use mercato_protocol::tunnel::{SECOND_POOL, second, second_range};

use super::table::Row;
use crate::kubernetes::PodPlace;

/// The second addresses of pods, by their first ones. One of the pool is none of a pod's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seconds(BTreeMap<IpAddr, IpAddr>);

impl Seconds {
    /// Of all pods that have both.
    pub(super) fn of(pods: &[PodPlace]) -> Self {
        let both = pods.iter().filter_map(|pod| Some((pod.address?, pod.second?)));
        Self(both.filter(|(first, second)| first.is_ipv4() && second.is_ipv6()).collect())
    }

    /// Whether no pod has both.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// That of the pod with this first one, where it is outside of the pool.
    pub(super) fn get(&self, first: &IpAddr, pool: Ipv6Net) -> Option<IpAddr> {
        let pool = IpNet::V6(pool);
        self.0.get(first).copied().filter(|second| !pool.contains(second))
    }
}

/// A row with what is of IPv6 too: of this cluster's addresses those that pods have, and those of
/// the pool itself, which are nodes'; and guests of the other side that are said to have both.
pub(super) fn with_second(
    mut row: Row,
    pools: (IpNet, Ipv6Net),
    pods: &Seconds,
    guests: &BTreeSet<IpAddr>,
) -> Row {
    let (first, pool) = pools;
    let known = |address| second(pool, address);
    let local = |local: &IpAddr| {
        if first.contains(local) { known(*local) } else { pods.get(local, pool) }
    };
    let inner = |inner: &IpAddr| second(SECOND_POOL, *inner);
    let more = |of: &BTreeMap<IpAddr, IpAddr>, local: &dyn Fn(&IpAddr) -> Option<IpAddr>| {
        let both = of.iter().filter_map(|(one, other)| Some((local(one)?, inner(other)?)));
        both.collect::<Vec<_>>()
    };
    let locals = more(&row.locals, &local);
    let of_guests = more(&row.guests, &|guest| guests.get(guest).copied().and_then(known));
    let ranges = row.ranges.iter().filter_map(|(local, inner)| {
        Some((second_range(pool, *local)?, second_range(SECOND_POOL, *inner)?))
    });
    let ranges: Vec<_> = ranges.collect();
    row.locals.extend(locals);
    row.guests.extend(of_guests);
    row.ranges.extend(ranges);
    row
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ClusterId;
    use mercato_session::Role;

    use super::*;

    const OWN: &str = "fd00:1:2:3:4:5::/96";

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn pairs(all: &[(&str, &str)]) -> BTreeMap<IpAddr, IpAddr> {
        all.iter().map(|(one, other)| (address(one), address(other))).collect()
    }

    fn row(role: Role) -> Row {
        Row {
            cluster: ClusterId([1; 32]),
            role,
            until_ms: 60_000,
            locals: BTreeMap::new(),
            guests: BTreeMap::new(),
            ranges: BTreeMap::new(),
        }
    }

    fn pools() -> (IpNet, Ipv6Net) {
        ("10.200.0.0/13".parse().unwrap(), OWN.parse().unwrap())
    }

    fn seconds(all: &[(&str, Option<&str>)]) -> Seconds {
        let place = |(first, second): &(&str, Option<&str>)| PodPlace {
            namespace: "shop".to_owned(),
            node: "n1".to_owned(),
            address: Some(address(first)),
            second: second.map(address),
            guest: None,
        };
        Seconds::of(&all.iter().map(place).collect::<Vec<_>>())
    }

    #[test]
    fn a_provider_brings_ipv6_to_guests_that_have_it() {
        let pods = seconds(&[
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
        let after = with_second(before.clone(), pools(), &pods, &BTreeSet::new());
        let mut locals = before.locals;
        locals.extend(pairs(&[("fd42::5", "fd4d:6572:6361:746f::10.203.8.5")]));
        assert_eq!(after.locals, locals, "one of the pool is nobody's");
        let own: IpNet = "fd00:1:2:3:4:5:10.201.0.0/120".parse().unwrap();
        let inner = "fd4d:6572:6361:746f::10.203.5.0/120".parse().unwrap();
        assert_eq!((after.ranges[&own], after.ranges.len()), (inner, 2));
    }

    #[test]
    fn home_sends_ipv6_to_guests_alone_that_are_said_to_have_it() {
        let pods = seconds(&[("10.42.0.5", Some("fd42::5"))]);
        let locals = pairs(&[("10.42.0.5", "10.203.5.5"), ("10.203.7.0", "10.203.7.0")]);
        let guests = pairs(&[("10.203.8.5", "10.203.8.5"), ("10.203.8.6", "10.203.8.6")]);
        let before = Row { locals, guests, ..row(Role::Consumer) };
        let said = [address("10.203.8.6")].into();
        let after = with_second(before.clone(), pools(), &pods, &said);
        let (mut locals, mut guests) = (before.locals, before.guests);
        locals.extend(pairs(&[
            ("fd42::5", "fd4d:6572:6361:746f::10.203.5.5"),
            ("fd00:1:2:3:4:5:10.203.7.0", "fd4d:6572:6361:746f::10.203.7.0"),
        ]));
        assert_eq!(after.locals, locals);
        guests.extend(pairs(&[("fd00:1:2:3:4:5:10.203.8.6", "fd4d:6572:6361:746f::10.203.8.6")]));
        assert_eq!(after.guests, guests);
    }
}
