//! Who gives way where what is over has a bound: nobody pushes out what others left, nor what is
//! yet to be answered.

use mercato_broker::{
    Approve, Command, EndReason, Record, RecordKey, Refusal, Reply, Standing, limits,
};
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::{State, TerminateReason};

use crate::world::{BUYER, SELLER, World, demand};

const DAY_MS: u64 = 86_400_000;

fn order(world: &mut World) -> NegotiationId {
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    id
}

fn cancel(world: &mut World, node: usize, deal: NegotiationId) -> Result<Reply, Refusal> {
    world.command(node, Command::Cancel { deal, text: String::new() })
}

/// A lease that was used, of which the buyer knows all.
fn closed(world: &mut World) -> NegotiationId {
    let id = order(world);
    world.settle();
    world.advance(30_000);
    world.settle();
    cancel(world, BUYER, id).unwrap();
    world.settle();
    id
}

/// A lease that was used, and that the seller ended; the buyer does not hear of it.
fn unanswered(world: &mut World) -> NegotiationId {
    let id = order(world);
    world.settle();
    cancel(world, SELLER, id).unwrap();
    world.report_local(SELLER);
    world.wire.clear();
    id
}

/// A lease that the buyer cancels before it was ready.
fn never_ready(world: &mut World) -> NegotiationId {
    let id = order(world);
    while !world.wire.is_empty() {
        world.deliver(0);
    }
    assert_eq!(world.nodes[SELLER].broker.deal(&id).unwrap().state(), State::Pending);
    cancel(world, BUYER, id).unwrap();
    world.settle();
    id
}

/// Copies of what the seller has on disk of a deal, under these ids and with this cluster, as if
/// each had ended half a minute before the next.
fn copy(world: &mut World, of: NegotiationId, ids: std::ops::Range<u64>, peer: Option<ClusterId>) {
    let records = &mut world.nodes[SELLER].records;
    let mut deal = serde_json::to_value(&records[&RecordKey::Deal(of)]).unwrap();
    let deal = &mut deal["Deal"];
    if let Some(peer) = peer {
        deal["talk"]["peer"] = serde_json::to_value(peer).unwrap();
    }
    let last_ms = deal["stage"]["closed"]["atMs"].as_u64().unwrap();
    let before = |n: u64| last_ms - (ids.end - n) * 30_000;
    for n in ids.clone() {
        deal["talk"]["id"] = serde_json::to_value(id(n)).unwrap();
        deal["stage"]["closed"]["atMs"] = before(n).into();
        let copy = Record::Deal(Box::new(serde_json::from_value(deal.clone()).unwrap()));
        records.insert(copy.key(), copy);
    }
}

fn id(n: u64) -> NegotiationId {
    NegotiationId(u128::from(n).to_be_bytes())
}

/// How many of these the seller has, in memory as on disk.
fn kept(world: &World, ids: std::ops::Range<u64>) -> usize {
    let seller = &world.nodes[SELLER];
    let is_kept = |n: &u64| {
        let kept = seller.records.contains_key(&RecordKey::Deal(id(*n)));
        assert_eq!(seller.broker.deal(&id(*n)).is_some(), kept, "{n}");
        kept
    };
    ids.filter(is_kept).count()
}

#[test]
fn whoever_has_the_most_gives_way_first() {
    let mut world = World::acquainted(Approve::Auto, 0);
    world.command(SELLER, Command::Peer(world.cluster(BUYER), Standing::Trusted)).unwrap();
    let one = closed(&mut world);
    let (all, other) = (limits::ARCHIVED + limits::CLOSED, ClusterId([7; 32]));
    world.command(SELLER, Command::Peer(other, Standing::Trusted)).unwrap();
    // The other's are the oldest of all.
    let (theirs, many) = (0..20, 20..all as u64 + 20);
    copy(&mut world, one, many.clone(), None);
    copy(&mut world, id(many.start), theirs.clone(), Some(other));
    // The bounds hold from the start on, whatever the disk has.
    world.crash(SELLER);
    let seller = &world.nodes[SELLER];
    assert_eq!(seller.broker.deals().count(), all);
    assert_eq!(seller.broker.current_deals().count(), limits::CLOSED);
    assert_eq!(kept(&world, theirs.clone()), 20);
    let whole = seller.broker.current_deals().filter(|deal| deal.peer() == other);
    assert_eq!(whole.count(), 20);
    assert_eq!(kept(&world, many.clone()), all - 21);
    closed(&mut world);
    assert_eq!(kept(&world, theirs), 20);
    assert_eq!(kept(&world, many), all - 22);
    assert!(world.nodes[SELLER].broker.deal(&id(41)).is_none(), "the oldest");
}

