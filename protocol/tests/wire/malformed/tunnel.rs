//! What two clusters must not say about their tunnel.

use coset::{Header, HeaderBuilder, iana};
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::FederationId;
use mercato_protocol::tunnel::{Answer, Gateways, RefusedReason};

use super::{Case, envelope, unchecked};
use crate::samples;

pub(super) fn cases() -> Vec<Case> {
    let long = Answer::Refused { reason: RefusedReason::Invalid, text: "x".repeat(513) };
    let asks = [
        ("a secret one byte short", ask("1f", 31), "Expected"),
        ("a secret one byte long", ask("21", 33), "TooLong"),
        ("no secret", hex("8201a0"), "MissingField"),
        ("no list", hex("8200a0"), "MissingField"),
        ("a hash that is none", hex("8201a101f6"), "Unsupported"),
        ("a kind of a later release", hex("8202a0"), "UnknownVariant"),
    ];
    let answers = [
        ("too long a reason", unchecked(&long), "TooLong"),
        ("a reason of a later release", hex("8203a20118fe026161"), "UnknownVariant"),
        ("a kind of a later release", hex("8204a0"), "UnknownVariant"),
    ];
    let asks = asks.map(|(name, bytes, error)| ("tunnel-ask", name, bytes, error));
    let answers = answers.map(|(name, bytes, error)| ("tunnel-answer", name, bytes, error));
    let all = asks.into_iter().chain(answers).chain(signers());
    all.chain(gateways()).chain(ranges()).chain(addresses()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text).unwrap()
}

/// One that says a secret of so many bytes.
fn ask(length: &str, bytes: usize) -> Vec<u8> {
    hex(&format!("8201a10158{length}{}", "07".repeat(bytes)))
}

/// A list with something changed, signed all the same.
fn list(change: impl FnOnce(&mut Gateways)) -> Vec<u8> {
    let mut gateways = samples::home_gateways();
    change(&mut gateways);
    signed(&unchecked(&gateways))
}

/// A list with one piece of its encoding in the place of another, as hex.
fn replaced(from: &str, to: &str) -> Vec<u8> {
    let text = hex::encode(unchecked(&samples::home_gateways()));
    assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
    signed(&hex(&text.replace(from, to)))
}

fn signed(payload: &[u8]) -> Vec<u8> {
    let key_id = samples::consumer().public().0.to_vec();
    let header = HeaderBuilder::new().algorithm(iana::Algorithm::EdDSA).key_id(key_id).build();
    let none = FederationId::NONE;
    envelope(none, &samples::CONSUMER_SEED, "gateways", payload, header, Header::default())
}

fn signers() -> Vec<Case> {
    let gateways = samples::home_gateways();
    let sign =
        |key: KeyPair, federation| key.sign(federation, &gateways).unwrap().as_bytes().to_vec();
    let other = sign(samples::provider(), FederationId::NONE);
    let stranger = sign(KeyPair::from_seed(&[3; 32]), FederationId::NONE);
    let lan = sign(samples::consumer(), FederationId::lan());
    vec![
        ("gateways", "by another cluster", other, "WrongSigner"),
        ("gateways", "by a stranger", stranger, "UnknownSigner"),
        ("gateways", "for a federation", lan, "Signature"),
        ("gateways", "of the future", list(|it| it.issued_ms += 30_001), "NotYetValid"),
    ]
}

