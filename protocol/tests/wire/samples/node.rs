//! What the daemon of a cluster and a node of it say to each other.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::egress::{Egress, Outside};
use mercato_protocol::id::ContractId;
use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedEndpoint, NamedPort, NamedRange, NamesChange, NamespaceNames,
    Numbered, OwnName, ServiceNames, SliceNames,
};
use mercato_protocol::node::{
    FromNode, NodeGuest, NodeLease, NodeNames, NodeState, NodeWay, ServiceAddress, Snapshot,
    ToNode, UnopenedName,
};
use mercato_protocol::tunnel::SECOND_POOL;

pub(crate) fn from_node() -> Vec<(&'static str, FromNode)> {
    let hello = |address: Option<&str>| FromNode::Hello {
        token: "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmVk".into(),
        address: address.map(|address| address.parse().unwrap()),
    };
    let plain = || NodeState { version: 3, mtu: 1_500, ..NodeState::default() };
    let state = |version, trouble: Option<&str>, open: Option<&str>, unnamed: Option<&str>| {
        let [trouble, open, unnamed] = [trouble, open, unnamed].map(|it| it.map(str::to_owned));
        FromNode::State(NodeState { version, trouble, open, unnamed, ..plain() })
    };
    let counts = |second, mended| FromNode::State(NodeState { second, mended, ..plain() });
    let asked = FromNode::State(NodeState { unopened: [unopened_name()].into(), ..plain() });
    let keeps = |unkept: Option<&str>| {
        let unkept = unkept.map(str::to_owned);
        FromNode::State(NodeState { egress: true, unkept, ..plain() })
    };
    let unkept = Some("it has 4,012 networks of its own");
    let open = Some("this kernel lets through what its rules drop");
    let unnamed = Some("another program has port 53");
    vec![
        ("hello", hello(None)),
        ("hello again", hello(Some("10.203.7.9"))),
        ("in force", state(3, None, None, None)),
        ("in force for both families", counts(true, None)),
        ("guests are not closed", state(3, None, open, None)),
        ("rules were put back", counts(false, Some(2))),
        ("guests are told no names", state(3, None, None, unnamed)),
        ("a guest has asked for a name that is not open", asked),
        ("guests are kept to their egress", keeps(None)),
        ("guests are not kept to it", keeps(unkept)),
        ("in trouble", state(2, Some("the kernel refuses the device mercato1"), None, None)),
    ]
}

pub(crate) fn unopened_name() -> UnopenedName {
    let guest = "10.42.1.7".parse().unwrap();
    let (service, namespace) = ("db".into(), "data".into());
    UnopenedName { lease: ContractId([5; 16]), guest, service, namespace }
}

pub(crate) fn guest() -> NodeGuest {
    let uid = "0f9d4c1e-7a53-4e0b-9c55-6f1a2b3c4d5e".parse().unwrap();
    let [pod, called] = ["10.42.1.7", "10.203.7.10"].map(|at| at.parse().ok());
    NodeGuest { uid, pod, called }
}

pub(crate) fn node_way() -> NodeWay {
    let address = |text: &str| text.parse().unwrap();
    NodeWay {
        pool: "10.200.0.0/13".parse().unwrap(),
        address: address("10.203.7.9"),
        machine: address("192.0.2.9"),
        gateway: address("10.203.7.0"),
        gateway_machine: address("192.0.2.8"),
        vni: 7_475,
        port: 7_477,
        mtu: 1_420,
        pool_v6: None,
        gate: 7_479,
        names: None,
    }
}

pub(crate) fn node_names() -> NodeNames {
    NodeNames {
        address: "10.207.255.254".parse().unwrap(),
        domain: "cluster.local".into(),
        servers: vec!["192.0.2.53".parse().unwrap()],
    }
}

/// A Service with an address, one that is headless, and one that is another name.
pub(crate) fn lease_names() -> LeaseNames {
    let port = |port| NamedPort { name: "http".into(), is_udp: false, port };
    let address = |text: &str| text.parse().unwrap();
    let endpoint = |text: &str, hostname: &str| NamedEndpoint {
        address: address(text),
        hostname: hostname.into(),
    };
    let web = ServiceNames {
        name: "web".into(),
        addresses: vec![address("10.96.0.7")],
        ports: vec![port(80)],
        ..ServiceNames::default()
    };
    let slice = SliceNames {
        ports: vec![port(8_080)],
        endpoints: vec![endpoint("10.201.3.7", "db-0"), endpoint("10.201.3.8", "")],
    };
    let members =
        ServiceNames { name: "members".into(), slices: [slice].into(), ..ServiceNames::default() };
    let ports = vec![NamedPort { name: String::new(), is_udp: true, port: 53 }];
    let external = Some("db.example.org".into());
    let outside = ServiceNames { name: "db".into(), ports, external, ..ServiceNames::default() };
    LeaseNames {
        lease: ContractId([5; 16]),
        domains: vec!["cluster.local".into()],
        is_part: true,
        forwards: true,
        namespaces: vec![NamespaceNames {
            home: "shop".into(),
            services: vec![web, members, outside],
            is_part: true,
        }],
        api: Some(ApiNames {
            address: Some(address("10.203.9.4")),
            guests: vec![address("10.42.1.7")],
            others: vec![address("10.42.1.9")],
        }),
        own: vec![OwnName {
            guest: address("10.42.1.7"),
            home: "shop".into(),
            hostname: "db-0".into(),
            subdomain: "members".into(),
            called: Some(address("10.203.7.10")),
        }],
        ranges: vec![NamedRange {
            home: "10.42.3.0/24".parse().unwrap(),
            here: "10.201.3.0/24".parse().unwrap(),
        }],
    }
}

