//! A disk that cannot be written: whatever is on it, and whatever the daemon hears, nothing is to
//! be kept. Otherwise each such wish would fail, lead back to the records, and from them to itself.

use std::collections::BTreeSet;

use mercato_agent::{
    Agent, BrokerInput, Effect, Frame, Input, LeaseInput, LeaseNews, Record, Records, TunnelInput,
};
use mercato_broker::{Command, Refusal, Standing};
use mercato_offload::key::Item;
use mercato_offload::message::{self, Route, ToGuest};
use mercato_protocol::id::{ContractId, Digest};

use crate::cluster::settings;
use crate::story::{BUYER, SELLER, order, policy, watch};
use crate::world::{World, at, greeting, restore};

/// So many steps of the story are between two looks.
const STRIDE: usize = 7;

/// Of each kind of record the disk may have none: what the others are of is over, or never was.
#[test]
fn nothing_is_wanted_kept_that_cannot_be() {
    let mut steps = 0;
    let mut seen = BTreeSet::new();
    watch(|world| {
        steps += 1;
        for node in [SELLER, BUYER].into_iter().filter(|_| steps % STRIDE == 0) {
            let kinds: BTreeSet<u32> = world.nodes[node].records().iter().map(kind).collect();
            seen.extend(kinds.iter().copied());
            for left_out in subsets(&kinds) {
                let kept = world.nodes[node].records().iter();
                let kept = kept.filter(|record| !left_out.contains(&kind(record)));
                live_at_rest(world, node, &kept.cloned().collect());
            }
        }
    });
    assert_eq!(seen, (0..=5).collect(), "each kind was there");
}

fn kind(record: &Record) -> u32 {
    match record {
        Record::Broker(mercato_broker::Record::Deal(_)) => 0,
        Record::Broker(_) => 1,
        Record::Home(..) => 2,
        Record::Guest(..) => 3,
        Record::Namespaces(..) => 4,
        Record::Range(..) => 5,
        Record::Federation(_) | Record::Key(..) => 6,
    }
}

fn subsets(all: &BTreeSet<u32>) -> impl Iterator<Item = BTreeSet<u32>> {
    let holds = |mask: u32, n: u32| mask & 1 << n != 0;
    let fits = move |mask: &u32| (0..8).all(|n| !holds(*mask, n) || all.contains(&n));
    (0..1 << 8).filter(fits).map(move |mask| (0..8).filter(|n| holds(mask, *n)).collect())
}

/// A daemon on these records hears what it may hear, and lives on for an hour.
fn live_at_rest(world: &World, node: usize, records: &Records) {
    let config = world.nodes[node].config.clone();
    let full = Some("the disk is full".to_owned());
    let mut agent = restore(config, [7; 32], records, full);
    let peer = world.owner(1 - node);
    let connected = Input::Connected { peer, dialled: false };
    let heard = greeting().into_iter().chain([connected]).chain(of_leases(world, node));
    for input in heard {
        handle(&mut agent, world.now_ms, input);
    }
    for command in commands(world, node) {
        let asked = Input::Broker(BrokerInput::Command(1, Box::new(command.clone())));
        let answer = handle(&mut agent, world.now_ms, asked);
        let refused = Effect::Reply(1, Err(Refusal::Degraded));
        assert!(answer.contains(&refused), "{command:?}: {answer:?}");
    }
    let mut now_ms = world.now_ms;
    for _ in 0..32 {
        let Some(deadline) = agent.wakeup() else { break };
        let pause_ms = deadline.remaining_ms(at(now_ms));
        assert!(pause_ms > 0, "it is woken without end");
        now_ms += pause_ms.min(120_000);
        handle(&mut agent, now_ms, Input::Tick);
    }
}

/// What is heard of each lease: of the tunnel, of the cluster, and of the other side.
fn of_leases(world: &World, node: usize) -> Vec<Input> {
    let peer = world.key(1 - node);
    let ranges = ["10.207.1.0/24", "10.208.0.0/24"].map(|text| text.parse().unwrap());
    let told = TunnelInput::Peer(world.cluster_id(1 - node), ranges.into());
    let item = Item::Object(settings());
    let route = Route { origin: world.cluster_id(1 - node), path: vec![], hops: 0 };
    let put = ToGuest::Put { item, digest: Digest([1; 32]), route, place: Some("other".into()) };
    let statements = vec![put];
    let said = message::Frame { from: 9, to: 9, seq: 1, ack: 0, answer: true, statements };
    let news = [LeaseNews::Ready, LeaseNews::Removed, LeaseNews::Failed("no".into())];
    let deals = world.nodes[node].agent.broker().deals();
    let of_each = deals.flat_map(|deal| {
        let contract: ContractId = deal.id().into();
        let frame = LeaseInput::Frame { peer, frame: Frame::ToGuest(said.clone()) };
        let heard = news.clone().map(LeaseInput::News).into_iter().chain([frame]);
        heard.map(move |input| Input::Lease(contract, input)).collect::<Vec<_>>()
    });
    let none = Input::Tunnel(TunnelInput::Peer(world.cluster_id(1 - node), BTreeSet::new()));
    [Input::Tunnel(told)].into_iter().chain(of_each).chain([none]).collect()
}

/// Whatever an owner may ask for of which something would be kept.
fn commands(world: &World, node: usize) -> Vec<Command> {
    let other = world.cluster_id(1 - node);
    let text = String::new;
    let of_deals = world.nodes[node].agent.broker().deals().flat_map(|deal| {
        let (id, contract) = (deal.id(), deal.id().into());
        [
            Command::Accept(id),
            Command::Deny { request: id, text: text() },
            Command::Take(id),
            Command::Counter { request: id, price: None, quantity: None, hold_s: None },
            Command::Amend { contract, quantity: None, term_s: Some(7) },
            Command::Withdraw(contract),
            Command::Reclaim { contract, notice_s: None, text: text() },
            Command::Cancel { deal: id, text: text() },
        ]
    });
    let others = [
        Command::Share(Some(policy())),
        Command::Share(None),
        Command::Buy(None),
        Command::Peer(other, Standing::Blocked),
        order(),
    ];
    of_deals.chain(others).collect()
}

fn handle(agent: &mut Agent, now_ms: u64, input: Input) -> Vec<Effect> {
    let told = format!("{input:?}");
    let answer = agent.handle(at(now_ms), input);
    let kept = answer.iter().find(|effect| matches!(effect, Effect::Persist(_)));
    assert_eq!(kept, None, "after {told}");
    answer
}