fn gateways() -> Vec<Case> {
    let two = |it: &mut Gateways| it.gateways[1].key = it.gateways[0].key;
    let many = |it: &mut Gateways| {
        it.gateways = (0..5).map(|n| samples::gateway(n, &[])).collect();
    };
    let addresses = |it: &mut Gateways| {
        let port = |n| format!("192.0.2.8:{}", 7_000 + n);
        let ports: Vec<String> = (0..9).map(port).collect();
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        it.gateways = vec![samples::gateway(7, &ports)];
    };
    let reason = |reason: &str| {
        let reason = Some(reason.to_owned());
        list(|it| *it = Gateways { gateways: vec![], reason, ..it.clone() })
    };
    [
        ("one gateway twice", list(two), "Invalid"),
        ("too many gateways of a cluster", list(many), "TooLong"),
        ("too many addresses of a gateway", list(addresses), "TooLong"),
        ("no gateway, and no reason", list(|it| it.gateways.clear()), "Invalid"),
        ("gateways, and why there is none", list(|it| it.reason = Some("x".into())), "Invalid"),
        ("a reason of no words", reason(""), "Invalid"),
        ("a reason too long", reason(&"x".repeat(513)), "TooLong"),
    ]
    .map(|(name, bytes, error)| ("gateways", name, bytes, error))
    .into()
}

fn ranges() -> Vec<Case> {
    let ranges = |texts: &[&str]| {
        list(|it| it.ranges = texts.iter().map(|text| text.parse().unwrap()).collect())
    };
    let many: Vec<String> = (0..=64).map(|n| format!("10.{n}.0.0/24")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    [
        ("too many ranges", ranges(&many), "TooLong"),
        ("bits of a host", ranges(&["10.200.0.1/25"]), "Invalid"),
        ("ranges out of order", ranges(&["10.201.0.0/25", "10.200.0.0/25"]), "Invalid"),
        ("a range twice", ranges(&["10.200.0.0/25", "10.200.0.0/25"]), "Invalid"),
        ("a range within another", ranges(&["10.200.0.0/24", "10.200.0.0/25"]), "Invalid"),
        ("all addresses", ranges(&["0.0.0.0/0"]), "Invalid"),
        ("all addresses of IPv6", ranges(&["::/0"]), "Invalid"),
        ("this machine", ranges(&["127.0.0.0/24"]), "Invalid"),
        ("a metadata service", ranges(&["169.254.169.254/32"]), "Invalid"),
        ("a range of groups", ranges(&["ff02::/64"]), "Invalid"),
        // {1: 10.200.0.0, 2: 25}, and what cannot stand there.
        ("a prefix of 33", replaced("a201440ac80000021819", "a201440ac80000021821"), "Invalid"),
        ("an address of five bytes", replaced("440ac8000002", "450ac800000002"), "Expected"),
        (
            "IPv4 in the form of IPv6",
            replaced(
                "a201440ac80000021819",
                &format!("a20150{}ffff0ac80000021879", "00".repeat(10)),
            ),
            "Invalid",
        ),
        (
            "a range of one address, unsaid",
            replaced("a201440ac80000021819", "a101440ac80000"),
            "MissingField",
        ),
        ("a range as text", replaced("a201440ac80000021819", "6161"), "Expected"),
    ]
    .map(|(name, bytes, error)| ("gateways", name, bytes, error))
    .into()
}

fn addresses() -> Vec<Case> {
    let at = |text: &str| list(|it| it.gateways = vec![samples::gateway(7, &[text])]);
    let twice = list(|it| {
        it.gateways = vec![samples::gateway(7, &["192.0.2.8:1", "192.0.2.8:1"])];
    });
    [
        ("an address twice", twice, "Invalid"),
        ("no port", at("192.0.2.8:0"), "Invalid"),
        ("nobody's address", at("0.0.0.0:7475"), "Invalid"),
        ("an address of a group", at("224.0.0.1:7475"), "Invalid"),
        ("everybody's address", at("255.255.255.255:7475"), "Invalid"),
        ("an address of one link", at("[fe80::1]:7475"), "Invalid"),
        // {1: 192.0.2.8, 2: 7475}, and a port beyond all others.
        ("no such port", replaced("44c000020802191d33", "44c0000208021a00010000"), "Invalid"),
    ]
    .map(|(name, bytes, error)| ("gateways", name, bytes, error))
    .into()
}
