//! Every way to a contract, and every single fault on it: a crash before each effect of
//! either side, and each message lost, doubled and late. Whatever happens, in the end the
//! buyer has bought once, and both sides agree on what.

use mercato_broker::{Approve, Command, Deal, Demand, Rate, Side, Stage};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::price::{Money, Price, UnitPrice};
use mercato_protocol::resources::Resource;

use crate::faults::assert_both_agree;
use crate::world::{BUYER, Fault, SELLER, World, demand};

/// One way: what each owner does about what it sees, once a second.
struct Path {
    approve: Approve,
    seller: fn(&mut World),
    buyer: fn(&mut World),
    /// What has come true in the end.
    done: fn(&World) -> bool,
}

/// How late a message comes: a little; after the buyer gave up; after the hold.
const LATE_MS: [u64; 3] = [3_000, 15_000, 70_000];

/// Until everything that was put off by one fault is over.
const FOR_MS: u64 = 140_000;

fn find(world: &World, node: usize, is: impl Fn(&Deal) -> bool) -> Option<NegotiationId> {
    world.nodes[node].broker.deals().find(|deal| is(deal)).map(Deal::id)
}

/// A person tries again as long as nothing came of it.
fn nothing_runs(world: &World) -> bool {
    find(world, BUYER, |deal| deal.stage().state() != State::Terminated).is_none()
}

fn in_review(world: &World) -> Option<NegotiationId> {
    find(world, SELLER, |deal| {
        deal.side() == Side::Provider && deal.stage().state() == State::Review
    })
}

fn cheaper() -> Price {
    let hourly = UnitPrice { micros: 15_000, period_s: 3_600 };
    Price::Posted { currency: "EUR".parse().unwrap(), units: [(Resource::Cpu, hourly)].into() }
}

fn nobody(_: &mut World) {}

fn order(world: &mut World) {
    if nothing_runs(world) {
        let order = Command::Order { demand: demand(2_000), note: String::new() };
        let _ = world.command(BUYER, order);
    }
}

fn order_with_limit(world: &mut World) {
    if nothing_runs(world) {
        let amount = Money { micros: 50_000, currency: "EUR".parse().unwrap() };
        let max_price = Some(Rate { amount, per_s: 3_600 });
        let demand = Demand { max_price, ..demand(2_000) };
        let _ = world.command(BUYER, Command::Order { demand, note: String::new() });
    }
}

fn accept(world: &mut World) {
    if let Some(request) = in_review(world) {
        let _ = world.command(SELLER, Command::Accept(request));
    }
}

fn counter(world: &mut World) {
    if let Some(request) = in_review(world) {
        let counter = Command::Counter { request, price: Some(cheaper()), quantity: None };
        let _ = world.command(SELLER, counter);
    }
}

fn ask_round(world: &mut World) {
    if nothing_runs(world) {
        let rfq = Command::Rfq { demand: demand(2_000), note: String::new() };
        let _ = world.command(BUYER, rfq);
    }
    take(world);
}

fn take(world: &mut World) {
    if let Some(offer) = find(world, BUYER, |deal| *deal.stage() == Stage::Offered) {
        let _ = world.command(BUYER, Command::Take(offer));
    }
}

fn order_and_take(world: &mut World) {
    order(world);
    take(world);
}

fn bought_at(world: &World, price: Option<Price>) -> bool {
    [SELLER, BUYER].into_iter().all(|node| {
        let deals = world.nodes[node].broker.deals();
        let leased: Vec<&Deal> = deals.filter(|deal| deal.stage().is_leased()).collect();
        let fits = |deal: &&Deal| price.as_ref().is_none_or(|price| deal.terms().price == *price);
        leased.len() == 1 && leased.iter().all(fits)
    })
}

fn bought(world: &World) -> bool {
    bought_at(world, None)
}

fn bought_cheaper(world: &World) -> bool {
    bought_at(world, Some(cheaper()))
}

fn run(path: &Path, fault: Option<Fault>) -> World {
    let mut world = World::acquainted(path.approve, 0);
    world.fault = fault;
    let end_ms = world.now_ms + FOR_MS;
    while world.now_ms < end_ms {
        (path.seller)(&mut world);
        (path.buyer)(&mut world);
        world.settle();
        world.advance(1_000);
    }
    world.fault = None;
    world.heal(8_000);
    world
}

/// Each single fault in turn.
fn explore(path: &Path) {
    let clean = run(path, None);
    assert!((path.done)(&clean), "without a fault");
    assert!(clean.messages >= 6, "{} messages", clean.messages);
    let crash = |node: usize| (0..clean.effects[node]).map(move |n| Fault::Crash(node, n));
    let crashes = crash(SELLER).chain(crash(BUYER));
    let messages = (0..clean.messages).flat_map(|n| {
        [Fault::Lose(n), Fault::Double(n)].into_iter().chain(LATE_MS.map(|ms| Fault::Late(n, ms)))
    });
    for fault in crashes.chain(messages) {
        let world = run(path, Some(fault));
        assert!(
            (path.done)(&world),
            "{fault:?}: {:#?}",
            world.nodes.map(|node| {
                node.broker
                    .deals()
                    .map(|deal| (deal.id(), deal.stage().clone()))
                    .collect::<Vec<_>>()
            })
        );
        assert_both_agree(&world);
    }
}

#[test]
fn a_posted_price() {
    explore(&Path { approve: Approve::Auto, seller: nobody, buyer: order, done: bought });
}

#[test]
fn a_review() {
    explore(&Path { approve: Approve::Ask, seller: accept, buyer: order, done: bought });
}

#[test]
fn a_counter_offer() {
    let (seller, buyer) = (counter, order_and_take);
    explore(&Path { approve: Approve::Ask, seller, buyer, done: bought_cheaper });
}

#[test]
fn a_counter_offer_within_the_limit() {
    let (seller, buyer) = (counter, order_with_limit);
    explore(&Path { approve: Approve::Ask, seller, buyer, done: bought_cheaper });
}

#[test]
fn a_round_of_firm_offers() {
    explore(&Path { approve: Approve::Auto, seller: nobody, buyer: ask_round, done: bought });
}

#[test]
fn a_round_after_a_review() {
    let (seller, buyer) = (counter, ask_round);
    explore(&Path { approve: Approve::Ask, seller, buyer, done: bought_cheaper });
}
