//! Two brokers, a link that loses, doubles and reorders, and a crash at any effect.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mercato_broker::{
    Amount, Approve, Broker, Command, Config, Deal, Demand, Desired, DevicePolicy, Effect, Input,
    Inventory, Meter, PoolInventory, Record, RecordKey, Refusal, Reply, SharePolicy, Side,
    Standing,
};
use mercato_protocol::ad::{Ad, AdHeader, OpenedBody};
use mercato_protocol::envelope::{Countersigned, KeyPair, Signed, Signers, Trust};
use mercato_protocol::id::{ClusterId, Digest, FederationId, NegotiationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::negotiation::{Answer, Body, Message, State};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, Platform, PodSecurity};
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

pub(crate) const SELLER: usize = 0;
pub(crate) const BUYER: usize = 1;
pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// What the seller shares.
pub(crate) const SOLD_MILLIS: u64 = 4_000;

pub(crate) struct Node {
    pub(crate) broker: Broker,
    pub(crate) config: Config,
    pub(crate) records: BTreeMap<RecordKey, Record>,
    pub(crate) leases: BTreeMap<NegotiationId, Desired>,
    pub(crate) replies: Vec<Result<Reply, Refusal>>,
    pub(crate) published: Vec<(Signed<AdHeader>, Blob)>,
    local: VecDeque<Input>,
    ahead_ms: u64,
    restarts: u64,
}

/// A single thing that goes wrong; effects and messages go by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The node dies before this effect.
    Crash(usize, usize),
    Lose(usize),
    Double(usize),
    /// By so much, in ms.
    Late(usize, u64),
}

pub(crate) struct World {
    pub(crate) nodes: [Node; 2],
    pub(crate) wire: Vec<(usize, Signed<Message>)>,
    pub(crate) now_ms: u64,
    /// After so many effects of the next answer its broker crashes.
    pub(crate) crash_after: Option<usize>,
    /// The one thing that goes wrong.
    pub(crate) fault: Option<Fault>,
    /// Effects of each node so far.
    pub(crate) effects: [usize; 2],
    /// Messages so far.
    pub(crate) messages: usize,
    late: Vec<(u64, usize, Signed<Message>)>,
    known: BTreeMap<PublicKey, ClusterId>,
    said: BTreeMap<(ClusterId, NegotiationId, u32), Digest>,
    /// By change: the provider's signature.
    contracts: BTreeMap<(NegotiationId, Option<u32>), Digest>,
    /// Contracts whose two signatures were checked.
    valid: BTreeSet<(Digest, Option<Digest>)>,
}

pub(crate) fn resources(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, memory_bytes: 1 << 30, pods: 10, ..Default::default() }
}

pub(crate) fn policy(approve: Approve) -> SharePolicy {
    let hourly = UnitPrice { micros: 20_000, period_s: 3_600 };
    SharePolicy {
        amounts: [
            (Resource::Cpu, Amount::Exactly(SOLD_MILLIS)),
            (Resource::Memory, Amount::Percent(100)),
            (Resource::Pods, Amount::Percent(100)),
        ]
        .into(),
        devices: DevicePolicy::default(),
        storage: Box::default(),
        egress: Box::default(),
        objects: None,
        keep_free: Resources::default(),
        price: Price::Posted {
            currency: "EUR".parse().unwrap(),
            units: [(Resource::Cpu, hourly)].into(),
        },
        class: Class::Reserved,
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        approve,
        allow: [].into(),
        rules: Vec::new(),
        reclaim_notice_s: 3_600,
        max_term_s: 86_400,
    }
}

pub(crate) fn inventory() -> Inventory {
    let all =
        Resources { cpu_millis: 16_000, memory_bytes: 64 << 30, pods: 110, ..Default::default() };
    Inventory {
        pools: vec![PoolInventory {
            id: "amd64".parse().unwrap(),
            platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
            allocatable: all.clone(),
            requested: resources(1_000),
            largest_pod: all,
            gpus: vec![],
        }],
        ..Inventory::default()
    }
}

pub(crate) fn demand(cpu_millis: u64) -> Demand {
    Demand { quantity: resources(cpu_millis), term_s: 3_600, ..Demand::default() }
}

impl World {
    pub(crate) fn new(approve: Approve, buyer_ahead_ms: u64) -> Self {
        let node = |seed: u8, ahead_ms| {
            let key = Arc::new(KeyPair::from_seed(&[seed; 32]));
            let at = Now { mono_ms: 0, wall_ms: START_MS };
            let identity = Identity::found(&key, &format!("cluster-{seed}"), at).unwrap();
            let config = Config { metering_interval_s: 30, ..Config::new(key, identity) };
            Node {
                broker: Broker::restore(config.clone(), u64::from(seed), []),
                config,
                records: BTreeMap::new(),
                leases: BTreeMap::new(),
                replies: vec![],
                published: vec![],
                local: VecDeque::new(),
                ahead_ms,
                restarts: 0,
            }
        };
        let nodes = [node(1, 0), node(2, buyer_ahead_ms)];
        let known = nodes.iter().map(|n| (n.config.key.public(), n.config.cluster())).collect();
        let mut world = Self {
            nodes,
            wire: vec![],
            now_ms: START_MS,
            crash_after: None,
            fault: None,
            effects: [0; 2],
            messages: 0,
            late: vec![],
            known,
            said: BTreeMap::new(),
            contracts: BTreeMap::new(),
            valid: BTreeSet::new(),
        };
        world.command(SELLER, Command::Share(Some(policy(approve)))).unwrap();
        world.input(SELLER, Input::Inventory(inventory()));
        world
    }

