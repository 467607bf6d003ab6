//! A seller that has less than its advertisement still says, and sizes that nobody can use.

use mercato_broker::syntax::{FromText as _, PriceChange};
use mercato_broker::{Approve, Command, Demand, EndReason, Refusal, Reply, limits};
use mercato_protocol::envelope::{Signers, Trust};
use mercato_protocol::id::{Digest, FederationId, NegotiationId};
use mercato_protocol::negotiation::{Body, Message, State, TerminateReason};
use mercato_protocol::resources::Resources;

use crate::world::{BUYER, SELLER, SOLD_MILLIS, World, demand, resources};

fn order(world: &mut World, demand: Demand) -> Result<NegotiationId, Refusal> {
    match world.command(BUYER, Command::Order { demand, note: String::new(), id: None })? {
        Reply::Ordered { id, .. } => Ok(id),
        other => panic!("{other:?}"),
    }
}

fn is_sold_out(world: &World, id: &NegotiationId) -> bool {
    let deal = world.nodes[BUYER].broker.deal(id).unwrap();
    let Some(EndReason::Terminated(reason)) = deal.end().map(|end| end.reason) else {
        return false;
    };
    reason == TerminateReason::NoCapacity
}

#[test]
fn who_has_just_refused_as_much_is_not_asked_again_before_its_next_word() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let all = demand(SOLD_MILLIS);
    let first = order(&mut world, all.clone()).unwrap();
    let second = order(&mut world, all.clone()).unwrap();
    world.settle();
    assert!(!is_sold_out(&world, &first) && is_sold_out(&world, &second));

    let again = order(&mut world, all.clone());
    assert!(matches!(again, Err(Refusal::NoMatch { .. })), "{again:?}");
    let market = world.nodes[BUYER].broker.browse(world.now(BUYER), &all, true);
    assert_eq!(market.excluded[0].by, "has not just refused as much");
    // Less than that it may have; and its owner may ask for it by name.
    order(&mut world, demand(SOLD_MILLIS / 2)).unwrap();
    let named = Demand { from: Some(world.cluster(SELLER)), ..all.clone() };
    order(&mut world, named).unwrap();
    world.settle();

    world.command(BUYER, Command::Cancel { deal: first, text: String::new() }).unwrap();
    // It renews its word, whether that has changed or not.
    world.heal(300_000);
    world.show_ad();
    order(&mut world, all).unwrap();
}

#[test]
fn what_came_to_nothing_leaves_room_for_more() {
    const MANY: usize = 1_100;
    let mut world = World::acquainted(Approve::Auto, 0);
    let holder = order(&mut world, demand(SOLD_MILLIS)).unwrap();
    world.settle();
    let named = Demand { from: Some(world.cluster(SELLER)), ..demand(1_000) };
    let mut refused = Vec::new();
    for _ in 0..MANY {
        refused.push(order(&mut world, named.clone()).unwrap());
        world.settle();
        world.advance(1);
    }
    // To the seller the buyer is a stranger.
    for (node, most) in [(BUYER, limits::ENDED), (SELLER, limits::ENDED_OF_STRANGERS)] {
        let broker = &world.nodes[node].broker;
        let kept = refused.iter().filter(|id| broker.deal(id).is_some()).count();
        assert_eq!(kept, most);
        assert!(broker.deal(&refused[MANY - 1]).is_some() && broker.deal(&refused[0]).is_none());
        assert!(broker.deal(&holder).is_some(), "a contract stays");
        assert_eq!(world.nodes[node].records.len(), broker.deals().count() + extra(&world, node));
    }
}

/// Records that are no deals.
fn extra(world: &World, node: usize) -> usize {
    let records = world.nodes[node].records.values();
    records.filter(|record| !matches!(record, mercato_broker::Record::Deal(_))).count()
}

/// The buyer's last message with another content, as a daemon without checks would say it.
fn forge(world: &mut World, change: impl FnOnce(&mut Message)) {
    let (to, signed) = world.wire.pop().unwrap();
    let buyer = &world.nodes[BUYER].config;
    let known = [(buyer.key.public(), buyer.cluster())].into();
    let federation = FederationId::lan();
    let trust = Trust { federation, signers: Signers::Known(&known) };
    let mut message = signed.open(trust, world.now(SELLER)).unwrap().into_value();
    change(&mut message);
    world.wire.push((to, buyer.key.sign(federation, &message).unwrap()));
}

fn sizes() -> [Resources; 3] {
    let too_much = Resources { memory_bytes: u64::MAX, ..resources(1_000) };
    [resources(0), Resources { pods: 0, ..resources(1_000) }, too_much]
}

#[test]
fn a_size_that_pods_cannot_use_is_not_asked_for() {
    let mut world = World::acquainted(Approve::Ask, 0);
    for quantity in sizes() {
        let demand = Demand { quantity: quantity.clone(), ..demand(1_000) };
        for refused in [
            order(&mut world, demand.clone()).map(drop),
            world.command(BUYER, Command::Rfq { demand, note: String::new() }).map(drop),
        ] {
            assert!(matches!(refused, Err(Refusal::Invalid(_))), "{quantity:?}: {refused:?}");
        }
    }
    let request = order(&mut world, demand(1_000)).unwrap();
    world.settle();
    for quantity in sizes() {
        let (price, quantity) = (None, Some(quantity));
        let counter = Command::Counter { request, price, quantity, hold_s: None };
        let refused = world.command(SELLER, counter);
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    }
    world.command(SELLER, Command::Accept(request)).unwrap();
    world.settle();
    for quantity in sizes() {
        let quantity = Some(quantity);
        let amend = Command::Amend { contract: request.into(), quantity, term_s: None };
        let refused = world.command(BUYER, amend);
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
        assert_eq!(world.nodes[BUYER].broker.deal(&request).unwrap().amendment(), None);
    }
    // Of who offers no storage none is asked for: a release before could not read that.
    let quantity = Some(Resources { storage_bytes: 1 << 30, ..demand(1_000).quantity });
    let amend = Command::Amend { contract: request.into(), quantity, term_s: None };
    let Err(Refusal::Invalid(why)) = world.command(BUYER, amend) else { panic!("it was asked") };
    assert!(why.contains("offers no storage"), "{why}");
}

