//! Ranges of one lease's addresses: an address in one has the same place in the other. They are
//! apart, so that one alone may have an address: the last that begins at it or before.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::change::{RangeEntry, Refused};
use crate::limits;

/// Ranges of one lease, at most [`limits::RANGES`]: no two of them have an address in common, by
/// either name.
#[derive(Clone, Default)]
pub(super) struct Ranges {
    /// By their first addresses, as this cluster calls them and as the gateways do.
    by_local: BTreeMap<IpAddr, Range>,
    by_inner: BTreeMap<IpAddr, Range>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    local: IpNet,
    inner: IpNet,
}

impl Ranges {
    /// How an address of this cluster is called between the gateways.
    pub(super) fn inner(&self, local: IpAddr) -> Option<IpAddr> {
        let (_, range) = self.by_local.range(..=local).next_back()?;
        moved(local, range.local, range.inner)
    }

    /// How this cluster calls an address that is called so between the gateways.
    pub(super) fn local(&self, inner: IpAddr) -> Option<IpAddr> {
        let (_, range) = self.by_inner.range(..=inner).next_back()?;
        moved(inner, range.inner, range.local)
    }

    /// Adds a range. One that is there already stays.
    pub(super) fn insert(&mut self, entry: RangeEntry) -> Result<(), Refused> {
        let RangeEntry { lease, local, inner } = entry;
        check(local, inner)?;
        let range = Range { local, inner };
        if self.by_local.get(&local.addr()) == Some(&range) {
            return Ok(());
        }
        for taken in self.by_local.values() {
            for (range, taken) in [(local, taken.local), (inner, taken.inner)] {
                if overlap(range, taken) {
                    return Err(Refused::Overlap { range, taken });
                }
            }
        }
        if self.by_local.len() >= limits::RANGES {
            return Err(Refused::FullOfRanges(lease));
        }
        self.by_local.insert(local.addr(), range);
        self.by_inner.insert(inner.addr(), range);
        Ok(())
    }

    /// Removes the range that this cluster calls so, if there is one.
    pub(super) fn remove(&mut self, local: IpNet) {
        let is_it = |_: &IpAddr, range: &mut Range| range.local != local;
        self.by_local.retain(is_it);
        self.by_inner.retain(is_it);
    }
}

/// Whether addresses of the one can have the same places in the other.
fn check(local: IpNet, inner: IpNet) -> Result<(), Refused> {
    if local.addr().is_ipv4() != inner.addr().is_ipv4() {
        return Err(Refused::Versions { local: local.addr(), inner: inner.addr() });
    }
    if local.prefix_len() != inner.prefix_len() {
        return Err(Refused::Lengths { local, inner });
    }
    let has_host_bits = |range: &IpNet| range.trunc() != *range;
    [local, inner]
        .into_iter()
        .find(has_host_bits)
        .map_or(Ok(()), |range| Err(Refused::HostBits(range)))
}

