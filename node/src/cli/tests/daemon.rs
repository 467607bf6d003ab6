//! How the daemon is that answers in these tests.

use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::resources::Resources;

use super::{TURIN, tunnel};
use crate::admin::{
    Attention, AttentionKind, Bursts, BuyersObjects, GuestObjects, NamespaceBursts, OpenNamespace,
    OwnGateway, Status, TunnelLink,
};

pub(super) fn status() -> Status {
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
