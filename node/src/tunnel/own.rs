//! What this cluster says of itself: the list of its gateway that peers get, and the addresses of its
//! own pods that guests may call. Which namespaces these are of is decided elsewhere, by what owners
//! and sessions say: the node that a pod is bound to says nothing of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mercato_agent::OwnRanges;
use mercato_protocol::envelope::{KeyPair, Signers, Trust, Verified};
use mercato_protocol::id::{ClusterId, FederationId, GatewayKey};
use mercato_protocol::limits::{GATEWAY_ADDRESSES, LINE_BYTES, RANGES};
use mercato_protocol::time::Now;
use mercato_protocol::tunnel::{Gateway, Gateways};
use mercato_session::PublicKey;

use crate::kubernetes::PodPlace;

/// What a list says, besides when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) gateway: Result<(PublicKey, Vec<SocketAddr>), String>,
    pub(super) ranges: Vec<IpNet>,
}

impl Content {
    /// Of a gateway that runs, or why none does, and where guests reach this cluster's API server.
    pub(super) fn new(
        gateway: Result<(PublicKey, Vec<SocketAddr>), String>,
        own: &OwnRanges,
        api: Option<IpAddr>,
    ) -> Self {
        let blocks = own.blocks.iter().map(|block| block.inner);
        // Where pods at other providers are known comes last: what is here is called sooner.
        let first = own.nodes.into_iter().chain(api.map(IpNet::from));
        let all = first.chain(blocks).chain(own.leases.iter().copied());
        let ranges: BTreeSet<IpNet> = all.take(RANGES).collect();
        let gateway = gateway.map(|(key, mut addresses)| {
            addresses.truncate(GATEWAY_ADDRESSES);
            (key, addresses)
        });
        Self { gateway, ranges: ranges.into_iter().collect() }
    }

    /// The list as peers get it, signed.
    pub(super) fn sign(
        &self,
        keys: &KeyPair,
        cluster: ClusterId,
        issued_ms: u64,
        now: Now,
    ) -> anyhow::Result<Verified<Gateways>> {
        let (gateways, reason) = match &self.gateway {
            Ok((key, addresses)) => {
                let key = GatewayKey(*key.as_bytes());
                (vec![Gateway { key, addresses: addresses.clone() }], None)
            }
            Err(why) => (Vec::new(), Some(why[..why.floor_char_boundary(LINE_BYTES)].to_owned())),
        };
        let ranges = self.ranges.clone();
        let list = Gateways { cluster, issued_ms, gateways, ranges, reason };
        let signed = keys.sign(FederationId::NONE, &list)?;
        let own = BTreeMap::from([(keys.public(), cluster)]);
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(&own) };
        Ok(signed.open(trust, now)?)
    }
}

/// The pods of these namespaces that are in this cluster, by their own addresses and by those that
/// everyone knows.
pub(super) fn addresses(
    pods: &[PodPlace],
    namespaces: &BTreeSet<&str>,
    own: &OwnRanges,
    pool: IpNet,
) -> BTreeMap<IpAddr, IpAddr> {
    known(here(pods, namespaces, pool), own)
}

/// These addresses of this cluster's pods, by those that everyone knows.
pub(super) fn known(
    addresses: impl IntoIterator<Item = IpAddr>,
    own: &OwnRanges,
) -> BTreeMap<IpAddr, IpAddr> {
    let known = |address| own.blocks.iter().find_map(|block| block.inner_of(address));
    addresses.into_iter().filter_map(|address| Some((address, known(address)?))).collect()
}

/// The blocks of the pod network that have pods of these namespaces.
pub(super) fn blocks(
    pods: &[PodPlace],
    namespaces: &BTreeSet<&str>,
    pool: IpNet,
) -> BTreeSet<IpNet> {
    here(pods, namespaces, pool).map(block).collect()
}

/// Where pods of these namespaces are in this cluster's own pod network.
fn here(
    pods: &[PodPlace],
    namespaces: &BTreeSet<&str>,
    pool: IpNet,
) -> impl Iterator<Item = IpAddr> {
    let of = pods.iter().filter(|pod| namespaces.contains(pod.namespace.as_str()));
    of.filter_map(|pod| pod.address).filter(move |address| !pool.contains(address))
}

