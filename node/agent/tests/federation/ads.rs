//! Advertisements that a neighbour brings, and what their renewals say.

use mercato_agent::Input;
use mercato_discovery::{Report, SightingId, Source};
use mercato_gossip::Opened;
use mercato_protocol::ad::{AdBody, AdHeader, OfferTerms};
use mercato_protocol::certificate::Certificate;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::{Message, Publication};
use mercato_protocol::id::{Digest, FederationId};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};
use mercato_protocol::text::Blob;

use crate::{Node, at};

/// What a cluster with nothing to sell would publish, and its body.
pub(crate) fn advertised(by: &Node, seq: u64, now_ms: u64) -> (Publication, Blob) {
    certified(by, seq, now_ms, vec![])
}

/// The same, by a member with these certificates.
pub(crate) fn certified(
    by: &Node,
    seq: u64,
    now_ms: u64,
    certificates: Vec<Signed<Certificate>>,
) -> (Publication, Blob) {
    let mut documents = by.config.identities();
    let body = AdBody {
        identity: documents.next().unwrap(),
        rotations: documents.collect(),
        jurisdiction: None,
        region: None,
        attributes: vec![],
        carbon_g_per_kwh: None,
        addresses: vec!["/ip4/192.0.2.1/tcp/7474".to_owned()],
        storage_classes: vec![],
        services: vec![],
        isolation: vec![],
        network_isolation: NetworkIsolation::Required,
        pod_security: PodSecurity::Baseline,
        pools: vec![],
        terms: OfferTerms {
            classes: vec![Class::Spot],
            min_term_s: 60,
            max_term_s: 60,
            reclaim_notice_s: 60,
            metering_interval_s: 60,
        },
        certificates,
        egress: None,
    };
    let body = body.to_bytes().unwrap();
    let header = AdHeader {
        provider: by.id(),
        epoch: 1,
        seq,
        body: Digest::of(&body),
        issued_ms: at(now_ms).wall_ms,
        ttl_s: 900,
        rows: vec![],
    };
    let header = by.config.key.sign(FederationId::lan(), &header).unwrap();
    (Publication::Header(header), Blob(body.into()))
}

/// `by` announces these to `to`, and sends them in one message when it is asked for them.
pub(crate) fn shows(to: &mut Node, by: &Node, ads: Vec<(Publication, Blob)>) {
    let now = at(to.now_ms);
    let (publications, bodies): (Vec<_>, Vec<_>) = ads.into_iter().unzip();
    let opened = publications.iter().map(|of| of.open(FederationId::lan(), now).unwrap().mark());
    let marks = opened.collect();
    for message in [Message::Announce { marks }, Message::Push { publications, bodies }] {
        let message = Opened::open(message, FederationId::lan(), now);
        to.feed(Input::Gossip { peer: by.key(), message });
    }
}

#[test]
fn where_a_provider_is_counts_as_said_again_now_and_then() {
    let (one, neighbour, mut other) = (Node::new(2), Node::new(3), Node::new(4));
    other.feed(Input::Connected { peer: neighbour.owner(), dialled: false });
    let mut knows_after = |seq, now_ms| {
        other.now_ms = now_ms;
        shows(&mut other, &neighbour, vec![advertised(&one, seq, now_ms)]);
        let is_known = other.agent.directory().known().any(|of| of.peer == Some(one.key()));
        let id = SightingId { source: Source::Peer(one.key()), instance: String::new() };
        other.feed(Input::Sighted(Report::Gone(id)));
        is_known
    };
    assert!(knows_after(1, 0));
    let again: Vec<bool> = (2..32).map(|seq| knows_after(seq, (seq - 1) * 60_000)).collect();
    let often = again.iter().filter(|again| **again).count();
    assert_eq!(often, 2, "twice in half an hour: {again:?}");
}
