//! What is lost because the other side was down is said again as soon as it is back.

use mercato_broker::{Approve, Broker, Command, Deal, Input, limits};
use mercato_protocol::negotiation::State;

use crate::world::{BUYER, SELLER, World, demand, inventory};

fn deal(world: &World, node: usize) -> Option<&Deal> {
    world.nodes[node].broker.deals().next()
}

fn order(world: &mut World) {
    let order = Command::Order { demand: demand(2_000), note: String::new(), id: None };
    world.command(BUYER, order).unwrap();
}

fn cancel(world: &mut World) {
    let id = deal(world, BUYER).unwrap().id();
    world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
}

/// The other side has connected anew.
fn connected(world: &mut World, node: usize) {
    let peer = world.cluster(1 - node);
    world.input(node, Input::Connected(peer));
}

#[test]
fn an_order_that_is_cancelled_while_the_seller_is_down_ends_when_it_is_back() {
    let mut world = World::acquainted(Approve::Ask, 0);
    order(&mut world);
    world.deliver(0);
    assert_eq!(deal(&world, SELLER).unwrap().state(), State::Review);
    // The seller dies with its answer unsent, and the buyer after its word.
    world.wire.clear();
    cancel(&mut world);
    world.wire.clear();
    world.crash(BUYER);
    world.wire.clear();
    connected(&mut world, BUYER);
    assert!(!world.wire.is_empty(), "it is said again, at once");
    world.settle();
    assert_eq!(deal(&world, SELLER).unwrap().state(), State::Terminated);
    assert!(!deal(&world, BUYER).unwrap().needs_peer(), "and has been heard");
}

#[test]
fn a_seller_that_never_heard_of_it_says_so() {
    let mut world = World::acquainted(Approve::Ask, 0);
    order(&mut world);
    cancel(&mut world);
    // The order itself is lost.
    world.wire.remove(0);
    assert!(deal(&world, BUYER).unwrap().needs_peer());
    world.settle();
    assert!(deal(&world, SELLER).is_none() && !deal(&world, BUYER).unwrap().needs_peer());
}

#[test]
fn an_order_that_comes_after_it_was_taken_back_is_not_asked_about() {
    let mut world = World::acquainted(Approve::Ask, 0);
    order(&mut world);
    cancel(&mut world);
    // Each word goes its own way: the later one is heard, and answered, first.
    world.deliver(1);
    assert!(deal(&world, SELLER).is_none());
    world.deliver(0);
    assert!(deal(&world, SELLER).is_none(), "the seller's owner is not asked");
    world.settle();
    assert!(deal(&world, SELLER).is_none() && !deal(&world, BUYER).unwrap().needs_peer());
}

#[test]
fn what_was_accepted_is_said_at_the_connection_and_not_a_minute_later() {
    let mut world = World::acquainted(Approve::Ask, 0);
    order(&mut world);
    world.settle();
    let id = deal(&world, SELLER).unwrap().id();
    world.command(SELLER, Command::Accept(id)).unwrap();
    // It was said in vain again and again: the next time would be seconds away.
    for _ in 0..10 {
        world.advance(1_000);
        world.wire.clear();
    }
    connected(&mut world, SELLER);
    assert_eq!(world.wire.len(), 1);
    world.settle();
    assert_eq!(deal(&world, BUYER).unwrap().state(), State::Active);
}

#[test]
fn what_is_ordered_before_the_seller_knows_its_cluster_is_answered_as_soon_as_it_does() {
    let mut world = World::acquainted(Approve::Auto, 0);
    order(&mut world);
    // The seller has just started.
    let seller = &mut world.nodes[SELLER];
    let records = seller.records.values().cloned();
    seller.broker = Broker::restore(seller.config.clone(), 7, records);
    world.settle();
    assert!(deal(&world, SELLER).is_none());
    world.advance(limits::RESEND_MS - 1);
    assert!(world.wire.is_empty(), "the buyer would say it again later");
    world.input(SELLER, Input::Inventory(inventory()));
    world.settle();
    assert_eq!(deal(&world, BUYER).unwrap().state(), State::Active);
}

#[test]
fn who_never_answered_is_told_that_the_order_is_over() {
    let mut world = World::acquainted(Approve::Ask, 0);
    order(&mut world);
    world.deliver(0);
    // The answer is lost, and the time for it passes without a connection.
    for _ in 0..=limits::REQUEST_MS / 1_000 {
        world.wire.clear();
        world.advance(1_000);
    }
    world.wire.clear();
    assert_eq!(deal(&world, BUYER).unwrap().state(), State::Terminated);
    assert_eq!(deal(&world, SELLER).unwrap().state(), State::Review);
    connected(&mut world, BUYER);
    world.settle();
    assert_eq!(deal(&world, SELLER).unwrap().state(), State::Terminated);
    assert!(!deal(&world, BUYER).unwrap().needs_peer());
}
