//! Which address each pod has: one of the lease's range, and no other pod's as long as either
//! side may hold the pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::key::Uid;
use crate::limits;

/// The addresses of a lease's pods.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    taken: BTreeMap<IpAddr, Uid>,
    /// The last that was given: the next is one after it, so that none is soon another pod's.
    last: Option<IpAddr>,
    /// Somebody has found none that was free.
    short: bool,
}

impl Addresses {
    /// As a record has it.
    pub(super) fn restore(&mut self, address: IpAddr, uid: Uid) {
        self.taken.insert(address, uid);
        self.last = self.last.max(Some(address));
    }

    /// A free one of the range, never its first, which is the network's own; none if all are
    /// taken.
    pub(super) fn take(&mut self, range: IpNet, uid: &Uid) -> Option<IpAddr> {
        let (first, last) = (number(range.network()), number(range.broadcast()));
        let begin = self.last.filter(|last| range.contains(last)).map_or(first, number);
        let turn = (begin + 1..=last).chain(first + 1..=begin);
        let mut turn = turn.take(limits::PODS + 1).map(|number| address(number, range));
        let free = turn.find(|address| !self.taken.contains_key(address));
        self.short |= free.is_none();
        let free = free?;
        self.taken.insert(free, uid.clone());
        self.last = Some(free);
        Some(free)
    }

    /// Whether somebody has found none that was free, since this was last asked.
    pub(super) fn take_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }

    pub(super) fn give_back(&mut self, address: IpAddr) {
        self.taken.remove(&address);
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(number: u128, of: IpNet) -> IpAddr {
    match of {
        IpNet::V4(_) => IpAddr::V4((number as u32).into()),
        IpNet::V6(_) => IpAddr::V6(number.into()),
    }
}
