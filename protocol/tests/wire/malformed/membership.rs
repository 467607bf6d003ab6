//! Certificates, lists, tokens and numbers that say what none may.

use mercato_protocol::ad::Assurance;
use mercato_protocol::certificate::{Certificate, RevocationList};
use mercato_protocol::envelope::Payload as _;
use mercato_protocol::limits;

use super::{Case, header, sign_for, unchecked};
use crate::samples;

pub(super) fn cases() -> Vec<Case> {
    let certificate = |change: fn(&mut Certificate)| {
        let mut certificate = samples::member();
        change(&mut certificate);
        in_federation(Certificate::TYPE, &unchecked(&certificate))
    };
    let list = |change: fn(&mut RevocationList)| {
        let mut list = samples::revocations();
        change(&mut list);
        in_federation(RevocationList::TYPE, &unchecked(&list))
    };
    let long = certificate(|of| of.not_after_ms += 1);
    let backwards = certificate(|of| of.not_after_ms = of.not_before_ms - 1);
    let early = certificate(|of| {
        of.not_before_ms += 30_001;
        of.not_after_ms = of.not_before_ms + 1;
    });
    let none = certificate(|of| of.roles.clear());
    let twice = certificate(|of| of.roles.push(of.roles[1]));
    let claimed = certificate(|of| of.attributes[0].assurance = Assurance::SelfAsserted);
    let unsorted = list(|of| of.serials.reverse());
    let lazy = list(|of| of.next_update_ms = of.issued_ms + limits::REVOCATIONS_MS + 1);
    let many = list(|of| of.serials = (0..4_097).collect());
    let mut token = samples::token();
    token.addresses = vec!["/ip4/192.0.2.8/tcp/7474".into(); 33];
    let mut request = samples::join_request();
    request.identities = vec![samples::provider_identity(); 10];
    vec![
        ("certificate", "a life of more than a month", long, "Invalid"),
        ("certificate", "an end before its beginning", backwards, "Invalid"),
        ("certificate", "a beginning to come", early, "NotYetValid"),
        ("certificate", "no role", none, "Invalid"),
        ("certificate", "a role twice", twice, "Invalid"),
        ("certificate", "an attribute of nobody's", claimed, "Invalid"),
        ("revocations", "serials out of order", unsorted, "Invalid"),
        ("revocations", "a next list too late", lazy, "Invalid"),
        ("revocations", "too many serials", many, "TooLong"),
        ("join-token", "too many addresses", unchecked(&token), "TooLong"),
        ("join-request", "too many documents", unchecked(&request), "TooLong"),
        ("ad-lease", "the epoch of a proof", header(|header| header.epoch = u64::MAX), "Invalid"),
    ]
}

fn in_federation(kind: &str, payload: &[u8]) -> Vec<u8> {
    sign_for(samples::federation_id(), &samples::CONSUMER_SEED, kind, payload)
}