/// Two ranges without host bits have something in common if one is in the other.
fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// The address that has the place in `to` that this one has in `from`; none if it is not there.
fn moved(address: IpAddr, from: IpNet, to: IpNet) -> Option<IpAddr> {
    match (address, from, to) {
        (IpAddr::V4(address), IpNet::V4(from), IpNet::V4(to)) => {
            let (base, mask) = (from.addr().to_bits(), from.netmask().to_bits());
            let bits = address.to_bits();
            let is_there = bits & mask == base;
            is_there.then(|| Ipv4Addr::from_bits(to.addr().to_bits() | (bits & !mask)).into())
        }
        (IpAddr::V6(address), IpNet::V6(from), IpNet::V6(to)) => {
            let (base, mask) = (from.addr().to_bits(), from.netmask().to_bits());
            let bits = address.to_bits();
            let is_there = bits & mask == base;
            is_there.then(|| Ipv6Addr::from_bits(to.addr().to_bits() | (bits & !mask)).into())
        }
        // Of another version.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;
    use proptest::prelude::*;

    use super::*;

    fn entry(local: &str, inner: &str) -> RangeEntry {
        let lease = ContractId([1; 16]);
        RangeEntry { lease, local: local.parse().unwrap(), inner: inner.parse().unwrap() }
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn what_cannot_be_a_range_is_refused_with_a_word_on_what_to_do() {
        let mut ranges = Ranges::default();
        let mut refused = |local, inner| ranges.insert(entry(local, inner)).unwrap_err();
        let [local, inner] = ["10.0.0.0", "fd00::"].map(|text| text.parse().unwrap());
        assert_eq!(refused("10.0.0.0/8", "fd00::/8"), Refused::Versions { local, inner });
        let (local, inner) = (net("10.1.0.0/16"), net("10.2.0.0/15"));
        let lengths = refused("10.1.0.0/16", "10.2.0.0/15");
        assert_eq!(lengths, Refused::Lengths { local, inner });
        assert!(lengths.to_string().contains("give both the same length"), "{lengths}");
        for (local, inner) in [("10.1.0.9/16", "10.2.0.0/16"), ("10.2.0.0/16", "10.1.0.9/16")] {
            let bits = refused(local, inner);
            assert_eq!(bits, Refused::HostBits(net("10.1.0.9/16")));
            assert!(bits.to_string().contains("write 10.1.0.0/16"), "{bits}");
        }
        assert!(ranges.by_local.is_empty() && ranges.by_inner.is_empty());
    }

    #[test]
    fn no_address_is_in_two_ranges() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.insert(entry("10.1.0.0/16", "10.2.0.0/16")), Ok(()));
        assert_eq!(ranges.insert(entry("10.1.0.0/16", "10.2.0.0/16")), Ok(()), "it is there");
        let overlap = |range, taken| Err(Refused::Overlap { range: net(range), taken: net(taken) });
        let by_local = ranges.insert(entry("10.1.7.0/24", "10.9.0.0/24"));
        assert_eq!(by_local, overlap("10.1.7.0/24", "10.1.0.0/16"));
        let by_inner = ranges.insert(entry("10.8.0.0/15", "10.2.0.0/15"));
        assert_eq!(by_inner, overlap("10.2.0.0/15", "10.2.0.0/16"));
        for nth in 1..limits::RANGES {
            let (local, inner) = (format!("10.3.{nth}.0/24"), format!("10.4.{nth}.0/24"));
            assert_eq!(ranges.insert(entry(&local, &inner)), Ok(()));
        }
        let more = entry("10.5.0.0/16", "10.6.0.0/16");
        assert_eq!(ranges.insert(more), Err(Refused::FullOfRanges(more.lease)));
        ranges.remove(net("10.3.1.0/24"));
        assert_eq!(ranges.insert(more), Ok(()));
    }

    /// Two ranges of one length, without host bits.
    fn pair() -> impl Strategy<Value = (IpNet, IpNet)> {
        let v4 = (any::<[u32; 2]>(), 0..=32_u8).prop_map(|(bits, length)| {
            bits.map(|bits| IpNet::new(Ipv4Addr::from_bits(bits).into(), length).unwrap().trunc())
        });
        let v6 = (any::<[u128; 2]>(), 0..=128_u8).prop_map(|(bits, length)| {
            bits.map(|bits| IpNet::new(Ipv6Addr::from_bits(bits).into(), length).unwrap().trunc())
        });
        prop_oneof![v4, v6].prop_map(|[local, inner]| (local, inner))
    }

    /// The address of this place in a range; places begin anew behind the last.
    fn nth(range: IpNet, place: u128) -> IpAddr {
        match range {
            IpNet::V4(range) => {
                let bits = range.addr().to_bits() | (place as u32 & range.hostmask().to_bits());
                Ipv4Addr::from_bits(bits).into()
            }
            IpNet::V6(range) => {
                let bits = range.addr().to_bits() | (place & range.hostmask().to_bits());
                Ipv6Addr::from_bits(bits).into()
            }
        }
    }

    proptest! {
        #[test]
        fn an_address_has_its_place_in_the_other_range_and_comes_back(
            (local, inner) in pair(),
            place in any::<u128>(),
        ) {
            let mut ranges = Ranges::default();
            let lease = ContractId([1; 16]);
            prop_assert_eq!(ranges.insert(RangeEntry { lease, local, inner }), Ok(()));
            let (here, there) = (nth(local, place), nth(inner, place));
            prop_assert_eq!(ranges.inner(here), Some(there));
            prop_assert_eq!(ranges.local(there), Some(here));
            ranges.remove(local);
            prop_assert_eq!((ranges.inner(here), ranges.local(there)), (None, None));
        }

        #[test]
        fn what_is_in_no_range_has_no_other_name(
            (local, inner) in pair(),
            v4 in any::<u32>(),
            v6 in any::<u128>(),
        ) {
            let mut ranges = Ranges::default();
            let lease = ContractId([1; 16]);
            prop_assert_eq!(ranges.insert(RangeEntry { lease, local, inner }), Ok(()));
            let any = [IpAddr::from(Ipv4Addr::from_bits(v4)), Ipv6Addr::from_bits(v6).into()];
            for address in any {
                prop_assert_eq!(ranges.inner(address).is_some(), local.contains(&address));
                prop_assert_eq!(ranges.local(address).is_some(), inner.contains(&address));
            }
        }
    }
}
