//! Ways out that no message may have, and known extensions under the wrong flag.

use ipnet::IpNet;
use mercato_protocol::codec::{Wire as _, Writer};

use super::{Case, sign, unchecked};
use crate::samples;

/// Number, flag and value.
pub(crate) type Entry = (u64, bool, Vec<u8>);

/// A struct with these extensions before its fields, of which it has fewer than 23 and no extension.
pub(crate) fn with_extensions(of: &[u8], extensions: &[Entry]) -> Vec<u8> {
    let mut to = Writer::default();
    to.map(usize::from(of[0] & 0x1f) + 1);
    to.uint(0);
    to.map(extensions.len());
    for (id, critical, value) in extensions {
        to.uint(*id);
        to.array(2);
        to.bool(*critical);
        to.bytes(value);
    }
    to.raw(&of[1..]);
    to.into_bytes()
}

/// A contract that has these extensions in its terms.
fn contract(extensions: &[Entry]) -> Vec<u8> {
    let plain = unchecked(&samples::terms());
    let payload = hex::encode(unchecked(&samples::contract(samples::terms())));
    assert_eq!(payload.matches(&hex::encode(&plain)).count(), 1);
    let extended = hex::encode(with_extensions(&plain, extensions));
    let payload = payload.replace(&hex::encode(&plain), &extended);
    sign(&samples::PROVIDER_SEED, "contract", &hex::decode(payload).unwrap())
}

fn body(extensions: &[Entry]) -> Vec<u8> {
    with_extensions(&unchecked(&samples::small_body()), extensions)
}

fn written(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut to = Writer::default();
    fill(&mut to);
    to.into_bytes()
}

/// `[1, {1: [range]}]`, as terms name ranges.
fn named(ranges: &[&str]) -> Vec<u8> {
    let ranges: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
    written(|to| {
        to.array(2);
        to.uint(1);
        to.map(1);
        to.uint(1);
        ranges.encode(to);
    })
}

/// `[2, {}]`, as terms name all of the Internet.
fn internet() -> Vec<u8> {
    vec![0x82, 2, 0xa0]
}

pub(super) fn cases() -> Vec<Case> {
    let terms = |value: Vec<u8>| contract(&[(3, true, value)]);
    let many: Vec<_> = (0..33).map(|n| format!("203.0.{}.0/24", 114 + n)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let host = "a10181a20144cb00720102181 8".replace(' ', "");
    let host = [vec![0x82, 1], hex::decode(host).unwrap()].concat();
    let open = unchecked(&samples::open());
    let refuses = |critical, value| with_extensions(&open, &[(2, critical, value)]);
    [
        ("egress that may be passed over", contract(&[(3, false, internet())]), "ExtensionFlag"),
        ("no egress spelled out", terms(vec![0x82, 0, 0xa0]), "UnknownVariant"),
        ("egress of no kind", terms(vec![]), "Truncated"),
        ("egress with more behind it", terms([internet(), vec![0]].concat()), "Trailing"),
        ("egress to all with a field", terms(vec![0x82, 2, 0xa1, 1, 1]), "UnknownField"),
        ("egress to no range", terms(vec![0x82, 1, 0xa0]), "MissingField"),
        ("egress to a private range", terms(named(&["10.0.0.0/8"])), "Invalid"),
        ("egress to half of all", terms(named(&["0.0.0.0/1"])), "Invalid"),
        ("egress to IPv4 by IPv6", terms(named(&["64:ff9b::/96"])), "Invalid"),
        ("egress to bits of a host", terms(host), "Invalid"),
        ("egress within other egress", terms(named(&["8.0.0.0/8", "8.8.0.0/16"])), "Invalid"),
        ("egress out of order", terms(named(&["9.0.0.0/8", "8.0.0.0/8"])), "Invalid"),
        ("egress twice", terms(named(&["8.0.0.0/8", "8.0.0.0/8"])), "Invalid"),
        ("egress to too many ranges", terms(named(&many)), "TooLong"),
        (
            "the extension of egress twice",
            contract(&[(3, true, internet()), (3, true, internet())]),
            "DuplicateKey",
        ),
        (
            "extensions out of order",
            contract(&[(9, false, vec![]), (3, true, internet())]),
            "UnsortedKeys",
        ),
        (
            "a critical one unknown",
            contract(&[(3, true, internet()), (9, true, vec![])]),
            "CriticalExtension",
        ),
    ]
    .map(|(name, bytes, error)| ("contract", name, bytes, error))
    .into_iter()
    .chain(
        [
            (
                "egress that must be understood",
                body(&[(3, true, vec![0xa1, 1, 2])]),
                "ExtensionFlag",
            ),
            (
                "no egress offered, spelled out",
                body(&[(3, false, vec![0xa1, 1, 0])]),
                "UnknownVariant",
            ),
            ("egress offered to no range", body(&[(3, false, vec![0xa1, 1, 1])]), "Invalid"),
            (
                "egress offered to all, with ranges",
                body(&[(3, false, offered_to_all())]),
                "Invalid",
            ),
        ]
        .map(|(name, bytes, error)| ("ad-body", name, bytes, error)),
    )
    .chain(
        [
            ("refusals that must be understood", refuses(true, vec![]), "ExtensionFlag"),
            ("refusals with a value", refuses(false, vec![1]), "Expected"),
        ]
        .map(|(name, bytes, error)| ("workload-open", name, bytes, error)),
    )
    .collect()
}

/// `{1: 2, 2: [range]}`.
fn offered_to_all() -> Vec<u8> {
    let ranges: Vec<IpNet> = samples::outside().into();
    written(|to| {
        to.map(2);
        to.uint(1);
        to.uint(2);
        to.uint(2);
        ranges.encode(to);
    })
}
