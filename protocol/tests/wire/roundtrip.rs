//! Any value reads back as itself, and any bytes either are refused or are the one
//! encoding of what they mean.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mercato_protocol::ad::{Ad, AdBody, AdError, AdHeader, OpenedBody, PoolRow};
use mercato_protocol::codec::{CodecError, Message, Wire, check};
use mercato_protocol::envelope::{Countersigned, EnvelopeError, KeyPair, Signed, Signers, Trust};
use mercato_protocol::gossip::{self, Fingerprint, Mark, Publication};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::Slug;
use mercato_protocol::workload::{
    self, Frame, Item, ObjectKey, ObjectKind, PodId, Route, ToGuest, Uid,
};
use mercato_protocol::{kubelet_stream, limits, negotiation};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::samples;

fn id() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>()
}

fn slug() -> impl Strategy<Value = Slug> {
    "[a-z0-9]([a-z0-9.-]{0,30}[a-z0-9])?".prop_map(|text| text.parse().unwrap())
}

fn resources() -> impl Strategy<Value = Resources> {
    let gpus = btree_map(slug(), 1..u64::MAX, 0..5);
    let storage = prop_oneof![Just(0), any::<u64>()];
    (any::<u64>(), any::<u64>(), any::<u64>(), storage, gpus).prop_map(
        |(cpu_millis, memory_bytes, pods, storage_bytes, gpus)| Resources {
            cpu_millis,
            memory_bytes,
            pods,
            storage_bytes,
            gpus,
        },
    )
}

fn price() -> impl Strategy<Value = Price> {
    let resource = prop_oneof![
        Just(Resource::Cpu),
        Just(Resource::Memory),
        Just(Resource::Pods),
        Just(Resource::Storage),
        slug().prop_map(Resource::Gpu),
    ];
    let unit =
        (any::<u64>(), 1..u32::MAX).prop_map(|(micros, period_s)| UnitPrice { micros, period_s });
    let currency = "[A-Z]{3}|[a-z][a-z0-9-]{3,15}".prop_map(|text| text.parse().unwrap());
    prop_oneof![
        Just(Price::Free),
        (currency, btree_map(resource, unit, 0..6))
            .prop_map(|(currency, units)| Price::Posted { currency, units }),
    ]
}

fn header() -> impl Strategy<Value = AdHeader> {
    let rows = btree_map(slug(), (resources(), price()), 0..4).prop_map(|rows| {
        let row = |(pool, (free, price))| PoolRow { pool, free, price };
        rows.into_iter().map(row).collect()
    });
    (id(), any::<u64>(), any::<u64>(), id(), any::<u64>(), 1..limits::AD_TTL_S, rows).prop_map(
        |(provider, epoch, seq, body, issued_ms, ttl_s, rows)| AdHeader {
            provider: ClusterId(provider),
            epoch,
            seq,
            body: Digest(body),
            issued_ms,
            ttl_s,
            rows,
        },
    )
}

fn workload() -> impl Strategy<Value = workload::Message> {
    let kind = prop_oneof![Just(ObjectKind::Namespace), Just(ObjectKind::Secret)];
    let label = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?";
    let subdomain = "[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?([.][a-z0-9]{1,5}){0,2}";
    let uid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}";
    let path = vec(id().prop_map(ClusterId), 1..8);
    let place = proptest::option::of("shop(-[a-z0-9]{1,9})?");
    let put = (kind, label, subdomain, id(), path, any::<u32>(), place).prop_map(
        |(kind, namespace, name, digest, path, hops, place)| ToGuest::Put {
            item: Item::Object(ObjectKey { kind, namespace, name }),
            digest: Digest(digest),
            route: Route { origin: path[0], path, hops },
            place,
        },
    );
    let delete = (uid, any::<u32>()).prop_map(|(uid, grace_s)| {
        let pod = PodId { uid: Uid(uid), namespace: "a".into(), name: "b".into() };
        ToGuest::Delete { pod, grace_s }
    });
    let statements = vec(prop_oneof![put, delete], 0..limits::FRAME_STATEMENTS);
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>(), statements).prop_map(
        |(from, to, ack, answer, statements)| {
            let seq = u64::from(!statements.is_empty());
            let frame = Frame { from, to, seq, ack, answer, statements };
            workload::Message::ToGuest { frame, bodies: vec![] }
        },
    )
}

fn announce() -> impl Strategy<Value = gossip::Message> {
    let mark =
        (id(), any::<u64>(), any::<u64>(), id()).prop_map(|(publisher, epoch, seq, digest)| Mark {
            publisher: PublicKey(publisher),
            epoch,
            seq,
            digest: Digest(digest),
        });
    vec(mark, 0..20).prop_map(|marks| gossip::Message::Announce { marks })
}

fn reads_back<T: Message + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = value.to_bytes().unwrap();
    assert_eq!(value.encoded_len(), bytes.len());
    assert_eq!(&T::from_bytes(&bytes).unwrap(), value);
}

