//! What is fuzzed: each decoder of the protocol, on bytes as a peer may send them. The first
//! byte chooses the decoder, the rest is its input. Shared by the fuzz targets and by the
//! test that runs the kept corpora.
#![allow(dead_code, clippy::unwrap_used, reason = "each target uses one; what panics is found")]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use mercato_protocol::ad::{AdBody, AdHeader};
use mercato_protocol::certificate::{Certificate, RevocationList};
use mercato_protocol::codec::Message;
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Payload, Signed, Signers, Trust};
use mercato_protocol::federation::{Root, Succession};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gate::{self, GuestUid};
use mercato_protocol::gossip::{self, Withdraw};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{
    ClusterId, ContractId, Digest, FederationId, GatewayKey, NegotiationId, PublicKey,
};
use mercato_protocol::identity::Identity;
use mercato_protocol::invoice::Invoice;
use mercato_protocol::join::{JoinReply, JoinRequest, JoinToken};
use mercato_protocol::negotiation;
use mercato_protocol::node::{FromNode, ToNode};
use mercato_protocol::price::Currency;
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::Resource;
use mercato_protocol::text::{Line, Slug, is_plain, shown_lines};
use mercato_protocol::time::Now;
use mercato_protocol::tunnel::{self, Gateways};
use mercato_protocol::{kubelet_stream, quantity, workload};

#[path = "bodies.rs"]
mod body;
#[path = "canonical.rs"]
mod canonical;

/// The vectors' time.
const NOW: Now = Now { mono_ms: 5_000, wall_ms: 1_800_000_000_000 };

/// What a kind of the vectors is called, and its decoder.
pub(super) type Decoder = (&'static str, fn(&[u8]));

/// What comes without a signature of its own.
pub(super) const PLAIN: [Decoder; 18] = [
    ("gossip", read::<gossip::Message>),
    ("hello", read::<Hello>),
    ("ad-body", read::<AdBody>),
    ("workload-open", read::<workload::Open>),
    ("workload", read::<workload::Message>),
    ("stream-request", read::<kubelet_stream::Ask>),
    ("stream-reply", read::<kubelet_stream::Reply>),
    ("stream-node", read::<kubelet_stream::NodeFacts>),
    ("stream-usage", read::<kubelet_stream::Usage>),
    ("succession", read::<Succession>),
    ("join-token", read::<JoinToken>),
    ("join-request", read::<JoinRequest>),
    ("join-reply", read::<JoinReply>),
    ("request", read::<FirstFrame>),
    ("tunnel-ask", read::<tunnel::Ask>),
    ("tunnel-answer", read::<tunnel::Answer>),
    ("from-node", read::<FromNode>),
    ("to-node", read::<ToNode>),
];

/// What is signed, without its envelope.
pub(super) const PAYLOADS: [Decoder; 11] = [
    (Identity::TYPE, read::<Identity>),
    (AdHeader::TYPE, read::<AdHeader>),
    (Withdraw::TYPE, read::<Withdraw>),
    (negotiation::Message::TYPE, read::<negotiation::Message>),
    (Contract::TYPE, read::<Contract>),
    (Receipt::TYPE, read::<Receipt>),
    (Certificate::TYPE, read::<Certificate>),
    (RevocationList::TYPE, read::<RevocationList>),
    (Root::TYPE, read::<Root>),
    (Invoice::TYPE, read::<Invoice>),
    (Gateways::TYPE, read::<Gateways>),
];

/// The same in its envelope.
pub(super) const SIGNED: [Decoder; 11] = [
    (Identity::TYPE, open::<Identity>),
    (AdHeader::TYPE, open::<AdHeader>),
    (Withdraw::TYPE, open::<Withdraw>),
    (negotiation::Message::TYPE, open::<negotiation::Message>),
    (Contract::TYPE, open::<Contract>),
    (Receipt::TYPE, open::<Receipt>),
    (Certificate::TYPE, open::<Certificate>),
    (RevocationList::TYPE, open::<RevocationList>),
    (Root::TYPE, open::<Root>),
    (Invoice::TYPE, open::<Invoice>),
    (Gateways::TYPE, open::<Gateways>),
];

/// What follows a workload message.
pub(super) const BODIES: [Decoder; 3] =
    [("joined", body::joined), ("packed", body::packed), ("to-pack", body::to_pack)];

/// One of [`PLAIN`].
pub(super) fn plain(bytes: &[u8]) {
    choose(&PLAIN, bytes);
}

/// One of [`PAYLOADS`].
pub(super) fn payload(bytes: &[u8]) {
    choose(&PAYLOADS, bytes);
}

/// One of [`SIGNED`].
pub(super) fn signed(bytes: &[u8]) {
    choose(&SIGNED, bytes);
}

/// One of [`BODIES`].
pub(super) fn bodies(bytes: &[u8]) {
    choose(&BODIES, bytes);
}

/// The form that all of it has, whatever it says.
pub(crate) fn codec(bytes: &[u8]) {
    canonical::compare(bytes);
}

/// What people type, and what stands as text in what peers say: each reads back as it is shown.
pub(super) fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for (_, read) in TEXTS {
        read(text);
    }
    assert!(shown_lines(text).lines().flat_map(str::chars).all(is_plain));
    if let Some(micros) = quantity::millis(text).and_then(|millis| millis.checked_mul(1_000_000)) {
        assert!(quantity::nanos(text).is_some_and(|nanos| nanos <= micros));
    }
    let _any = quantity::units(text);
}

