//! Answers of a daemon, for the tests of what shows them.

use mercato_broker::Side;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;
use serde_json::json;

use super::{
    Attention, AttentionKind, Bursts, BuyersObjects, Deal, GuestObjects, NamespaceBursts,
    OpenNamespace, OwnGateway, Status, TunnelLink, TunnelState,
};

/// The other side of each deal.
pub(crate) const TURIN: ClusterId = ClusterId([0x4f; 32]);
/// The order, and the contract that comes of it.
pub(crate) const ORDER: NegotiationId = NegotiationId([0x3f; 16]);

/// What was bought from turin, in this state.
pub(crate) fn deal(state: State) -> Deal {
    let terms = json!({
        "pool": "amd64", "platform": { "arch": "amd64", "os": "linux" },
        "quantity": { "cpuMillis": 8_000, "memoryBytes": 34_359_738_368_u64, "pods": 20 },
        "class": "reserved", "termS": 14_400, "isolation": "runc", "networkIsolation": "none",
        "price": { "posted": { "currency": "EUR", "units": {
            "cpu": { "micros": 20_000, "periodS": 3_600 } } } },
        "podSecurity": "baseline", "network": {}, "transitHops": 0, "onDisconnect": "keep",
        "reclaimNoticeS": 3_600, "sla": null, "meteringIntervalS": 300,
        "disputeTolerancePpm": 10_000,
    });
    Deal {
        id: ORDER,
        side: Side::Consumer,
        peer: TURIN,
        peer_name: Some("turin".to_owned()),
        state,
        reason: (state == State::Terminated).then(|| "denied by owner (not today)".to_owned()),
        passing: false,
        round: None,
        burst: None,
        asked: None,
        change: None,
        disputed: false,
        terms: serde_json::from_value(terms).unwrap(),
        note: "please".to_owned(),
        until_ms: Some(4_102_444_800_000),
        total: serde_json::from_value(json!({ "micros": 640_000, "currency": "EUR" })).unwrap(),
        billed: None,
        credits: None,
        limit: None,
        node: Some("mercato-turin".to_owned()),
        pods: Some(3),
        left: Default::default(),
        namespaces: Default::default(),
    }
}

/// The tunnel to turin, that is so.
pub(crate) fn tunnel(link: TunnelLink) -> TunnelState {
    TunnelState {
        cluster: TURIN,
        link,
        lost: None,
        since_ms: Some(0),
        address: Some("192.0.2.2:7475".parse().unwrap()),
        round_trip_ms: Some(12),
        reason: None,
        drops: [("source".to_owned(), 3), ("oversized".to_owned(), 4)].into(),
    }
}

/// How the daemon of rome is.
pub(crate) fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        cluster: ClusterId([0x4e; 32]),
        name: "rome".to_owned(),
        key: PublicKey([1; 32]),
        data_dir: "/var/lib/mercato".into(),
        addresses: vec!["/ip4/192.0.2.1/udp/7474/quic-v1".to_owned()],
        health: Some("127.0.0.1:7476".to_owned()),
        kubernetes: None,
        kubernetes_uid: None,
        gateway: OwnGateway {
            enabled: true,
            port: Some(7475),
            pool: Some("10.200.0.0/13".parse().unwrap()),
            pool_v6: Some("fd4d:6572:6361:746f::/96".parse().unwrap()),
            closed: 2,
            isolates: true,
            opened: vec![OpenNamespace {
                namespace: "data".to_owned(),
                services: vec!["db".to_owned(), "peers".to_owned()],
                callers: vec!["*".to_owned()],
                contracts: vec![ContractId([0x3f; 16])],
                left_out: 1,
            }],
            ..OwnGateway::default()
        },
        tunnels: vec![tunnel(TunnelLink::Up)],
        guest_objects: Some(filled()),
        bursts: Some(bought()),
        attention: vec![Attention::of(AttentionKind::ClusterOff, "no cluster")],
    }
}

fn filled() -> GuestObjects {
    let (used_bytes, name) = (3 << 20, Some("turin".to_owned()));
    let turin = BuyersObjects { cluster: TURIN, name, used_bytes, bound_bytes: 4 << 20 };
    GuestObjects { used_bytes, bound_bytes: 512 << 20, buyers: vec![turin] }
}

fn bought() -> Bursts {
    let of = |cpus: u64, pods| Resources { cpu_millis: 1_000 * cpus, pods, ..Resources::default() };
    let shop = NamespaceBursts {
        namespace: "shop".to_owned(),
        bought: of(40, 40),
        contracts: 2,
        waiting: 20,
        reason: Some("OverBudget".to_owned()),
        message: Some("bursts.most allows cpu=40,pods=40, and all of it is bought".to_owned()),
    };
    let lab = NamespaceBursts {
        namespace: "lab".to_owned(),
        bought: Resources::default(),
        contracts: 0,
        waiting: 1,
        reason: None,
        message: None,
    };
    let namespaces = vec![lab, shop];
    Bursts { most: of(40, 40), bought: of(40, 40), contracts: 2, namespaces }
}
