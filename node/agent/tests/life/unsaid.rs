//! What a peer has not taken is said again when it is back: once, and at once.

use mercato_agent::Input;
use mercato_broker::Command;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::negotiation::{Message, State};

use crate::story::{BUYER, SELLER, leased};
use crate::world::World;

/// The last word of a node's, and whether it was to be said once.
fn last(world: &World, node: usize) -> (Signed<Message>, bool) {
    let (_, message, once) = world.said.iter().rfind(|(by, ..)| *by == node).unwrap();
    (message.clone(), *once)
}

fn times(world: &World, message: &Signed<Message>) -> usize {
    world.said.iter().filter(|(_, said, _)| said == message).count()
}

fn reconnect(world: &mut World) {
    steps_until(world, World::is_linked);
    world.pass(20);
}

/// Steps until that is so, for an hour of its time at most.
fn steps_until(world: &mut World, is_so: impl Fn(&World) -> bool) {
    let until_ms = world.now_ms + 3_600_000;
    while !is_so(world) {
        assert!(world.now_ms < until_ms, "it is not so within an hour");
        world.step();
    }
}

#[test]
fn an_answer_that_was_not_taken_is_said_when_the_peer_is_back() {
    for late in [false, true] {
        let (mut world, _) = leased();
        let (message, once) = last(&world, SELLER);
        assert!(once, "that the lease runs is an answer");
        let said = times(&world, &message);
        let unsaid = Input::Unsaid { peer: world.key(BUYER), message: message.clone() };
        world.part();
        if !late {
            world.tell(SELLER, unsaid.clone());
        }
        reconnect(&mut world);
        if late {
            world.tell(SELLER, unsaid);
            world.pass(5);
        }
        assert_eq!(times(&world, &message), said + 1);
        world.part();
        reconnect(&mut world);
        assert_eq!(times(&world, &message), said + 1, "it was said");
    }
}

#[test]
fn what_wants_an_answer_is_said_at_the_connection_by_itself() {
    let (mut world, id) = leased();
    world.command(BUYER, Command::Cancel { deal: id.into(), text: String::new() });
    let is_closed = |world: &World| {
        let deal = world.nodes[BUYER].agent.broker().deal(&id.into());
        deal.is_some_and(|deal| deal.state() == State::Closed)
    };
    steps_until(&mut world, is_closed);
    let (message, once) = last(&world, BUYER);
    assert!(!once, "it is said until it is answered");
    // It is under way as the connection breaks.
    world.part();
    assert_eq!(times(&world, &message), 1);
    reconnect(&mut world);
    assert_eq!(times(&world, &message), 2);
    world.pass(10_000);
    assert_eq!(times(&world, &message), 2, "it was answered");
}

#[test]
fn words_for_strangers_leave_before_a_partners() {
    let (mut world, _) = leased();
    let (message, _) = last(&world, SELLER);
    let said = times(&world, &message);
    world.part();
    world.tell(SELLER, Input::Unsaid { peer: world.key(BUYER), message: message.clone() });
    for number in 0..2 * mercato_agent::limits::UNSAID {
        let mut seed = [0xee; 32];
        seed[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let peer = KeyPair::from_seed(&seed).public();
        world.tell(SELLER, Input::Unsaid { peer, message: message.clone() });
    }
    reconnect(&mut world);
    assert_eq!(times(&world, &message), said + 1);
}
