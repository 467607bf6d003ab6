//! One of everything that peers say, with fixed keys and times: what the vectors and
//! the round trips are made of.

use std::collections::BTreeMap;

use mercato_protocol::ad::{
    AdBody, AdHeader, Assurance, Attribute, Goods, OfferTerms, Pool, PoolRow,
};
use mercato_protocol::codec::Message as _;
use mercato_protocol::contract::{Amends, Contract, Party, Terms};
use mercato_protocol::egress::Egress;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::gpu::{GpuIsolation, GpuMode, GpuPool, GpuSource};
use mercato_protocol::id::{ClusterId, ContractId, Digest, FederationId, NegotiationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::invoice::{Credit, CreditKind, Invoice, Notice};
use mercato_protocol::negotiation::{
    Answer, Body, CloseReason, DisputeReason, Message as Negotiation, Request, State,
    TerminateReason,
};
use mercato_protocol::price::{Money, Price, UnitPrice, Usage};
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{
    Class, Isolation, NetworkIsolation, OnDisconnect, Platform, PodSecurity, Sla,
};
use mercato_protocol::time::Now;

mod egress;
mod membership;
mod node;
mod storage;
mod traffic;
mod tunnel;

pub(crate) use egress::*;
pub(crate) use membership::*;
pub(crate) use node::*;
pub(crate) use storage::*;
pub(crate) use traffic::*;
pub(crate) use tunnel::*;

pub(crate) const NOW: Now = Now { mono_ms: 5_000, wall_ms: 1_800_000_000_000 };
pub(crate) const PROVIDER_SEED: [u8; 32] = [1; 32];
pub(crate) const CONSUMER_SEED: [u8; 32] = [2; 32];
const HOUR_MS: u64 = 3_600_000;

pub(crate) fn provider() -> KeyPair {
    KeyPair::from_seed(&PROVIDER_SEED)
}

pub(crate) fn consumer() -> KeyPair {
    KeyPair::from_seed(&CONSUMER_SEED)
}

pub(crate) fn provider_identity() -> Signed<Identity> {
    Identity::found(&provider(), "torino", NOW).unwrap()
}

pub(crate) fn consumer_identity() -> Signed<Identity> {
    Identity::found(&consumer(), "lyon è qui", NOW).unwrap()
}

/// Both parties, each key for its cluster.
pub(crate) fn known() -> BTreeMap<PublicKey, ClusterId> {
    BTreeMap::from([
        (provider().public(), provider_identity().cluster_id()),
        (consumer().public(), consumer_identity().cluster_id()),
    ])
}

pub(crate) fn eur_price() -> Price {
    let hourly = |micros| UnitPrice { micros, period_s: 3_600 };
    let gpu = Resource::Gpu("h100".parse().unwrap());
    Price::Posted {
        currency: "EUR".parse().unwrap(),
        units: [
            (Resource::Cpu, hourly(20_000)),
            (Resource::Memory, hourly(5_000)),
            (gpu, hourly(2_400_000)),
        ]
        .into(),
    }
}

pub(crate) fn resources(cores: u64, gpus: u64) -> Resources {
    let gpus = (gpus > 0).then(|| ("h100".parse().unwrap(), gpus));
    Resources {
        cpu_millis: cores * 1_000,
        memory_bytes: (cores * 4) << 30,
        pods: 110,
        storage_bytes: 0,
        gpus: gpus.into_iter().collect(),
    }
}

fn platform() -> Platform {
    Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() }
}

fn gpu_pool() -> GpuPool {
    GpuPool {
        model: "h100".parse().unwrap(),
        vendor: "nvidia".parse().unwrap(),
        pci_id: Some("10de:2330".into()),
        memory_mib: 81_559,
        count: 8,
        most_per_node: 4,
        driver: Some("580.65".into()),
        cuda: Some("13.0".into()),
        compute_capability: Some("9.0".into()),
        interconnect: Some("nvlink".into()),
        source: GpuSource::Labels,
        mode: GpuMode::Exclusive,
        isolation: GpuIsolation::Hardware,
        shared_counter: None,
        cpu_millis_per_unit: 16_000,
        memory_bytes_per_unit: 128 << 30,
    }
}

/// A body without anything optional, with one pool of CPUs.
pub(crate) fn small_body() -> AdBody {
    AdBody {
        identity: provider_identity(),
        jurisdiction: None,
        region: None,
        attributes: vec![],
        carbon_g_per_kwh: None,
        addresses: vec!["/ip4/192.0.2.7/udp/7474/quic-v1".into()],
        storage_classes: vec![],
        services: vec![],
        isolation: vec![Isolation::Runc],
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        pools: vec![Pool {
            id: "amd64".parse().unwrap(),
            goods: Goods::Compute,
            platform: platform(),
            total: resources(64, 0),
            largest_pod: resources(8, 0),
            gpus: vec![],
        }],
        terms: OfferTerms {
            classes: vec![Class::Reserved],
            min_term_s: 600,
            max_term_s: 30 * 86_400,
            reclaim_notice_s: 3_600,
            metering_interval_s: 300,
        },
        rotations: vec![],
        certificates: vec![],
        egress: None,
    }
}

