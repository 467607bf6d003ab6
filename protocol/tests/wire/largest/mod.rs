//! The largest message of each kind that the limits allow can be said, so that no two limits
//! contradict each other: what is within the bounds of each part is within those of the whole.
//!
//! A message that is new is in this table, or the test fails; a choice of a message that is new
//! does not compile here until it has its largest.

mod node;
mod traffic;
mod tunnel;
mod values;

use std::collections::BTreeSet;
use std::path::Path;

use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::codec::{CodecError, Message};
use mercato_protocol::federation::{Root, Succession};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip::{self, Fingerprint, Mark, Pull, Withdraw};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::FederationId;
use mercato_protocol::identity::Identity;
use mercato_protocol::invoice::Notice;
use mercato_protocol::join::{JoinReply, JoinRequest, JoinToken, Secret};
use mercato_protocol::limits;
use mercato_protocol::negotiation::{
    self, Answer, Body, CloseReason, DisputeReason, State, TerminateReason,
};
use mercato_protocol::workload;

use crate::corpus::sources;
use traffic::*;
use values::*;

const FEDERATION: FederationId = FederationId([0xff; 32]);

/// How a message stays within its bound.
enum Bound {
    /// The bounds of its parts see to it: the sizes of its largest, of each kind.
    Parts(fn() -> Vec<Result<usize, CodecError>>),
    /// Whoever makes it puts in as much as fits, in this file.
    Maker(&'static str),
}

use Bound::{Maker, Parts};

/// By the type's name in its module.
const MESSAGES: [(&str, Bound); 29] = [
    ("AdBody", Maker("broker/src/sale/offer.rs")),
    ("AdHeader", Maker("broker/src/sale/offer.rs")),
    ("Ask", Parts(|| asks().iter().map(size).collect())),
    ("Certificate", Parts(|| vec![size(&certificate(Role::Registrar))])),
    ("Contract", Parts(|| vec![size(&contract())])),
    ("Gateways", Parts(|| tunnel::gateways().iter().map(size).collect())),
    ("Hello", Parts(|| vec![size(&hello())])),
    ("Identity", Parts(|| vec![size(&identity())])),
    ("Invoice", Parts(|| vec![size(&invoice())])),
    ("JoinReply", Parts(|| vec![size(&join_reply())])),
    ("JoinRequest", Parts(|| vec![size(&join_request())])),
    ("JoinToken", Parts(|| vec![size(&join_token())])),
    ("NodeFacts", Parts(|| vec![size(&node_facts())])),
    (
        "Open",
        Parts(|| {
            vec![size(&workload::Open { contract: CONTRACT, acks: true, refuses_bodies: true })]
        }),
    ),
    ("Receipt", Parts(|| vec![size(&receipt())])),
    ("Reply", Parts(|| replies().iter().map(size).collect())),
    ("Request", Parts(|| requests().iter().map(size).collect())),
    ("RevocationList", Parts(|| vec![size(&revocations())])),
    ("Root", Parts(|| vec![size(&root())])),
    ("Succession", Parts(|| vec![size(&succession())])),
    ("Usage", Maker("node/kubelet/src/guest/usage.rs")),
    ("Withdraw", Parts(|| vec![size(&withdraw())])),
    ("gossip::Message", Parts(|| gossip().iter().map(size).collect())),
    ("negotiation::Message", Parts(|| words().iter().map(size).collect())),
    ("node::FromNode", Parts(|| node::from_node().iter().map(size).collect())),
    ("node::ToNode", Parts(|| node::to_node().iter().map(size).collect())),
    ("tunnel::Answer", Parts(|| tunnel::answers().iter().map(size).collect())),
    ("tunnel::Ask", Parts(|| tunnel::asks().iter().map(size).collect())),
    ("workload::Message", Parts(|| workload().iter().map(size).collect())),
];

fn size<T: Message>(message: &T) -> Result<usize, CodecError> {
    message.to_bytes().map(|bytes| bytes.len())
}

#[test]
fn the_largest_message_of_each_kind_can_be_said() {
    for (name, bound) in &MESSAGES {
        let Parts(sizes) = bound else { continue };
        for (nth, size) in sizes().into_iter().enumerate() {
            assert!(size.is_ok(), "the largest {name}, kind {nth}: {size:?}");
        }
    }
}

#[test]
fn every_message_says_how_it_stays_within_its_bound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let count: usize = sources(&root.join("protocol/src"))
        .iter()
        .map(|source| source.matches("Message for ").count())
        .sum();
    let names: BTreeSet<_> = MESSAGES.iter().map(|(name, _)| name).collect();
    assert_eq!((names.len(), count), (MESSAGES.len(), MESSAGES.len()), "one is not in the table");
    for (name, bound) in &MESSAGES {
        let Maker(file) = bound else { continue };
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        let within = ["AD_BODY_BYTES", "AD_HEADER_BYTES", "USAGE_BYTES"];
        let knows = within.iter().any(|limit| source.contains(limit));
        assert!(knows, "{file} does not keep {name} within its bound");
    }
}

