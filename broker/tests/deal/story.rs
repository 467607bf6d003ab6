//! One purchase from end to end, and each refusal on the way.

use std::sync::Arc;

use mercato_broker::{
    Approve, Command, Desired, EndCause, EndReason, Input, Refusal, Reply, SharePolicy, Side,
    Standing, limits,
};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::{NetworkIsolation, PodSecurity};

use crate::world::{BUYER, SELLER, SOLD_MILLIS, World, demand, inventory, policy, resources};

fn order(world: &mut World, cpu_millis: u64) -> NegotiationId {
    let order = Command::Order { demand: demand(cpu_millis), note: "hello".to_owned(), id: None };
    match world.command(BUYER, order) {
        Ok(Reply::Ordered { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

fn state(world: &World, node: usize, id: NegotiationId) -> State {
    world.nodes[node].broker.deal(&id).unwrap().state()
}

fn why(world: &World, node: usize, id: NegotiationId) -> EndReason {
    world.nodes[node].broker.deal(&id).unwrap().end().unwrap().reason
}

#[test]
fn a_purchase_from_order_to_statement() {
    let mut world = World::acquainted(Approve::Ask, 0);
    let id = order(&mut world, 2_000);
    world.settle();
    assert_eq!(state(&world, BUYER, id), State::Review);
    assert_eq!(world.command(SELLER, Command::Accept(id)), Ok(Reply::Done));
    world.settle();
    assert_eq!(state(&world, SELLER, id), State::Active);
    assert_eq!(state(&world, BUYER, id), State::Active);
    world.heal(100_000);
    let cancel = Command::Cancel { deal: id, text: "enough".to_owned() };
    assert_eq!(world.command(BUYER, cancel), Ok(Reply::Done));
    world.settle();
    for node in [SELLER, BUYER] {
        let end = world.nodes[node].broker.deal(&id).unwrap().end().unwrap();
        let (EndReason::Closed(reason), text) = (end.reason, end.text) else { panic!("{node}") };
        assert_eq!((reason, text), (EndCause::Cancelled, "enough"));
        assert_eq!(world.nodes[node].leases[&id], Desired::Gone);
        let statement = world.nodes[node].broker.statement(&id.into()).unwrap().unwrap();
        assert_eq!(statement.lines[&Resource::Cpu].counter, 2_000 * 100_000);
        assert_eq!(statement.total.unwrap().micros, 2 * 20_000 * 100 / 3_600);
    }
    let free = world.nodes[SELLER].broker.offer().unwrap().1[0].free.cpu_millis;
    assert_eq!(free, SOLD_MILLIS, "all is free again");
}

#[test]
fn nothing_is_bought_from_a_stranger() {
    let mut world = World::new(Approve::Auto, 0);
    world.show_ad();
    let buy = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let refused = world.command(BUYER, buy.clone());
    let seller = &world.nodes[SELLER].config;
    let (provider, key) = (seller.cluster(), seller.key.public());
    let name = "cluster-1".to_owned();
    assert_eq!(refused, Err(Refusal::Untrusted { provider, name, key }));
    world.command(BUYER, Command::Peer(provider, Standing::Trusted)).unwrap();
    assert!(world.command(BUYER, buy).is_ok());
}

#[test]
fn nothing_is_sold_without_isolation() {
    let mut world = World::new(Approve::Auto, 0);
    assert_eq!(world.ad().body.network_isolation, NetworkIsolation::None, "the ad says so");
    let required =
        SharePolicy { network_isolation: NetworkIsolation::Required, ..policy(Approve::Auto) };
    world.command(SELLER, Command::Share(Some(required))).unwrap();
    assert!(world.nodes[SELLER].broker.offer().is_none());
    assert!(world.nodes[SELLER].published.is_empty(), "withdrawn");
    world.advance(10_000);
    world.input(SELLER, Input::Isolation(true));
    assert_eq!(world.ad().body.network_isolation, NetworkIsolation::Required);
    // Nothing keeps those apart who may do as root on a node.
    let privileged = SharePolicy {
        network_isolation: NetworkIsolation::Required,
        pod_security: PodSecurity::Privileged,
        ..policy(Approve::Auto)
    };
    world.command(SELLER, Command::Share(Some(privileged))).unwrap();
    assert!(world.nodes[SELLER].broker.offer().is_none());
}

#[test]
fn an_order_that_cannot_be_is_refused_with_its_reason() {
    let cases = [
        (Approve::Deny, TerminateReason::Denied),
        (Approve::Auto, TerminateReason::NoCapacity),
        (Approve::Auto, TerminateReason::PriceChanged),
        (Approve::Auto, TerminateReason::AdUnknown),
    ];
    for (approve, expected) in cases {
        let mut world = World::acquainted(approve, 0);
        match expected {
            TerminateReason::NoCapacity => drop(order(&mut world, 3_000)),
            TerminateReason::PriceChanged => {
                let price = Price::Free;
                let free = SharePolicy { price, ..policy(approve) };
                world.command(SELLER, Command::Share(Some(free))).unwrap();
            }
            TerminateReason::AdUnknown => drop(world.command(SELLER, Command::Share(None))),
            _ => {}
        }
        let id = order(&mut world, 3_000);
        world.settle();
        for node in [SELLER, BUYER] {
            let EndReason::Terminated(reason) = why(&world, node, id) else { panic!() };
            assert_eq!(reason, expected);
        }
    }
}

#[test]
fn unsigned_reports_suspend_and_then_close() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let id = order(&mut world, 1_000);
    world.settle();
    let mut seen = vec![];
    for _ in 0..400 {
        world.wire.clear();
        world.advance(1_000);
        let state = state(&world, SELLER, id);
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    assert_eq!(seen, [State::Active, State::Suspended, State::Closed]);
    let EndReason::Closed(reason) = why(&world, SELLER, id) else { panic!() };
    assert_eq!(reason, EndCause::Unsigned);
}

#[test]
fn what_is_never_ready_is_never_billed() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let id = order(&mut world, 1_000);
    while !world.wire.is_empty() {
        world.deliver(0);
    }
    for _ in 0..130 {
        world.advance(1_000);
        while !world.wire.is_empty() {
            world.deliver(0);
        }
    }
    let EndReason::Closed(reason) = why(&world, SELLER, id) else { panic!() };
    assert_eq!(reason, EndCause::ProvisioningFailed);
    let statement = world.nodes[SELLER].broker.statement(&id.into()).unwrap().unwrap();
    assert_eq!((statement.from_ms, statement.total), (None, None));
}

#[test]
fn all_strangers_share_one_cap() {
    let mut world = World::acquainted(Approve::Ask, 0);
    let ids: Vec<_> = (0..17).map(|_| order(&mut world, 1_000)).collect();
    world.settle();
    let state = |id: &NegotiationId| state(&world, SELLER, *id);
    assert_eq!(ids.iter().filter(|id| state(id) == State::Review).count(), 16);
    let EndReason::Terminated(reason) = why(&world, BUYER, ids[16]) else { panic!() };
    assert_eq!(reason, TerminateReason::TooMany);
}

#[test]
fn an_advertisement_follows_changes_and_is_numbered_once() {
    let mut world = World::acquainted(Approve::Auto, 0);
    assert_eq!(world.ad().header.rows[0].free, resources_of_offer());
    order(&mut world, 1_000);
    world.settle();
    assert_eq!(world.nodes[SELLER].published.len(), 2, "at once");
    assert_eq!(world.ad().header.rows[0].free.cpu_millis, SOLD_MILLIS - 1_000);
    let before = world.ad().header;
    world.crash(SELLER);
    world.input(SELLER, Input::Inventory(inventory()));
    let after = world.ad().header;
    assert!((after.epoch, after.seq) > (before.epoch, before.seq));
    let published = world.nodes[SELLER].published.len();
    world.advance(301_000);
    assert_eq!(world.nodes[SELLER].published.len(), published + 1, "renewed");
    let mut ad = world.ad();
    Arc::make_mut(&mut ad.header).epoch = 7;
    world.input(SELLER, Input::Ad(Box::new(ad)));
    world.advance(10_000);
    assert_eq!(world.ad().header.epoch, 8, "risen above what others had seen");
    let side = world.nodes[SELLER].broker.deals().next().unwrap().side();
    assert_eq!(side, Side::Provider);
    world.command(SELLER, Command::Stop).unwrap();
    assert!(world.nodes[SELLER].published.is_empty(), "withdrawn");
}

/// Pods of home's come and go: what the cluster has is another at each tick.
fn churn(world: &mut World, tick: u64) {
    let mut inventory = inventory();
    let pool = &mut inventory.pools[0];
    pool.requested = resources(16_000 - SOLD_MILLIS + 100 * (tick % 7));
    pool.largest_pod = resources(SOLD_MILLIS - 100 * (tick % 5));
    world.input(SELLER, Input::Inventory(inventory));
}

fn busy(world: &mut World, for_s: u64) {
    for tick in 0..for_s {
        churn(world, tick);
        world.settle();
        world.advance(1_000);
    }
}

#[test]
fn what_owner_and_deals_change_is_said_at_once_though_the_cluster_is_busy() {
    let mut world = World::acquainted(Approve::Auto, 0);
    busy(&mut world, 180);
    let before = world.nodes[SELLER].published.len();
    busy(&mut world, 300);
    let published = &world.nodes[SELLER].published;
    assert!((15..=31).contains(&(published.len() - before)), "{}", published.len() - before);
    let others = published[before..].windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!((4..=5).contains(&others), "{others} changes of the body in five minutes");

    let count = |world: &World| world.nodes[SELLER].published.len();
    let said = |world: &World| world.ad().header.rows[0].free.cpu_millis;
    let before = count(&world);
    let share = SharePolicy { price: Price::Free, ..policy(Approve::Auto) };
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    assert_eq!(count(&world), before + 1);
    assert_eq!(world.ad().header.rows[0].price, Price::Free);
    world.show_ad();
    let free = said(&world);
    let id = order(&mut world, 2_000);
    world.settle();
    assert_eq!(state(&world, SELLER, id), State::Active);
    assert_eq!(count(&world), before + 2);
    assert_eq!(said(&world), free - 2_000);
    let reclaim = Command::Reclaim { contract: id.into(), notice_s: Some(1), text: "now".into() };
    world.command(SELLER, reclaim).unwrap();
    world.heal(3_000);
    assert_eq!(state(&world, SELLER, id), State::Closed);
    assert_eq!(count(&world), before + 3);
    assert_eq!(said(&world), free);
    // Who changes more than that in a row is slowed down.
    for micros in 1..=10 {
        let units = [(Resource::Cpu, UnitPrice { micros, period_s: 3_600 })].into();
        let price = Price::Posted { currency: "EUR".parse().unwrap(), units };
        let share = SharePolicy { price, ..policy(Approve::Auto) };
        world.command(SELLER, Command::Share(Some(share))).unwrap();
    }
    assert_eq!(count(&world), before + 3);
    world.advance(limits::PUBLISH_MS);
    assert_eq!(count(&world), before + 4);
}

fn resources_of_offer() -> mercato_protocol::resources::Resources {
    mercato_protocol::resources::Resources {
        cpu_millis: SOLD_MILLIS,
        memory_bytes: 60 << 30,
        pods: 100,
        ..resources(0)
    }
}

#[test]
fn what_came_to_nothing_is_remembered_within_bounds() {
    let mut world = World::acquainted(Approve::Ask, 0);
    for n in 0..limits::ENDED + 10 {
        let (demand, note) = (demand(2_000), String::new());
        let command = match n % 2 {
            0 => Command::Rfq { demand, note },
            _ => Command::Order { demand, note, id: None },
        };
        world.command(BUYER, command).unwrap();
        let open = world.nodes[BUYER].broker.deals().find(|deal| deal.state() == State::Requested);
        let open = open.expect("one was asked for").id();
        world.command(BUYER, Command::Cancel { deal: open, text: String::new() }).unwrap();
    }
    let remembered = world.nodes[BUYER].broker.deals().count();
    assert!(remembered <= limits::ENDED + 1, "{remembered}");
}

#[test]
fn what_a_change_costs_stays_the_same_while_nothing_happens() {
    let mut world = World::acquainted(Approve::Ask, 0);
    let id = order(&mut world, 2_000);
    world.settle();
    world.command(SELLER, Command::Accept(id)).unwrap();
    world.heal(60_000);
    let quantity = Some(resources(3_000));
    world.command(BUYER, Command::Amend { contract: id.into(), quantity, term_s: None }).unwrap();
    world.settle();
    let costs = |world: &World| {
        [SELLER, BUYER].map(|node| {
            let deal = world.nodes[node].broker.deal(&id).unwrap();
            deal.lease().unwrap().amended_total().unwrap().unwrap()
        })
    };
    let (total_s, asked_s) = (demand(2_000).term_s, 60);
    let processor_seconds = 2 * asked_s + 3 * (total_s - asked_s);
    let asked = costs(&world);
    assert_eq!(asked[0].micros, processor_seconds * 20_000 / 3_600);
    assert_eq!(asked[0], asked[1]);
    world.heal(100_000);
    assert_eq!(costs(&world), asked, "in review");
    world.crash(SELLER);
    world.crash(BUYER);
    world.heal(10_000);
    assert_eq!(costs(&world), asked, "after a restart");
    world.command(SELLER, Command::Deny { request: id, text: String::new() }).unwrap();
    world.heal(100_000);
    assert_eq!(state(&world, BUYER, id), State::Active);
    assert_eq!(costs(&world), asked, "refused");
}