/// What makes others of these: a part of each kind.
pub(crate) fn names_change() -> NamesChange {
    let mut names = lease_names();
    names.domains.push("rome.example".into());
    names.api = None;
    let of = &mut names.namespaces[0];
    (of.is_part, of.services[0].ports) = (false, vec![]);
    let mut slice = of.services[1].slices.pop_first().unwrap();
    slice.endpoints.pop();
    of.services[1].slices.insert(slice);
    of.services.pop();
    let (home, services, is_part) = ("bank".into(), vec![], true);
    names.namespaces.insert(0, NamespaceNames { home, services, is_part });
    names.own[0].guest = "10.42.1.9".parse().unwrap();
    // As they are made: by their names.
    let mut before = lease_names();
    for names in [&mut before, &mut names] {
        let all = &mut names.namespaces;
        all.iter_mut().for_each(|of| of.services.sort_by(|one, other| one.name.cmp(&other.name)));
    }
    let [before, now] =
        [(7, &before), (8, &names)].map(|(number, names)| Numbered { number, names });
    NamesChange::between(before, now).unwrap()
}

pub(crate) fn to_node() -> Vec<(&'static str, ToNode)> {
    let lease = NodeLease {
        left_ms: 3_600_000,
        ranges: [0].into(),
        pods: ["10.42.1.7".parse().unwrap()].into(),
        guests: true,
        closed: [guest()].into(),
        services: [
            ServiceAddress { here: [10, 96, 0, 7].into(), home: Some([10, 79, 3, 4].into()) },
            ServiceAddress { here: [10, 96, 0, 8].into(), home: None },
        ]
        .into(),
        askers: BTreeSet::new(),
        egress: Egress::None,
    };
    let going = |egress| NodeLease { egress, ..lease.clone() };
    let named_outside = Egress::Named(
        Outside::of(["203.0.114.0/24", "2a00:1450::/32"].map(|it| it.parse().unwrap())).unwrap(),
    );
    let (going_out, to_ranges) = (going(Egress::Internet), going(named_outside));
    let asking = NodeLease { askers: lease.pods.clone(), ..lease.clone() };
    let named = NodeWay { names: Some(node_names()), ..node_way() };
    let none = LeaseNames {
        domains: vec![],
        is_part: false,
        forwards: false,
        namespaces: vec![],
        api: None,
        own: vec![],
        ranges: vec![],
        ..lease_names()
    };
    let both = NodeLease {
        pods: ["10.42.1.7".parse().unwrap(), "fd00:10:42:1::7".parse().unwrap()].into(),
        ..lease.clone()
    };
    let way = NodeWay { pool_v6: Some(SECOND_POOL.into()), ..node_way() };
    let ranges = vec!["10.201.3.0/25".parse().unwrap()];
    let snapshot_of = |way, lease, never: &[&str]| {
        let leases = [(ContractId([5; 16]), lease)].into();
        let (way, ranges) = (Some(way), ranges.clone());
        let others = ["10.42.1.8".parse().unwrap()].into();
        let never = never.iter().map(|it| it.parse().unwrap()).collect();
        ToNode::Snapshot(Snapshot { version: 3, way, leases, ranges, others, never })
    };
    let snapshot = |way, lease| snapshot_of(way, lease, &[]);
    let own = ["198.18.0.0/15", "2a00:1450:4000::7/128"];
    let (leases, others, never) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let nothing = Snapshot { version: 4, way: None, leases, ranges: vec![], others, never };
    vec![
        ("snapshot", snapshot(node_way(), lease)),
        ("snapshot of both families", snapshot(way, both)),
        ("snapshot with names", snapshot(named, asking)),
        ("snapshot with egress", snapshot_of(node_way(), going_out, &own)),
        ("snapshot with egress to ranges", snapshot_of(node_way(), to_ranges, &own)),
        ("names", ToNode::Names { number: 7, names: lease_names() }),
        ("no names", ToNode::Names { number: 9, names: none }),
        ("names that change", ToNode::NamesChange(names_change())),
        ("nothing to set up", ToNode::Snapshot(nothing)),
        ("heard", ToNode::Heard),
        ("the daemon's own", ToNode::Own),
        ("refused", ToNode::Refused { text: "the token is of another account".into() }),
    ]
}