    /// A world in which the buyer trusts the seller and has seen its offer.
    pub(crate) fn acquainted(approve: Approve, buyer_ahead_ms: u64) -> Self {
        let mut world = Self::new(approve, buyer_ahead_ms);
        world.command(BUYER, Command::Peer(world.cluster(SELLER), Standing::Trusted)).unwrap();
        world.show_ad();
        world
    }

    pub(crate) fn cluster(&self, node: usize) -> ClusterId {
        self.nodes[node].config.cluster()
    }

    pub(crate) fn ad(&self) -> Ad {
        self.ad_of(SELLER)
    }

    pub(crate) fn ad_of(&self, node: usize) -> Ad {
        let (header, body) = self.nodes[node].published.last().unwrap();
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let header = header.open(trust, self.now(SELLER)).unwrap();
        Ad::assemble(&header, &OpenedBody::open(&body.0).unwrap()).unwrap()
    }

    pub(crate) fn show_ad(&mut self) {
        let ad = Box::new(self.ad());
        self.input(BUYER, Input::Ad(ad));
    }

    pub(crate) fn now(&self, node: usize) -> Now {
        let mono_ms = self.now_ms - START_MS;
        Now { mono_ms, wall_ms: self.now_ms + self.nodes[node].ahead_ms }
    }

    pub(crate) fn command(&mut self, node: usize, command: Command) -> Result<Reply, Refusal> {
        self.input(node, Input::Command(0, Box::new(command)));
        self.nodes[node].replies.pop().unwrap_or(Err(Refusal::Degraded))
    }

    /// One input; its effects, up to a crash; then what the cluster itself reports.
    pub(crate) fn input(&mut self, node: usize, input: Input) {
        let now = self.now(node);
        let effects = self.nodes[node].broker.handle(now, input);
        let most = self.crash_after.take().unwrap_or(usize::MAX);
        for (number, effect) in effects.into_iter().enumerate() {
            let fatal = Fault::Crash(node, self.effects[node]);
            if number >= most || self.fault == Some(fatal) {
                self.fault = self.fault.filter(|fault| *fault != fatal);
                self.crash(node);
                break;
            }
            self.effects[node] += 1;
            self.perform(node, effect);
        }
        self.check(node);
    }

    fn perform(&mut self, node: usize, effect: Effect) {
        let us = &mut self.nodes[node];
        match effect {
            Effect::Persist(record) => drop(us.records.insert(record.key(), record)),
            Effect::Forget(key) => drop(us.records.remove(&key)),
            Effect::Send { message, .. } => self.say(node, message),
            Effect::Publish { header, body } => us.published.push((header, body)),
            Effect::Withdraw(_) => us.published.clear(),
            Effect::Lease(lease) => {
                let id = lease.contract.id;
                us.leases.insert(id.into(), lease.desired);
                match (lease.side, lease.desired) {
                    (Side::Consumer, Desired::Open) => us.local.push_back(Input::Usable(id)),
                    (_, Desired::Drained) => us.local.push_back(Input::CleanedUp(id)),
                    _ => {}
                }
            }
            Effect::Burst(_) => {}
            Effect::Reply(_, result) => us.replies.push(result),
        }
    }

