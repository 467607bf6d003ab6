//! Every way to a contract, and every single fault on it: a crash before each effect of
//! either side, and each message lost, doubled and late. Whatever happens, in the end the
//! buyer has bought once, and both sides agree on what.

use mercato_broker::syntax::{FromText as _, PriceChange};
use mercato_broker::{Approve, Command, Deal, Demand, Rate, Side};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::invoice::{Credit, CreditKind};
use mercato_protocol::negotiation::{State, TerminateReason};
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
    find(world, BUYER, |deal| deal.state() != State::Terminated).is_none()
}

fn in_review(world: &World) -> Option<NegotiationId> {
    find(world, SELLER, |deal| {
        let change = deal.amendment().map(|change| change.state());
        let asked = deal.state() == State::Review || change == Some(State::Review);
        deal.side() == Side::Provider && asked
    })
}

/// Asks for a change as long as there is none.
fn change(world: &mut World, quantity: Option<u64>, term_s: Option<u64>) {
    let runs = |deal: &Deal| deal.is_active();
    let quantity = quantity.map(|millis| demand(millis).quantity);
    if let Some(contract) = find(world, BUYER, runs) {
        let _ =
            world.command(BUYER, Command::Amend { contract: contract.into(), quantity, term_s });
    }
}

fn extend(world: &mut World) {
    order(world);
    change(world, None, Some(7_200));
}

fn grow(world: &mut World) {
    order(world);
    change(world, Some(3_000), None);
}

fn shrink(world: &mut World) {
    order(world);
    change(world, Some(1_000), None);
}

/// A term of a minute, which is to be longer when half of it is over.
fn extend_late(world: &mut World) {
    let over = |deal: &Deal| matches!(deal.state(), State::Terminated | State::Closed);
    if find(world, BUYER, |deal| !over(deal)).is_none() {
        let demand = Demand { term_s: 60, ..demand(2_000) };
        let _ = world.command(BUYER, Command::Order { demand, note: String::new(), id: None });
    }
    let soon_ms = world.now_ms + 30_000;
    let ends = |deal: &Deal| deal.agreement().is_some_and(|a| a.contract.not_after_ms < soon_ms);
    if find(world, BUYER, |deal| deal.is_active() && ends(deal)).is_some() {
        change(world, None, Some(7_200));
    }
}

fn cheaper() -> Price {
    let hourly = UnitPrice { micros: 15_000, period_s: 3_600 };
    Price::Posted { currency: "EUR".parse().unwrap(), units: [(Resource::Cpu, hourly)].into() }
}

fn nobody(_: &mut World) {}

fn order(world: &mut World) {
    if nothing_runs(world) {
        let order = Command::Order { demand: demand(2_000), note: String::new(), id: None };
        let _ = world.command(BUYER, order);
    }
}

fn order_with_limit(world: &mut World) {
    if nothing_runs(world) {
        let amount = Money { micros: 50_000, currency: "EUR".parse().unwrap() };
        let max_price = Some(Rate { amount, per_s: 3_600 });
        let demand = Demand { max_price, ..demand(2_000) };
        let _ = world.command(BUYER, Command::Order { demand, note: String::new(), id: None });
    }
}

fn accept(world: &mut World) {
    if let Some(request) = in_review(world) {
        let _ = world.command(SELLER, Command::Accept(request));
    }
}

