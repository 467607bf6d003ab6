//! A seller that has less than its advertisement still says.

use mercato_broker::{Approve, Command, Demand, Refusal, Reply, Stage};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::TerminateReason;

use crate::world::{BUYER, SELLER, SOLD_MILLIS, World, demand};

fn order(world: &mut World, demand: Demand) -> Result<NegotiationId, Refusal> {
    match world.command(BUYER, Command::Order { demand, note: String::new(), id: None })? {
        Reply::Ordered { id, .. } => Ok(id),
        other => panic!("{other:?}"),
    }
}

fn is_sold_out(world: &World, id: &NegotiationId) -> bool {
    let deal = world.nodes[BUYER].broker.deal(id).unwrap();
    let Stage::Terminated { reason, .. } = deal.stage() else { return false };
    *reason == TerminateReason::NoCapacity
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
    for (node, most) in [(BUYER, 1_025), (SELLER, 64)] {
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
