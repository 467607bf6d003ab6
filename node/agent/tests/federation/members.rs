//! Who is trusted by which papers, and until when.

use mercato_agent::{Answer, Ask, BrokerInput, Effect, FederationRefusal, Input, Papers};
use mercato_broker::Standing;
use mercato_gossip::Opened;
use mercato_protocol::certificate::{Certificate, Member, Role};
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::federation::Root;
use mercato_protocol::gossip::{Message, Publication, Withdraw};
use mercato_protocol::id::FederationId;
use mercato_protocol::join::{JoinRefusal, JoinReply};
use mercato_protocol::limits;

use crate::{DAY_MS, Node, START_MS, at, chain, federation, papers, registrar};

#[test]
fn members_trust_each_other_until_one_is_thrown_out() {
    let (mut registrar, mut one, mut other) = (registrar(), Node::new(2), Node::new(3));
    let (first, second) = (registrar.token(1), registrar.token(2));
    let reply = registrar.let_in(&one, one.key(), Some(first)).unwrap();
    let papers = chain(&reply);
    assert_eq!(one.enter(reply), Answer::Done);
    // A stranger may show whatever it likes to one that has not joined.
    assert_eq!(other.meet(&one, papers.clone()), Standing::Stranger);
    let reply = registrar.let_in(&other, other.key(), Some(second)).unwrap();
    assert_eq!(other.enter(reply), Answer::Done);
    assert_eq!(other.meet(&one, papers.clone()), Standing::Trusted);
    // Papers of another are worth nothing.
    let stranger = Node::new(5);
    assert_eq!(other.meet(&stranger, papers.clone()), Standing::Stranger);
    // The registrar's list comes by gossip.
    assert_eq!(registrar.ask(Ask::Revoke(federation().id(), one.id())), Answer::Done);
    registrar.now_ms = 1_000;
    other.now_ms = 1_000;
    other.feed(Input::Connected { peer: registrar.owner(), dialled: true });
    let told = registrar.feed(Input::Connected { peer: other.owner(), dialled: false });
    for effect in told {
        if let Effect::Gossip { message, .. } = effect {
            let message = Opened::open(message, FederationId::lan(), at(1_000));
            other.feed(Input::Gossip { peer: registrar.key(), message });
        }
    }
    assert_eq!(other.agent.broker().standing(&one.id()), Standing::Stranger);
    other.restart();
    assert_eq!(other.meet(&one, papers), Standing::Stranger);
    // It does not come back, with or without a token.
    let third = registrar.token(3);
    for secret in [None, Some(third)] {
        let refused = registrar.let_in(&one, one.key(), secret);
        assert_eq!(refused, Err(JoinRefusal::Revoked));
    }
}

#[test]
fn a_token_is_good_once_for_one_day() {
    let (mut registrar, one, other) = (registrar(), Node::new(2), Node::new(3));
    let secret = registrar.token(1);
    // One that does not prove its key spends nothing.
    let thief = registrar.let_in(&one, other.key(), Some(secret));
    assert_eq!(thief, Err(JoinRefusal::Identity));
    assert!(registrar.let_in(&one, one.key(), Some(secret)).is_ok());
    let again = |registrar: &mut Node| registrar.let_in(&other, other.key(), Some(secret));
    assert_eq!(again(&mut registrar), Err(JoinRefusal::Unknown));
    registrar.restart();
    assert_eq!(again(&mut registrar), Err(JoinRefusal::Unknown));
    // Whoever got no answer renews.
    assert!(registrar.let_in(&one, one.key(), None).is_ok());
    assert_eq!(registrar.let_in(&other, other.key(), None), Err(JoinRefusal::NoMember));
    let late = registrar.token(2);
    registrar.now_ms = limits::TOKEN_MS + 1;
    let refused = registrar.let_in(&other, other.key(), Some(late));
    assert_eq!(refused, Err(JoinRefusal::Expired));
}

