//! The largest values that records are made of, each of the limits that bound it.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::limits::{LIVE_CERTIFICATES, NAMESPACE_BYTES, NAMESPACES};
use mercato_agent::{Grant, Issued, Papers};
use mercato_broker::syntax::PriceChange;
use mercato_broker::{
    Agreement, Amount, Approve, BurstPolicy, BuyPolicy, Demand, DevicePolicy, Dispute,
    EgressPolicy, Party as Whom, Rate, SharePolicy, ShareRule, SignedInvoice, SignedReceipt,
    StoragePolicy, limits as of_broker,
};
use mercato_offload::key::PodId;
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::Role;
use mercato_protocol::egress::EgressKind;
use mercato_protocol::federation::Succession;
use mercato_protocol::id::ClusterId;
use mercato_protocol::invoice::Notice;
use mercato_protocol::limits;
use mercato_protocol::negotiation::{CloseReason, DisputeReason, Message};
use mercato_protocol::price::Price;
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};
use mercato_protocol::workload::Uid;
use serde_json::{Value, json};

#[path = "../../../../protocol/tests/wire/largest/values.rs"]
mod of_messages;

pub(super) use of_messages::*;

/// A word to the other side, as it is kept.
pub(super) fn kept_text() -> String {
    text(0, of_broker::TEXT_BYTES)
}

/// The id of one cluster of many.
fn cluster(n: usize) -> ClusterId {
    let mut id = CLUSTER;
    id.0[..8].copy_from_slice(&n.to_be_bytes());
    id
}

pub(super) fn agreement() -> Agreement {
    Agreement { contract: contract(), provider: opaque(), consumer: Some(opaque()) }
}

pub(super) fn dispute() -> Dispute {
    let (about, reason, text, at_ms) = (DIGEST, DisputeReason::Credits, kept_text(), MAX);
    Dispute { about, reason, text, at_ms }
}

/// A deal with all that can be in it at a time, and more.
pub(super) fn deal() -> Value {
    let said = || opaque::<Message>();
    let waits = [
        "request",
        "agreement",
        "verification",
        "query",
        "ready",
        "report",
        "close",
        "terminate",
        "amend",
        "amendment",
        "reclaim",
        "invoice",
        "take",
        "withdrawal",
    ];
    let waiting: Vec<Value> =
        waits.iter().map(|kind| json!({ "kind": kind, "message": said() })).collect();
    let replies = vec![json!([DIGEST, said()]); of_broker::REPLIES_KEPT];
    let signed = SignedReceipt { receipt: receipt(), provider: opaque(), consumer: opaque() };
    let invoice =
        SignedInvoice { invoice: invoice(), provider: opaque(), consumer: Some(opaque()) };
    let names = 0..of_broker::ORDER_NAMESPACES;
    json!({
        "side": "consumer",
        "talk": {
            "id": ID, "peer": CLUSTER, "key": KEY, "nextSeq": u32::MAX,
            "heard": [u32::MAX, DIGEST], "latest": DIGEST, "waiting": waiting, "replies": replies,
        },
        "request": request(),
        "rfq": ID,
        "limit": money(),
        "stage": { "closed": {
            "reason": CloseReason::ProvisioningFailed, "text": kept_text(), "atMs": MAX,
        } },
        "openedMs": MAX,
        "agreement": agreement(),
        "change": {
            "number": u32::MAX, "terms": terms(), "step": { "agreed": agreement() },
        },
        "meter": {
            "startedMs": MAX, "endedMs": MAX, "signed": signed,
            "reported": { "receipt": receipt(), "signed": opaque::<Receipt>() },
        },
        "reclaim": Notice { given_ms: MAX, until_ms: MAX },
        "reclaimWaits": true,
        "reclaimText": kept_text(),
        "invoice": invoice,
        "namespaces": names.map(|n| text(n, limits::LABEL_BYTES)).collect::<BTreeSet<_>>(),
        "burst": { "namespace": text(0, limits::LABEL_BYTES), "platform": terms().platform, "gpusOf": terms().platform.os },
        "unwanted": null,
        "ending": {
            "by": "provider", "cause": "provisioningFailed", "mark": "good",
            "bill": { "lessNotice": { "missingMs": MAX } },
        },
        "drained": true,
        "archived": true,
    })
}

fn range(n: usize) -> ipnet::IpNet {
    format!("fdff:ffff:ffff:ffff:ffff:ffff:ffff:{:x}/128", 0xff00 + n).parse().unwrap()
}