#[test]
fn a_size_that_pods_cannot_use_is_refused_by_whoever_receives_it() {
    for quantity in sizes() {
        let mut world = World::acquainted(Approve::Auto, 0);
        let id = order(&mut world, demand(1_000)).unwrap();
        let asked = quantity.clone();
        forge(&mut world, |message| {
            let Body::Request(request) = &mut message.body else { panic!("no request") };
            request.terms.quantity = asked;
        });
        world.deliver(0);
        let deal = world.nodes[SELLER].broker.deal(&id).unwrap();
        let reason = deal.end().map(|end| end.reason);
        assert_eq!(reason, Some(EndReason::Terminated(TerminateReason::TermsRefused)));

        let mut world = World::acquainted(Approve::Auto, 0);
        let contract = order(&mut world, demand(1_000)).unwrap();
        world.settle();
        let larger = Some(resources(2_000));
        let amend = Command::Amend { contract: contract.into(), quantity: larger, term_s: None };
        world.command(BUYER, amend).unwrap();
        forge(&mut world, |message| {
            let Body::Amend { terms, .. } = &mut message.body else { panic!("no change") };
            terms.quantity = quantity;
        });
        world.deliver(0);
        let deal = world.nodes[SELLER].broker.deal(&contract).unwrap();
        let refused = deal.amendment().and_then(|change| change.refused());
        assert_eq!(refused.map(|(reason, _)| reason), Some(TerminateReason::TermsRefused));
        assert_eq!(deal.terms().quantity.cpu_millis, 1_000);
    }
}

#[test]
fn a_counter_offer_waits_for_as_long_as_its_owner_says() {
    let price = || Some(PriceChange::from_text("cpu=0.03 EUR/h").unwrap());
    for (hold_s, held_ms) in
        [(None, 4 * 3_600_000), (Some(600), 600_000), (Some(90_000), 86_400_000)]
    {
        let mut world = World::acquainted(Approve::Ask, 0);
        let request = order(&mut world, demand(SOLD_MILLIS)).unwrap();
        world.settle();
        let counter = Command::Counter { request, price: price(), quantity: None, hold_s };
        world.command(SELLER, counter).unwrap();
        world.settle();
        let state =
            |world: &World, node: usize| world.nodes[node].broker.deal(&request).unwrap().state();
        world.advance(held_ms - 1_000);
        world.settle();
        assert_eq!([SELLER, BUYER].map(|node| state(&world, node)), [State::Offered; 2]);
        let (_, rows) = world.nodes[SELLER].broker.offer().unwrap();
        assert_eq!(rows[0].free.cpu_millis, 0, "it is held");
        if hold_s.is_some() {
            world.advance(60_000);
            world.settle();
            assert_eq!([SELLER, BUYER].map(|node| state(&world, node)), [State::Terminated; 2]);
            continue;
        }
        // Taken at the last moment, it runs for the whole of its term.
        world.command(BUYER, Command::Take(request)).unwrap();
        world.settle();
        assert_eq!([SELLER, BUYER].map(|node| state(&world, node)), [State::Active; 2]);
        let deal = world.nodes[BUYER].broker.deal(&request).unwrap();
        let left_ms = deal.ends_ms().unwrap() - world.now(BUYER).wall_ms;
        assert_eq!(left_ms, 3_600_000);
    }
    let mut world = World::acquainted(Approve::Ask, 0);
    let request = order(&mut world, demand(1_000)).unwrap();
    world.settle();
    let counter = Command::Counter { request, price: price(), quantity: None, hold_s: Some(5) };
    let refused = world.command(SELLER, counter);
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
}

/// An automatic offer is held for half a minute. A buyer that takes it in the last second asks for
/// another signature, and gets no other half minute.
#[test]
fn an_offer_that_is_taken_is_held_no_longer() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let rfq = Command::Rfq { demand: demand(SOLD_MILLIS), note: String::new() };
    world.command(BUYER, rfq).unwrap();
    world.deliver(0);
    let id = world.nodes[SELLER].broker.deals().next().unwrap().id();
    let commit_by_ms = |world: &World| {
        let deal = world.nodes[SELLER].broker.deal(&id).unwrap();
        deal.agreement().map(|agreement| agreement.contract.commit_by_ms)
    };
    let held_ms = commit_by_ms(&world);
    assert_eq!(held_ms, Some(world.now(SELLER).wall_ms + limits::COMMIT_MS));
    world.wire.clear();
    world.advance(limits::COMMIT_MS - 1_000);
    world.wire.clear();
    let body = Body::Take;
    let (from, to) = (world.cluster(BUYER), world.cluster(SELLER));
    let message =
        Message { negotiation: id, from, to, seq: 7, previous: Some(Digest([7; 32])), body };
    let take = world.nodes[BUYER].config.key.sign(FederationId::lan(), &message).unwrap();
    world.wire.push((SELLER, take));
    world.deliver(0);
    let state = |world: &World| world.nodes[SELLER].broker.deal(&id).unwrap().state();
    assert_eq!((state(&world), commit_by_ms(&world)), (State::Agreed, held_ms));
    world.wire.clear();
    world.advance(1_000);
    assert_eq!(state(&world), State::Terminated);
}