/// Bytes that are taken at all are written the same again.
fn refused_or_canonical<T: Message>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        assert_eq!(hex::encode(value.to_bytes().unwrap()), hex::encode(bytes));
    }
}

proptest! {
    #[test]
    fn values_read_back(header in header(), workload in workload(), announce in announce()) {
        reads_back(&header);
        reads_back(&workload);
        reads_back(&announce);
        let json = serde_json::to_string(&header).unwrap();
        prop_assert_eq!(serde_json::from_str::<AdHeader>(&json).unwrap(), header);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = check(&bytes);
        refused_or_canonical::<workload::Message>(&bytes);
        refused_or_canonical::<gossip::Message>(&bytes);
        refused_or_canonical::<AdBody>(&bytes);
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        prop_assert!(Signed::<AdHeader>::from_bytes(bytes).open(trust, samples::NOW).is_err());
    }

    #[test]
    fn damaged_messages_are_refused_or_mean_something_else(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let damage = |mut bytes: Vec<u8>| {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            bytes
        };
        for (_, message) in samples::workload() {
            refused_or_canonical::<workload::Message>(&damage(message.to_bytes().unwrap()));
        }
        for (_, message) in samples::negotiation() {
            refused_or_canonical::<negotiation::Message>(&damage(message.to_bytes().unwrap()));
        }
        for (_, request) in samples::stream_requests() {
            refused_or_canonical::<kubelet_stream::Ask>(&damage(request.to_bytes().unwrap()));
        }
        let facts = samples::node_facts().to_bytes().unwrap();
        refused_or_canonical::<kubelet_stream::NodeFacts>(&damage(facts));
        refused_or_canonical::<kubelet_stream::Usage>(&damage(samples::usage().to_bytes().unwrap()));
        refused_or_canonical::<AdBody>(&damage(samples::full_body().to_bytes().unwrap()));
        let header = damage(samples::signed_header().as_bytes().to_vec());
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        prop_assert!(Signed::<AdHeader>::from_bytes(header).open(trust, samples::NOW).is_err());
    }
}

#[test]
fn a_header_is_small() {
    let mut header = samples::ad_header(&samples::small_body());
    header.rows[0].price = samples::eur_price();
    let signed = samples::provider().sign(FederationId::lan(), &header).unwrap();
    let bytes = signed.as_bytes().len();
    assert!(bytes <= 320, "{bytes} bytes");
}

#[test]
fn what_is_too_long_is_refused_before_it_is_read() {
    let bytes = vec![0; limits::GOSSIP_BYTES + 1];
    assert!(gossip::Message::from_bytes(&bytes).is_err());
    let marks = vec![samples::mark(); limits::GOSSIP_ITEMS + 1];
    assert!(gossip::Message::Announce { marks }.to_bytes().is_err());
    let most = gossip::Message::Announce { marks: vec![samples::mark(); limits::GOSSIP_ITEMS] };
    reads_back(&most);
}

#[test]
fn a_header_and_its_body_make_an_advertisement() {
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
    let body = samples::small_body();
    let header = samples::signed_header().open(trust, samples::NOW).unwrap();
    let opened = OpenedBody::open(&body.to_bytes().unwrap()).unwrap();
    let ad = Ad::assemble(&header, &opened).unwrap();
    assert_eq!((ad.digest, &*ad.body), (header.digest(), &body));

    let assemble = |key: &KeyPair, body: &AdBody, change: fn(&mut AdHeader)| {
        let mut header = samples::ad_header(body);
        change(&mut header);
        let header = key.sign(FederationId::lan(), &header).unwrap();
        let header = header.open(trust, samples::NOW).unwrap();
        let opened = OpenedBody::open(&body.to_bytes().unwrap())?;
        Ad::assemble(&header, &opened).map(|ad| ad.header.seq)
    };
    let (provider, thief) = (samples::provider(), KeyPair::from_seed(&[3; 32]));
    assert_eq!(assemble(&provider, &body, |_| ()), Ok(41));
    assert_eq!(assemble(&thief, &body, |_| ()), Err(AdError::OtherOwner));
    let other_body = assemble(&provider, &body, |header| header.body = Digest([0; 32]));
    assert_eq!(other_body, Err(AdError::OtherBody));
    let other_cluster = assemble(&provider, &body, |header| header.provider = ClusterId([0; 32]));
    assert_eq!(other_cluster, Err(AdError::OtherOwner));
    let no_rows = assemble(&provider, &body, |header| header.rows.clear());
    assert_eq!(no_rows, Err(AdError::OtherPools));
}

