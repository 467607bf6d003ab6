//! A federation of a registrar, a member and a stranger: what each gains by its papers, and
//! what a thief, a replayer, or a member that was thrown out gains by tricks.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test")]

use std::sync::Arc;

use mercato_agent::{
    Agent, Answer, Ask, Config, Effect, FederationRefusal, Grant, Input, Papers, Records,
};
use mercato_broker::Standing;
use mercato_gossip::Opened;
use mercato_protocol::certificate::{Certificate, Role};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::federation::{Federation, Root};
use mercato_protocol::gossip::{Message, Publication, Withdraw};
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::identity::{Identity, Owner};
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, Secret};
use mercato_protocol::limits;
use mercato_protocol::time::Now;

const START_MS: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

fn at(ms: u64) -> Now {
    Now { mono_ms: ms, wall_ms: START_MS + ms }
}

/// An agent with what it wrote.
struct Node {
    config: Config,
    agent: Agent,
    records: Records,
    now_ms: u64,
}

impl Node {
    fn new(seed: u8) -> Self {
        let key = Arc::new(KeyPair::from_seed(&[seed; 32]));
        let identity = Identity::found(&key, "one", at(0)).unwrap();
        let config = Config { federation: federation().id(), ..Config::new(key, identity) };
        let records = Records::default();
        let agent = Agent::restore(config.clone(), [seed; 32], &records, None);
        Self { config, agent, records, now_ms: 0 }
    }

    fn feed(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = self.agent.handle(at(self.now_ms), input);
        for effect in effects.extract_if(.., |effect| matches!(effect, Effect::Persist(_))) {
            if let Effect::Persist(change) = effect {
                self.records.apply(change);
            }
        }
        effects
    }

    fn ask(&mut self, ask: Ask) -> Answer {
        let effects = self.feed(Input::Federation(7, ask));
        let answer = effects.into_iter().find_map(|effect| match effect {
            Effect::Federation(7, answer) => Some(*answer),
            _ => None,
        });
        answer.unwrap()
    }

    fn restart(&mut self) {
        self.agent = Agent::restore(self.config.clone(), [9; 32], &self.records, None);
        self.feed(Input::Tick);
    }

    fn id(&self) -> ClusterId {
        self.config.cluster()
    }

    fn key(&self) -> PublicKey {
        self.config.key.public()
    }

    fn owner(&self) -> Owner {
        self.config.identity.open_identity(at(self.now_ms)).unwrap()
    }

    fn token(&mut self, secret: u8) -> Secret {
        let secret = Secret(NegotiationId([secret; 16]));
        let roles = vec![Role::Provider, Role::Registrar];
        let grant = Grant { organisation: None, roles, expires_ms: u64::MAX };
        let Answer::Token(token) = self.ask(Ask::Token { secret, grant }) else { panic!() };
        assert!(token.expires_ms <= at(self.now_ms).wall_ms + limits::TOKEN_MS);
        secret
    }

    /// Joins with the registrar's help, as `peer` says it is.
    fn let_in(
        &mut self,
        member: &Node,
        peer: PublicKey,
        secret: Option<Secret>,
    ) -> Result<JoinReply, JoinRefusal> {
        let identities = vec![member.config.identity.clone()];
        let request = Box::new(JoinRequest { secret, identities });
        match self.ask(Ask::Join { peer, request }) {
            Answer::Join(reply) => match *reply {
                JoinReply::Refused(refusal) => Err(refusal),
                admitted @ JoinReply::Admitted { .. } => Ok(admitted),
            },
            other => panic!("{other:?}"),
        }
    }

    fn enter(&mut self, reply: JoinReply) -> Answer {
        let JoinReply::Admitted { root, successions, certificates, revocations } = reply else {
            panic!()
        };
        let papers = Box::new(Papers { root, successions, certificates });
        self.ask(Ask::Enter { papers, revocations: Some(revocations) })
    }

    /// Meets `other`, which shows its certificates; what it is worth then.
    fn meet(&mut self, other: &Node, certificates: Vec<Signed<Certificate>>) -> Standing {
        self.feed(Input::Connected { peer: other.owner(), dialled: false });
        self.feed(Input::Papers { peer: other.key(), certificates });
        self.agent.broker().standing(&other.id())
    }
}