fn identity() -> Identity {
    let name = text(0, limits::NAME_BYTES);
    Identity { key: KEY, name, issued_ms: MAX, previous: Some(DIGEST) }
}

fn root() -> Root {
    Root { name: slug(0), key: KEY, issued_ms: MAX, previous: Some(DIGEST) }
}

fn succession() -> Succession {
    Succession { old: opaque(), new: opaque() }
}

/// With the dozen attributes that there is room for.
fn certificate(role: Role) -> Certificate {
    let attribute =
        |n| Attribute { name: slug(n), value: "true".to_owned(), assurance: Assurance::ThirdParty };
    Certificate {
        serial: MAX,
        cluster: CLUSTER,
        key: KEY,
        organisation: Some(slug(0)),
        roles: vec![role],
        attributes: (0..10).map(attribute).collect(),
        not_before_ms: LONG_MS,
        not_after_ms: LONG_MS + limits::MEMBERSHIP_MS,
    }
}

fn revocations() -> RevocationList {
    let serials = (0..limits::LIST_ITEMS as u64).map(|n| LONG_MS + n).collect();
    let next_update_ms = LONG_MS + limits::REVOCATIONS_MS;
    RevocationList { number: MAX, issued_ms: LONG_MS, next_update_ms, serials }
}

fn addresses() -> Vec<String> {
    vec![text(0, limits::ADDRESS_BYTES); limits::ADDRESSES]
}

/// Of a member of as many federations as there can be, each of which issues the largest
/// certificates.
fn hello() -> Hello {
    Hello {
        identity: opaque(),
        federation: FEDERATION,
        software: text(0, limits::SOFTWARE_BYTES),
        addresses: addresses(),
        rotations: vec![opaque(); limits::ROTATIONS],
        certificates: vec![opaque(); limits::CERTIFICATES],
        time_ms: Some(MAX),
    }
}

fn join_token() -> JoinToken {
    JoinToken {
        federation: FEDERATION,
        registrar: KEY,
        addresses: addresses(),
        secret: Secret(ID),
        expires_ms: MAX,
    }
}

fn join_request() -> JoinRequest {
    JoinRequest {
        secret: Some(Secret(ID)),
        identities: vec![opaque(); 1 + limits::ROTATIONS],
        federation: Some(FEDERATION),
    }
}

fn join_reply() -> JoinReply {
    JoinReply::Admitted {
        root: opaque(),
        successions: (0..limits::SUCCESSIONS).map(|_| succession()).collect(),
        certificates: vec![opaque(); limits::CHAIN],
        revocations: opaque(),
    }
}

fn requests() -> Vec<FirstFrame> {
    let mut all = vec![FirstFrame::Hello(hello())];
    while let Some(next) = all.last().and_then(|request| match request {
        FirstFrame::Hello(_) => Some(FirstFrame::Join(join_request())),
        FirstFrame::Join(_) => Some(FirstFrame::Negotiation(opaque())),
        FirstFrame::Negotiation(_) => None,
    }) {
        all.push(next);
    }
    all
}