    /// The same number always means the same bytes, and one contract is signed once.
    fn say(&mut self, node: usize, message: Signed<Message>) {
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&self.known) };
        let opened = message.open(trust, self.now(node)).unwrap();
        let number = (opened.from, opened.negotiation, opened.seq);
        // Of what is not known nothing is kept, nor counted.
        if opened.body != (Body::Status { state: State::Unknown }) {
            let before = self.said.insert(number, opened.digest());
            assert!(before.is_none_or(|before| before == opened.digest()), "{number:?} twice");
        }
        let signed = match &opened.body {
            // One that is taken late is signed afresh.
            Body::Offer { contract } => Some((None, contract)),
            Body::Agreement { contract } => Some((Some(0), contract)),
            Body::Amendment { number, answer: Answer::Agreed { contract } } => {
                Some((Some(*number), contract))
            }
            _ => None,
        };
        if let Some((change, contract)) = signed {
            let before = self.contracts.insert((opened.negotiation, change), contract.digest());
            assert!(before.is_none_or(|before| before == contract.digest()), "signed twice");
        }
        let number = self.messages;
        self.messages += 1;
        match self.fault {
            Some(Fault::Lose(lost)) if lost == number => {}
            Some(Fault::Late(late, by_ms)) if late == number => {
                self.late.push((self.now_ms + by_ms, 1 - node, message));
            }
            Some(Fault::Double(twice)) if twice == number => {
                self.wire.extend([(1 - node, message.clone()), (1 - node, message)]);
            }
            _ => self.wire.push((1 - node, message)),
        }
    }

    /// The daemon dies, and starts again from its disk. The cluster says again what it is.
    pub(crate) fn crash(&mut self, node: usize) {
        let us = &mut self.nodes[node];
        us.restarts += 1;
        let records = us.records.values().cloned();
        us.broker = Broker::restore(us.config.clone(), 100 + us.restarts, records);
        us.leases.clear();
        us.local.clear();
        if node == SELLER {
            self.input(SELLER, Input::Inventory(inventory()));
        } else if !self.nodes[SELLER].published.is_empty() {
            self.show_ad();
        }
    }

    pub(crate) fn deliver(&mut self, index: usize) {
        let (to, message) = self.wire.remove(index);
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&self.known) };
        let opened = message.open(trust, self.now(to)).unwrap();
        self.input(to, Input::Message(Box::new(opened)));
    }

    /// Whether a cluster has something to report.
    pub(crate) fn local_waits(&self) -> bool {
        self.nodes.iter().any(|node| !node.local.is_empty())
    }

    pub(crate) fn report_local(&mut self, node: usize) {
        if let Some(input) = self.nodes[node].local.pop_front() {
            self.input(node, input);
        }
    }

    /// Time passes, and each broker that asked for it is woken.
    pub(crate) fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
        let (due, late) =
            std::mem::take(&mut self.late).into_iter().partition(|l| l.0 <= self.now_ms);
        self.late = late;
        self.wire.extend(due.into_iter().map(|(_, to, message): (u64, _, _)| (to, message)));
        for node in [SELLER, BUYER] {
            let now = self.now(node);
            if self.nodes[node].broker.wakeup().is_some_and(|deadline| deadline.is_due(now)) {
                self.input(node, Input::Tick);
            }
        }
    }

    /// Everything arrives and nothing crashes, until nobody has anything to say.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1_000 {
            if !self.wire.is_empty() {
                self.deliver(0);
            } else if let Some(node) =
                [SELLER, BUYER].into_iter().find(|n| !self.nodes[*n].local.is_empty())
            {
                self.report_local(node);
            } else {
                return;
            }
        }
        panic!("they never stop talking");
    }

    /// Settles again and again while time passes.
    pub(crate) fn heal(&mut self, for_ms: u64) {
        let end_ms = self.now_ms + for_ms;
        while self.now_ms < end_ms {
            self.settle();
            self.advance(1_000);
        }
        self.settle();
    }

    fn check(&mut self, node: usize) {
        let us = &self.nodes[node];
        let now = self.now(node);
        let held = us.broker.deals().filter(|deal| deal.side() == Side::Provider).filter(|deal| {
            let drains = us.leases.get(&deal.id()) == Some(&Desired::Drained);
            deal.is_signed_once() || deal.is_leased() || drains
        });
        let promised = |deal: &Deal| {
            let change = deal.amendment().filter(|change| change.state() == State::Agreed);
            let more = change.map_or(0, |change| change.terms().quantity.cpu_millis);
            more.max(deal.terms().quantity.cpu_millis)
        };
        let held: u64 = held.map(promised).sum();
        assert!(held <= SOLD_MILLIS, "{held} is promised");
        for deal in us.broker.deals() {
            if deal.side() == Side::Provider && deal.meter().and_then(Meter::started_ms).is_some() {
                // What is over for long one side may have forgotten before the other.
                let buyer = self.nodes[BUYER].broker.deal(&deal.id());
                let started =
                    buyer.is_none_or(|buyer| buyer.meter().and_then(Meter::started_ms).is_some());
                assert!(started, "it accrues before Ready");
            }
            if let Some(Record::Deal(kept)) = us.records.get(&RecordKey::Deal(deal.id()))
                && let Some(before) = kept.meter().and_then(Meter::signed)
            {
                let after = deal.meter().and_then(Meter::signed).expect("receipts stay");
                assert!(after.receipt.usage.is_at_least(&before.receipt.usage));
            }
            let leased = deal.is_leased() || us.leases.contains_key(&deal.id());
            if leased {
                let agreement = deal.agreement().unwrap();
                let consumer = agreement.consumer.as_ref().map(Signed::digest);
                if !self.valid.insert((agreement.provider.digest(), consumer)) {
                    continue;
                }
                let trust =
                    Trust { federation: FederationId::lan(), signers: Signers::Known(&self.known) };
                let provider = agreement.provider.open(trust, now).unwrap();
                let consumer = agreement.consumer.as_ref().unwrap().open(trust, now).unwrap();
                assert_eq!(*Countersigned::join(provider, consumer).unwrap(), agreement.contract);
            }
        }
    }
}
