//! Sets of networks (linux/netfilter/nf_tables.h). The kernel keeps of each where it begins and where it
//! ends, in whichever order they come.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, Message, address};
use super::numbers::{
    HEADER_BYTES, InKernel, NFT_MSG_GETSETELEM, NFTA_DATA_VALUE, NFTA_LIST_ELEM, NFTA_SET_ELEM_KEY,
    NFTA_SET_ELEM_LIST_ELEMENTS, NFTA_SET_NAME,
};
use crate::error::KernelError;
use crate::limits;

/// Of sets, that one has networks in it (`NFT_SET_INTERVAL`).
pub(super) const NFT_SET_INTERVAL: u32 = 4;
// Of elements, that the address is the first behind a network (`NFT_SET_ELEM_INTERVAL_END`).
const NFTA_SET_ELEM_FLAGS: u16 = 3;
const NFT_SET_ELEM_INTERVAL_END: u32 = 1;

/// What says of networks that they are in a set, or are not any more. None is in another.
pub(super) fn elements(
    place: InKernel<'_>,
    kind: u16,
    flags: u16,
    set: &str,
    nets: &BTreeSet<IpNet>,
) -> Vec<Message> {
    let nets: Vec<_> = nets.iter().collect();
    let some = |nets: &[&IpNet]| {
        let mut message = place.message(kind, flags);
        message.put_text(NFTA_SET_NAME, set);
        message.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |message| {
            for bound in nets.iter().flat_map(|net| Bound::of(net)) {
                message.nest(NFTA_LIST_ELEM, |message| bound.write(message));
            }
        });
        message
    };
    // Each has two.
    nets.chunks(limits::ELEMENTS_PER_MESSAGE / 2).map(some).collect()
}

/// What is in such a set; none: it is something else than networks.
pub(super) fn read(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    set: &str,
) -> Result<Option<BTreeSet<IpNet>>, KernelError> {
    let request = || {
        let mut request = place.message(NFT_MSG_GETSETELEM, list_flags());
        request.put_text(NFTA_SET_NAME, set);
        request
    };
    let mut bounds = Vec::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(NFTA_SET_ELEM_LIST_ELEMENTS)?.all(NFTA_LIST_ELEM) {
            bounds.push(Bound::read(element)?);
        }
    }
    Ok(between(bounds))
}

/// Where a network begins, or where the one before has ended: of one address, that comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    address: IpAddr,
    begins: bool,
}

impl Bound {
    /// Those of a network: one alone, where no address is behind it.
    fn of(net: &IpNet) -> impl Iterator<Item = Self> + use<> {
        let begins = Self { address: net.network(), begins: true };
        let end = next(net.broadcast()).map(|address| Self { address, begins: false });
        [begins].into_iter().chain(end)
    }

    fn write(self, message: &mut Message) {
        message.nest(NFTA_SET_ELEM_KEY, |message| {
            message.put(NFTA_DATA_VALUE, &mercato_machine::address(self.address));
        });
        if !self.begins {
            message.put_be32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
        }
    }

    fn read(element: &[u8]) -> Result<Self, KernelError> {
        let element = Attributes::read(element)?;
        let key = element.within(NFTA_SET_ELEM_KEY)?.of(NFTA_DATA_VALUE).and_then(address);
        let begins =
            element.be32(NFTA_SET_ELEM_FLAGS).unwrap_or(0) & NFT_SET_ELEM_INTERVAL_END == 0;
        Ok(Self { address: key.ok_or(KernelError::Garbled)?, begins })
    }
}

/// The networks that have these bounds; none: there is one of something else.
fn between(mut bounds: Vec<Bound>) -> Option<BTreeSet<IpNet>> {
    bounds.sort_unstable();
    let mut bounds = bounds.into_iter();
    let mut nets = BTreeSet::new();
    while let Some(first) = bounds.next() {
        let last = match bounds.next() {
            Some(end) if end.begins => return None,
            Some(end) => before(end.address)?,
            None => last_of_all(first.address),
        };
        nets.insert(net(first.address, last).filter(|_| first.begins)?);
    }
    Some(nets)
}

/// The one network that has these addresses, if it is one.
fn net(first: IpAddr, last: IpAddr) -> Option<IpNet> {
    let mut nets = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => IpSubnets::V4(Ipv4Subnets::new(first, last, 0)),
        (IpAddr::V6(first), IpAddr::V6(last)) => IpSubnets::V6(Ipv6Subnets::new(first, last, 0)),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    nets.next().filter(|_| nets.next().is_none())
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            address.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(address) => {
            address.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
}

fn before(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            address.to_bits().checked_sub(1).map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(address) => {
            address.to_bits().checked_sub(1).map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
}

fn last_of_all(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::BROADCAST.into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(nets: &[&str]) -> BTreeSet<IpNet> {
        nets.iter().map(|net| net.parse().unwrap()).collect()
    }

    fn bound(address: &str, begins: bool) -> Bound {
        Bound { address: address.parse().unwrap(), begins }
    }

    #[test]
    fn networks_are_read_as_they_were_written() {
        for written in [
            &[][..],
            &["10.201.4.0/24"],
            // One that begins where another ends, in all lengths.
            &["10.201.4.0/25", "10.201.4.128/26", "10.201.4.192/32", "10.201.5.0/24"],
            &["fd00:c8:4::/120", "fd00:c8:5::7/128"],
            // Nothing is behind them.
            &["255.0.0.0/8"],
            &["ff00::/8"],
            &["10.0.0.0/8", "255.255.255.255/32"],
        ] {
            let written = nets(written);
            let bounds: Vec<_> = written.iter().rev().flat_map(Bound::of).collect();
            assert_eq!(between(bounds), Some(written));
        }
    }

    #[test]
    fn what_others_have_put_there_is_no_network() {
        for bounds in [
            // Without an end, and without a beginning.
            &[bound("10.201.4.0", true)][..],
            &[bound("10.201.4.0", true), bound("10.201.5.0", true), bound("10.201.6.0", false)],
            &[bound("0.0.0.0", false), bound("10.201.5.0", true), bound("10.201.6.0", false)],
            &[bound("10.201.4.0", true), bound("10.201.5.0", false), bound("10.201.6.0", false)],
            // Of no one length.
            &[bound("10.201.4.1", true), bound("10.201.5.0", false)],
        ] {
            assert_eq!(between(bounds.to_vec()), None, "{bounds:?}");
        }
    }
}