#[test]
fn what_waits_for_an_answer_is_not_archived() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let all = limits::CLOSED as u64 + 10;
    // The buyer knows nothing of it, and answers nothing.
    let (first, waits) = (unanswered(&mut world), id(all));
    copy(&mut world, first, all..all + 1, None);
    world.advance(2 * DAY_MS);
    world.wire.clear();
    world.show_ad();
    let one = closed(&mut world);
    copy(&mut world, one, 0..all, None);
    world.crash(SELLER);
    let is_whole = |world: &World| {
        let mut whole = world.nodes[SELLER].broker.current_deals();
        whole.any(|deal| deal.id() == waits)
    };
    assert!(is_whole(&world) && world.nodes[SELLER].broker.deal(&waits).unwrap().needs_peer());
    assert_eq!(world.nodes[SELLER].broker.current_deals().count(), limits::CLOSED + 1);
    // Not for ever.
    world.advance(5 * DAY_MS + 1_000);
    world.advance(1_000);
    assert!(!is_whole(&world) && world.nodes[SELLER].broker.deal(&waits).is_some());
}

#[test]
fn a_lease_that_was_never_ready_counts_as_ended() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let one = closed(&mut world);
    let never: Vec<_> = (0..limits::ENDED_OF_STRANGERS + 6)
        .map(|_| {
            world.advance(1);
            never_ready(&mut world)
        })
        .collect();
    let is_kept = |world: &World, node: usize, id| world.nodes[node].broker.deal(&id).is_some();
    let count = |world: &World, node| never.iter().filter(|id| is_kept(world, node, **id)).count();
    // To the seller the buyer is a stranger.
    assert_eq!(count(&world, SELLER), limits::ENDED_OF_STRANGERS);
    assert!(!is_kept(&world, SELLER, never[5]) && is_kept(&world, SELLER, never[6]));
    assert_eq!(count(&world, BUYER), never.len(), "it tells what to think of the provider");
    world.advance(7 * DAY_MS);
    world.advance(DAY_MS);
    assert_eq!(count(&world, SELLER), 0, "there is no statement to keep it for");
    assert!([SELLER, BUYER].iter().all(|node| is_kept(&world, *node, one)));
}

#[test]
fn who_leaves_leases_unanswered_gets_no_more_of_them() {
    for (standing, most) in [
        (Standing::Trusted, limits::UNANSWERED_PER_ORGANISATION),
        (Standing::Stranger, limits::UNANSWERED_OF_STRANGERS),
    ] {
        let mut world = World::acquainted(Approve::Auto, 0);
        world.command(SELLER, Command::Peer(world.cluster(BUYER), standing)).unwrap();
        let waits = unanswered(&mut world);
        copy(&mut world, waits, 0..most as u64 - 1, None);
        world.crash(SELLER);
        world.wire.clear();
        let unanswered = |world: &World| {
            let deals = world.nodes[SELLER].broker.current_deals();
            deals.filter(|deal| deal.end().is_some() && deal.needs_peer()).count()
        };
        assert_eq!(unanswered(&world), most);
        let more = order(&mut world);
        world.settle();
        let ended = world.nodes[BUYER].broker.deal(&more).unwrap().end();
        let reason = ended.map(|end| end.reason);
        if standing == Standing::Trusted {
            assert_eq!(reason, Some(EndReason::Terminated(TerminateReason::TooMany)));
            continue;
        }
        // Strangers cost nothing: theirs gives way instead, the oldest first.
        assert_eq!(reason, None);
        cancel(&mut world, SELLER, more).unwrap();
        world.report_local(SELLER);
        assert_eq!(unanswered(&world), most);
        let seller = &world.nodes[SELLER].broker;
        assert!(seller.current_deals().all(|deal| deal.id() != id(0)));
        assert!(seller.deal(&id(0)).is_some(), "its statement is kept");
    }
}
