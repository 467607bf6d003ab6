//! Messages of a negotiation that a peer must refuse, each with the name of the error.

use mercato_protocol::id::Digest;
use mercato_protocol::negotiation::{Body, Message};

use crate::malformed::{Case, sign, unchecked};
use crate::samples;

/// Negotiations that break a rule, or are of a later release.
pub(crate) fn cases() -> Vec<Case> {
    [
        ("a request that follows something", late("request"), "Invalid"),
        ("an rfq that follows something", late("rfq"), "Invalid"),
        ("an offer that follows nothing", early("offer"), "Invalid"),
        ("an offer of nothing", bodied("820da0"), "MissingField"),
        ("an rfq of no terms", bodied("820ca0"), "MissingField"),
        ("a change of no number", bodied("820ea0"), "MissingField"),
        ("change zero", negotiation_amend(), "Invalid"),
        ("a change answered by nothing", bodied("820fa10101"), "MissingField"),
        ("an answer of a later release", bodied("820fa20101028218fea0"), "UnknownVariant"),
        ("a body of a later release", bodied("8218fea0"), "UnknownVariant"),
        ("a state of a later release", bodied("8207a10118fe"), "UnknownVariant"),
        ("a notice of no time", bodied("8210a0"), "MissingField"),
        ("a notice of what is over", notice_over(), "Invalid"),
        ("an invoice that is not there", bodied("8211a0"), "MissingField"),
        ("a dispute about nothing", bodied("8213a10200"), "MissingField"),
        ("a dispute for a reason of a later release", dispute("18fe"), "UnknownVariant"),
    ]
    .map(|(name, bytes, error)| ("negotiation", name, bytes, error))
    .into()
}

fn negotiation(name: &str, change: impl Fn(&mut Message)) -> Vec<u8> {
    let all = samples::negotiation();
    let (_, mut message) = all.into_iter().find(|(known, _)| *known == name).unwrap();
    change(&mut message);
    unchecked(&message)
}

fn late(name: &str) -> Vec<u8> {
    let payload = negotiation(name, |message| message.previous = Some(Digest([0; 32])));
    sign(&samples::CONSUMER_SEED, "negotiation", &payload)
}

fn early(name: &str) -> Vec<u8> {
    let payload = negotiation(name, |message| message.previous = None);
    sign(&samples::PROVIDER_SEED, "negotiation", &payload)
}

fn negotiation_amend() -> Vec<u8> {
    let payload = negotiation("amend", |message| {
        let Body::Amend { number, .. } = &mut message.body else { panic!() };
        *number = 0;
    });
    sign(&samples::CONSUMER_SEED, "negotiation", &payload)
}

/// A message of the provider's with another body: `finalized` ends in the body `[4, {}]`.
fn bodied(body: &str) -> Vec<u8> {
    let payload = hex::encode(negotiation("finalized", |_| ()));
    let payload = hex::decode(payload.strip_suffix("8204a0").unwrap().to_owned() + body).unwrap();
    sign(&samples::PROVIDER_SEED, "negotiation", &payload)
}

fn notice_over() -> Vec<u8> {
    let payload = negotiation("reclaim-notice", |message| {
        let Body::ReclaimNotice { notice, .. } = &mut message.body else { panic!() };
        notice.until_ms = notice.given_ms - 1;
    });
    sign(&samples::PROVIDER_SEED, "negotiation", &payload)
}

fn dispute(reason: &str) -> Vec<u8> {
    bodied(&format!("8213a2015820{}02{reason}", "07".repeat(32)))
}
