//! Who is a member, and what a hostile issuer, member or bearer of a token gains: nothing.

use mercato_protocol::ad::Assurance;
use mercato_protocol::certificate::{
    Certificate, Member, MembershipError, RevocationList, Revoked, Role,
};
use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::envelope::{EnvelopeError, KeyPair, Signers, Trust};
use mercato_protocol::federation::{Root, Succession};
use mercato_protocol::id::{FederationId, PublicKey};
use mercato_protocol::identity::{ClusterIdentity, Identity};
use mercato_protocol::join::{JoinToken, ParseTokenError};
use mercato_protocol::limits;
use mercato_protocol::time::Now;

use crate::samples;

fn admit(member: &Certificate, registrar: &Certificate) -> Result<(), MembershipError> {
    let chain = samples::signed_chain(member, registrar);
    Member::admit(&samples::federation(), &chain, &Revoked::default(), samples::NOW).map(|_| ())
}

fn later(ms: u64) -> Now {
    Now { wall_ms: samples::NOW.wall_ms + ms, ..samples::NOW }
}

#[test]
fn a_chain_makes_a_member() {
    let federation = samples::federation();
    let member =
        Member::admit(&federation, &samples::chain(), &Revoked::default(), samples::NOW).unwrap();
    assert_eq!(member.cluster, samples::provider_identity().cluster_id());
    assert_eq!(member.until_ms, samples::member().not_after_ms);
    let registrar = samples::chain().pop().unwrap();
    let registrar =
        Member::admit(&federation, &[registrar], &Revoked::default(), samples::NOW).unwrap();
    assert!(registrar.roles.contains(&Role::Registrar));
    let after = later(limits::MEMBERSHIP_MS + limits::CLOCK_SKEW_MS + 1);
    let over = Member::admit(&federation, &samples::chain(), &Revoked::default(), after);
    assert_eq!(over, Err(EnvelopeError::Expired.into()));
}

#[test]
fn no_certificate_is_wider_than_its_issuers() {
    type Change = fn(&mut Certificate, &mut Certificate);
    let cases: [(Change, &str); 7] = [
        (|member, _| member.roles.push(Role::Registrar), "roles"),
        (|_, registrar| registrar.roles = vec![Role::Registrar], "roles"),
        (|_, registrar| registrar.organisation = Some("eurac".parse().unwrap()), "organisation"),
        (|member, _| member.attributes[0].name = "cert.soc2".parse().unwrap(), "attributes"),
        (|member, _| member.attributes[0].value = "gold".into(), "attributes"),
        (
            |member, registrar| {
                member.attributes[0].assurance = Assurance::ThirdParty;
                registrar.attributes[0].assurance = Assurance::Issuer;
            },
            "attributes",
        ),
        (|member, registrar| registrar.not_after_ms = member.not_after_ms - 1, "its time"),
    ];
    assert_eq!(admit(&samples::member(), &samples::registrar()), Ok(()));
    for (change, what) in cases {
        let (mut member, mut registrar) = (samples::member(), samples::registrar());
        change(&mut member, &mut registrar);
        assert_eq!(admit(&member, &registrar), Err(MembershipError::Wider(what)), "{what}");
    }
}

#[test]
fn only_the_root_and_its_registrars_issue() {
    let (federation, lan) = (samples::federation(), FederationId::lan());
    let (id, none) = (federation.id(), Revoked::default());
    let (consumer, provider) = (samples::consumer(), samples::provider());
    let admit = |chain: &[_]| Member::admit(&federation, chain, &none, samples::NOW).unwrap_err();
    // A member issues to another.
    let mut plain = samples::registrar();
    plain.roles.pop();
    plain.not_after_ms = samples::member().not_after_ms;
    let chain = samples::signed_chain(&samples::member(), &plain);
    assert_eq!(admit(&chain), MembershipError::Issuer(consumer.public()));
    // One signs for itself.
    let own = provider.sign(id, &samples::member()).unwrap();
    assert_eq!(admit(&[own]), MembershipError::Issuer(provider.public()));
    // The registrar's certificate is another's.
    let stranger = KeyPair::from_seed(&[9; 32]);
    let by_stranger = stranger.sign(id, &samples::member()).unwrap();
    let registrar = samples::chain().pop().unwrap();
    assert_eq!(
        admit(&[by_stranger, registrar.clone()]),
        MembershipError::Issuer(stranger.public())
    );
    // A registrar below a registrar.
    let own = samples::chain().swap_remove(0);
    assert_eq!(admit(&[own.clone(), registrar.clone(), registrar]), MembershipError::Length);
    assert_eq!(admit(&[]), MembershipError::Length);
    // From another federation.
    let elsewhere = samples::root_key().sign(lan, &samples::registrar()).unwrap();
    let error = MembershipError::Envelope(EnvelopeError::Signature);
    assert_eq!(admit(&[own, elsewhere]), error);
}

