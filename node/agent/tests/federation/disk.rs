//! A disk that cannot be written: what is learned counts, and is kept once that can be; what is
//! asked for is refused; and a registrar issues nothing. Each input of a test looks that nothing
//! is to be kept meanwhile.

use mercato_agent::{Answer, Ask, FederationRefusal, Grant, Input};
use mercato_broker::Standing;
use mercato_protocol::certificate::Role;
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::join::{JoinRefusal, Secret};
use mercato_protocol::limits::QUARANTINE_MS;

use crate::tables::{fraud, list};
use crate::{DAY_MS, Node, START_MS, at, chain, federation, papers, registrar, root_key, token};

#[test]
fn what_is_learned_counts_without_a_disk_and_is_kept_with_one() {
    let (mut registrar, mut one, mut other) = (registrar(), Node::new(2), Node::new(3));
    let (first, second) = (registrar.token(1), registrar.token(2));
    let reply = registrar.let_in(&one, one.key(), Some(first)).unwrap();
    one.enter(reply);
    let others = chain(&registrar.let_in(&other, other.key(), Some(second)).unwrap());
    one.trusts(&other);
    one.rest();
    let learn = |one: &mut Node, other: &Node| {
        one.feed(Input::Connected { peer: registrar.owner(), dialled: false });
        // It has changed its key, and shows what it had under the other.
        one.meet(other, others.clone());
        one.hears(other, list(&root_key(), 1));
        one.hears(other, fraud(&other.config.key, other.id(), START_MS));
    };
    other.rotate(13);
    learn(&mut one, &other);
    let frauds = |one: &Node| one.agent.broker().standing(&other.id());
    assert_eq!(frauds(&one), Standing::Blocked);
    assert_eq!(one.agent.key(&other.id()), Some(other.key()));
    let before = one.records.iter().count();
    one.restart();
    assert_eq!(frauds(&one), Standing::Trusted, "nothing of it is on disk");
    learn(&mut one, &other);
    one.restart();
    assert_eq!(frauds(&one), Standing::Blocked);
    assert_eq!(one.agent.key(&other.id()), Some(other.key()));
    assert_eq!(one.records.iter().count(), before + 3, "a key, a list and a fraud");
    // What ends meanwhile is erased later.
    one.now_ms += QUARANTINE_MS + DAY_MS;
    for _ in 0..2 {
        one.rest();
        one.feed(Input::Tick);
        assert_eq!(frauds(&one), Standing::Trusted);
    }
    one.restart();
    assert!(one.records.iter().count() < before + 3);
}

#[test]
fn nothing_is_done_for_anybody_without_a_disk() {
    let (mut registrar, one) = (registrar(), Node::new(2));
    let (secret, of) = (registrar.token(1), federation().id());
    registrar.rest();
    let admitted = registrar.let_in(&one, one.key(), Some(secret));
    assert_eq!(admitted, Err(JoinRefusal::Unavailable));
    let roles = vec![Role::Provider];
    let grant = Grant { organisation: None, roles, attributes: Vec::new(), expires_ms: u64::MAX };
    let (other, addresses) = (Secret(NegotiationId([9; 16])), vec![]);
    let elsewhere = KeyPair::from_seed(&[8; 32]);
    let mut asked = token(registrar.now_ms);
    asked.registrar = elsewhere.public();
    for ask in [
        Ask::Enter(papers(vec![])),
        Ask::Join(Box::new(asked)),
        Ask::Leave(of),
        Ask::Token { federation: of, secret: other, grant, addresses },
        Ask::Revoke(of, one.id()),
    ] {
        let refused = Answer::Refused(FederationRefusal::Degraded);
        assert_eq!(registrar.ask(ask.clone()), refused, "{ask:?}");
    }
    // No list is issued that would be another one after a restart, nor waited for.
    registrar.now_ms += 30 * DAY_MS;
    registrar.feed(Input::Tick);
    let now = at(registrar.now_ms);
    let wakeup = registrar.agent.wakeup();
    assert!(wakeup.is_none_or(|deadline| deadline.remaining_ms(now) > 0), "{wakeup:?}");
    registrar.restart();
    assert!(registrar.let_in(&one, one.key(), None).is_err(), "it was not let in");
}