/// A body with all that can be said.
pub(crate) fn full_body() -> AdBody {
    let mut body = small_body();
    let mut gpus = body.pools[0].clone();
    gpus.id = "h100".parse().unwrap();
    gpus.total = resources(64, 8);
    gpus.gpus = [
        ("h100", GpuMode::Exclusive),
        ("h100.1g.10gb", GpuMode::Mig { profile: "1g.10gb".into() }),
        ("h100.mps", GpuMode::Mps { memory_mib: 8_192, percent: 25 }),
        ("h100.slice", GpuMode::Timeslice { replicas: 4 }),
        ("h100.vgpu", GpuMode::Vgpu { profile: "h100-10c".into() }),
    ]
    .map(|(model, mode)| {
        let model = model.parse().unwrap();
        GpuPool { model, mode, shared_counter: Some("h100".into()), ..gpu_pool() }
    })
    .into();
    body.pools.push(gpus);
    AdBody {
        jurisdiction: Some("IT".into()),
        region: Some("eu-south-1".into()),
        attributes: vec![Attribute {
            name: "cert.iso27001".parse().unwrap(),
            value: "true".into(),
            assurance: Assurance::ThirdParty,
        }],
        carbon_g_per_kwh: Some(180),
        storage_classes: vec!["fast".into()],
        services: vec!["registry.test".into()],
        certificates: chain(),
        ..body
    }
}

pub(crate) fn ad_header(body: &AdBody) -> AdHeader {
    AdHeader {
        provider: provider_identity().cluster_id(),
        epoch: 1,
        seq: 41,
        body: Digest::of(&body.to_bytes().unwrap()),
        issued_ms: NOW.wall_ms,
        ttl_s: 900,
        rows: body
            .pools
            .iter()
            .map(|pool| PoolRow {
                pool: pool.id.clone(),
                free: pool.largest_pod.clone(),
                price: if pool.gpus.is_empty() { Price::Free } else { eur_price() },
            })
            .collect(),
    }
}

pub(crate) fn signed_header() -> Signed<AdHeader> {
    provider().sign(FederationId::lan(), &ad_header(&small_body())).unwrap()
}

pub(crate) fn withdraw() -> Withdraw {
    let provider = provider_identity().cluster_id();
    Withdraw { provider, epoch: 1, seq: 42, issued_ms: NOW.wall_ms }
}

pub(crate) fn terms() -> Terms {
    Terms {
        pool: "amd64".parse().unwrap(),
        platform: platform(),
        quantity: resources(8, 0),
        class: Class::Reserved,
        price: eur_price(),
        term_s: 4 * 3_600,
        isolation: Isolation::Runc,
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        transit_hops: 0,
        on_disconnect: OnDisconnect::Keep,
        reclaim_notice_s: 3_600,
        sla: None,
        metering_interval_s: 300,
        dispute_tolerance_ppm: 10_000,
        egress: Egress::None,
    }
}

/// Every term that can be said.
pub(crate) fn full_terms() -> Terms {
    Terms {
        transit_hops: 1,
        on_disconnect: OnDisconnect::StopAfter { seconds: 600 },
        sla: Some(Sla { availability_ppm: 999_000, credit_ppm: 100_000 }),
        ..terms()
    }
}

pub(crate) fn negotiation_id() -> NegotiationId {
    NegotiationId(*b"a purchase of 8!")
}

/// The contract that comes of it.
pub(crate) fn contract_id() -> ContractId {
    negotiation_id().into()
}

pub(crate) fn contract(terms: Terms) -> Contract {
    let party = |key: KeyPair, identity: Signed<Identity>, certificate| Party {
        cluster: identity.cluster_id(),
        key: key.public(),
        certificate,
    };
    Contract {
        id: contract_id(),
        provider: party(provider(), provider_identity(), Some(17)),
        consumer: party(consumer(), consumer_identity(), None),
        ad: signed_header().digest(),
        not_before_ms: NOW.wall_ms,
        not_after_ms: NOW.wall_ms + terms.term_s * 1_000,
        commit_by_ms: NOW.wall_ms + 30_000,
        terms,
        amends: None,
    }
}

/// The first contract, longer and larger.
pub(crate) fn amended() -> Contract {
    let terms = Terms { quantity: resources(16, 0), term_s: 6 * 3_600, ..terms() };
    let previous = Digest::of(&contract(self::terms()).to_bytes().unwrap());
    let from_ms = NOW.wall_ms + HOUR_MS;
    let amends = Some(Amends { number: 1, previous, from_ms });
    Contract { amends, commit_by_ms: from_ms, ..contract(terms) }
}

pub(crate) fn receipt(index: u64) -> Receipt {
    receipt_of(&terms(), index)
}