fn counter(world: &mut World) {
    if let Some(request) = in_review(world) {
        let price = Some(PriceChange::from_text("cpu=0.015 EUR/h").unwrap());
        let counter = Command::Counter { request, price, quantity: None, hold_s: None };
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
    if let Some(offer) = find(world, BUYER, |deal| deal.state() == State::Offered) {
        let _ = world.command(BUYER, Command::Take(offer));
    }
}

fn order_and_take(world: &mut World) {
    order(world);
    take(world);
}

/// An offer that has waited for a minute.
fn order_and_take_late(world: &mut World) {
    order(world);
    let old_ms = world.now_ms.saturating_sub(60_000);
    let old = |deal: &Deal| deal.agreement().is_some_and(|a| a.contract.not_before_ms < old_ms);
    if find(world, BUYER, |deal| deal.state() == State::Offered && old(deal)).is_some() {
        take(world);
    }
}

/// Asks for more, and then, while that is in review, no longer.
fn grow_and_withdraw(world: &mut World) {
    order(world);
    let waits = |deal: &Deal| deal.amendment().is_some_and(|it| it.state() == State::Review);
    match find(world, BUYER, waits) {
        Some(contract) => drop(world.command(BUYER, Command::Withdraw(contract.into()))),
        None if find(world, BUYER, |deal| deal.amendment().is_some()).is_none() => {
            change(world, Some(3_000), None);
        }
        None => {}
    }
}

fn grant_new(world: &mut World) {
    let new = |deal: &Deal| deal.state() == State::Review;
    if let Some(request) = find(world, SELLER, new) {
        let _ = world.command(SELLER, Command::Accept(request));
    }
}

fn withdrawn(world: &World) -> bool {
    let is = |deal: &Deal| deal.amendment().and_then(|it| it.refused()).map(|(reason, _)| reason);
    let both = |node| find(world, node, |deal| is(deal) == Some(TerminateReason::Withdrawn));
    changed(world, |deal| deal.terms().quantity.cpu_millis == 2_000)
        && both(SELLER).is_some()
        && both(BUYER).is_some()
}

fn reclaim(world: &mut World) {
    if let Some(contract) = find(world, SELLER, |deal| deal.is_active()) {
        let (notice_s, text) = (Some(20), String::new());
        let _ =
            world.command(SELLER, Command::Reclaim { contract: contract.into(), notice_s, text });
    }
}

/// Once it has run for a while.
fn end(world: &mut World, node: usize) {
    let old_ms = world.now_ms.saturating_sub(40_000);
    let runs = |deal: &Deal| {
        let begun = deal.agreement().is_some_and(|a| a.contract.not_before_ms < old_ms);
        deal.is_active() && begun
    };
    if let Some(deal) = find(world, node, runs) {
        let _ = world.command(node, Command::Cancel { deal, text: String::new() });
    }
}

fn order_and_end(world: &mut World) {
    order(world);
    end(world, BUYER);
}

fn end_sold(world: &mut World) {
    end(world, SELLER);
}

/// One lease that is over, with one invoice, or a dispute of it.
fn settled(world: &World, credits: &[CreditKind]) -> bool {
    let closed = |deal: &Deal| {
        let invoice = deal
            .lease()
            .and_then(|lease| lease.settlement().invoice())
            .filter(|signed| signed.consumer.is_some());
        let kinds = |credits: &[Credit]| credits.iter().map(|it| it.kind).collect::<Vec<_>>();
        let agreed = invoice.is_some_and(|signed| kinds(&signed.invoice.credits) == credits);
        deal.state() == State::Closed
            && (agreed
                || deal.lease().is_some_and(|lease| !lease.settlement().disputes().is_empty()))
    };
    find(world, SELLER, closed).is_some() && find(world, BUYER, closed).is_some()
}

fn settled_in_full(world: &World) -> bool {
    settled(world, &[])
}

fn settled_with_credit(world: &World) -> bool {
    settled(world, &[CreditKind::ReclaimNotice])
}

fn bought_at(world: &World, price: Option<Price>) -> bool {
    [SELLER, BUYER].into_iter().all(|node| {
        let deals = world.nodes[node].broker.deals();
        let leased: Vec<&Deal> = deals.filter(|deal| deal.is_leased()).collect();
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

fn changed(world: &World, is: fn(&Deal) -> bool) -> bool {
    let fits = |node: usize| find(world, node, |deal| deal.is_leased() && is(deal));
    bought(world) && fits(SELLER).is_some() && fits(BUYER).is_some()
}

fn extended(world: &World) -> bool {
    changed(world, |deal| deal.terms().term_s == 7_200)
}

fn grown(world: &World) -> bool {
    changed(world, |deal| deal.terms().quantity.cpu_millis == 3_000)
}

fn shrunk(world: &World) -> bool {
    changed(world, |deal| deal.terms().quantity.cpu_millis == 1_000)
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
                node.broker.deals().map(|deal| (deal.id(), deal.state())).collect::<Vec<_>>()
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
fn a_counter_offer_that_is_taken_late() {
    let (seller, buyer) = (counter, order_and_take_late);
    explore(&Path { approve: Approve::Ask, seller, buyer, done: bought_cheaper });
}

#[test]
fn a_change_that_is_withdrawn() {
    let (seller, buyer, done) = (grant_new, grow_and_withdraw, withdrawn);
    explore(&Path { approve: Approve::Ask, seller, buyer, done });
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

#[test]
fn a_longer_term() {
    explore(&Path { approve: Approve::Auto, seller: nobody, buyer: extend, done: extended });
}

#[test]
fn a_longer_term_after_a_review() {
    explore(&Path { approve: Approve::Ask, seller: accept, buyer: extend, done: extended });
}

#[test]
fn a_longer_term_at_the_last_moment() {
    explore(&Path { approve: Approve::Auto, seller: nobody, buyer: extend_late, done: bought });
}

#[test]
fn a_larger_quantity() {
    explore(&Path { approve: Approve::Auto, seller: nobody, buyer: grow, done: grown });
}

#[test]
fn a_smaller_quantity() {
    explore(&Path { approve: Approve::Auto, seller: nobody, buyer: shrink, done: shrunk });
}

#[test]
fn a_reclaim_with_too_little_notice() {
    let (seller, buyer, done) = (reclaim, order, settled_with_credit);
    explore(&Path { approve: Approve::Auto, seller, buyer, done });
}

#[test]
fn an_end_before_the_term() {
    let (seller, buyer, done) = (nobody, order_and_end, settled_in_full);
    explore(&Path { approve: Approve::Auto, seller, buyer, done });
}

#[test]
fn an_end_by_the_provider() {
    let (seller, buyer, done) = (end_sold, order, settled_with_credit);
    explore(&Path { approve: Approve::Auto, seller, buyer, done });
}
