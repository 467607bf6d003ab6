//! A cluster that changes its key stays who it is, and its old key is worth nothing.

use mercato_agent::{Answer, Ask, Effect, FederationRefusal, Input, Notice};
use mercato_broker::Standing;
use mercato_protocol::certificate::{Certificate, Role};
use mercato_protocol::join::JoinRefusal;
use mercato_protocol::limits::QUARANTINE_MS;

use crate::ads::{advertised, shows};
use crate::renewal::{asked, asks, member, told};
use crate::tables::fraud;
use crate::{DAY_MS, Node, START_MS, chain, federation, papers, registrar, root_key};

/// A registrar, and two members that know each other: the first with its papers.
fn members() -> (Node, Node, Node) {
    let mut registrar = registrar();
    let (mut one, mut other) = (Node::new(2), Node::new(3));
    let mut shown = Vec::new();
    for (node, secret) in [(&mut other, 2), (&mut one, 1)] {
        let secret = registrar.token(secret);
        let reply = registrar.let_in(node, node.key(), Some(secret)).unwrap();
        shown = chain(&reply);
        assert_eq!(node.enter(reply), Answer::Done);
    }
    assert_eq!(other.meet(&one, shown), Standing::Trusted);
    (registrar, one, other)
}

fn is_refused(by: &mut Node, who: &Node) -> bool {
    let effects = by.feed(Input::Connected { peer: who.owner(), dialled: false });
    let refused = effects.contains(&Effect::HangUp(who.key()));
    assert_eq!(by.agent.connected().contains_key(&who.key()), !refused);
    refused
}

#[test]
fn a_member_with_a_new_key_belongs_and_gets_a_certificate_for_it() {
    let (mut registrar, mut one, mut other) = members();
    let thief = Node::new(2);
    let before = one.id();
    let (whom, request) = asked(one.rotate(12)).expect("it asks at once for another certificate");
    assert_eq!(one.id(), before);
    // Its certificate is still of the key before.
    let shown = one.agent.certificates().to_vec();
    assert_eq!(shown.len(), 2);
    assert_eq!(other.meet(&one, shown), Standing::Trusted);
    assert_eq!((whom, request.identities.len()), (registrar.key(), 2));
    let reply = registrar.let_in(&one, one.key(), None).unwrap();
    let renewed = chain(&reply);
    told(&mut one, Ok(reply));
    assert_eq!(one.agent.certificates(), renewed);
    // Whoever knows only the new key, and nothing of the old one.
    let mut third = Node::new(5);
    let secret = registrar.token(3);
    let reply = registrar.let_in(&third, third.key(), Some(secret)).unwrap();
    third.enter(reply);
    assert_eq!(third.meet(&one, renewed.clone()), Standing::Trusted);
    assert_eq!(asks(&mut one, DAY_MS), None, "one certificate is enough");

    for node in [&mut other, &mut third] {
        let effects = node.feed(Input::Connected { peer: thief.owner(), dialled: false });
        assert!(effects.contains(&Effect::Notice(Notice::Outdated(thief.id()))));
        assert!(is_refused(node, &thief));
        node.restart();
        assert!(is_refused(node, &thief), "as well after a restart");
        assert_eq!(node.meet(&one, renewed.clone()), Standing::Trusted);
    }
    assert_eq!(registrar.let_in(&thief, thief.key(), None), Err(JoinRefusal::Identity));
    registrar.restart();
    assert_eq!(registrar.let_in(&thief, thief.key(), None), Err(JoinRefusal::Identity));
}

#[test]
fn whoever_stole_a_key_cannot_replace_it_again() {
    let (_, mut one, mut other) = members();
    let mut thief = Node::new(2);
    one.rotate(12);
    assert!(!is_refused(&mut other, &one));
    thief.rotate(13);
    thief.rotate(14);
    assert!(is_refused(&mut other, &thief));
    one.rotate(15);
    one.rotate(16);
    assert!(!is_refused(&mut other, &one), "two steps at once");
    assert!(is_refused(&mut other, &thief));
}

#[test]
fn the_connection_of_the_old_key_ends_with_it() {
    let (_, mut one, mut other) = members();
    let old = one.key();
    assert!(other.agent.connected().contains_key(&old));
    one.rotate(12);
    let effects = other.feed(Input::Connected { peer: one.owner(), dialled: false });
    assert!(effects.contains(&Effect::HangUp(old)));
    assert!(effects.contains(&Effect::Notice(Notice::Rekeyed(one.id()))));
    let connected: Vec<_> = other.agent.connected().keys().collect();
    assert_eq!(connected, [&one.key()]);
    assert_eq!(other.feed(Input::Disconnected(old)), []);
}

