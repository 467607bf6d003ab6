//! The largest values that messages are made of, each of the limits that bound it. The largest
//! records of the daemon are made of them too.

use std::fmt::Debug;
use std::str::FromStr;

use mercato_protocol::contract::{Amends, Contract, Party, Terms};
use mercato_protocol::egress::{Egress, Outside};
use mercato_protocol::envelope::{Payload, Signed};
use mercato_protocol::id::{ClusterId, ContractId, Digest, NegotiationId, PublicKey};
use mercato_protocol::invoice::{Credit, CreditKind, Invoice, Notice};
use mercato_protocol::limits;
use mercato_protocol::negotiation::{CloseReason, Request};
use mercato_protocol::price::{Money, Price, UnitPrice, Usage};
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{
    Class, Isolation, NetworkIsolation, OnDisconnect, Platform, PodSecurity, Sla,
};

pub(crate) const ID: NegotiationId = NegotiationId([0xff; 16]);
pub(crate) const CONTRACT: ContractId = ContractId(ID.0);
pub(crate) const CLUSTER: ClusterId = ClusterId([0xff; 32]);
pub(crate) const OTHER: ClusterId = ClusterId([0xfe; 32]);
pub(crate) const KEY: PublicKey = PublicKey([0xff; 32]);
pub(crate) const DIGEST: Digest = Digest([0xff; 32]);
/// So long that it takes all bytes of a number, and a contract can still end.
pub(crate) const LONG_MS: u64 = u64::MAX / 4;

pub(crate) const MAX: u64 = u64::MAX;

/// Something signed, as large as it can come.
pub(crate) fn opaque<T: Payload>() -> Signed<T> {
    Signed::from_bytes(vec![0xff; T::MAX_BYTES + limits::ENVELOPE_BYTES])
}

/// A text of so many bytes, unlike the others of the same length.
pub(crate) fn text(n: usize, bytes: usize) -> String {
    format!("{n:0bytes$}")
}

pub(crate) fn wire_text() -> String {
    text(0, limits::TEXT_BYTES)
}

pub(crate) fn slug<T: FromStr>(n: usize) -> T
where
    T::Err: Debug,
{
    text(n, limits::SLUG_BYTES).parse().unwrap()
}

pub(crate) fn money() -> Money {
    Money { micros: MAX, currency: text(0, 16).parse().unwrap() }
}

pub(crate) fn quantity() -> Resources {
    let gpus = (0..limits::GPU_MODELS).map(|n| (slug(n), MAX)).collect();
    Resources { cpu_millis: MAX, memory_bytes: MAX, pods: MAX, storage_bytes: MAX, gpus }
}

pub(crate) fn price() -> Price {
    let unit = UnitPrice { micros: MAX, period_s: u32::MAX };
    let units = (0..limits::PRICE_LINES).map(|n| (Resource::Gpu(slug(n)), unit)).collect();
    Price::Posted { currency: money().currency, units }
}

pub(crate) fn terms() -> Terms {
    Terms {
        pool: slug(0),
        platform: Platform { arch: slug(0), os: slug(0) },
        quantity: quantity(),
        class: Class::Reserved,
        price: price(),
        term_s: LONG_MS / 1_000,
        isolation: Isolation::Confidential,
        network_isolation: NetworkIsolation::Required,
        pod_security: PodSecurity::Restricted,
        transit_hops: u32::MAX,
        on_disconnect: OnDisconnect::StopAfter { seconds: u32::MAX },
        reclaim_notice_s: MAX,
        sla: Some(Sla { availability_ppm: u32::MAX, credit_ppm: u32::MAX }),
        metering_interval_s: u32::MAX,
        dispute_tolerance_ppm: u32::MAX,
        egress: Egress::Named(outside()),
    }
}

/// As many ranges as there can be, of the family with the longer addresses, each with the longest
/// prefix.
pub(crate) fn outside() -> Outside {
    let range = |n| format!("2fff:ffff:ffff:ffff:ffff:ffff:ffff:{n:x}/128").parse().unwrap();
    let first = usize::from(u16::MAX) + 1 - limits::EGRESS_RANGES;
    Outside::of((first..=usize::from(u16::MAX)).map(range)).unwrap()
}

pub(crate) fn request() -> Request {
    Request { ad: DIGEST, terms: terms(), note: wire_text() }
}

pub(crate) fn contract() -> Contract {
    let party = |cluster| Party { cluster, key: KEY, certificate: Some(MAX) };
    let terms = terms();
    Contract {
        id: CONTRACT,
        provider: party(CLUSTER),
        consumer: party(OTHER),
        ad: DIGEST,
        not_before_ms: LONG_MS,
        not_after_ms: LONG_MS + terms.term_s * 1_000,
        commit_by_ms: MAX,
        terms,
        amends: Some(Amends { number: u32::MAX, previous: DIGEST, from_ms: LONG_MS }),
    }
}

pub(crate) fn receipt() -> Receipt {
    let counters = quantity().iter().collect();
    Receipt {
        contract: CONTRACT,
        provider: CLUSTER,
        consumer: OTHER,
        index: MAX,
        from_ms: MAX - 1,
        to_ms: MAX,
        usage: Usage { counters },
        amount: Some(money()),
        previous: Some(DIGEST),
    }
}

pub(crate) fn invoice() -> Invoice {
    // One of each kind.
    let credit = |kind| Credit { kind, amount: Money { micros: MAX / 2, ..money() } };
    Invoice {
        contract: CONTRACT,
        provider: CLUSTER,
        consumer: OTHER,
        closed: CloseReason::Breach,
        notice: Some(Notice { given_ms: MAX, until_ms: MAX }),
        receipt: DIGEST,
        amount: Some(money()),
        credits: [CreditKind::Availability, CreditKind::ReclaimNotice].map(credit).into(),
        due: Some(Money { micros: 1, ..money() }),
    }
}