#[test]
fn what_is_issued_is_within_the_issuers_rights_and_counted() {
    let (mut registrar, one) = (registrar(), Node::new(2));
    let secret = registrar.token(1);
    let reply = registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    let member = Member::admit(&federation(), &chain(&reply), &Default::default(), at(0)).unwrap();
    assert_eq!(member.roles, [Role::Provider], "a registrar makes no registrars");
    let mut serials = vec![member.certified_by[0].1];
    for _ in 0..2 {
        registrar.restart();
        let reply = registrar.let_in(&one, one.key(), None).unwrap();
        let member =
            Member::admit(&federation(), &chain(&reply), &Default::default(), at(0)).unwrap();
        serials.push(member.certified_by[0].1);
    }
    assert_eq!(serials, [1, 2, 3]);
    // All that still hold are revoked, not the last alone.
    registrar.ask(Ask::Revoke(federation().id(), one.id()));
    let probe = Node::new(3);
    let secret = registrar.token(2);
    let JoinReply::Admitted { revocations, .. } =
        registrar.let_in(&probe, probe.key(), Some(secret)).unwrap()
    else {
        panic!()
    };
    let trust = mercato_protocol::envelope::Trust {
        federation: federation().id(),
        signers: mercato_protocol::envelope::Signers::Anyone,
    };
    assert_eq!(revocations.open(trust, at(0)).unwrap().serials, serials);
}

#[test]
fn a_stale_list_ends_what_is_new() {
    let (mut registrar, mut one, other) = (registrar(), Node::new(2), Node::new(3));
    let (first, second) = (registrar.token(1), registrar.token(2));
    let reply = registrar.let_in(&one, one.key(), Some(first)).unwrap();
    one.enter(reply);
    let papers = chain(&registrar.let_in(&other, other.key(), Some(second)).unwrap());
    assert_eq!(one.meet(&other, papers), Standing::Trusted);
    one.now_ms = 7 * DAY_MS + 1;
    one.feed(Input::Tick);
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Stranger);
    // The registrar itself says it anew in time.
    registrar.now_ms = 3 * DAY_MS + DAY_MS / 2;
    registrar.feed(Input::Tick);
    let third = registrar.token(3);
    one.now_ms = registrar.now_ms;
    let reply = registrar.let_in(&Node::new(6), Node::new(6).key(), Some(third)).unwrap();
    let JoinReply::Admitted { revocations, .. } = reply else { panic!() };
    let trust = mercato_protocol::envelope::Trust {
        federation: federation().id(),
        signers: mercato_protocol::envelope::Signers::Anyone,
    };
    assert_eq!(revocations.open(trust, at(one.now_ms)).unwrap().number, 2);
}

#[test]
fn only_a_registrar_issues_and_only_own_papers_count() {
    let (mut registrar, mut one, mut other) = (registrar(), Node::new(2), Node::new(3));
    let secret = registrar.token(1);
    let reply = registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    assert_eq!(other.enter(reply.clone()), Answer::Refused(FederationRefusal::Papers));
    assert_eq!(one.enter(reply), Answer::Done);
    let refused = Answer::Refused(FederationRefusal::NoRegistrar);
    assert_eq!(one.ask(Ask::Revoke(federation().id(), other.id())), refused);
    let refused = registrar.ask(Ask::Revoke(federation().id(), other.id()));
    assert_eq!(refused, Answer::Refused(FederationRefusal::NoMember));
    let refused = one.let_in(&other, other.key(), Some(secret));
    assert_eq!(refused, Err(JoinRefusal::Unavailable));
    assert_eq!(one.members().len(), 1);
    one.restart();
    assert_eq!(one.members().len(), 1);
    assert_eq!(one.ask(Ask::Leave(federation().id())), Answer::Done);
    one.restart();
    assert_eq!(one.members().len(), 0);
    let refused = Answer::Refused(FederationRefusal::Registrar);
    assert_eq!(registrar.ask(Ask::Leave(federation().id())), refused);
}

