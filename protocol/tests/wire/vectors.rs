//! The wire examples of `vectors/`: each good one reads as the value beside it and is
//! written as the same bytes; each malformed one is refused with the error beside it.
//!
//! The files are what another implementation tests itself with (docs/wire.md). They are
//! made of `samples` and `malformed`; `UPDATE_VECTORS=1 cargo test -p mercato-protocol
//! --test wire` writes them anew, and the difference shows what changed on the wire.

use std::path::PathBuf;

use mercato_protocol::ad::{AdBody, AdHeader};
use mercato_protocol::certificate::{Certificate, RevocationList};
use mercato_protocol::codec::{Message, Wire, Writer};
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{EnvelopeError, Payload, Signed, Signers, Trust};
use mercato_protocol::federation::{Root, Succession};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip::{self, Withdraw};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::FederationId;
use mercato_protocol::identity::Identity;
use mercato_protocol::invoice::Invoice;
use mercato_protocol::join::{JoinReply, JoinRequest, JoinToken};
use mercato_protocol::node::{FromNode, ToNode};
use mercato_protocol::receipt::Receipt;
use mercato_protocol::tunnel::{self, Gateways};
use mercato_protocol::{kubelet_stream, negotiation, workload};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{malformed, samples};

/// What the signed examples assume.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Setting {
    now_ms: u64,
    federation: FederationId,
    keys: Vec<Key>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    seed: String,
    public: String,
    identity: Signed<Identity>,
    cluster: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Good {
    name: String,
    /// The type of the bytes; those that are signed are a COSE_Sign1 of it.
    kind: String,
    bytes: String,
    value: Value,
    /// Whether the bytes carry extensions, which a writer of this release does not make.
    extended: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Malformed {
    name: String,
    kind: String,
    bytes: String,
    error: String,
}

/// Reads `bytes` as a peer would: the value, and the bytes that it is written as again.
fn read(kind: &str, bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    match kind {
        "hello" => plain::<Hello>(bytes),
        "request" => plain::<FirstFrame>(bytes),
        "ad-body" => plain::<AdBody>(bytes),
        "gossip" => plain::<gossip::Message>(bytes),
        "workload-open" => plain::<workload::Open>(bytes),
        "workload" => plain::<workload::Message>(bytes),
        "stream-request" => plain::<kubelet_stream::Ask>(bytes),
        "stream-node" => plain::<kubelet_stream::NodeFacts>(bytes),
        "stream-usage" => plain::<kubelet_stream::Usage>(bytes),
        "stream-reply" => plain::<kubelet_stream::Reply>(bytes),
        "join-token" => plain::<JoinToken>(bytes),
        "join-request" => plain::<JoinRequest>(bytes),
        "join-reply" => plain::<JoinReply>(bytes),
        "succession" => plain::<Succession>(bytes),
        "tunnel-ask" => tunnel_ask(bytes),
        "tunnel-answer" => plain::<tunnel::Answer>(bytes),
        "from-node" => plain::<FromNode>(bytes),
        "to-node" => plain::<ToNode>(bytes),
        Gateways::TYPE => {
            signed::<Gateways>(bytes, FederationId::NONE, Signers::Known(&samples::known()))
        }
        Root::TYPE => signed::<Root>(bytes, FederationId::NONE, Signers::Anyone),
        Certificate::TYPE => by_members::<Certificate>(bytes),
        RevocationList::TYPE => by_members::<RevocationList>(bytes),
        Identity::TYPE => signed::<Identity>(bytes, FederationId::NONE, Signers::Anyone),
        AdHeader::TYPE => signed::<AdHeader>(bytes, FederationId::lan(), Signers::Anyone),
        Withdraw::TYPE => signed::<Withdraw>(bytes, FederationId::lan(), Signers::Anyone),
        negotiation::Message::TYPE => by_known::<negotiation::Message>(bytes),
        Contract::TYPE => by_known::<Contract>(bytes),
        Receipt::TYPE => by_known::<Receipt>(bytes),
        Invoice::TYPE => by_known::<Invoice>(bytes),
        other => panic!("no such type: {other}"),
    }
}

fn plain<T: Message + Serialize>(bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    let value = T::from_bytes(bytes).map_err(|error| name_of(&error))?;
    Ok((serde_json::to_value(&value).unwrap(), value.to_bytes().unwrap()))
}

/// Nothing but a frame is ever made of one that has a secret; the examples' secrets are none.
fn tunnel_ask(bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    let ask = tunnel::Ask::from_bytes(bytes).map_err(|error| name_of(&error))?;
    let value = match &ask {
        tunnel::Ask::Introduce { gateways, secret_hash } => {
            json!({ "introduce": { "gateways": gateways, "secretHash": secret_hash } })
        }
        tunnel::Ask::Secret { secret, replaces } => {
            json!({ "secret": { "secret": hex::encode(secret.expose()), "replaces": replaces } })
        }
    };
    Ok((value, ask.to_frame().unwrap().to_vec()))
}

fn by_known<T: Payload + Serialize>(bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    signed::<T>(bytes, FederationId::lan(), Signers::Known(&samples::known()))
}

fn by_members<T: Payload + Serialize>(bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    signed::<T>(bytes, samples::federation_id(), Signers::Anyone)
}

fn signed<T: Payload + Serialize>(
    bytes: &[u8],
    federation: FederationId,
    signers: Signers<'_>,
) -> Result<(Value, Vec<u8>), String> {
    let trust = Trust { federation, signers };
    let opened = Signed::<T>::from_bytes(bytes).open(trust, samples::NOW);
    let opened = opened.map_err(|error| {
        if let EnvelopeError::Codec(error) = &error { name_of(error) } else { name_of(&error) }
    })?;
    let signer =
        [samples::provider(), samples::consumer(), samples::root_key(), samples::next_key()]
            .into_iter()
            .find(|key| key.public() == *opened.key())
            .unwrap();
    let again: Signed<T> = signer.sign(federation, &*opened).unwrap();
    assert_eq!(signer.countersign(federation, &opened), again, "signatures are deterministic");
    Ok((serde_json::to_value(&*opened).unwrap(), again.as_bytes().to_vec()))
}

/// `TooLong { … }` is named `TooLong`.
fn name_of(error: &impl std::fmt::Debug) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn good() -> Vec<Good> {
    let mut all = Vec::new();
    let mut add = |kind: &str, name: &str, bytes: &[u8]| {
        let (value, again) = read(kind, bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        all.push(Good {
            name: name.into(),
            kind: kind.into(),
            bytes: hex::encode(bytes),
            value,
            extended: again != bytes,
        });
    };
    let lan = FederationId::lan();
    let (provider, consumer) = (samples::provider(), samples::consumer());
    add("identity", "first", samples::consumer_identity().as_bytes());
    add("identity", "rotated", samples::rotated().as_bytes());
    add("root", "first", samples::root().as_bytes());
    add("root", "next", samples::succession().new.as_bytes());
    for (name, certificate) in ["member", "registrar"].into_iter().zip(samples::chain()) {
        add("certificate", name, certificate.as_bytes());
    }
    let list = consumer.sign(samples::federation_id(), &samples::revocations()).unwrap();
    add("revocations", "two", list.as_bytes());
    add("hello", "hello", &samples::hello().to_bytes().unwrap());
    add("ad-body", "small", &samples::small_body().to_bytes().unwrap());
    add("ad-body", "full", &samples::full_body().to_bytes().unwrap());
    add("ad-lease", "small", samples::signed_header().as_bytes());
    let full = samples::ad_header(&samples::full_body());
    add("ad-lease", "full", provider.sign(lan, &full).unwrap().as_bytes());
    add("withdraw", "withdraw", provider.sign(lan, &samples::withdraw()).unwrap().as_bytes());
    for (name, terms) in [("plain", samples::terms()), ("every term", samples::full_terms())] {
        let contract = samples::contract(terms);
        add("contract", name, consumer.sign(lan, &contract).unwrap().as_bytes());
    }
    add("contract", "amended", consumer.sign(lan, &samples::amended()).unwrap().as_bytes());
    for (name, index) in [("first", 0), ("second", 1)] {
        let receipt = samples::receipt(index);
        add("receipt", name, provider.sign(lan, &receipt).unwrap().as_bytes());
    }
    add("invoice", "credited", provider.sign(lan, &samples::invoice()).unwrap().as_bytes());
    for (name, message) in samples::negotiation() {
        let buys = message.from == samples::consumer_identity().cluster_id();
        let key = if buys { &consumer } else { &provider };
        add("negotiation", name, key.sign(lan, &message).unwrap().as_bytes());
    }
    of_others().iter().for_each(|(kind, name, bytes)| add(kind, name, bytes));
    let mut plain = |kind, name, bytes: Result<Vec<u8>, _>| add(kind, name, &bytes.unwrap());
    samples::gossip().iter().for_each(|(name, m)| plain("gossip", name, m.to_bytes()));
    plain("succession", "succession", samples::succession().to_bytes());
    plain("join-token", "token", samples::token().to_bytes());
    plain("join-request", "request", samples::join_request().to_bytes());
    samples::join_replies().iter().for_each(|(name, m)| plain("join-reply", name, m.to_bytes()));
    samples::requests().iter().for_each(|(name, m)| plain("request", name, m.to_bytes()));
    plain("workload-open", "open", samples::open().to_bytes());
    let acks = workload::Open { acks: true, ..samples::open() };
    plain("workload-open", "for acknowledgements", acks.to_bytes());
    let refuses = workload::Open { refuses_bodies: true, ..acks };
    plain("workload-open", "that refuses bodies", refuses.to_bytes());
    samples::workload().iter().for_each(|(name, m)| plain("workload", name, m.to_bytes()));
    let requests = samples::stream_requests();
    requests.iter().for_each(|(name, m)| plain("stream-request", name, m.to_bytes()));
    let replies = samples::stream_replies();
    replies.iter().for_each(|(name, m)| plain("stream-reply", name, m.to_bytes()));
    samples::from_node().iter().for_each(|(name, m)| plain("from-node", name, m.to_bytes()));
    samples::to_node().iter().for_each(|(name, m)| plain("to-node", name, m.to_bytes()));
    plain("stream-node", "mixed", samples::node_facts().to_bytes());
    plain("stream-node", "nothing", kubelet_stream::NodeFacts::default().to_bytes());
    plain("stream-usage", "usage", samples::usage().to_bytes());
    plain("stream-usage", "none", kubelet_stream::Usage::default().to_bytes());
    plain("workload-open", "extension passed over", Ok(malformed::extended(false)));
    all
}

/// What is offered and agreed with storage and with egress, and what two clusters say about their
/// tunnel: kind, name and bytes.
fn of_others() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let list = |(name, list)| {
        let signed = samples::consumer().sign(FederationId::NONE, &list).unwrap();
        (Gateways::TYPE, name, signed.as_bytes().to_vec())
    };
    let ask =
        |(name, ask): (_, tunnel::Ask)| ("tunnel-ask", name, ask.to_frame().unwrap().to_vec());
    let answer =
        |(name, answer): (_, tunnel::Answer)| ("tunnel-answer", name, answer.to_bytes().unwrap());
    let lists = samples::gateways().into_iter().map(list);
    let asks = samples::tunnel_asks().into_iter().map(ask);
    of_storage()
        .into_iter()
        .chain(lists)
        .chain(asks)
        .chain(samples::tunnel_answers().into_iter().map(answer))
        .chain(of_egress())
        .collect()
}

/// What is offered and agreed with a way out to the Internet, likewise.
fn of_egress() -> impl Iterator<Item = (&'static str, &'static str, Vec<u8>)> {
    let bodies = samples::egress_bodies();
    let bodies = bodies.map(|(name, body)| ("ad-body", name, body.to_bytes().unwrap()));
    let contracts = samples::egress_terms().map(|(name, terms)| {
        let contract = samples::consumer().sign(FederationId::lan(), &samples::contract(terms));
        (Contract::TYPE, name, contract.unwrap().as_bytes().to_vec())
    });
    bodies.into_iter().chain(contracts)
}

/// What is offered and agreed with storage: kind, name and bytes.
fn of_storage() -> [(&'static str, &'static str, Vec<u8>); 4] {
    let (lan, name) = (FederationId::lan(), "with storage");
    let (provider, consumer) = (samples::provider(), samples::consumer());
    let body = samples::storage_body();
    let mut header = samples::ad_header(&body);
    header.rows[0].free = samples::with_storage(header.rows[0].free.clone());
    let terms = samples::storage_terms();
    let receipt = provider.sign(lan, &samples::receipt_of(&terms, 0)).unwrap();
    let contract = consumer.sign(lan, &samples::contract(terms)).unwrap();
    let header = provider.sign(lan, &header).unwrap();
    [
        ("ad-body", name, body.to_bytes().unwrap()),
        ("ad-lease", name, header.as_bytes().to_vec()),
        (Contract::TYPE, name, contract.as_bytes().to_vec()),
        (Receipt::TYPE, name, receipt.as_bytes().to_vec()),
    ]
}

fn malformed() -> Vec<Malformed> {
    let entry = |(kind, name, bytes, error): malformed::Case| Malformed {
        name: name.into(),
        kind: kind.into(),
        bytes: hex::encode(bytes),
        error: error.into(),
    };
    malformed::cases().into_iter().map(entry).collect()
}

fn setting() -> Setting {
    let key = |seed: [u8; 32], identity: Signed<Identity>| Key {
        seed: hex::encode(seed),
        public: identity.open_identity(samples::NOW).unwrap().key.to_string(),
        cluster: identity.cluster_id().to_string(),
        identity,
    };
    Setting {
        now_ms: samples::NOW.wall_ms,
        federation: FederationId::lan(),
        keys: vec![
            key(samples::PROVIDER_SEED, samples::provider_identity()),
            key(samples::CONSUMER_SEED, samples::consumer_identity()),
        ],
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

/// The file's content; written first, if that was asked for.
fn file<T: Serialize + for<'de> Deserialize<'de>>(name: &str, made: &T) -> T {
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(path(name), serde_json::to_string_pretty(made).unwrap() + "\n").unwrap();
    }
    serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap()
}

/// Whether `value` says all that `before` said. What a later release may add is absent; what no
/// release has ever said is gone.
fn says(value: &Value, before: &Value) -> bool {
    match (value, before) {
        (Value::Object(value), Value::Object(before)) => {
            let kept = before
                .iter()
                .filter(|(key, before)| *key != "network" || !is_empty(before))
                .all(|(key, before)| value.get(key).is_some_and(|value| says(value, before)));
            let added = value.iter().filter(|(key, _)| !before.contains_key(*key));
            kept && added.into_iter().all(|(_, value)| value.is_null())
        }
        (Value::Array(value), Value::Array(before)) => {
            value.len() == before.len() && value.iter().zip(before).all(|(a, b)| says(a, b))
        }
        (value, before) => value == before,
    }
}

/// Whether it is a struct of empty lists.
fn is_empty(value: &Value) -> bool {
    let fields = value.as_object().into_iter().flat_map(|fields| fields.values());
    fields.into_iter().all(|field| field.as_array().is_some_and(Vec::is_empty))
}

#[test]
fn good_vectors_are_read_and_written_the_same() {
    assert_eq!(file("setting.json", &setting()), setting());
    let made = good();
    let kept = file("good.json", &made);
    assert_eq!(kept.len(), made.len());
    for (kept, made) in kept.iter().zip(&made) {
        assert_eq!(kept, made, "the wire format changed");
        let bytes = hex::decode(&kept.bytes).unwrap();
        let (value, again) = read(&kept.kind, &bytes).unwrap();
        assert_eq!(value, kept.value, "{}/{}", kept.kind, kept.name);
        assert_eq!(again != bytes, kept.extended, "{}/{}", kept.kind, kept.name);
    }
}

/// `previous.json` is what the release before this one wrote as its `good.json`.
#[test]
fn the_previous_release_is_understood() {
    let kept: Vec<Good> =
        serde_json::from_slice(&std::fs::read(path("previous.json")).unwrap()).unwrap();
    assert!(kept.len() >= 40);
    for vector in kept {
        let bytes = hex::decode(&vector.bytes).unwrap();
        // Its contract has gateways, which no release has ever put there.
        if (vector.kind.as_str(), vector.name.as_str()) == ("contract", "full") {
            assert_eq!(bytes, malformed::contract_with_network());
            continue;
        }
        let (value, again) = read(&vector.kind, &bytes).unwrap();
        assert!(says(&value, &vector.value), "{}/{}: {value:#}", vector.kind, vector.name);
        assert_eq!(again != bytes, vector.extended, "{}/{}", vector.kind, vector.name);
    }
}

#[test]
fn malformed_vectors_are_refused_by_name() {
    let kept = file("malformed.json", &malformed());
    assert!(kept.len() >= 30);
    for vector in &kept {
        let outcome = read(&vector.kind, &hex::decode(&vector.bytes).unwrap());
        assert_eq!(outcome.err(), Some(vector.error.clone()), "{}/{}", vector.kind, vector.name);
    }
    assert_eq!(kept, malformed(), "a case was added or changed: write the file anew");
}

#[test]
fn a_value_that_breaks_its_rules_is_not_written() {
    let mut header = samples::ad_header(&samples::small_body());
    header.ttl_s = 0;
    assert!(header.to_bytes().is_err());
    let mut writer = Writer::default();
    header.encode(&mut writer);
    assert!(AdHeader::from_bytes(&writer.into_bytes()).is_err());
}
