//! What the daemon of a cluster and a node of it say to each other.

use mercato_protocol::node::{FromNode, NodeLease, NodeWay, Snapshot, ToNode};
use mercato_protocol::tunnel::SECOND_POOL;

pub(crate) fn from_node() -> Vec<(&'static str, FromNode)> {
    let hello = |address: Option<&str>| FromNode::Hello {
        token: "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmVk".into(),
        address: address.map(|address| address.parse().unwrap()),
    };
    let state = |version, trouble: Option<&str>| FromNode::State {
        version,
        mtu: 1_500,
        trouble: trouble.map(str::to_owned),
        second: false,
    };
    let both = FromNode::State { version: 3, mtu: 1_500, trouble: None, second: true };
    vec![
        ("hello", hello(None)),
        ("hello again", hello(Some("10.203.7.9"))),
        ("in force", state(3, None)),
        ("in force for both families", both),
        ("in trouble", state(2, Some("the kernel refuses the device mercato1"))),
    ]
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
    }
}

pub(crate) fn to_node() -> Vec<(&'static str, ToNode)> {
    let lease = NodeLease {
        left_ms: 3_600_000,
        ranges: vec![0],
        pods: vec!["10.42.1.7".parse().unwrap()],
        guests: true,
    };
    let both = NodeLease {
        pods: vec!["10.42.1.7".parse().unwrap(), "fd00:10:42:1::7".parse().unwrap()],
        ..lease.clone()
    };
    let way = NodeWay { pool_v6: Some(SECOND_POOL.into()), ..node_way() };
    let snapshot = |way, lease| {
        let ranges = vec!["10.201.3.0/25".parse().unwrap()];
        ToNode::Snapshot(Snapshot { version: 3, way: Some(way), leases: vec![lease], ranges })
    };
    let nothing = Snapshot { version: 4, way: None, leases: vec![], ranges: vec![] };
    vec![
        ("snapshot", snapshot(node_way(), lease)),
        ("snapshot of both families", snapshot(way, both)),
        ("nothing to set up", ToNode::Snapshot(nothing)),
        ("heard", ToNode::Heard),
        ("the daemon's own", ToNode::Own),
        ("refused", ToNode::Refused { text: "the token is of another account".into() }),
    ]
}
