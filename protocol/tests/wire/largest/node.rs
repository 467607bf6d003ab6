//! The largest of what the daemon of a cluster and its nodes say to each other.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use mercato_protocol::egress::{Egress, Outside};
use mercato_protocol::id::ContractId;
use mercato_protocol::limits;
use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedEndpoint, NamedPort, NamedRange, NamespaceNames, OwnName,
    ServiceNames, SliceNames,
};
use mercato_protocol::node::{
    FromNode, NodeGuest, NodeLease, NodeNames, NodeState, NodeWay, ServiceAddress, Snapshot,
    ToNode, UnopenedName,
};

use super::values::*;

fn address(n: usize) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfdff, 0, 0, 0, 0, 0, 0, u16::try_from(n).unwrap()))
}

pub(super) fn from_node() -> [FromNode; 2] {
    let token = text(0, limits::NODE_TOKEN_BYTES);
    let [trouble, open, unnamed, unkept] = [0, 1, 2, 3].map(|n| Some(text(n, limits::LINE_BYTES)));
    [
        FromNode::Hello { token, address: Some(address(1)) },
        FromNode::State(NodeState {
            version: MAX,
            mtu: u32::MAX,
            trouble,
            second: true,
            open,
            mended: Some(MAX),
            unnamed,
            unopened: (0..limits::NODE_UNOPENED).map(unopened).collect(),
            egress: true,
            unkept,
        }),
    ]
}

fn unopened(n: usize) -> UnopenedName {
    let label = || "x".repeat(limits::LABEL_BYTES);
    let (service, namespace) = (label(), label());
    UnopenedName { lease: ContractId([0xff; 16]), guest: address(n), service, namespace }
}

/// As many leases as there may be, one of them with all the pods and ranges.
pub(super) fn to_node() -> [ToNode; 5] {
    let way = NodeWay {
        pool: "10.0.0.0/8".parse().unwrap(),
        address: [10, 0, 0, 1].into(),
        machine: address(2),
        gateway: [10, 0, 0, 2].into(),
        gateway_machine: address(4),
        vni: (1 << 24) - 1,
        port: u16::MAX.into(),
        gate: u16::MAX.into(),
        mtu: u32::MAX,
        pool_v6: Some(IpNet::new(address(0), 96).unwrap().trunc()),
        names: Some(NodeNames {
            address: [10, 0, 0, 3].into(),
            domain: domain(0),
            servers: (0..limits::NODE_SERVERS).map(address).collect(),
        }),
    };
    let each = limits::NODE_LEASE_RANGES / limits::NODE_LEASES;
    let last = |n: usize| u32::try_from(limits::NODE_RANGES - 1 - n).unwrap();
    let named = (0..each).map(last).collect();
    let lease = NodeLease {
        left_ms: MAX,
        ranges: named,
        pods: BTreeSet::new(),
        guests: true,
        closed: BTreeSet::new(),
        services: BTreeSet::new(),
        askers: BTreeSet::new(),
        egress: Egress::None,
    };
    let mut leases = vec![lease; limits::NODE_LEASES];
    let ranges = (0..limits::NODE_RANGES).map(|n| address(n).into()).collect();
    leases[0].pods = (0..limits::NODE_PODS).map(address).collect();
    leases[0].askers = (0..limits::NODE_ASKERS).map(address).collect();
    let guest = |n| NodeGuest {
        uid: format!("{n:064}").parse().unwrap(),
        pod: Some(address(n)),
        called: Some(address(n)),
    };
    leases[0].closed = (0..limits::NODE_GUESTS).map(guest).collect();
    // Each needs a guest: a few leases share them.
    let sharing = limits::NODE_SERVICES / limits::LEASE_SERVICES;
    let home = Some([223, 255, 255, 255].into());
    let service = |n| ServiceAddress { here: address(n), home };
    let guests: Vec<_> = std::mem::take(&mut leases[0].closed).into_iter().collect();
    for (nth, guests) in guests.chunks(limits::NODE_GUESTS / sharing).enumerate() {
        leases[nth].closed = guests.iter().cloned().collect();
        leases[nth].services = (0..limits::LEASE_SERVICES).map(service).collect();
        leases[nth].egress = outside();
    }
    let others = (0..limits::NODE_OTHERS).map(address).collect();
    let never = (0..limits::NODE_NEVER).map(|n| address(n).into()).collect();
    let id =
        |nth: usize| ContractId([&[0xff; 8][..], &nth.to_be_bytes()].concat().try_into().unwrap());
    let leases = leases.into_iter().enumerate().map(|(nth, lease)| (id(nth), lease)).collect();
    [
        ToNode::Snapshot(Snapshot { version: MAX, way: Some(way), leases, ranges, others, never }),
        ToNode::Heard,
        ToNode::Own,
        ToNode::Refused { text: text(0, limits::LINE_BYTES) },
        ToNode::Names { number: MAX, names: names() },
    ]
}

/// As much as one contract names.
fn outside() -> Egress {
    let range = |n: usize| format!("2a00:{:x}::/128", n + 0x1000).parse().unwrap();
    Egress::Named(Outside::of((0..limits::EGRESS_RANGES).map(range)).unwrap())
}

/// A name of four labels.
fn domain(n: usize) -> String {
    let label = |length| format!("{n:0length$}");
    [label(63), label(63), label(63), label(61)].join(".")
}

/// As many of each as there may be, with the longest names.
fn names() -> LeaseNames {
    let port = |n: usize| NamedPort { name: format!("{n:063}"), is_udp: true, port: 65_535 };
    let services = |nth: usize| {
        let each = limits::NAMES_SERVICES / limits::NAMES_NAMESPACES;
        let service = |n| ServiceNames {
            name: format!("{n:063}"),
            external: Some(domain(n)),
            ..ServiceNames::default()
        };
        (nth * each..(nth + 1) * each).map(service).collect()
    };
    let namespace =
        |n| NamespaceNames { home: format!("{n:063}"), services: services(n), is_part: true };
    let mut namespaces: Vec<_> = (0..limits::NAMES_NAMESPACES).map(namespace).collect();
    let endpoint = |n| NamedEndpoint { address: address(n), hostname: format!("{n:063}") };
    let slice = SliceNames {
        ports: (0..limits::NAMES_PORTS - 1).map(port).collect(),
        endpoints: (0..limits::NAMES_ENDPOINTS).map(endpoint).collect(),
    };
    let last = &mut namespaces[0].services[0];
    (last.external, last.slices) = (None, [slice].into());
    LeaseNames {
        lease: ContractId([5; 16]),
        domains: (0..limits::NAMES_DOMAINS).map(domain).collect(),
        is_part: true,
        forwards: true,
        namespaces,
        api: Some(ApiNames {
            address: Some(address(0)),
            guests: (0..limits::NAMES_GUESTS).map(address).collect(),
            others: vec![],
        }),
        own: (0..limits::NAMES_OWN)
            .map(|n| OwnName {
                guest: address(n),
                home: format!("{n:063}"),
                hostname: format!("{n:063}"),
                subdomain: format!("{n:063}"),
                called: Some(address(n)),
            })
            .collect(),
        ranges: (0..limits::NAMES_RANGES)
            .map(|n| IpNet::new(address(n), 128).unwrap())
            .map(|range| NamedRange { home: range, here: range })
            .collect(),
    }
}
