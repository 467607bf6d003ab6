//! The agent: takes an input to the part that it is for, and gathers what they want done.
//! What the broker wants is in `market`, leases in `leases`.

mod keys;
mod market;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mercato_broker::{Broker, Side, Standing};
use mercato_discovery::Directory;
use mercato_gossip::{Gossip, Interner};
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId, PublicKey};
use mercato_protocol::identity::Owner;
use mercato_protocol::time::{Deadline, Now};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::effect::Effect;
use crate::federation::Federated;
use crate::input::Input;
use crate::lease::Lease;
use crate::lease::table::Leases;
use crate::neighbours::Neighbours;
use crate::notice::{Notice, Told};
use crate::peers::{Keys, Peers};
use crate::record::{Change, Record, Records};
use crate::unsent::Unsaid;

/// What the agent is told once.
pub type Config = mercato_broker::Config;

/// A cluster's agent. See the crate's page.
pub struct Agent {
    pub(crate) config: Config,
    pub(crate) broker: Broker,
    pub(crate) directory: Directory,
    pub(crate) gossip: Gossip,
    pub(crate) neighbours: Neighbours,
    pub(crate) peers: Peers,
    pub(crate) federated: Federated,
    pub(crate) leases: Leases,
    /// Records of leases that the broker has not spoken of yet.
    pub(crate) shelved: BTreeMap<ContractId, Vec<Record>>,
    /// What was last told of each deal.
    pub(crate) told: BTreeMap<NegotiationId, Told>,
    /// What its peer has not taken.
    pub(crate) unsaid: Unsaid,
    /// What the broker is yet to hear, after what is under way.
    pub(crate) for_broker: VecDeque<mercato_broker::Input>,
    /// Why records cannot be written.
    pub(crate) degraded: Option<String>,
    started: bool,
    /// Gossip is yet to be told which publishers are known,
    pub(crate) known_changed: bool,
    /// What the network was told of whose connections are worth what.
    pub(crate) told_ranks: Arc<BTreeMap<PublicKey, Rank>>,
    /// or that these are, too.
    pub(crate) also_known: Vec<PublicKey>,
    /// The last time that was told, to compare deadlines of both clocks.
    last: Now,
}

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
        let (mut of_broker, mut peers) = (Vec::new(), Peers::default());
        let mut shelved: BTreeMap<ContractId, Vec<Record>> = BTreeMap::new();
        let mut told = BTreeMap::new();
        let mut federated = Federated::default();
        for record in records.iter() {
            match record {
                Record::Home(id, _) | Record::Guest(id, _) | Record::Namespaces(id, _) => {
                    shelved.entry(*id).or_default().push(record.clone());
                }
                Record::Federation(of) => federated.remembered.push(of.clone()),
                Record::Key(cluster, latest, replaced) => {
                    let keys = Keys { latest: *latest, replaced: replaced.clone() };
                    peers.restore(*cluster, keys);
                }
                Record::Broker(of) => {
                    of_broker.push(of.clone());
                    match of {
                        mercato_broker::Record::Peer(cluster, standing) => {
                            peers.judge(*cluster, *standing);
                        }
                        mercato_broker::Record::Deal(deal) => {
                            told.insert(deal.id(), Told::of(deal));
                        }
                        mercato_broker::Record::Series { .. }
                        | mercato_broker::Record::Share(_)
                        | mercato_broker::Record::Buy(_)
                        | mercato_broker::Record::Earlier(..)
                        | mercato_broker::Record::Dispute(..) => {}
                    }
                }
            }
        }
        let me = config.key.public();
        Self {
            broker: Broker::restore(config.clone(), rng.random(), of_broker),
            directory: Directory::new(me, rng.random()),
            gossip: Gossip::new(me, rng.random(), interner),
            neighbours: Neighbours::default(),
            config,
            peers,
            federated,
            leases: Leases::default(),
            shelved,
            told,
            unsaid: Unsaid::default(),
            for_broker: VecDeque::new(),
            degraded,
            started: false,
            known_changed: true,
            told_ranks: Arc::default(),
            also_known: Vec::new(),
            last: Now::default(),
        }
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
                self.direct(now, mercato_discovery::Input::Report(report), &mut out);
            }
            Input::Dialled { attempt, result } => {
                let input = mercato_discovery::Input::Dialled { attempt, result };
                self.direct(now, input, &mut out);
            }
            Input::Connected { peer, dialled } => self.on_connected(now, peer, dialled, &mut out),
            Input::Disconnected(peer) => self.on_disconnected(now, peer, &mut out),
            Input::Addresses(addresses) => {
                self.for_broker.push_back(mercato_broker::Input::Addresses(addresses));
            }
            Input::Gossip { peer, message } => {
                let input = mercato_gossip::Input::Received { peer, message };
                self.spread(now, input, &mut out);
            }
            Input::Negotiation(message) => {
                self.for_broker.push_back(mercato_broker::Input::Message(message));
            }
            Input::Unsaid { peer, message } => self.on_unsaid(peer, message, &mut out),
            Input::Workload { peer, contract, frame } => {
                self.on_frame(now, peer, contract, frame, &mut out);
            }
            Input::Command(reply_to, command) => {
                self.for_broker.push_back(mercato_broker::Input::Command(reply_to, command));
            }
            Input::Federation(to, ask) => self.on_ask(now, to, ask, &mut out),
            Input::Joined(federation, reply) => {
                self.on_joined(now, federation, reply.map(|reply| *reply), &mut out);
            }
            Input::Papers { peer, certificates } => {
                if let Some(owner) = self.peers.connected().get(&peer) {
                    let cluster = owner.cluster_id();
                    self.on_papers(now, cluster, peer, &certificates, &mut out);
                }
            }
            Input::Inventory(inventory) => {
                self.for_broker.push_back(mercato_broker::Input::Inventory(inventory));
            }
            Input::RoundTrips(round_trips) => {
                self.for_broker.push_back(mercato_broker::Input::RoundTrips(round_trips));
            }
            Input::Isolation(enforced) => {
                self.for_broker.push_back(mercato_broker::Input::Isolation(enforced));
            }
            Input::Lease(contract, news) => self.on_lease_news(contract, news),
            Input::Home(contract, input) => self.on_home(now, contract, input, &mut out),
            Input::Guest(contract, input) => self.on_guest(now, contract, input, &mut out),
        }
        self.trade(now, &mut out);
        self.tell_known(now, &mut out);
        self.leases.look();
        out
    }

    /// When [`Input::Tick`] is next needed.
    pub fn wakeup(&self) -> Option<Deadline> {
        if !self.started {
            return Some(Deadline::Mono(0));
        }
        let parts = [
            self.broker.wakeup(),
            self.directory.wakeup(),
            self.gossip.wakeup(),
            self.federation_wakeup(),
            self.leases.wakeup(),
        ];
        Deadline::earliest(self.last, parts)
    }

    /// Why the records cannot be written, if so.
    pub fn degraded(&self) -> Option<&str> {
        self.degraded.as_deref()
    }

    /// The last time that was told, to compare deadlines of both clocks.
    pub(crate) fn last(&self) -> Now {
        self.last
    }

    /// The market, to look at.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Whom we know, to look at.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// What spreads, to look at.
    pub fn gossip(&self) -> &Gossip {
        &self.gossip
    }

    /// Pods of this cluster that are elsewhere, and those of others that are here.
    pub fn pods(&self) -> (usize, usize) {
        let of = |side| {
            let leases = self.leases.values().filter(|lease| lease.spec.side == side);
            leases.map(Lease::pods).sum()
        };
        (of(Side::Consumer), of(Side::Provider))
    }

    /// The key that speaks for a cluster, if it was met or heard of.
    pub fn key(&self, cluster: &ClusterId) -> Option<PublicKey> {
        self.peers.key(cluster)
    }

    /// Who is connected, by key.
    pub fn connected(&self) -> &BTreeMap<PublicKey, Owner> {
        self.peers.connected()
    }

    fn start(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.started = true;
        if let Some(why) = &self.degraded {
            out.push(Effect::Notice(Notice::Degraded(why.clone())));
            self.for_broker.push_back(mercato_broker::Input::Degraded(true));
        }
        for cluster in self.peers.changed().map(|(cluster, _)| *cluster).collect::<Vec<_>>() {
            self.tell_keys(cluster);
        }
        self.resume_federation(now, out);
        self.for_broker.push_back(mercato_broker::Input::Tick);
        self.trade(now, out);
        self.recall(now, out);
        // What no lease stands for any more.
        for record in std::mem::take(&mut self.shelved).into_values().flatten() {
            out.push(Effect::Persist(Change::Erase(record.key())));
        }
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Effect>) {
        let due = |deadline: Option<Deadline>| deadline.is_some_and(|at| at.is_due(now));
        if due(self.directory.wakeup()) {
            self.direct(now, mercato_discovery::Input::Tick, out);
        }
        if due(self.gossip.wakeup()) {
            self.spread(now, mercato_gossip::Input::Tick, out);
        }
        if due(self.broker.wakeup()) {
            self.for_broker.push_back(mercato_broker::Input::Tick);
        }
        if due(self.federation_wakeup()) {
            self.federation_due(now, out);
        }
        self.wake_leases(now, out);
    }

    fn on_connected(&mut self, now: Now, peer: Owner, dialled: bool, out: &mut Vec<Effect>) {
        let (key, cluster) = (peer.key, peer.cluster_id());
        let name = peer.name.clone();
        if !self.meet(now, cluster, Keys::of(&peer), out) {
            if self.peers.is_first_outdated(cluster) {
                out.push(Effect::Notice(Notice::Outdated(cluster)));
            }
            out.push(Effect::HangUp(key));
            return self.direct(now, mercato_discovery::Input::Replaced(key), out);
        }
        if self.gossip.shuns(now, &key) && !self.is_bound_to(&cluster) {
            out.push(Effect::Refuse(key, mercato_gossip::limits::SHUN_MS));
        }
        self.peers.connect(peer);
        let connected = mercato_discovery::Input::Connected { peer: key, dialled };
        self.direct(now, connected, out);
        if self.peers.standing(&cluster) == Standing::Blocked {
            return;
        }
        out.push(Effect::Notice(Notice::Connected { peer: cluster, name }));
        self.enter_gossip(now, (key, cluster), dialled, out);
        self.link_leases(now, cluster, true, out);
        self.say_unsaid(key, out);
        self.for_broker.push_back(mercato_broker::Input::Connected(cluster));
    }

    pub(crate) fn on_disconnected(&mut self, now: Now, peer: PublicKey, out: &mut Vec<Effect>) {
        let Some(owner) = self.peers.disconnect(&peer) else { return };
        self.direct(now, mercato_discovery::Input::Disconnected(peer), out);
        self.leave_gossip(now, peer, out);
        out.push(Effect::Notice(Notice::Disconnected(owner.cluster_id())));
        self.link_leases(now, owner.cluster_id(), false, out);
    }

    /// Tells the parts that know peers by key what the owner thinks of one.
    pub(crate) fn judge(&mut self, now: Now, cluster: ClusterId, out: &mut Vec<Effect>) {
        let Some(key) = self.peers.key(&cluster) else { return };
        let blocked = self.peers.standing(&cluster) == Standing::Blocked;
        let input = match blocked {
            true => mercato_discovery::Input::Block(key),
            false => mercato_discovery::Input::Unblock(key),
        };
        self.direct(now, input, out);
        out.push(Effect::Block(key, blocked));
        self.known_changed = true;
    }

    pub(crate) fn direct(
        &mut self,
        now: Now,
        input: mercato_discovery::Input,
        out: &mut Vec<Effect>,
    ) {
        for effect in self.directory.handle(now, input) {
            match effect {
                mercato_discovery::Effect::Dial { attempt, peer, addresses } => {
                    out.push(Effect::Dial { attempt, peer, addresses });
                }
                mercato_discovery::Effect::HangUp(peer) => out.push(Effect::HangUp(peer)),
                // Nothing else is kept by sighting.
                mercato_discovery::Effect::Forget(_) => {}
            }
        }
    }
}
