//! The agent: takes an input to the part that it is for, and gathers what they want done. What
//! the broker wants, and what gossip brings, is in `market`; which key speaks for whom in `keys`.

mod disk;
mod keys;
mod market;
mod restored;
mod view;

pub use view::Placed;

use std::collections::{BTreeSet, VecDeque};

use mercato_broker::{Broker, Input as ForBroker, Standing};
use mercato_discovery::{Directory, Input as ForDirectory};
use mercato_gossip::{Gossip, Input as ForGossip, Interner};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::join::{JoinRefusal, JoinReply};
use mercato_protocol::negotiation::Message;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::connections::Connections;
use crate::context::{Context, Turn};
use crate::effect::Effect;
use crate::federation::Federations;
use crate::federation::ask::{Answer, Ask};
use crate::input::{FederationInput, Input};
use crate::lease::table::Leases;
use crate::neighbours::Neighbours;
use crate::notice::{DealNews, Notice};
use crate::peers::{Keys, Peers};
use crate::publishers::Publishers;
use crate::record::Records;
use crate::request::Request;
use crate::unsent::Unsent;
use disk::Disk;
use restored::Restored;

/// What the agent is told once.
pub type Config = mercato_broker::Config;

/// A cluster's agent. See the crate's page.
pub struct Agent {
    config: Config,
    broker: Broker,
    connections: Connections,
    gossip: Gossip,
    federations: Federations,
    leases: Leases,
    peers: Peers,
    neighbours: Neighbours,
    publishers: Publishers,
    news: DealNews,
    unsent: Unsent,
    /// What the broker is yet to hear, after what is under way.
    for_broker: VecDeque<ForBroker>,
    disk: Disk,
    started: bool,
    /// The last time that was told, to compare deadlines of both clocks.
    last: Now,
}

/// Of which all chance of an agent comes.
type Seed = [u8; 32];
/// Leases, by the contracts that they are of.
type Ids = BTreeSet<ContractId>;

