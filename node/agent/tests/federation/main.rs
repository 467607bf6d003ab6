//! A federation of a registrar, a member and a stranger: what each gains by its papers, and
//! what a thief, a replayer, or a member that was thrown out gains by tricks.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test")]

use std::sync::Arc;

use mercato_agent::{
    Agent, Answer, Ask, Config, Effect, FederationInput, Grant, Input, Listed, Papers, Records,
};
use mercato_broker::Standing;
use mercato_gossip::Interner;
use mercato_protocol::certificate::{Certificate, Role};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::federation::{Federation, Root};
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::identity::{ClusterIdentity, Identity};
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken, Secret};
use mercato_protocol::limits;
use mercato_protocol::time::Now;

mod ads;
mod attributes;
mod disk;
mod keys;
mod members;
mod renewal;
mod tables;

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
        let config = Config::new(key, identity);
        let records = Records::default();
        let agent = Agent::restore(config.clone(), [seed; 32], Interner::new(1), &records, None);
        Self { config, agent, records, now_ms: 0 }
    }

    fn feed(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = self.agent.handle(at(self.now_ms), input);
        let kept = effects.iter().find(|effect| matches!(effect, Effect::Persist(_)));
        assert!(self.agent.degraded().is_none() || kept.is_none(), "{kept:?} cannot be kept");
        for effect in effects.extract_if(.., |effect| matches!(effect, Effect::Persist(_))) {
            if let Effect::Persist(change) = effect {
                self.records.apply(change);
            }
        }
        effects
    }

    fn ask(&mut self, ask: Ask) -> Answer {
        answer(self.feed(Input::Federation(FederationInput::Ask(7, ask)))).unwrap()
    }

    fn restart(&mut self) -> Vec<Effect> {
        self.restore(None)
    }

    /// Goes on from what is on a disk that cannot be written.
    fn rest(&mut self) -> Vec<Effect> {
        self.restore(Some("the disk is full".to_owned()))
    }

    fn restore(&mut self, degraded: Option<String>) -> Vec<Effect> {
        let (config, interner) = (self.config.clone(), Interner::new(2));
        self.agent = Agent::restore(config, [9; 32], interner, &self.records, degraded);
        self.feed(Input::Tick)
    }

    fn id(&self) -> ClusterId {
        self.config.cluster()
    }

    fn key(&self) -> PublicKey {
        self.config.key.public()
    }

    fn owner(&self) -> ClusterIdentity {
        let documents: Vec<_> = self.config.identities().collect();
        ClusterIdentity::of(&documents, at(self.now_ms)).unwrap()
    }

    /// Starts again with another key.
    fn rotate(&mut self, seed: u8) -> Vec<Effect> {
        let next = KeyPair::from_seed(&[seed; 32]);
        let document = self.owner().rotate(&self.config.key, next.public(), at(self.now_ms));
        self.config.rotations.push(document.unwrap());
        self.config.key = Arc::new(next);
        self.restart()
    }

    fn token(&mut self, secret: u8) -> Secret {
        let secret = Secret(NegotiationId([secret; 16]));
        let roles = vec![Role::Provider, Role::Registrar];
        let grant =
            Grant { organisation: None, roles, attributes: Vec::new(), expires_ms: u64::MAX };
        let (federation, addresses) = (federation().id(), vec!["/ip4/192.0.2.1/tcp/1".into()]);
        let ask = Ask::Token { federation, secret, grant, addresses };
        let Answer::Token(token) = self.ask(ask) else { panic!() };
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
        let identities = member.config.identities().collect();
        let federation = Some(federation().id());
        let request = Box::new(JoinRequest { secret, identities, federation });
        match self.ask(Ask::Admit { peer, request }) {
            Answer::Join(reply) => match *reply {
                JoinReply::Refused(refusal) => Err(refusal),
                admitted @ JoinReply::Admitted { .. } => Ok(admitted),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Joins by a token, which the registrar answers so.
    fn enter(&mut self, reply: JoinReply) -> Answer {
        self.now_ms += 1;
        let effects = self.feed(Input::Federation(FederationInput::Ask(
            7,
            Ask::Join(Box::new(token(self.now_ms))),
        )));
        let asked = effects.iter().any(|effect| matches!(effect, Effect::Join { .. }));
        assert!(asked, "{effects:?}");
        let joined =
            Input::Federation(FederationInput::Joined(federation().id(), Some(Box::new(reply))));
        answer(self.feed(joined)).unwrap()
    }

    fn members(&self) -> Vec<Listed> {
        let members = self.agent.members(&federation().id(), at(self.now_ms));
        members.unwrap_or_default()
    }

    /// Meets `other`, which shows its certificates; what it is worth then.
    fn meet(&mut self, other: &Node, certificates: Vec<Signed<Certificate>>) -> Standing {
        self.feed(Input::Connected { peer: other.owner(), dialled: false });
        self.feed(Input::Federation(FederationInput::Papers { peer: other.key(), certificates }));
        self.agent.broker().standing(&other.id())
    }
}

fn answer(effects: Vec<Effect>) -> Option<Answer> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Federation(7, answer) => Some(*answer),
        _ => None,
    })
}

fn token(now_ms: u64) -> JoinToken {
    JoinToken {
        federation: federation().id(),
        registrar: KeyPair::from_seed(&[1; 32]).public(),
        addresses: vec!["/ip4/192.0.2.1/tcp/1".into()],
        secret: Secret(NegotiationId([7; 16])),
        expires_ms: at(now_ms).wall_ms + 1,
    }
}

fn papers(certificates: Vec<Signed<Certificate>>) -> Box<Papers> {
    let (successions, registrar) = (vec![], vec![]);
    Box::new(Papers { root: root(), successions, certificates, registrar, domain: None })
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
    assert_eq!(node.ask(Ask::Enter(papers(certificates))), Answer::Done);
    node
}

fn chain(reply: &JoinReply) -> Vec<Signed<Certificate>> {
    let JoinReply::Admitted { certificates, .. } = reply else { panic!() };
    certificates.clone()
}
