//! Whole negotiations between two brokers in one process, without disk: an order at the
//! posted price, from the owner's command to the contract that both have signed. Every
//! message is opened as in the daemon, and records are made and thrown away. A thread has two
//! brokers of its own.

#![allow(missing_docs, clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark may")]
#![allow(clippy::wildcard_enum_match_arm, reason = "few effects of many are looked at")]

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mercato_broker::{
    Amount, Approve, Broker, Command, Config, Demand, DevicePolicy, Effect, Input, Inventory,
    PoolInventory, SharePolicy, Standing,
};
use mercato_protocol::ad::{Ad, OpenedBody};
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::negotiation::Message;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, Platform, PodSecurity};
use mercato_protocol::time::Now;

const NOW: Now = Now { mono_ms: 0, wall_ms: 1_800_000_000_000 };
/// Contracts that both sides have before, and that are made in one measurement.
const CONTRACTS: u64 = 100;

fn policy() -> SharePolicy {
    let whole = |resource| (resource, Amount::Percent(100));
    SharePolicy {
        amounts: [Resource::Cpu, Resource::Memory, Resource::Pods].map(whole).into(),
        devices: DevicePolicy::default(),
        storage: Box::default(),
        egress: Box::default(),
        objects: None,
        keep_free: Resources::default(),
        price: Price::Free,
        class: Class::Reserved,
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        approve: Approve::Auto,
        allow: [].into(),
        reclaim_notice_s: 3_600,
        max_term_s: 86_400,
        rules: vec![],
    }
}

fn inventory() -> Inventory {
    let all = Resources {
        cpu_millis: 1 << 40,
        memory_bytes: 1 << 60,
        pods: 1 << 40,
        ..Default::default()
    };
    Inventory {
        pools: vec![PoolInventory {
            id: "amd64".parse().unwrap(),
            platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
            allocatable: all.clone(),
            requested: Resources::default(),
            largest_pod: all,
            gpus: vec![],
        }],
        ..Inventory::default()
    }
}

struct Market {
    seller: Broker,
    buyer: Broker,
    known: [(PublicKey, ClusterId); 2],
}

impl Market {
    fn open() -> Self {
        let config = |seed: u8| {
            let key = Arc::new(KeyPair::from_seed(&[seed; 32]));
            let identity = Identity::found(&key, "a cluster", NOW).unwrap();
            Config::new(key, identity)
        };
        let (sells, buys) = (config(1), config(2));
        let known = [&sells, &buys].map(|config| (config.key.public(), config.cluster()));
        let mut seller = Broker::restore(sells, 1, []);
        let mut buyer = Broker::restore(buys, 2, []);
        seller.handle(NOW, Input::Command(0, Box::new(Command::Share(Some(policy())))));
        let said = seller.handle(NOW, Input::Inventory(inventory()));
        let published = said.into_iter().find_map(|effect| match effect {
            Effect::Publish { header, body } => Some((header, body)),
            _ => None,
        });
        let (header, body) = published.unwrap();
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        let opened = OpenedBody::open(&body.0).unwrap();
        let ad = Ad::assemble(&header.open(trust, NOW).unwrap(), &opened).unwrap();
        let trusted = Command::Peer(known[0].1, Standing::Trusted);
        buyer.handle(NOW, Input::Command(0, Box::new(trusted)));
        buyer.handle(NOW, Input::Ad(Box::new(ad)));
        Self { seller, buyer, known }
    }

    fn buy(&mut self) {
        let quantity =
            Resources { cpu_millis: 1_000, memory_bytes: 1 << 30, pods: 1, ..Default::default() };
        let demand = Demand { quantity, term_s: 3_600, ..Demand::default() };
        let order = Command::Order { demand, note: String::new(), id: None };
        let mut said = sent(self.buyer.handle(NOW, Input::Command(0, Box::new(order))));
        let mut to_seller = true;
        while !said.is_empty() {
            let hears = if to_seller { &mut self.seller } else { &mut self.buyer };
            let known = self.known.into();
            let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
            let opened = said.iter().map(|message| message.open(trust, NOW).unwrap());
            let heard: Vec<_> = opened.map(|it| Input::Message(Box::new(it))).collect();
            said = heard.into_iter().flat_map(|input| sent(hears.handle(NOW, input))).collect();
            to_seller = !to_seller;
        }
    }

    fn buy_many(&mut self) {
        (0..CONTRACTS).for_each(|_| self.buy());
    }

    fn contracts(&self) -> u64 {
        self.buyer.deals().filter(|deal| deal.is_leased()).count() as u64
    }
}

fn sent(effects: Vec<Effect>) -> Vec<Signed<Message>> {
    let message = |effect| match effect {
        Effect::Send { message, .. } => Some(message),
        _ => None,
    };
    effects.into_iter().filter_map(message).collect()
}

fn negotiations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("negotiation");
    group.sample_size(20);
    let ready = || {
        let mut market = Market::open();
        market.buy_many();
        market
    };
    for threads in [1, 2] {
        group.throughput(Throughput::Elements(threads * CONTRACTS));
        let id = BenchmarkId::new("at a posted price, both sides", threads);
        group.bench_function(id, |bench| {
            let markets = || (0..threads).map(|_| ready()).collect();
            let measured = |mut markets: Vec<Market>| {
                std::thread::scope(|scope| {
                    markets.iter_mut().for_each(|market| drop(scope.spawn(|| market.buy_many())));
                });
                assert!(markets.iter().all(|market| market.contracts() == 2 * CONTRACTS));
                markets
            };
            bench.iter_batched(markets, measured, BatchSize::LargeInput);
        });
    }
    group.finish();
}

criterion_group!(benches, negotiations);
criterion_main!(benches);