/// Rules with all the prices that they may have, and the rest of the list in whom to allow.
pub(super) fn share() -> SharePolicy {
    let Price::Posted { currency, units } = price() else { unreachable!("it has lines") };
    let lines = units.into_iter().map(|(resource, unit)| (resource, Some(unit))).collect();
    let price_of_rule = PriceChange::Lines { currency: Some(currency), lines };
    let rule = ShareRule {
        price: Some(price_of_rule),
        egress: Some(EgressKind::Internet),
        then: Approve::Auto,
        ..ShareRule::default()
    };
    let plain = SharePolicy {
        amounts: [(Resource::Cpu, Amount::Exactly(MAX))].into(),
        devices: DevicePolicy {
            models: (0..of_broker::DEVICE_WORDS)
                .map(|n| (text(n, of_broker::PRODUCT_BYTES), slug(n)))
                .collect(),
            shared: (0..of_broker::DEVICE_WORDS).map(slug).collect(),
            any_node: false,
            tolerate: (0..of_broker::DEVICE_WORDS)
                .map(|n| text(n, of_broker::TAINT_BYTES))
                .collect(),
            runtime_class: Some(text(0, of_broker::CLASS_BYTES)),
        },
        storage: Box::new(StoragePolicy {
            class: Some(text(0, of_broker::CLASS_BYTES)),
            kinds: (0..of_broker::STORAGE_KINDS).map(|n| text(n, limits::SLUG_BYTES)).collect(),
        }),
        egress: Box::new(EgressPolicy {
            to: EgressKind::Named,
            named: outside().ranges().iter().copied().collect(),
            except: (0..of_broker::EXCEPTED_RANGES).map(range).collect(),
        }),
        objects: Some(u64::MAX),
        keep_free: Resources::default(),
        price: price(),
        class: Class::Reserved,
        network_isolation: NetworkIsolation::Required,
        pod_security: PodSecurity::Restricted,
        approve: Approve::Ask,
        allow: BTreeSet::new(),
        rules: vec![rule; of_broker::RULES],
        reclaim_notice_s: MAX,
        max_term_s: MAX,
    };
    let ranges = limits::EGRESS_RANGES + of_broker::EXCEPTED_RANGES;
    let priced = (of_broker::RULES + 1) * limits::PRICE_LINES + 1 + ranges;
    let allow = (0..of_broker::SHARE_ENTRIES - priced).map(cluster).map(Whom::Cluster).collect();
    SharePolicy { allow, ..plain }
}

pub(super) fn buy() -> BuyPolicy {
    let rate = Rate { amount: money(), per_s: u32::MAX };
    let named = |n| (text(n, limits::LABEL_BYTES), rate);
    BuyPolicy {
        trust: (0..of_broker::PEERS).map(cluster).collect(),
        selector: Demand::default().selector,
        budget: Some(rate),
        namespaces: (0..of_broker::NAMESPACES).map(named).collect(),
        longest_s: Some(MAX),
        bursts: Some(Box::new(bursts())),
    }
}

/// As much as an owner can say of bursts.
fn bursts() -> BurstPolicy {
    let mut most = quantity();
    let gpus = std::mem::take(&mut most.gpus).into_iter();
    most.gpus = gpus.take(of_broker::BURST_GPUS).collect();
    BurstPolicy {
        max_price: price(),
        most,
        term_s: MAX,
        after_s: MAX,
        idle_s: MAX,
        wait_s: MAX,
        selector: Demand::default().selector,
        class: Some(Class::Reserved),
    }
}

pub(super) fn pod() -> PodId {
    PodId {
        uid: Uid(text(0, limits::UID_BYTES)),
        namespace: text(0, limits::LABEL_BYTES),
        name: text(0, limits::SUBDOMAIN_BYTES),
    }
}

pub(super) fn namespaces() -> BTreeMap<String, String> {
    (0..NAMESPACES).map(|n| (text(n, NAMESPACE_BYTES), text(n, NAMESPACE_BYTES))).collect()
}

pub(super) fn papers() -> Papers {
    let succession = || Succession { old: opaque(), new: opaque() };
    Papers {
        root: opaque(),
        successions: (0..limits::SUCCESSIONS).map(|_| succession()).collect(),
        certificates: (0..limits::CHAIN).map(|_| opaque()).collect(),
        registrar: vec![wire_text(); limits::ADDRESSES],
        domain: Some(text(0, limits::SUBDOMAIN_BYTES)),
    }
}

pub(super) fn grant() -> Grant {
    let roles = vec![Role::Provider, Role::Consumer, Role::Registrar];
    let attribute = |n| Attribute {
        name: slug(n),
        value: text(n, limits::LABEL_BYTES),
        assurance: Assurance::Issuer,
    };
    let attributes = (0..limits::ATTRIBUTES).map(attribute).collect();
    Grant { organisation: Some(slug(0)), roles, attributes, expires_ms: MAX }
}

pub(super) fn issued() -> Issued {
    let live = LIVE_CERTIFICATES as u64;
    let serials = (0..live).map(|n| (MAX - n, MAX)).collect();
    Issued { serials, grant: grant(), revoked: true, token: Some(DIGEST) }
}