impl Agent {
    /// The agent that these records tell of. The first `handle`, with any input, says again
    /// all that they imply. `degraded` says why the records cannot be written, if so: then
    /// nothing new is promised, and leases stay as they are, with their pods left alone. The
    /// agents of one process share an interner.
    pub fn restore(
        config: Config,
        seed: [u8; 32],
        interner: Interner,
        records: &Records,
        degraded: Option<String>,
    ) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let Restored { of_broker, of_federations, leases, peers, news } =
            Restored::of(config.cluster(), records, degraded.is_some());
        let own = config.key.public();
        let mut publishers = Publishers::default();
        publishers.change();
        Self {
            broker: Broker::restore(config.clone(), rng.random(), of_broker),
            connections: Connections::new(own, Directory::new(own, rng.random())),
            gossip: Gossip::new(own, rng.random(), interner),
            federations: Federations::new(config.clone(), of_federations, degraded.is_some()),
            config,
            leases,
            peers,
            neighbours: Neighbours::default(),
            publishers,
            news,
            unsent: Unsent::default(),
            for_broker: VecDeque::new(),
            disk: Disk::new(degraded),
            started: false,
            last: Now::default(),
        }
    }

    /// Becomes the agent that these records tell of, which are all on disk. These leases begin anew;
    /// the others go on as they are: nothing of them may be ahead of the records ([`crate::Ahead`]).
    pub fn step_back(&mut self, seed: Seed, interner: Interner, of: &Records, ahead: &Ids) {
        let degraded = self.disk.failure().map(str::to_owned);
        let restored = Self::restore(self.config.clone(), seed, interner, of, degraded);
        let Self { leases, peers, .. } = std::mem::replace(self, restored);
        self.leases.keep(leases, ahead);
        self.peers.reach_those_of(peers);
    }

    /// Takes in what happened; says what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.last = now;
        let mut out = Vec::new();
        if !self.started {
            self.start(now, &mut out);
        }
        match input {
            Input::Tick => self.tick(now, &mut out),
            Input::Sighted(report) => {
                self.connections.handle(now, ForDirectory::Report(report), &mut out);
            }
            Input::Dialled { attempt, result } => {
                self.connections.handle(now, ForDirectory::Dialled { attempt, result }, &mut out);
            }
            Input::Connected { peer, dialled } => self.on_connected(now, peer, dialled, &mut out),
            Input::HungUp(key) => self.for_broker.extend(self.peers.hung_up(&key)),
            Input::Disconnected(peer) => self.on_disconnected(now, peer, &mut out),
            Input::Silent(key, ms) => self.with_leases(now, &mut out, |it, t| it.hear(key, ms, t)),
            Input::Gossip { peer, message } => {
                self.run_gossip(now, ForGossip::Received { peer, message }, &mut out);
            }
            Input::Unsaid { peer, message } => self.on_unsaid(peer, message, &mut out),
            Input::Broker(input) => self.for_broker.push_back(input.into()),
            Input::Federation(input) => self.on_federation(now, input, &mut out),
            Input::Tunnel(it) => {
                self.with_leases(now, &mut out, |all, turn| all.on_tunnel(it, turn));
            }
            Input::Lease(contract, input) => {
                self.with_leases(now, &mut out, |all, turn| all.handle(contract, input, turn));
            }
        }
        self.run_broker(now, &mut out);
        let context = Context::of(&self.broker, &self.gossip, &self.peers);
        let requests = self.publishers.notify(&self.federations, context);
        self.fulfil(now, requests, &mut out);
        self.leases.update_wakeup();
        out
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        if !self.started {
            return Some(Deadline::Mono(0));
        }
        let parts = [
            self.broker.wakeup(),
            self.connections.directory().wakeup(),
            self.gossip.wakeup(),
            self.federations.wakeup(self.last),
            self.leases.wakeup(),
        ];
        Deadline::earliest(self.last, parts)
    }

    fn context(&self) -> Context<'_> {
        Context::of(&self.broker, &self.gossip, &self.peers)
    }

    fn start(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.started = true;
        if let Some(why) = self.disk.failure() {
            out.push(Effect::Notice(Notice::Degraded(why.to_owned())));
            self.for_broker.push_back(ForBroker::Degraded(true));
        }
        for cluster in self.peers.changed().map(|(cluster, _)| *cluster).collect::<Vec<_>>() {
            self.tell_keys(cluster);
        }
        self.with_federations(now, out, Federations::start);
        self.for_broker.push_back(ForBroker::Tick);
        let going_on = self.leases.clusters();
        self.run_broker(now, out);
        let recent = self.connections.reconnect_recent(now, &self.broker, &self.peers, out);
        for cluster in recent.into_iter().chain(going_on) {
            self.keep_connected(now, cluster, out);
        }
        self.with_leases(now, out, Leases::drop_shelved);
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        let due = |deadline: Option<Deadline>| deadline.is_some_and(|at| at.is_due(now));
        if due(self.connections.directory().wakeup()) {
            self.connections.handle(now, ForDirectory::Tick, out);
        }
        if due(self.gossip.wakeup()) {
            self.run_gossip(now, ForGossip::Tick, out);
        }
        self.for_broker.extend(due(self.broker.wakeup()).then_some(ForBroker::Tick));
        if due(self.federations.wakeup(now)) {
            self.with_federations(now, out, Federations::tick);
        }
        self.with_leases(now, out, Leases::tick);
    }

    /// Does what parts want of each other, in order.
    fn fulfil(&mut self, now: Now, requests: Vec<Request>, out: &mut Vec<Effect>) {
        for request in requests {
            match request {
                Request::Outside(effect) => out.push(effect),
                Request::Note(change) => self.disk.note([change], out),
                Request::Broker(input) => self.for_broker.push_back(input),
                Request::Gossip(input) => self.run_gossip(now, input, out),
                Request::KeepConnected(cluster) => self.keep_connected(now, cluster, out),
                Request::KeepKeys(cluster) => self.disk.note(self.peers.keep(&cluster), out),
                Request::PublishersChanged => self.publishers.change(),
            }
        }
    }

    fn with_federations(
        &mut self,
        now: Now,
        out: &mut Vec<Effect>,
        run: impl FnOnce(&mut Federations, &mut Turn<'_>),
    ) {
        let mut turn = Turn::new(now, Context::of(&self.broker, &self.gossip, &self.peers));
        run(&mut self.federations, &mut turn);
        self.fulfil(now, turn.out, out);
    }

    fn with_leases(
        &mut self,
        now: Now,
        out: &mut Vec<Effect>,
        run: impl FnOnce(&mut Leases, &mut Turn<'_>),
    ) {
        let mut turn = Turn::new(now, Context::of(&self.broker, &self.gossip, &self.peers));
        run(&mut self.leases, &mut turn);
        self.fulfil(now, turn.out, out);
    }

    fn on_federation(&mut self, now: Now, input: FederationInput, out: &mut Vec<Effect>) {
        if let FederationInput::Ask(to, Ask::Admit { peer, request }) = &input {
            // With a key that it has replaced nobody gets another certificate.
            let is_proven = ClusterIdentity::of(&request.identities, now).is_ok_and(|it| {
                it.key == *peer && self.meet(now, it.cluster_id(), Keys::of(&it), out)
            });
            if !is_proven {
                let refused = Answer::Join(Box::new(JoinReply::Refused(JoinRefusal::Identity)));
                return out.push(Effect::Federation(*to, Box::new(refused)));
            }
        }
        self.with_federations(now, out, |all, turn| all.handle(input, turn));
    }

    fn keep_connected(&mut self, now: Now, cluster: ClusterId, out: &mut Vec<Effect>) {
        let Self { connections, broker, leases, peers, .. } = self;
        connections.keep_connected(now, cluster, broker, leases, peers, out);
    }

    fn on_connected(
        &mut self,
        now: Now,
        peer: ClusterIdentity,
        dialled: bool,
        out: &mut Vec<Effect>,
    ) {
        let (key, cluster, name) = (peer.key, peer.cluster_id(), peer.name.clone());
        if !self.meet(now, cluster, Keys::of(&peer), out) {
            if self.peers.is_first_outdated(cluster) {
                out.push(Effect::Notice(Notice::Outdated(cluster)));
            }
            out.push(Effect::HangUp(key));
            return self.connections.handle(now, ForDirectory::Replaced(key), out);
        }
        if self.gossip.is_banned(now, &key) {
            out.extend(self.leases.refusal(key, Some(cluster), self.context()));
        }
        self.peers.connect(peer);
        self.connections.handle(now, ForDirectory::Connected { peer: key, dialled }, out);
        if self.peers.standing(&cluster) == Standing::Blocked {
            return;
        }
        out.push(Effect::Notice(Notice::Connected { peer: cluster, name }));
        let context = Context::of(&self.broker, &self.gossip, &self.peers);
        let requests = self.neighbours.enter(key, cluster, dialled, &self.federations, context);
        self.fulfil(now, requests, out);
        self.with_leases(now, out, |leases, turn| leases.link(cluster, true, turn));
        out.extend(self.unsent.take(key));
        self.for_broker.push_back(ForBroker::Connected(cluster));
    }

    fn on_disconnected(&mut self, now: Now, peer: PublicKey, out: &mut Vec<Effect>) {
        let Some(owner) = self.peers.disconnect(&peer) else { return };
        self.connections.handle(now, ForDirectory::Disconnected(peer), out);
        self.leave_gossip(now, peer, out);
        out.push(Effect::Notice(Notice::Disconnected(owner.cluster_id())));
        self.with_leases(now, out, |leases, turn| leases.link(owner.cluster_id(), false, turn));
        self.for_broker.push_back(ForBroker::Disconnected(owner.cluster_id()));
    }

    /// A peer has not taken this. If it has connected anew since, it is said at once.
    fn on_unsaid(&mut self, peer: PublicKey, message: Signed<Message>, out: &mut Vec<Effect>) {
        let context = Context::of(&self.broker, &self.gossip, &self.peers);
        self.unsent.keep(peer, message, |peer| self.federations.rank_of_key(peer, context));
        if self.peers.connected().contains_key(&peer) {
            out.extend(self.unsent.take(peer));
        }
    }

    fn leave_gossip(&mut self, now: Now, peer: PublicKey, out: &mut Vec<Effect>) {
        let context = Context::of(&self.broker, &self.gossip, &self.peers);
        let requests = self.neighbours.leave(now, peer, &self.federations, context);
        self.fulfil(now, requests, out);
    }
}
