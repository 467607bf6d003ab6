//! What two clusters say about their tunnel: the buyer is a home with ranges, the seller has
//! gateways, or none.

use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{Digest, FederationId, GatewayKey};
use mercato_protocol::tunnel::{Answer, Ask, Gateway, Gateways, PairSecret, RefusedReason};

use super::{NOW, consumer, consumer_identity, provider_identity};

pub(crate) fn gateway(key: u8, addresses: &[&str]) -> Gateway {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Gateway { key: GatewayKey([key; 32]), addresses }
}

pub(crate) fn home_gateways() -> Gateways {
    Gateways {
        cluster: consumer_identity().cluster_id(),
        issued_ms: NOW.wall_ms,
        gateways: vec![
            gateway(7, &["192.0.2.8:7475", "[2001:db8::8]:7475"]),
            gateway(8, &["198.51.100.9:7475"]),
        ],
        ranges: vec!["10.200.0.0/25".parse().unwrap(), "fd5e:a7::/64".parse().unwrap()],
        reason: None,
    }
}

pub(crate) fn gateways() -> Vec<(&'static str, Gateways)> {
    let none = Gateways {
        gateways: vec![],
        ranges: vec![],
        reason: Some("this node has no /dev/net/tun".into()),
        ..home_gateways()
    };
    let unreachable =
        Gateways { gateways: vec![gateway(7, &[])], ranges: vec![], ..home_gateways() };
    vec![("two", home_gateways()), ("none", none), ("one that begins", unreachable)]
}

pub(crate) fn signed_gateways() -> Signed<Gateways> {
    consumer().sign(FederationId::NONE, &home_gateways()).unwrap()
}

pub(crate) fn pair_secret() -> PairSecret {
    PairSecret::new(zeroize::Zeroizing::new(*b"no secret at all: it is printed."))
}

pub(crate) fn secret_hash() -> Digest {
    pair_secret().hash(consumer_identity().cluster_id(), provider_identity().cluster_id())
}

pub(crate) fn tunnel_asks() -> Vec<(&'static str, Ask)> {
    let introduce = |secret_hash| Ask::Introduce { gateways: signed_gateways(), secret_hash };
    let secret = |replaces| Ask::Secret { secret: pair_secret(), replaces };
    vec![
        ("introduce", introduce(Some(secret_hash()))),
        ("introduce without a secret", introduce(None)),
        ("secret", secret(None)),
        ("another secret", secret(Some(Digest([4; 32])))),
    ]
}

pub(crate) fn tunnel_answers() -> Vec<(&'static str, Answer)> {
    let text = "no lease is in force".into();
    vec![
        (
            "introduced",
            Answer::Introduced { gateways: signed_gateways(), secret_hash: Some(secret_hash()) },
        ),
        ("holds", Answer::Holds { secret_hash: Some(secret_hash()) }),
        ("holds none", Answer::Holds { secret_hash: None }),
        ("superseded", Answer::Superseded { issued_ms: NOW.wall_ms + 1 }),
        ("refused", Answer::Refused { reason: RefusedReason::NoLease, text }),
    ]
}