fn root_key() -> KeyPair {
    KeyPair::from_seed(&[4; 32])
}

fn root() -> Signed<Root> {
    Root::found(&root_key(), "alps".parse().unwrap(), at(0)).unwrap()
}

fn federation() -> Federation {
    root().open_root(at(0)).unwrap()
}

/// One that the root made a registrar.
fn registrar() -> Node {
    let mut node = Node::new(1);
    let certificate = Certificate {
        serial: 1,
        cluster: node.id(),
        key: node.key(),
        organisation: None,
        roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
        attributes: vec![],
        not_before_ms: START_MS,
        not_after_ms: START_MS + 365 * DAY_MS,
    };
    let certificates = vec![root_key().sign(federation().id(), &certificate).unwrap()];
    let papers = Box::new(Papers { root: root(), successions: vec![], certificates });
    assert_eq!(node.ask(Ask::Enter { papers, revocations: None }), Answer::Done);
    node
}

fn chain(reply: &JoinReply) -> Vec<Signed<Certificate>> {
    let JoinReply::Admitted { certificates, .. } = reply else { panic!() };
    certificates.clone()
}

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
    assert_eq!(registrar.ask(Ask::Revoke(one.id())), Answer::Done);
    registrar.now_ms = 1_000;
    other.now_ms = 1_000;
    other.feed(Input::Connected { peer: registrar.owner(), dialled: true });
    let told = registrar.feed(Input::Connected { peer: other.owner(), dialled: false });
    for effect in told {
        if let Effect::Gossip { message, .. } = effect {
            let message = Opened::open(message, federation().id(), at(1_000));
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
    let member = federation().admit(&chain(&reply), &Default::default(), at(0)).unwrap();
    assert_eq!(member.roles, [Role::Provider], "a registrar makes no registrars");
    let mut serials = vec![member.certified_by[0].1];
    for _ in 0..2 {
        registrar.restart();
        let reply = registrar.let_in(&one, one.key(), None).unwrap();
        let member = federation().admit(&chain(&reply), &Default::default(), at(0)).unwrap();
        serials.push(member.certified_by[0].1);
    }
    assert_eq!(serials, [1, 2, 3]);
    // All that still hold are revoked, not the last alone.
    registrar.ask(Ask::Revoke(one.id()));
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
    assert_eq!(one.ask(Ask::Revoke(other.id())), refused);
    let refused = registrar.ask(Ask::Revoke(other.id()));
    assert_eq!(refused, Answer::Refused(FederationRefusal::NoMember));
    let refused = one.let_in(&other, other.key(), Some(secret));
    assert_eq!(refused, Err(JoinRefusal::Unavailable));
    let members = |node: &mut Node| match node.ask(Ask::Members) {
        Answer::Members(members) => members.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(members(&mut one), 1);
    one.restart();
    assert_eq!(members(&mut one), 1);
    assert_eq!(one.ask(Ask::Leave), Answer::Done);
    one.restart();
    assert_eq!(members(&mut one), 0);
}

#[test]
fn a_fraud_is_kept_out_over_restarts_for_a_week() {
    let (mut one, other) = (Node::new(2), Node::new(3));
    one.feed(Input::Connected { peer: other.owner(), dialled: false });
    let trust = mercato_broker::Command::Peer(other.id(), Standing::Trusted);
    one.feed(Input::Command(1, trust));
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Trusted);
    let word = |issued_ms| {
        let end = Withdraw { provider: other.id(), epoch: 1, seq: 1, issued_ms };
        Word::Withdraw(other.config.key.sign(federation().id(), &end).unwrap())
    };
    let proof = Equivocation { one: word(START_MS), other: word(START_MS + 1) };
    let publications = vec![Publication::Equivocation(proof)];
    let push = Message::Push { publications, bodies: vec![] };
    let feed = |one: &mut Node, message| {
        let message = Opened::open(message, federation().id(), at(one.now_ms));
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