#[test]
fn a_fraud_is_kept_out_over_restarts_for_a_week() {
    let (mut one, other) = (Node::new(2), Node::new(3));
    one.feed(Input::Connected { peer: other.owner(), dialled: false });
    let trust = mercato_broker::Command::Peer(other.id(), Standing::Trusted);
    one.feed(Input::Broker(BrokerInput::Command(1, Box::new(trust))));
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Trusted);
    let word = |issued_ms| {
        let end = Withdraw { provider: other.id(), epoch: 1, seq: 1, issued_ms };
        Word::Withdraw(other.config.key.sign(FederationId::lan(), &end).unwrap())
    };
    let proof = Equivocation { one: word(START_MS), other: word(START_MS + 1) };
    let publications = vec![Publication::Equivocation(proof)];
    let push = Message::Push { publications, bodies: vec![] };
    let feed = |one: &mut Node, message| {
        let message = Opened::open(message, FederationId::lan(), at(one.now_ms));
        one.feed(Input::Gossip { peer: other.key(), message })
    };
    feed(&mut one, push);
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Blocked);
    one.restart();
    one.feed(Input::Connected { peer: other.owner(), dialled: false });
    one.feed(Input::Tick);
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Blocked);
    one.now_ms = limits::QUARANTINE_MS + 60_000;
    one.feed(Input::Tick);
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Trusted);
}

#[test]
fn whoever_goes_by_a_federation_trusts_its_members_and_shows_nothing() {
    let (mut registrar, mut one, mut window) = (registrar(), Node::new(2), Node::new(3));
    let secret = registrar.token(1);
    let reply = registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    let shown = chain(&reply);
    one.enter(reply.clone());
    assert_eq!(window.ask(Ask::Enter(papers(vec![]))), Answer::Done);
    assert!(window.agent.certificates().is_empty());
    // Without its registrar's list nobody is trusted.
    assert_eq!(window.meet(&one, shown.clone()), Standing::Stranger);
    let JoinReply::Admitted { revocations, .. } = reply else { panic!() };
    let push = Message::Push {
        publications: vec![Publication::Revocations {
            federation: federation().id(),
            list: revocations,
        }],
        bodies: vec![],
    };
    let message = Opened::open(push, FederationId::lan(), at(0));
    window.feed(Input::Gossip { peer: one.key(), message });
    assert_eq!(window.agent.broker().standing(&one.id()), Standing::Trusted);
    assert_eq!(one.meet(&window, vec![]), Standing::Stranger);
}

#[test]
fn a_cluster_belongs_to_several_federations() {
    let (mut registrar, mut one, mut other) = (registrar(), Node::new(2), Node::new(3));
    let (first, second) = (registrar.token(1), registrar.token(2));
    let reply = registrar.let_in(&one, one.key(), Some(first)).unwrap();
    one.enter(reply);
    // Another federation, in which the two are registrars.
    let key = KeyPair::from_seed(&[8; 32]);
    let founded = Root::found(&key, "apennines".parse().unwrap(), at(0)).unwrap();
    for node in [&mut one, &mut other] {
        let certificate = Certificate {
            serial: u64::from(node.key().0[0]),
            cluster: node.id(),
            key: node.key(),
            organisation: None,
            roles: vec![Role::Provider, Role::Registrar],
            attributes: vec![],
            not_before_ms: START_MS,
            not_after_ms: START_MS + 365 * DAY_MS,
        };
        let certificates = vec![key.sign(founded.federation_id(), &certificate).unwrap()];
        let papers = Papers { root: founded.clone(), ..*papers(certificates) };
        assert_eq!(node.ask(Ask::Enter(Box::new(papers))), Answer::Done);
    }
    assert_eq!(one.agent.certificates().len(), 3);
    let shown = one.agent.certificates().to_vec();
    // The root's word is enough, and it needs no list.
    assert_eq!(other.meet(&one, shown.clone()), Standing::Trusted);
    let reply = registrar.let_in(&other, other.key(), Some(second)).unwrap();
    other.enter(reply);
    assert_eq!(other.meet(&one, shown), Standing::Trusted);
    assert_eq!(other.members().len(), 2);
    other.restart();
    assert_eq!(other.agent.federations().len(), 2);
}