/// A node has a block of such a size for its pods in nearly all pod networks.
pub(super) fn block(address: IpAddr) -> IpNet {
    match address {
        IpAddr::V4(address) => IpNet::V4(Ipv4Net::new_assert(address, 24).trunc()),
        IpAddr::V6(address) => IpNet::V6(Ipv6Net::new_assert(address, 120).trunc()),
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::address::MappedRange;

    use super::*;

    fn pod(namespace: &str, node: &str, address: Option<&str>) -> PodPlace {
        let address = address.map(|text| text.parse().unwrap());
        PodPlace {
            namespace: namespace.to_owned(),
            node: node.to_owned(),
            address,
            second: None,
            guest: None,
        }
    }

    #[test]
    fn a_peer_hears_what_to_do_to_the_end() {
        let keys = KeyPair::from_seed(&[1; 32]);
        let now = Now { mono_ms: 0, wall_ms: 1_000 };
        let said = |why: &str| {
            let content = Content::new(Err(why.to_owned()), &OwnRanges::default(), None);
            content.sign(&keys, ClusterId([1; 32]), 1_000, now).unwrap().reason.clone().unwrap()
        };
        let why = "why ".repeat(100) + "what to do";
        assert_eq!(said(&why), why);
        assert_eq!(said(&"€".repeat(400)).len(), LINE_BYTES - 2, "it is cut between characters");
    }

    #[test]
    fn own_pods_are_said_before_those_at_other_providers() {
        let block = |n: u8| format!("10.207.{n}.0/24").parse().unwrap();
        let blocks =
            (0..RANGES as u8 - 2).map(|n| MappedRange { inner: block(n), local: block(n) });
        let leases = ["10.201.4.0/24", "10.202.5.0/24"].map(|text| text.parse().unwrap()).into();
        let nodes = "10.206.0.0/24".parse().ok();
        let own = OwnRanges { nodes, blocks: blocks.collect(), leases };
        let content = Content::new(Err("none".to_owned()), &own, None);
        assert_eq!(content.ranges.len(), RANGES);
        assert!(content.ranges.is_sorted() && content.ranges.contains(&own.leases[0]));
        assert!(!content.ranges.contains(&own.leases[1]), "there is no room");
        let keys = KeyPair::from_seed(&[1; 32]);
        content.sign(&keys, ClusterId([1; 32]), 1_000, Now { mono_ms: 0, wall_ms: 1_000 }).unwrap();
        let api: IpAddr = "10.207.255.253".parse().unwrap();
        let content = Content::new(Err("none".to_owned()), &own, Some(api));
        assert!(content.ranges.contains(&api.into()), "it is among the first");
        assert_eq!(content.ranges.len(), RANGES);
    }

    #[test]
    fn pods_of_a_namespace_are_known_by_their_blocks_wherever_they_are_bound() {
        let pods = [
            pod("shop", "turin", Some("10.200.9.9")),
            pod("shop", "worker", Some("10.42.0.7")),
            pod("shop", "worker", None),
            pod("bank", "turin", Some("10.42.1.9")),
            pod("bank", "worker", Some("10.42.0.8")),
        ];
        let range = |text: &str| -> IpNet { text.parse().unwrap() };
        let pool = range("10.200.0.0/13");
        let shop = BTreeSet::from(["shop"]);
        assert_eq!(blocks(&pods, &shop, pool), [range("10.42.0.0/24")].into());
        let block = MappedRange { inner: range("10.203.5.0/24"), local: range("10.42.0.0/24") };
        let own = OwnRanges { blocks: vec![block], ..OwnRanges::default() };
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let known = [(address("10.42.0.7"), address("10.203.5.7"))].into();
        assert_eq!(addresses(&pods, &shop, &own, pool), known);
        assert!(addresses(&pods, &BTreeSet::new(), &own, pool).is_empty());
        assert!(blocks(&pods, &BTreeSet::new(), pool).is_empty());
    }
}
