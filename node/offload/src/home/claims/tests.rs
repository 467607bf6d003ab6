//! What the provider is told of claims, and what comes of what it says.

use super::*;
use crate::key::ObjectKind;

const A: Digest = Digest([1; 32]);
const B: Digest = Digest([2; 32]);

fn claim(uid: &str) -> ObjectKey {
    crate::key::key(ObjectKind::Claim, "shop", uid)
}

/// Claims on a link whose provider has listed these.
fn linked(held: &[(&str, Digest)]) -> (Claims, Vec<Effect>) {
    let (mut claims, mut out) = (Claims::default(), Output::new());
    claims.on_new_link();
    for (uid, digest) in held {
        assert!(claims.on_have(&claim(uid), Some(*digest), &mut out));
    }
    claims.on_have_end(&mut out);
    (claims, out.into_effects())
}

fn wish(claims: &mut Claims, uid: &str, wish: Wish) -> Vec<Effect> {
    let mut out = Output::new();
    claims.on_wish(claim(uid), wish, None, &mut out);
    out.into_effects()
}

fn hears(claims: &mut Claims, uid: &str, digest: Option<Digest>) -> Vec<Effect> {
    let mut out = Output::new();
    claims.on_have(&claim(uid), digest, &mut out);
    out.into_effects()
}

fn said(claims: &mut Claims, uid: &str) -> Option<Word> {
    claims.next(&claim(uid)).map(|(word, _)| word)
}

fn granted(uid: &str, granted: Granted) -> Vec<Effect> {
    vec![Effect::Claim(claim(uid), granted)]
}

#[test]
fn a_claim_is_made_once_and_granted_once_it_is_held() {
    let (mut claims, _) = linked(&[]);
    assert_eq!(wish(&mut claims, "u1", Wish::Make(A)), []);
    assert_eq!(said(&mut claims, "u1"), Some(Word::Put(A)));
    assert_eq!(said(&mut claims, "u1"), None, "it is told once");
    assert_eq!(hears(&mut claims, "u1", Some(A)), granted("u1", Granted::Held));
    assert_eq!(hears(&mut claims, "u1", Some(A)), [], "and granted once");
    assert_eq!(wish(&mut claims, "u1", Wish::Keep(A)), granted("u1", Granted::Held));
    assert_eq!(said(&mut claims, "u1"), None);
}

#[test]
fn nothing_is_said_of_a_claim_before_the_provider_has_listed_what_it_holds() {
    let (mut claims, mut out) = (Claims::default(), Output::new());
    claims.on_new_link();
    wish(&mut claims, "u1", Wish::Make(A));
    wish(&mut claims, "u2", Wish::Keep(A));
    wish(&mut claims, "u3", Wish::Discard);
    for uid in ["u1", "u2", "u3"] {
        assert_eq!(said(&mut claims, uid), None, "{uid}");
    }
    claims.on_have_end(&mut out);
    let answers = out.into_effects();
    assert!(answers.contains(&Effect::Claim(claim("u2"), Granted::Lost)), "{answers:?}");
    assert!(answers.contains(&Effect::Claim(claim("u3"), Granted::Discarded)), "{answers:?}");
    assert_eq!(said(&mut claims, "u1"), Some(Word::Put(A)));
}

#[test]
fn what_was_lost_is_not_made_anew() {
    let (mut claims, _) = linked(&[("u1", A)]);
    assert_eq!(wish(&mut claims, "u1", Wish::Keep(A)), granted("u1", Granted::Held));
    assert_eq!(hears(&mut claims, "u1", None), granted("u1", Granted::Lost));
    assert_eq!(said(&mut claims, "u1"), None);
    assert_eq!(wish(&mut claims, "u1", Wish::Keep(B)), granted("u1", Granted::Lost));
    assert_eq!(said(&mut claims, "u1"), None, "not with other content either");
}

#[test]
fn a_claim_goes_by_its_discard_alone() {
    let (mut claims, told) = linked(&[("u1", A), ("stray", B)]);
    assert_eq!(told, [granted("u1", Granted::Stray), granted("stray", Granted::Stray)].concat());
    wish(&mut claims, "u1", Wish::Keep(A));
    assert_eq!(said(&mut claims, "u1"), None);
    assert_eq!(said(&mut claims, "stray"), None, "nobody has wished it away");
    wish(&mut claims, "u1", Wish::Discard);
    assert_eq!(said(&mut claims, "u1"), Some(Word::Discard));
    assert_eq!(hears(&mut claims, "u1", None), granted("u1", Granted::Discarded));
    assert!(claims.all.keys().all(|key| *key == claim("stray")), "{claims:?}");
}

#[test]
fn whatever_the_provider_says_it_is_told_no_more_often_than_home_wishes() {
    let (mut claims, _) = linked(&[]);
    wish(&mut claims, "u1", Wish::Make(A));
    assert_eq!(said(&mut claims, "u1"), Some(Word::Put(A)));
    for lie in [None, Some(B), None] {
        hears(&mut claims, "u1", lie);
        assert_eq!(said(&mut claims, "u1"), None, "after {lie:?}");
    }
    wish(&mut claims, "u1", Wish::Make(A));
    assert_eq!(said(&mut claims, "u1"), Some(Word::Put(A)), "home says so once more");
}

#[test]
fn a_refusal_is_told_once_for_each_time_that_home_wishes() {
    let (mut claims, _) = linked(&[]);
    let refusal = Refusal { path: "spec".into(), reason: "no".into() };
    let refused = |claims: &mut Claims| {
        let mut out = Output::new();
        claims.on_refused(claim("u1"), refusal.clone(), &mut out);
        out.into_effects().len()
    };
    assert_eq!(refused(&mut claims), 0, "of what nobody has wished");
    wish(&mut claims, "u1", Wish::Make(A));
    assert_eq!((refused(&mut claims), refused(&mut claims)), (1, 0));
    wish(&mut claims, "u1", Wish::Make(A));
    assert_eq!(refused(&mut claims), 1);
}

#[test]
fn a_lease_has_a_bound_of_claims_whoever_names_them() {
    let (mut claims, mut out) = (Claims::default(), Output::new());
    for n in 0..limits::CLAIMS {
        assert!(claims.on_have(&claim(&n.to_string()), Some(A), &mut out));
    }
    assert!(!claims.on_have(&claim("more"), Some(A), &mut out));
    let told = wish(&mut claims, "more", Wish::Make(A));
    assert!(matches!(&told[..], [Effect::ObjectRefused(..)]), "{told:?}");
}

#[test]
fn what_was_put_and_is_not_there_yet_is_told_to_go() {
    let (mut claims, _) = linked(&[]);
    wish(&mut claims, "u1", Wish::Make(A));
    assert_eq!(said(&mut claims, "u1"), Some(Word::Put(A)));
    assert_eq!(wish(&mut claims, "u1", Wish::Discard), [], "the provider may make it yet");
    assert_eq!(said(&mut claims, "u1"), Some(Word::Discard));
    assert_eq!(hears(&mut claims, "u1", Some(A)), [], "made before it heard of that");
    assert_eq!(hears(&mut claims, "u1", None), granted("u1", Granted::Discarded));
    wish(&mut claims, "u1", Wish::Make(A));
    assert_eq!(said(&mut claims, "u1"), Some(Word::Put(A)), "it is another beginning");
}