#[test]
fn a_registrar_with_a_new_key_waits_for_the_root() {
    let mut registrar = registrar();
    let mut one = member(&mut registrar);
    registrar.rotate(11);
    let federation = federation().id();
    let revoke = Ask::Revoke(federation, one.id());
    let refused = Answer::Refused(FederationRefusal::NoRegistrar);
    assert_eq!(registrar.ask(revoke), refused);
    assert_eq!(registrar.members().len(), 1, "it belongs");
    let certificate = Certificate {
        serial: 2,
        cluster: registrar.id(),
        key: registrar.key(),
        organisation: None,
        roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
        attributes: vec![],
        not_before_ms: START_MS,
        not_after_ms: START_MS + 365 * DAY_MS,
    };
    let certificates = vec![root_key().sign(federation, &certificate).unwrap()];
    assert_eq!(registrar.ask(Ask::Enter(papers(certificates))), Answer::Done);
    // Whom it let in before it goes on to know, and they go on with it.
    one.meet(&registrar, registrar.agent.certificates().to_vec());
    let (whom, _) = asks(&mut one, 30 * DAY_MS).unwrap();
    assert_eq!(whom, registrar.key());
    registrar.now_ms = one.now_ms;
    let reply = registrar.let_in(&one, one.key(), None);
    told(&mut one, reply);
    assert!(one.agent.federations()[0].refused.is_none());
    let (whom, _) = asks(&mut one, 60 * DAY_MS).unwrap();
    assert_eq!(whom, registrar.key());
}

#[test]
fn the_old_key_cannot_renew_its_advertisement_beside_the_new_ones() {
    let (mut one, thief, accomplice) = (Node::new(2), Node::new(2), Node::new(3));
    let mut other = Node::new(4);
    other.feed(Input::Connected { peer: accomplice.owner(), dialled: false });
    shows(&mut other, &accomplice, vec![advertised(&one, 1, 0)]);
    let key = |node: &Node| node.agent.broker().ad(&thief.id()).unwrap().key;
    assert_eq!(key(&other), thief.key());
    other.now_ms = 60_000;
    one.rotate(12);
    let renewal = advertised(&thief, 1 << 40, 60_000);
    shows(&mut other, &accomplice, vec![advertised(&one, 2, 60_000), renewal]);
    assert_eq!(key(&other), one.key());
    other.now_ms = 120_000;
    shows(&mut other, &accomplice, vec![advertised(&thief, 1 << 41, 120_000)]);
    assert_eq!(key(&other), one.key());
}

/// When somebody hears that a cluster equivocated with its first key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    BeforeItIsMet,
    UnderTheFirstKey,
    UnderTheSecondKey,
}

#[test]
fn a_fraud_is_kept_out_whatever_its_key() {
    for heard in [Heard::BeforeItIsMet, Heard::UnderTheFirstKey, Heard::UnderTheSecondKey] {
        let (mut liar, neighbour, mut other) = (Node::new(2), Node::new(3), Node::new(4));
        let proof = fraud(&liar.config.key, liar.id(), START_MS);
        let connect = |other: &mut Node, peer: &Node| {
            other.feed(Input::Connected { peer: peer.owner(), dialled: false })
        };
        connect(&mut other, &neighbour);
        other.trusts(&liar);
        if heard == Heard::BeforeItIsMet {
            other.hears(&neighbour, proof.clone());
        } else {
            connect(&mut other, &liar);
            assert_eq!(other.agent.broker().standing(&liar.id()), Standing::Trusted);
        }
        if heard == Heard::UnderTheFirstKey {
            other.hears(&neighbour, proof.clone());
        }
        liar.rotate(12);
        connect(&mut other, &liar);
        if heard == Heard::UnderTheSecondKey {
            other.hears(&neighbour, proof);
        }
        liar.rotate(13);
        for when in ["now", "after a restart"] {
            connect(&mut other, &liar);
            let standing = other.agent.broker().standing(&liar.id());
            assert_eq!(standing, Standing::Blocked, "{heard:?}, {when}");
            other.restart();
        }
        other.now_ms = QUARANTINE_MS + 60_000;
        other.feed(Input::Tick);
        assert_eq!(other.agent.broker().standing(&liar.id()), Standing::Trusted);
    }
}
