//! The largest of what two clusters say about their tunnel.

use std::net::{Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv6Net};
use mercato_protocol::id::GatewayKey;
use mercato_protocol::limits;
use mercato_protocol::tunnel::{Answer, Ask, Gateway, Gateways, PairSecret, RefusedReason};

use super::values::*;

/// With as many gateways as there can be, and with none.
pub(super) fn gateways() -> [Gateways; 2] {
    let address = |n: usize| {
        SocketAddr::from(([0xfdff, 0, 0, 0, 0, 0, 0, u16::try_from(n).unwrap()], u16::MAX))
    };
    let gateway = |n: usize| Gateway {
        key: GatewayKey([u8::try_from(n).unwrap(); 32]),
        addresses: (0..limits::GATEWAY_ADDRESSES).map(address).collect(),
    };
    let range = |n: usize| {
        let address = Ipv6Addr::new(0xfdff, 0, 0, 0, 0, 0, 0, u16::try_from(n).unwrap());
        IpNet::V6(Ipv6Net::new(address, 128).unwrap())
    };
    let ranges: Vec<IpNet> = (0..limits::RANGES).map(range).collect();
    let full = Gateways {
        cluster: CLUSTER,
        issued_ms: MAX,
        gateways: (0..limits::GATEWAYS).map(gateway).collect(),
        ranges: ranges.clone(),
        reason: None,
    };
    let reason = Some(text(0, limits::LINE_BYTES));
    let none = Gateways { gateways: vec![], ranges, reason, ..full.clone() };
    [full, none]
}

/// Each leads to the next, so that none is left out.
pub(super) fn asks() -> Vec<Ask> {
    let first = Ask::Introduce { gateways: opaque(), secret_hash: Some(DIGEST) };
    let next = |ask: &Ask| match ask {
        Ask::Introduce { .. } => {
            let secret = PairSecret::new(zeroize::Zeroizing::new([0xff; 32]));
            Some(Ask::Secret { secret, replaces: Some(DIGEST) })
        }
        Ask::Secret { .. } => None,
    };
    std::iter::successors(Some(first), next).collect()
}

pub(super) fn answers() -> Vec<Answer> {
    let first = Answer::Introduced { gateways: opaque(), secret_hash: Some(DIGEST) };
    let next = |answer: &Answer| match answer {
        Answer::Introduced { .. } => Some(Answer::Holds { secret_hash: Some(DIGEST) }),
        Answer::Holds { .. } => Some(Answer::Superseded { issued_ms: MAX }),
        Answer::Superseded { .. } => {
            let text = text(0, limits::LINE_BYTES);
            Some(Answer::Refused { reason: RefusedReason::Unavailable, text })
        }
        Answer::Refused { .. } => None,
    };
    std::iter::successors(Some(first), next).collect()
}