#[test]
fn a_contract_stands_when_both_have_signed_the_same() {
    let known = samples::known();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    let contract = samples::contract(samples::terms());
    let seller = samples::provider().sign(FederationId::lan(), &contract).unwrap();
    let seller = seller.open(trust, samples::NOW).unwrap();
    let buyer = samples::consumer().countersign(FederationId::lan(), &seller);
    let buyer = buyer.open(trust, samples::NOW).unwrap();
    assert_eq!(seller.payload(), contract.to_bytes().unwrap());
    let both = Countersigned::join(seller.clone(), buyer.clone()).unwrap();
    assert_eq!(both.id, contract.id);

    let wrong = |provider, consumer| {
        let joined = Countersigned::join(provider, consumer);
        assert_eq!(joined.err(), Some(EnvelopeError::NotCountersigned));
    };
    wrong(seller.clone(), seller.clone());
    wrong(buyer, seller.clone());
    let other = samples::contract(samples::full_terms());
    let other = samples::consumer().sign(FederationId::lan(), &other).unwrap();
    wrong(seller, other.open(trust, samples::NOW).unwrap());
}

#[test]
fn a_rotated_identity_is_not_a_first_one() {
    let first = samples::provider_identity();
    let mut next = mercato_protocol::identity::Identity {
        key: samples::consumer().public(),
        name: "torino".into(),
        issued_ms: samples::NOW.wall_ms,
        previous: Some(first.digest()),
    };
    let signed = samples::provider().sign(FederationId::NONE, &next).unwrap();
    assert_eq!(signed.open_identity(samples::NOW), Err(EnvelopeError::NotFirst));
    next.previous = None;
    let signed = samples::provider().sign(FederationId::NONE, &next).unwrap();
    let wrong = EnvelopeError::WrongSigner(samples::provider().public());
    assert_eq!(signed.open_identity(samples::NOW), Err(wrong));
    assert_eq!(first.open_identity(samples::NOW).unwrap().cluster_id(), first.cluster_id());
}

#[test]
fn fingerprints_are_of_sets_and_of_one_session() {
    let other = Mark { seq: 42, digest: Digest([1; 32]), ..samples::mark() };
    let (a, b) = (samples::mark(), other);
    assert_eq!(Fingerprint::of(1, [&a, &b]), Fingerprint::of(1, [&b, &a]));
    assert_ne!(Fingerprint::of(1, [&a, &b]), Fingerprint::of(2, [&a, &b]));
    assert_ne!(Fingerprint::of(1, [&a]), Fingerprint::of(1, [&a, &b]));
    assert_eq!(Fingerprint::of(1, []), Fingerprint::default());
}

#[test]
fn bodies_follow_their_message_or_are_refused() {
    let (_, message) = samples::workload().swap_remove(1);
    let body = samples::body();
    let bodies = message.split_bodies(&body).unwrap();
    assert_eq!(bodies, BTreeMap::from([(Digest::of(&body), Cow::Borrowed(body.as_slice()))]));
    let long = samples::long_body();
    let (head, sent) = workload::BodyHead::pack(&long);
    let packed = samples::to_guest(vec![samples::put()], vec![head]);
    assert!(sent.len() < long.len());
    assert_eq!(*packed.split_bodies(&sent).unwrap()[&Digest::of(&long)], *long);
    assert!(matches!(packed.split_bodies(&long[..sent.len()]), Err(CodecError::Invalid(_))));
    assert_eq!(message.split_bodies(&body[1..]), Err(CodecError::Truncated));
    assert_eq!(message.split_bodies(&[body.as_slice(), b" "].concat()), Err(CodecError::Trailing));
    let other = vec![b' '; body.len()];
    assert!(matches!(message.split_bodies(&other), Err(CodecError::Invalid(_))));
    let (_, bodyless) = samples::workload().swap_remove(0);
    assert_eq!(bodyless.split_bodies(&[]), Ok(BTreeMap::new()));
}

#[test]
fn publications_open_to_their_marks() {
    let lan = FederationId::lan();
    let withdraw = samples::provider().sign(lan, &samples::withdraw()).unwrap();
    let header = Publication::Header(samples::signed_header());
    let end = Publication::Withdraw(withdraw);
    let [known, later] = [&header, &end].map(|publication| {
        let opened = publication.open(lan, samples::NOW).unwrap();
        assert_eq!(&opened.publication(), publication);
        opened.mark()
    });
    assert_eq!(known, samples::mark());
    assert!(later.supersedes(&known) && !known.supersedes(&later) && !known.supersedes(&known));
    let stranger = Mark { publisher: PublicKey([0; 32]), ..later };
    assert!(!stranger.supersedes(&known));
    assert!(header.open(FederationId::NONE, samples::NOW).is_err());
}

#[test]
fn a_map_is_written_in_the_order_of_its_encoded_keys() {
    let map = BTreeMap::from([("aa".parse::<Slug>().unwrap(), 1u64), ("b".parse().unwrap(), 2)]);
    let mut writer = mercato_protocol::codec::Writer::default();
    map.encode(&mut writer);
    assert_eq!(hex::encode(writer.into_bytes()), "a2616202626161".to_owned() + "01");
}
