//! The gateway of a simulated cluster, as far as its agent sees it: which guests it brings packets
//! to, by which addresses, and what it says of tunnels. It is a part of the daemon. Packets
//! themselves are tried in `tunnel`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_agent::{OwnRanges, TunnelInput, TunnelNews};
use mercato_offload::address::GuestAddress;
use mercato_offload::key::{PodId, Uid};
use mercato_protocol::id::{ClusterId, ContractId};

use crate::verify::{Violation, ensure};

/// What a gateway knows since its daemon's start.
#[derive(Debug, Default)]
pub(crate) struct Gateway {
    /// By lease and pod: what the agent wants last.
    asked: BTreeMap<(ContractId, Uid), GuestAddress>,
    /// By lease and pod: what it does.
    maps: BTreeMap<(ContractId, Uid), GuestAddress>,
    /// What was said last of the tunnel of each lease.
    news: BTreeMap<ContractId, TunnelNews>,
    /// By which addresses the cluster's own pods are known, here and where they run by leases.
    own: BTreeSet<IpNet>,
}

/// What a gateway does or learns once some time has passed.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Packets for a pod go to the provider.
    Carry(ContractId, PodId, IpAddr),
    /// Packets of the second family go there too, or no longer.
    CarrySecond(ContractId, PodId, IpAddr, bool),
    /// What was asked for is done.
    Map(ContractId, GuestAddress),
    /// There is no gateway to do it.
    Refuse(ContractId, GuestAddress),
    /// So it is with the tunnel of a lease.
    News(ContractId, TunnelNews),
    /// Another cluster's pods are known by these ranges.
    Ranges(ClusterId, BTreeSet<IpNet>),
}

/// Every other cluster has both families.
pub(super) fn has_both(at: usize) -> bool {
    at.is_multiple_of(2)
}

/// What each agent with a gateway is told first: the pool, which is the same for all of them, and
/// the blocks of the cluster's own pods.
pub(super) fn greeting(has_gateway: bool) -> Vec<TunnelInput> {
    if !has_gateway {
        return vec![TunnelInput::Pool(None)];
    }
    let range = |text: &str| text.parse().expect("it is a range");
    vec![
        TunnelInput::Pool(Some(range("10.200.0.0/13"))),
        TunnelInput::Own([range("10.42.0.0/24")].into()),
    ]
}

impl Gateway {
    /// The agent wants packets brought to a guest; that takes a while.
    pub(crate) fn ask(&mut self, contract: ContractId, of: GuestAddress) {
        self.asked.insert((contract, of.pod.uid.clone()), of);
    }

    /// What was asked for is done, unless the agent wants something else by now.
    pub(crate) fn map(
        &mut self,
        contract: ContractId,
        of: &GuestAddress,
    ) -> Result<bool, Violation> {
        let place = (contract, of.pod.uid.clone());
        if self.asked.get(&place) != Some(of) {
            return Ok(false);
        }
        let twice =
            self.of_lease(contract).find(|one| one.address == of.address && one.pod != of.pod);
        ensure(twice.is_none(), || {
            let (address, pod) = (of.address, of.pod.key());
            let other = twice.map(|one| one.pod.key());
            format!("packets for {address} go to {pod} and to {other:?}")
        })?;
        self.maps.insert(place, of.clone());
        Ok(true)
    }

    /// No packets are brought to a guest any more.
    pub(crate) fn unmap(&mut self, contract: ContractId, pod: &PodId) {
        let place = (contract, pod.uid.clone());
        self.asked.remove(&place);
        self.maps.remove(&place);
    }

    /// The agent forgets a lease, of which nothing may be left.
    pub(crate) fn forget(&mut self, contract: ContractId) -> Result<(), Violation> {
        self.news.remove(&contract);
        let left = self.of_lease(contract).next();
        ensure(left.is_none(), || format!("{left:?} is brought packets though its lease is over"))
    }

    /// The guests of a lease that it brings packets to.
    fn of_lease(&self, contract: ContractId) -> impl Iterator<Item = &GuestAddress> {
        let of_lease = self.maps.iter().filter(move |((of, _), _)| *of == contract);
        of_lease.map(|(_, one)| one)
    }

    /// Where packets for that pod go, by its uid at home.
    pub(crate) fn brings_to(&self, uid: &str) -> Option<&GuestAddress> {
        self.maps.values().find(|one| one.pod.uid.0.as_str() == uid)
    }

    /// Whether it brings packets to nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.maps.is_empty()
    }

    pub(crate) fn say(&mut self, contract: ContractId, news: TunnelNews) {
        self.news.insert(contract, news);
    }

    /// Whether a lease has a tunnel, or may come to have one.
    pub(crate) fn expects(&self, contract: ContractId) -> bool {
        let news = self.news.get(&contract).copied().unwrap_or_default();
        news != TunnelNews::Off
    }

    pub(crate) fn name_own(&mut self, own: &OwnRanges) {
        let blocks = own.blocks.iter().map(|block| block.inner);
        self.own = blocks.chain(own.nodes).chain(own.leases.iter().copied()).collect();
    }

    /// By which ranges the cluster's own pods are known; none while that is not settled.
    pub(crate) fn own(&self) -> Option<&BTreeSet<IpNet>> {
        Some(&self.own).filter(|own| !own.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;

    const LEASE: ContractId = ContractId([1; 16]);

    fn guest(uid: &str, address: u8) -> GuestAddress {
        let pod = PodId { namespace: "shop".into(), name: uid.into(), uid: Uid(uid.into()) };
        GuestAddress { pod, address: [10, 200, 0, address].into(), guest: [10, 42, 0, 1].into() }
    }

    #[test]
    fn what_is_no_longer_wanted_is_not_done() {
        let mut gateway = Gateway::default();
        gateway.ask(LEASE, guest("a", 1));
        gateway.ask(LEASE, guest("a", 2));
        assert_eq!(gateway.map(LEASE, &guest("a", 1)), Ok(false));
        assert_eq!(gateway.map(LEASE, &guest("a", 2)), Ok(true));
        gateway.unmap(LEASE, &guest("a", 2).pod);
        assert_eq!(gateway.map(LEASE, &guest("a", 2)), Ok(false));
        assert!(gateway.is_empty());
    }

    #[test]
    fn an_address_with_two_guests_and_a_map_that_is_left_are_violations() {
        let mut gateway = Gateway::default();
        for uid in ["a", "b"] {
            gateway.ask(LEASE, guest(uid, 1));
        }
        assert_eq!(gateway.map(LEASE, &guest("a", 1)), Ok(true));
        assert!(gateway.map(LEASE, &guest("b", 1)).is_err());
        assert!(gateway.forget(LEASE).is_err());
        gateway.unmap(LEASE, &guest("a", 1).pod);
        assert_eq!(gateway.forget(LEASE), Ok(()));
    }
}
