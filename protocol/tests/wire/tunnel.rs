//! What two clusters say about their tunnel, beyond the vectors: any list reads back, and what is
//! damaged is refused or is the one encoding of something else.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{EnvelopeError, Signed, Signers, Trust};
use mercato_protocol::id::{ClusterId, FederationId, GatewayKey};
use mercato_protocol::tunnel::{Answer, Ask, Gateway, Gateways};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::samples;

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn range() -> impl Strategy<Value = IpNet> {
    (any::<IpAddr>(), 0..=128_u8).prop_map(|(ip, length)| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        IpNet::new(ip, length.min(most)).unwrap().trunc()
    })
}

/// Lists of which most are valid.
fn gateways() -> impl Strategy<Value = Gateways> {
    let gateway = (any::<[u8; 32]>(), btree_set(address(), 0..9)).prop_map(|(key, at)| Gateway {
        key: GatewayKey(key),
        addresses: at.into_iter().collect(),
    });
    let reason = "[a-z]{1,20}";
    let ranges = btree_set(range(), 0..3);
    (any::<[u8; 32]>(), any::<u64>(), vec(gateway, 0..5), ranges, reason).prop_map(
        |(cluster, issued_ms, gateways, ranges, reason)| Gateways {
            cluster: ClusterId(cluster),
            issued_ms,
            reason: gateways.is_empty().then_some(reason),
            gateways,
            ranges: ranges.into_iter().collect(),
        },
    )
}

proptest! {
    /// What can be written reads back; what cannot is refused by the reader too.
    #[test]
    fn a_list_reads_back_or_is_refused_on_both_sides(gateways in gateways()) {
        let json = serde_json::to_string(&gateways).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Gateways>(&json).unwrap(), &gateways);
        match gateways.to_bytes() {
            Ok(bytes) => prop_assert_eq!(Gateways::from_bytes(&bytes), Ok(gateways)),
            Err(_) => {
                let bytes = crate::malformed::unchecked(&gateways);
                prop_assert!(Gateways::from_bytes(&bytes).is_err());
            }
        }
    }

    #[test]
    fn damaged_words_are_refused_or_mean_something_else(
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let damage = |mut bytes: Vec<u8>| {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            bytes
        };
        for (_, ask) in samples::tunnel_asks() {
            let bytes = damage(ask.to_frame().unwrap().to_vec());
            if let Ok(ask) = Ask::from_bytes(&bytes) {
                prop_assert_eq!(ask.to_frame().unwrap().to_vec(), bytes);
            }
        }
        for (_, answer) in samples::tunnel_answers() {
            let bytes = damage(answer.to_bytes().unwrap());
            if let Ok(answer) = Answer::from_bytes(&bytes) {
                prop_assert_eq!(answer.to_bytes().unwrap(), bytes);
            }
        }
        let known = samples::known();
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(&known) };
        let list = Signed::<Gateways>::from_bytes(damage(samples::signed_gateways().as_bytes().to_vec()));
        prop_assert!(list.open(trust, samples::NOW).is_err());
    }
}

#[test]
fn a_secret_is_in_its_frame_and_nowhere_else() {
    let (_, ask) = samples::tunnel_asks().swap_remove(2);
    let frame = ask.to_frame().unwrap();
    assert_eq!(frame.to_vec(), ask.to_bytes().unwrap());
    assert_eq!(frame.capacity(), frame.len(), "nothing was left behind as it grew");
    assert!(frame.windows(32).any(|bytes| bytes == samples::pair_secret().expose()));
    assert_eq!(format!("{ask:?}"), "Secret { secret: PairSecret(…), replaces: None }");
}

#[test]
fn a_list_holds_until_there_is_a_later_one() {
    let known = samples::known();
    let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(&known) };
    let mut now = samples::NOW;
    now.wall_ms += 10 * 365 * 86_400_000;
    assert!(samples::signed_gateways().open(trust, now).is_ok());
    now.wall_ms = samples::NOW.wall_ms - 30_001;
    assert_eq!(samples::signed_gateways().open(trust, now), Err(EnvelopeError::NotYetValid));
}