#[test]
fn what_is_revoked_stays_so() {
    let (federation, mut revoked) = (samples::federation(), Revoked::default());
    let trust = Trust { federation: federation.id(), signers: Signers::Anyone };
    let issuer = samples::consumer().public();
    let mut learn = |key: KeyPair, number, serials: &[u64]| {
        let list = RevocationList { number, serials: serials.into(), ..samples::revocations() };
        let list = key.sign(federation.id(), &list).unwrap().open(trust, samples::NOW).unwrap();
        let taken = revoked.learn(list);
        let outcome =
            Member::admit(&federation, &samples::chain(), &revoked, samples::NOW).map(|_| ());
        let week = later(7 * 86_400_000 + 1);
        (taken, outcome, revoked.is_stale(&issuer, samples::NOW), revoked.is_stale(&issuer, week))
    };
    // One that issued nothing revokes nothing.
    assert_eq!(learn(samples::provider(), 9, &[1, 17]), (true, Ok(()), true, true));
    assert_eq!(learn(samples::consumer(), 3, &[1, 16]), (true, Ok(()), false, true));
    let gone = Err(MembershipError::Revoked(17));
    assert_eq!(learn(samples::consumer(), 4, &[16, 17]), (true, gone.clone(), false, true));
    // An older list is played again.
    assert_eq!(learn(samples::consumer(), 3, &[1, 16]), (false, gone, false, true));
    let gone = Err(MembershipError::Revoked(1));
    assert_eq!(learn(samples::consumer(), 5, &[]), (true, Ok(()), false, true));
    assert_eq!(learn(samples::root_key(), 1, &[1]), (true, gone, false, true));
}

#[test]
fn a_key_is_followed_from_document_to_document() {
    let (first, second) = (samples::provider_identity(), samples::rotated());
    let owner = ClusterIdentity::of(&[first.clone(), second.clone()], samples::NOW).unwrap();
    assert_eq!(owner.key, samples::next_key().public());
    assert_eq!(owner.cluster_id(), first.cluster_id());
    // By a key that does not speak for the cluster.
    let founder = first.open_identity(samples::NOW).unwrap();
    let forged = founder.rotate(&samples::consumer(), samples::consumer().public(), samples::NOW);
    let error = EnvelopeError::WrongSigner(samples::consumer().public());
    assert_eq!(founder.follow(&forged.unwrap(), samples::NOW), Err(error));
    // By the key that was replaced.
    let again = ClusterIdentity::of(&[first.clone(), second.clone(), second.clone()], samples::NOW);
    assert_eq!(again, Err(EnvelopeError::NotNext));
    let document = Identity {
        key: samples::consumer().public(),
        name: "torino".into(),
        issued_ms: samples::NOW.wall_ms,
        previous: Some(second.digest()),
    };
    let late = samples::provider().sign(FederationId::NONE, &document).unwrap();
    let error = EnvelopeError::WrongSigner(samples::provider().public());
    assert_eq!(ClusterIdentity::of(&[first.clone(), second, late], samples::NOW), Err(error));
    let other =
        ClusterIdentity::of(&[samples::consumer_identity(), samples::rotated()], samples::NOW);
    assert_eq!(other, Err(EnvelopeError::NotNext));
    assert_eq!(ClusterIdentity::of(&[], samples::NOW), Err(EnvelopeError::NotFirst));
}