pub(crate) fn receipt_of(terms: &Terms, index: u64) -> Receipt {
    let usage = Usage::of(&terms.quantity, (index + 1) * HOUR_MS).unwrap();
    Receipt {
        contract: contract_id(),
        provider: provider_identity().cluster_id(),
        consumer: consumer_identity().cluster_id(),
        index,
        from_ms: NOW.wall_ms + index * HOUR_MS,
        to_ms: NOW.wall_ms + (index + 1) * HOUR_MS,
        amount: terms.price.total(&usage).unwrap(),
        usage,
        previous: (index > 0).then_some(Digest([6; 32])),
    }
}

fn notice() -> Notice {
    let given_ms = NOW.wall_ms + HOUR_MS;
    Notice { given_ms, until_ms: given_ms + HOUR_MS / 2 }
}

/// Taken back with half of the notice that was promised.
pub(crate) fn invoice() -> Invoice {
    let amount = receipt(1).amount.unwrap();
    let credit = Credit {
        kind: CreditKind::ReclaimNotice,
        amount: Money { micros: amount.micros / 4, ..amount },
    };
    Invoice {
        contract: contract_id(),
        provider: provider_identity().cluster_id(),
        consumer: consumer_identity().cluster_id(),
        closed: CloseReason::Reclaimed,
        notice: Some(notice()),
        receipt: Digest::of(&receipt(1).to_bytes().unwrap()),
        amount: Some(amount),
        credits: vec![credit],
        due: Some(Money { micros: amount.micros - credit.amount.micros, ..amount }),
    }
}

/// Every message of a negotiation and its lease, in order.
pub(crate) fn negotiation() -> Vec<(&'static str, Negotiation)> {
    let lan = FederationId::lan();
    let [agreed, verified] =
        [provider(), consumer()].map(|key| key.sign(lan, &contract(terms())).unwrap());
    let [report, receipt] = [provider(), consumer()].map(|key| key.sign(lan, &receipt(1)).unwrap());
    let request = Request { ad: signed_header().digest(), terms: terms(), note: "for CI".into() };
    let cheaper = Terms { quantity: resources(4, 0), ..terms() };
    let offered = provider().sign(lan, &contract(cheaper)).unwrap();
    let changed = provider().sign(lan, &amended()).unwrap();
    let [billed, paid] = [provider(), consumer()].map(|key| key.sign(lan, &invoice()).unwrap());
    let (about, doubt, said) = (Digest([7; 32]), DisputeReason::Usage, String::from("a repair"));
    let reason = TerminateReason::NoCapacity;
    let text = String::from("as agreed");
    let (buyer, seller) = (consumer_identity().cluster_id(), provider_identity().cluster_id());
    let says = |from: ClusterId, seq, body| Negotiation {
        negotiation: negotiation_id(),
        from,
        to: if from == buyer { seller } else { buyer },
        seq,
        previous: (!matches!(body, Body::Request(_) | Body::Rfq(_))).then_some(Digest([5; 32])),
        body,
    };
    let answers = |seq, answer| says(seller, seq, Body::Amendment { number: 1, answer });
    vec![
        ("request", says(buyer, 0, Body::Request(request.clone()))),
        ("review", says(seller, 0, Body::Review { until_ms: NOW.wall_ms + 24 * HOUR_MS })),
        ("agreement", says(seller, 1, Body::Agreement { contract: agreed })),
        ("verification", says(buyer, 1, Body::Verification { contract: verified })),
        ("finalized", says(seller, 2, Body::Finalized)),
        ("status-query", says(buyer, 2, Body::StatusQuery)),
        ("status", says(seller, 3, Body::Status { state: State::Pending })),
        ("ready", says(buyer, 3, Body::Ready)),
        ("usage-report", says(seller, 4, Body::UsageReport { receipt: report })),
        ("usage-receipt", says(buyer, 4, Body::UsageReceipt { receipt })),
        (
            "close",
            says(buyer, 5, Body::Close { reason: CloseReason::Cancelled, text: text.clone() }),
        ),
        (
            "terminate",
            says(seller, 5, Body::Terminate { reason: TerminateReason::DeniedByOwner, text }),
        ),
        ("rfq", says(buyer, 0, Body::Rfq(request))),
        ("offer", says(seller, 0, Body::Offer { contract: offered })),
        ("amend", says(buyer, 6, Body::Amend { number: 1, terms: amended().terms })),
        ("amendment-review", answers(6, Answer::Review { until_ms: NOW.wall_ms + 24 * HOUR_MS })),
        ("amendment-agreed", answers(7, Answer::Agreed { contract: changed })),
        ("amendment-done", answers(8, Answer::Done)),
        ("amendment-refused", answers(9, Answer::Refused { reason, text: String::new() })),
        ("reclaim-notice", says(seller, 10, Body::ReclaimNotice { notice: notice(), text: said })),
        ("invoice", says(seller, 11, Body::Invoice { invoice: billed })),
        ("invoice-receipt", says(buyer, 7, Body::InvoiceReceipt { invoice: paid })),
        ("dispute", says(buyer, 8, Body::Dispute { about, reason: doubt, text: String::new() })),
        ("status-offered", says(seller, 1, Body::Status { state: State::Offered })),
        ("take", says(buyer, 1, Body::Take)),
    ]
}
