//! Bytes that a peer must refuse, each with the name of the error.

use coset::{CborSerializable, CoseSign1Builder, Header, HeaderBuilder, iana};
use ed25519_dalek::{Signer as _, SigningKey};
use mercato_protocol::ad::AdHeader;
use mercato_protocol::codec::{Message, Wire, Writer};
use mercato_protocol::contract::Amends;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::id::{Digest, FederationId};
use mercato_protocol::invoice::Invoice;
use mercato_protocol::limits;
use mercato_protocol::price::{Money, Price, UnitPrice};
use mercato_protocol::resources::Resource;
use mercato_protocol::workload::{self, BodyHead, ObjectKind, Route};

use crate::{samples, talk};

mod bounds;
mod egress;
mod membership;
mod network;
mod node;
mod signatures;
mod stream;
mod tunnel;

pub(crate) use egress::with_extensions;
pub(crate) use network::contract_with_network;

/// Kind, name, bytes, error.
pub(crate) type Case = (&'static str, &'static str, Vec<u8>, &'static str);

pub(crate) fn cases() -> Vec<Case> {
    [
        form(),
        fields(),
        rules(),
        addresses(),
        claims(),
        bounds::cases(),
        egress::cases(),
        network::cases(),
        stream::cases(),
        node::cases(),
        tunnel::cases(),
        talk::cases(),
        membership::cases(),
        signatures::headers(),
        signatures::signatures(),
    ]
    .concat()
}

/// A gossip pull, `[1, {1: [{1: publisher}]}]`, between two given parts.
fn request(head: &str, tail: &str) -> Vec<u8> {
    let publisher = hex::encode(samples::mark().publisher.as_bytes());
    hex::decode(format!("{head}{publisher}{tail}")).unwrap()
}

/// The opening of a workload stream, `{1: id}`, with extension 1.
pub(crate) fn extended(critical: bool) -> Vec<u8> {
    let id = hex::encode(samples::negotiation_id().as_bytes());
    let critical = if critical { "f5" } else { "f4" };
    hex::decode(format!("a200a10182{critical}41ff0150{id}")).unwrap()
}

/// A workload message that drops an object, with what stands for the object's name:
/// `[0, {1: {1: 1, 2: 1, 3: 1, 4: 1, 6: [[2, {1: kind, 2: namespace, 3: name}]]}}]`.
fn drop_object(kind: &str, name: &str) -> Vec<u8> {
    let frame = "a50101020103010401";
    hex::decode(format!("8200a101{frame}06818202a301{kind}02616103{name}")).unwrap()
}

/// What is no canonical CBOR at all.
fn form() -> Vec<Case> {
    let mut cut = request("8201a10181a1015820", "");
    cut.pop();
    let deep = [vec![0x81; limits::DEPTH + 1], vec![0]].concat();
    [
        ("nothing", vec![], "Truncated"),
        ("one byte short", cut, "Truncated"),
        ("one byte more", request("8201a10181a1015820", "00"), "Trailing"),
        ("a length beyond the end", request("8201a10181a1015bffffffffffffffff", ""), "Truncated"),
        ("a count beyond the end", request("9bffffffffffffffff01a10181a1015820", ""), "Truncated"),
        ("a number in two bytes for one", request("821801a10181a1015820", ""), "NonMinimal"),
        ("a length in three bytes for two", request("8201a10181a101590020", ""), "NonMinimal"),
        ("a number in nine bytes", request("821b0000000000000001a10181a1015820", ""), "NonMinimal"),
        ("a list without a length", request("9f01a10181a1015820", "ff"), "Indefinite"),
        ("a map without a length", request("8201bf0181a1015820", "ff"), "Indefinite"),
        ("bytes without a length", request("8201a10181a1015f5820", "ff"), "Indefinite"),
        ("a float", request("82f94200a10181a1015820", ""), "Float"),
        ("a double", request("82fb4008000000000000a10181a1015820", ""), "Float"),
        ("a null", hex::decode("8201a101f6").unwrap(), "Unsupported"),
        ("a tag", request("c18201a10181a1015820", ""), "Unsupported"),
        ("a reserved length", request("821c01a10181a1015820", ""), "Unsupported"),
        ("a key twice", request("8201a201000181a1015820", ""), "DuplicateKey"),
        ("keys out of order", request("8201a202000181a1015820", ""), "UnsortedKeys"),
        ("nested too deep", deep, "TooDeep"),
    ]
    .map(|(name, bytes, error)| ("gossip", name, bytes, error))
    .into_iter()
    .chain([
        ("workload", "text that is no UTF-8", drop_object("02", "61ff"), "NotUtf8"),
        ("workload", "text in form D", drop_object("02", "6365cc81"), "NotNormalised"),
    ])
    .collect()
}

/// What is canonical, and is not the message that it should be.
fn fields() -> Vec<Case> {
    let bytes = |text: &str| hex::decode(text).unwrap();
    let short = format!("8201a10181a101581f{}", "00".repeat(31));
    let long = format!("790401{}", "75".repeat(1_025));
    let workload = [
        ("an object kind unknown", drop_object("1863", "6161"), "UnknownVariant"),
        ("an empty text spelled out", drop_object("02", "60"), "EmptyField"),
        ("a text too long", drop_object("02", &long), "TooLong"),
        ("a false spelled out", bytes("8200a101a5010102010300040005f4"), "EmptyField"),
    ]
    .map(|(name, bytes, error)| ("workload", name, bytes, error));
    let gossip = [
        ("a field missing", bytes("8201a10181a0"), "MissingField"),
        ("a field unknown", request("8201a10181a2015820", "0300"), "UnknownField"),
        ("a kind unknown", request("821863a10181a1015820", ""), "UnknownVariant"),
        ("an extension without its mark", request("8201a200a10141ff0181a1015820", ""), "Expected"),
        ("an id one byte short", bytes(&short), "Expected"),
        ("text for bytes", bytes("8201a10181a1016161"), "Expected"),
        ("a negative number", request("8220a10181a1015820", ""), "Expected"),
        ("three items for two", request("8301a10181a1015820", "00"), "Expected"),
        ("an empty list spelled out", bytes("8200a10180"), "EmptyField"),
    ]
    .map(|(name, bytes, error)| ("gossip", name, bytes, error));
    let hello = || samples::hello().to_bytes().unwrap();
    let requests = [
        ("a hello that does not say that it is one", hello(), "Expected"),
        ("a kind unknown", [bytes("8203"), hello()].concat(), "UnknownVariant"),
        (
            "a hello that says it is a request to join",
            [bytes("8201"), hello()].concat(),
            "Expected",
        ),
    ]
    .map(|(name, bytes, error)| ("request", name, bytes, error));
    let name = "an extension that must be understood";
    let critical = ("workload-open", name, extended(true), "CriticalExtension");
    gossip.into_iter().chain(workload).chain(requests).chain([critical]).collect()
}

/// The encoding, whether or not the value keeps its rules.
pub(crate) fn unchecked(value: &impl Wire) -> Vec<u8> {
    let mut writer = Writer::default();
    value.encode(&mut writer);
    writer.into_bytes()
}

/// Addresses that no pod has.
fn addresses() -> Vec<Case> {
    let called = |address: [u8; 4]| {
        let mut said = samples::called();
        let workload::ToGuest::Address { address: of, .. } = &mut said else { panic!() };
        *of = address.into();
        unchecked(&samples::to_guest(vec![said], vec![]))
    };
    vec![
        ("workload", "a pod that is everybody", called([224, 0, 0, 1]), "Invalid"),
        ("workload", "a pod at the loopback address", called([127, 0, 0, 1]), "Invalid"),
    ]
}

/// A claim goes by one word alone, and is called by its uid.
fn claims() -> Vec<Case> {
    let said = |statement| unchecked(&samples::to_guest(vec![statement], vec![]));
    let dropped = said(workload::ToGuest::Drop(samples::claim("0b7c-1f")));
    let map = workload::ObjectKey { kind: ObjectKind::ConfigMap, ..samples::claim("0b7c-1f") };
    let named = |name: &str| said(workload::ToGuest::Discard(samples::claim(name)));
    vec![
        ("workload", "a claim that is dropped", dropped, "Invalid"),
        (
            "workload",
            "something discarded that is no claim",
            said(workload::ToGuest::Discard(map)),
            "Invalid",
        ),
        ("workload", "a claim that is called by its name", named("data.db-0"), "Invalid"),
        ("workload", "a claim with a path for its uid", named("../kube"), "Invalid"),
        ("workload", "a uid of a claim too long", named(&"a".repeat(64)), "Invalid"),
    ]
}

/// What reads well and breaks a rule of its type.
fn rules() -> Vec<Case> {
    let put = |change: fn(&mut Route)| {
        let workload::ToGuest::Put { item, digest, mut route, place } = samples::put() else {
            panic!()
        };
        change(&mut route);
        let put = workload::ToGuest::Put { item, digest, route, place };
        unchecked(&samples::to_guest(vec![put], vec![]))
    };
    let stray = put(|route| route.path.clear());
    let far = put(|route| route.path = vec![route.origin; 9]);
    let placed = |name: &str| unchecked(&samples::to_guest(vec![samples::placed(name)], vec![]));
    let bodies = |lengths: &[u32]| {
        let head =
            |length: &u32| BodyHead { digest: Digest([4; 32]), length: *length, packed: None };
        unchecked(&samples::to_guest(vec![samples::put()], lengths.iter().map(head).collect()))
    };
    let many = unchecked(&samples::to_guest(vec![samples::put(); 65], vec![]));
    let packed = |packed| {
        let head = BodyHead { digest: Digest([4; 32]), length: 9, packed: Some(packed) };
        unchecked(&samples::to_guest(vec![samples::put()], vec![head]))
    };
    let mut placeless = samples::to_guest(vec![samples::put()], vec![]);
    if let workload::Message::ToGuest { frame, .. } = &mut placeless {
        frame.seq = 0;
    }
    let placeless = unchecked(&placeless);
    let mut body = samples::full_body();
    body.pools.reverse();
    let pools = unchecked(&body);
    body.pools.clear();
    body.terms.classes.clear();
    vec![
        ("workload", "bodies above their bound", bodies(&[1, 3 << 20]), "TooLong"),
        ("workload", "a body of nothing", bodies(&[0]), "Invalid"),
        ("workload", "too many statements", many, "TooLong"),
        ("workload", "a body packed to nothing", packed(0), "Invalid"),
        ("workload", "a body packed to no less", packed(9), "Invalid"),
        ("workload", "a statement without a place", placeless, "Invalid"),
        ("workload", "a path that begins elsewhere", stray, "Invalid"),
        ("workload", "a path too long", far, "TooLong"),
        ("workload", "a place with a path in it", placed("../shop"), "Invalid"),
        ("workload", "a place too long", placed(&"a".repeat(64)), "Invalid"),
        ("workload", "a place of Kubernetes", placed("kube-system"), "Invalid"),
        ("ad-body", "pools out of order", pools, "Invalid"),
        ("ad-body", "no class", unchecked(&body), "Invalid"),
        ("ad-lease", "a life of nothing", header(|header| header.ttl_s = 0), "Invalid"),
        ("ad-lease", "a life of days", header(|header| header.ttl_s = 86_401), "Invalid"),
        (
            "ad-lease",
            "a pool twice",
            header(|header| header.rows.push(header.rows[0].clone())),
            "Invalid",
        ),
        ("ad-lease", "a price for no time", header(timeless), "Invalid"),
        (
            "ad-lease",
            "signed in the future",
            header(|header| header.issued_ms += 30_001),
            "NotYetValid",
        ),
        ("ad-lease", "its time over", header(|header| header.issued_ms -= 930_001), "Expired"),
        ("contract", "an end that is not the term's", contract(), "Invalid"),
        ("contract", "a change of number zero", amended(|amends| amends.number = 0), "Invalid"),
        ("contract", "a change before its lease", amended(|amends| amends.from_ms = 1), "Invalid"),
        ("contract", "a change after its lease", amended(|a| a.from_ms = u64::MAX), "Invalid"),
        ("receipt", "a window of no time", receipt(), "Invalid"),
        ("invoice", "a wrong sum", invoice(|it| it.due = it.amount), "Invalid"),
        ("invoice", "credits above the bill", invoice(overpaid), "Invalid"),
        ("invoice", "a credit in another currency", invoice(foreign), "Invalid"),
    ]
}

fn timeless(header: &mut AdHeader) {
    let unit = UnitPrice { micros: 1, period_s: 0 };
    let currency = "EUR".parse().unwrap();
    header.rows[0].price = Price::Posted { currency, units: [(Resource::Cpu, unit)].into() };
}

/// A header with something changed, signed all the same.
fn header(change: fn(&mut AdHeader)) -> Vec<u8> {
    let mut header = samples::ad_header(&samples::small_body());
    change(&mut header);
    sign(&samples::PROVIDER_SEED, "ad-lease", &unchecked(&header))
}

fn contract() -> Vec<u8> {
    let mut contract = samples::contract(samples::terms());
    contract.not_after_ms += 1;
    sign(&samples::PROVIDER_SEED, "contract", &unchecked(&contract))
}

fn amended(change: fn(&mut Amends)) -> Vec<u8> {
    let mut contract = samples::amended();
    contract.amends.as_mut().into_iter().for_each(change);
    sign(&samples::PROVIDER_SEED, "contract", &unchecked(&contract))
}

fn invoice(change: fn(&mut Invoice)) -> Vec<u8> {
    let mut invoice = samples::invoice();
    change(&mut invoice);
    sign(&samples::PROVIDER_SEED, "invoice", &unchecked(&invoice))
}

fn overpaid(invoice: &mut Invoice) {
    invoice.credits = vec![invoice.credits[0]; 5];
    invoice.due = invoice.amount.map(|amount| Money { micros: 0, ..amount });
}

fn foreign(invoice: &mut Invoice) {
    invoice.credits[0].amount.currency = "USD".parse().unwrap();
}

fn receipt() -> Vec<u8> {
    let mut receipt = samples::receipt(0);
    receipt.to_ms = receipt.from_ms;
    sign(&samples::PROVIDER_SEED, "receipt", &unchecked(&receipt))
}

/// A COSE_Sign1 made by hand, so that it may be wrong.
pub(crate) fn sign(seed: &[u8; 32], kind: &str, payload: &[u8]) -> Vec<u8> {
    sign_for(FederationId::lan(), seed, kind, payload)
}

fn sign_for(federation: FederationId, seed: &[u8; 32], kind: &str, payload: &[u8]) -> Vec<u8> {
    let key = SigningKey::from_bytes(seed);
    let header = HeaderBuilder::new().algorithm(iana::Algorithm::EdDSA);
    let header = header.key_id(key.verifying_key().to_bytes().to_vec()).build();
    envelope(federation, seed, kind, payload, header, Header::default())
}

fn envelope(
    federation: FederationId,
    seed: &[u8; 32],
    kind: &str,
    payload: &[u8],
    protected: Header,
    unprotected: Header,
) -> Vec<u8> {
    let key = SigningKey::from_bytes(seed);
    let aad = [b"mercato/1/", kind.as_bytes(), &[0], federation.as_bytes().as_slice()].concat();
    CoseSign1Builder::new()
        .protected(protected)
        .unprotected(unprotected)
        .payload(payload.to_vec())
        .create_signature(&aad, |bytes| key.sign(bytes).to_bytes().to_vec())
        .build()
        .to_vec()
        .unwrap()
}