/// The name of a type, and what reads text as one.
type Reader = (&'static str, fn(&str));

/// The types of which text is read, as their own modules call them.
pub(super) const TEXTS: [Reader; 13] = [
    ("JoinToken", shown::<JoinToken>),
    ("Slug", shown::<Slug>),
    ("Line", line),
    ("Currency", shown::<Currency>),
    ("Resource", shown::<Resource>),
    ("ClusterId", shown::<ClusterId>),
    ("PublicKey", shown::<PublicKey>),
    ("FederationId", shown::<FederationId>),
    ("NegotiationId", shown::<NegotiationId>),
    ("ContractId", shown::<ContractId>),
    ("Digest", shown::<Digest>),
    ("GatewayKey", shown::<GatewayKey>),
    ("GuestUid", asked),
];

fn shown<T: FromStr + Display + PartialEq + Debug>(text: &str)
where
    T::Err: Debug,
{
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().unwrap(), value);
    }
}

/// It is shown as it is.
fn line(text: &str) {
    if let Ok(line) = text.parse::<Line>() {
        assert_eq!(shown_lines(text), String::from(line));
    }
}

/// What a gate asks, and what it is answered: a line is read as it is written.
fn asked(text: &str) {
    shown::<GuestUid>(text);
    if let Ok(Some(uid)) = GuestUid::read_question(text.as_bytes()) {
        assert_eq!(uid.question(), text);
    }
    if let Ok(Some(answer)) = gate::Answer::read(text.as_bytes()) {
        assert_eq!(answer.line(), text);
    }
}

fn choose(decoders: &[Decoder], bytes: &[u8]) {
    if let Some((first, rest)) = bytes.split_first() {
        decoders[usize::from(*first) % decoders.len()].1(rest);
    }
}

/// What is read is written again, perhaps shorter, by what extensions there were; and means
/// the same.
fn read<T: Message + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(value) = T::from_bytes(bytes) {
        canonical::compare(bytes);
        let again = value.to_bytes().unwrap();
        canonical::compare(&again);
        assert!(again.len() <= bytes.len());
        assert_eq!(T::from_bytes(&again), Ok(value));
    }
}

/// What opens is carried as it came.
fn open<T: Payload + PartialEq + Debug>(bytes: &[u8]) {
    for federation in [FederationId::lan(), FederationId::NONE] {
        let trust = Trust { federation, signers: Signers::Anyone };
        if let Ok(opened) = Signed::<T>::from_bytes(bytes).open(trust, NOW) {
            assert_eq!(opened.signed().as_bytes(), bytes);
            assert_eq!(T::from_bytes(opened.payload()).as_ref(), Ok(&*opened));
            canonical::compare(opened.payload());
        }
    }
}