fn withdraw() -> Withdraw {
    Withdraw { provider: CLUSTER, epoch: LONG_MS, seq: MAX, issued_ms: MAX }
}

/// All but a push, which `node/gossip/src/announce/batch.rs` fills.
fn gossip() -> Vec<gossip::Message> {
    let mark = Mark { publisher: KEY, epoch: LONG_MS, seq: MAX, digest: DIGEST };
    let marks = vec![mark; limits::GOSSIP_ITEMS];
    let wants = vec![Pull { publisher: KEY, held: Some(u32::MAX) }; limits::GOSSIP_ITEMS];
    let fingerprints = vec![Fingerprint(MAX); limits::BUCKETS];
    let buckets = (0..limits::BUCKETS as u32).collect();
    vec![
        gossip::Message::Announce { marks: marks.clone() },
        gossip::Message::Pull { wants },
        gossip::Message::Root { session: MAX, root: Fingerprint(MAX) },
        gossip::Message::Buckets { session: MAX, fingerprints },
        gossip::Message::Ids { session: MAX, buckets, marks },
    ]
}

/// The largest of each body: none is left out, for every one here leads to the next.
fn words() -> Vec<negotiation::Message> {
    let mut bodies = vec![Body::Request(request())];
    while let Some(next) = bodies.last().and_then(next_body) {
        bodies.push(next);
    }
    bodies.extend(answers().map(|answer| Body::Amendment { number: u32::MAX, answer }));
    let word = |body: Body| negotiation::Message {
        negotiation: ID,
        from: CLUSTER,
        to: OTHER,
        seq: u32::MAX,
        previous: (!matches!(body, Body::Request(_) | Body::Rfq(_))).then_some(DIGEST),
        body,
    };
    bodies.into_iter().map(word).collect()
}

fn next_body(body: &Body) -> Option<Body> {
    Some(match body {
        Body::Request(_) => Body::Rfq(request()),
        Body::Rfq(_) => Body::Review { until_ms: MAX },
        Body::Review { .. } => Body::Agreement { contract: opaque() },
        Body::Agreement { .. } => Body::Verification { contract: opaque() },
        Body::Verification { .. } => Body::Finalized,
        Body::Finalized => {
            Body::Terminate { reason: TerminateReason::NoCapacity, text: wire_text() }
        }
        Body::Terminate { .. } => Body::StatusQuery,
        Body::StatusQuery => Body::Status { state: State::Offered },
        Body::Status { .. } => Body::Ready,
        Body::Ready => Body::UsageReport { receipt: opaque() },
        Body::UsageReport { .. } => Body::UsageReceipt { receipt: opaque() },
        Body::UsageReceipt { .. } => Body::Close { reason: CloseReason::Breach, text: wire_text() },
        Body::Close { .. } => Body::Offer { contract: opaque() },
        Body::Offer { .. } => Body::Amend { number: u32::MAX, terms: terms() },
        Body::Amend { .. } => {
            Body::Amendment { number: u32::MAX, answer: Answer::Review { until_ms: MAX } }
        }
        Body::Amendment { .. } => {
            let notice = Notice { given_ms: MAX, until_ms: MAX };
            Body::ReclaimNotice { notice, text: wire_text() }
        }
        Body::ReclaimNotice { .. } => Body::Invoice { invoice: opaque() },
        Body::Invoice { .. } => Body::InvoiceReceipt { invoice: opaque() },
        Body::InvoiceReceipt { .. } => {
            Body::Dispute { about: DIGEST, reason: DisputeReason::Usage, text: wire_text() }
        }
        Body::Dispute { .. } => Body::Take,
        Body::Take => return None,
    })
}

fn answers() -> impl Iterator<Item = Answer> {
    let first = Answer::Review { until_ms: MAX };
    std::iter::successors(Some(first), |answer| {
        Some(match answer {
            Answer::Review { .. } => Answer::Agreed { contract: opaque() },
            Answer::Agreed { .. } => Answer::Done,
            Answer::Done => {
                Answer::Refused { reason: TerminateReason::NoCapacity, text: wire_text() }
            }
            Answer::Refused { .. } => return None,
        })
    })
}