#[test]
fn a_root_is_replaced_by_both_keys() {
    let (federation, succession) = (samples::federation(), samples::succession());
    let next = federation.follow(&succession, samples::NOW).unwrap();
    assert_eq!(next.id(), federation.id());
    assert_eq!(*next.root(), samples::next_key().public());
    // What the old root signed is no certificate under the new one.
    let old =
        Member::admit(&next, &samples::chain(), &Revoked::default(), samples::NOW).unwrap_err();
    assert_eq!(old, MembershipError::Issuer(samples::root_key().public()));
    // Nor does the change count twice, or by one of the keys alone.
    let again = next.follow(&succession, samples::NOW);
    assert_eq!(again, Err(EnvelopeError::NotCountersigned));
    let Succession { old, new } = succession;
    for halves in [
        Succession { old: new.clone(), new: new.clone() },
        Succession { old: old.clone(), new: old },
        Succession { old: samples::root(), new: new.clone() },
    ] {
        let refused = federation.follow(&halves, samples::NOW);
        assert_eq!(refused, Err(EnvelopeError::NotCountersigned));
    }
    let stranger = KeyPair::from_seed(&[9; 32]);
    let coup = federation.succeed(&stranger, &stranger, samples::NOW).unwrap();
    assert_eq!(federation.follow(&coup, samples::NOW), Err(EnvelopeError::NotCountersigned));
    assert_eq!(new.open_root(samples::NOW), Err(EnvelopeError::NotFirst));
    // The same once more, from the first document.
    let third = next.succeed(&samples::next_key(), &stranger, samples::NOW).unwrap();
    assert_eq!(federation.follow(&third, samples::NOW), Err(EnvelopeError::NotCountersigned));
    assert!(next.follow(&third, samples::NOW).is_ok());
    let other = Root::found(&samples::root_key(), "eiger".parse().unwrap(), samples::NOW).unwrap();
    let other = other.open_root(samples::NOW).unwrap();
    let elsewhere = other.succeed(&samples::root_key(), &stranger, samples::NOW).unwrap();
    assert_eq!(federation.follow(&elsewhere, samples::NOW), Err(EnvelopeError::NotNext));
}

#[test]
fn a_token_reads_back_and_keeps_its_secret() {
    let token = samples::token();
    let text = token.to_string();
    assert_eq!(text.parse(), Ok(token.clone()));
    assert!(text.len() < 220, "{}", text.len());
    assert!(!format!("{token:?}").contains("3132"), "{token:?}");
    assert_eq!("mercato-join-!".parse::<JoinToken>(), Err(ParseTokenError::Form));
    assert_eq!(text[13..].parse::<JoinToken>(), Err(ParseTokenError::Form));
    let cut = text[..text.len() - 8].parse::<JoinToken>();
    assert!(cut.is_err(), "{cut:?}");
    let long = format!("mercato-join-{}", "A".repeat(1 << 20));
    assert_eq!(long.parse::<JoinToken>(), Err(ParseTokenError::Form));
    assert!(!token.is_over(samples::NOW) && token.is_over(later(limits::TOKEN_MS + 1)));
}

#[test]
fn lists_are_numbered_apart_from_ads() {
    let (key, of) = (samples::provider().public(), samples::federation_id());
    let series = RevocationList::series(of, &key);
    assert_ne!(series, key);
    assert_ne!(series, RevocationList::series(of, &PublicKey([0; 32])));
    assert_ne!(series, RevocationList::series(FederationId::lan(), &key));
}

#[test]
fn four_gibibytes_are_not_believed() {
    // `{1: bytes of 4 GiB}` with three bytes behind it.
    let claimed = hex::decode("a1015affffffff010203").unwrap();
    assert_eq!(JoinToken::from_bytes(&claimed), Err(CodecError::Truncated));
    let claimed = hex::decode("a1029affffffff010203").unwrap();
    assert_eq!(
        mercato_protocol::join::JoinRequest::from_bytes(&claimed),
        Err(CodecError::Truncated)
    );
}
