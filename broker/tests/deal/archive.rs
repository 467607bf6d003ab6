//! What is over takes no room, is kept for its statement, and is forgotten at last; what grows
//! with a lease lies in records of its own.

use mercato_broker::{Approve, Command, Record, RecordKey, Reply, Side, limits};
use mercato_protocol::id::{ContractId, Digest, FederationId, NegotiationId};
use mercato_protocol::negotiation::{Body, DisputeReason, Message, State};

use crate::world::{BUYER, SELLER, World, demand, resources};

const DAY_MS: u64 = 86_400_000;

/// A lease that both have signed and the buyer has ended.
fn over(world: &mut World) -> NegotiationId {
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.settle();
    world.advance(30_000);
    world.settle();
    world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
    world.settle();
    id
}

/// Copies of a closed lease under other ids, as if they had come before it, a minute apart.
fn multiply(world: &mut World, of: NegotiationId, count: u64) {
    for node in [SELLER, BUYER] {
        copy(world, node, of, count);
    }
    world.crash(SELLER);
    world.crash(BUYER);
}

fn copy(world: &mut World, node: usize, of: NegotiationId, count: u64) {
    let Record::Deal(deal) = &world.nodes[node].records[&RecordKey::Deal(of)] else { panic!() };
    let deal = serde_json::to_value(deal).unwrap();
    for n in 0..count {
        let mut copy = deal.clone();
        let id = NegotiationId(u128::from(n).to_be_bytes());
        copy["talk"]["id"] = serde_json::to_value(id).unwrap();
        let at_ms = copy["stage"]["closed"]["atMs"].as_u64().unwrap() - (count - n) * 60_000;
        copy["stage"]["closed"]["atMs"] = at_ms.into();
        let copy = Record::Deal(Box::new(serde_json::from_value(copy).unwrap()));
        world.nodes[node].records.insert(copy.key(), copy);
    }
}

fn is_kept(world: &World, node: usize, id: NegotiationId) -> bool {
    let kept = world.nodes[node].records.contains_key(&RecordKey::Deal(id));
    assert_eq!(world.nodes[node].broker.deal(&id).is_some(), kept);
    kept
}

#[test]
fn closed_leases_take_no_room_for_new_ones() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let first = over(&mut world);
    multiply(&mut world, first, limits::DEALS as u64 + 1);
    let more = over(&mut world);
    for node in [SELLER, BUYER] {
        let broker = &world.nodes[node].broker;
        assert_eq!(broker.deal(&more).unwrap().state(), State::Closed);
        assert!(broker.statement(&more.into()).unwrap().unwrap().total.is_some());
        // All but the latest are archived, and all have their statements.
        assert_eq!(broker.current_deals().count(), limits::CLOSED);
        assert_eq!(broker.deals().count(), limits::DEALS + 3);
        let ids: Vec<NegotiationId> = broker.deals().map(|deal| deal.id()).collect();
        assert!(
            ids.iter().all(|id| broker
                .statement(&ContractId::from(*id))
                .unwrap()
                .unwrap()
                .total
                .is_some())
        );
        let archived = NegotiationId(0u128.to_be_bytes());
        assert!(broker.current_deals().all(|deal| deal.id() != archived));
    }
}

#[test]
fn a_closed_lease_is_archived_after_a_week_and_forgotten_after_its_time() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let id = over(&mut world);
    let current = |world: &World, node: usize| {
        world.nodes[node].broker.current_deals().any(|deal| deal.id() == id)
    };
    world.advance(6 * DAY_MS);
    assert!(current(&world, SELLER) && current(&world, BUYER));
    world.advance(DAY_MS);
    for node in [SELLER, BUYER] {
        assert!(!current(&world, node) && is_kept(&world, node, id));
        let invoice = world.nodes[node]
            .broker
            .deal(&id)
            .unwrap()
            .lease()
            .unwrap()
            .settlement()
            .invoice()
            .cloned();
        assert!(invoice.unwrap().consumer.is_some(), "what both signed is kept");
        // A restart finds it where it was.
        world.crash(node);
        assert!(!current(&world, node) && is_kept(&world, node, id));
    }
    world.advance(83 * DAY_MS - 1_000_000);
    assert!(is_kept(&world, SELLER, id) && is_kept(&world, BUYER, id));
    world.advance(2_000_000);
    for node in [SELLER, BUYER] {
        assert!(!is_kept(&world, node, id));
        let left = world.nodes[node].records.keys();
        assert!(left.into_iter().all(|key| !matches!(key, RecordKey::Deal(_))));
    }
}

/// Changes, forth and back, of a running lease.
fn change(
    world: &mut World,
    contract: NegotiationId,
    n: u64,
) -> Result<Reply, mercato_broker::Refusal> {
    let (quantity, term_s) = match n % 2 {
        0 => (None, Some(3_600 + n * 600)),
        _ => (Some(resources(1_000 + 1_000 * (n % 3))), None),
    };
    let done = world.command(BUYER, Command::Amend { contract: contract.into(), quantity, term_s });
    world.settle();
    done
}

#[test]
fn what_grows_with_a_lease_lies_in_records_of_its_own() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.settle();
    let size = |world: &World, node: usize| {
        serde_json::to_vec(&world.nodes[node].records[&RecordKey::Deal(id)]).unwrap().len()
    };
    let mut sizes = Vec::new();
    for n in 1..=limits::CHANGES as u64 {
        change(&mut world, id, n).unwrap();
        world.advance(31_000);
        world.settle();
        assert_eq!(world.nodes[SELLER].broker.deal(&id).unwrap().state(), State::Active, "{n}");
        sizes.push([size(&world, SELLER), size(&world, BUYER)]);
    }
    for node in [SELLER, BUYER] {
        let of = sizes.iter().map(|sizes| sizes[node]);
        let (least, most) = (of.clone().skip(2).min().unwrap(), of.max().unwrap());
        assert!(most < least + 1_000, "the deal grows: {least} to {most}");
        let earlier = |key: &&RecordKey| matches!(key, RecordKey::Earlier(of, _) if *of == id);
        assert_eq!(world.nodes[node].records.keys().filter(earlier).count(), limits::CHANGES);
        // All is there after a restart: both go on to agree on what was used.
        let before = world.nodes[node].broker.deal(&id).unwrap().clone();
        world.crash(node);
        assert_eq!(*world.nodes[node].broker.deal(&id).unwrap(), before);
    }
    let refused = change(&mut world, id, 1_000).unwrap_err().to_string();
    assert!(refused.contains("at most 128 times"), "{refused}");
    world.heal(60_000);
    for node in [SELLER, BUYER] {
        let deal = world.nodes[node].broker.deal(&id).unwrap();
        assert_eq!(
            (deal.state(), deal.lease().unwrap().settlement().disputes().len()),
            (State::Active, 0)
        );
    }
    world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
    world.settle();
    world.advance(7 * DAY_MS);
    world.advance(84 * DAY_MS);
    for node in [SELLER, BUYER] {
        assert!(!is_kept(&world, node, id));
        let records = world.nodes[node].records.keys();
        let of_lease = |key: &&RecordKey| {
            matches!(key, RecordKey::Deal(_) | RecordKey::Earlier(..) | RecordKey::Dispute(..))
        };
        assert_eq!(records.filter(of_lease).count(), 0, "nothing of it is left");
    }
}

/// The longest that a partner may say, more often than it is remembered.
#[test]
fn disputes_lie_in_records_of_their_own() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.settle();
    let first = world.nodes[BUYER].broker.deal(&id).unwrap().next_seq();
    let size = |world: &World| {
        serde_json::to_vec(&world.nodes[SELLER].records[&RecordKey::Deal(id)]).unwrap().len()
    };
    let before = size(&world);
    for n in 0..limits::DISPUTES as u32 + 4 {
        let message = Message {
            negotiation: id,
            from: world.cluster(BUYER),
            to: world.cluster(SELLER),
            seq: first + n,
            previous: Some(Digest([7; 32])),
            body: Body::Dispute {
                about: Digest([n as u8; 32]),
                reason: DisputeReason::Usage,
                text: "x".repeat(1_024),
            },
        };
        let message = world.nodes[BUYER].config.key.sign(FederationId::lan(), &message).unwrap();
        world.wire.push((SELLER, message));
        world.deliver(0);
    }
    assert!(size(&world) < before + 100, "the deal has grown from {before} to {}", size(&world));
    world.crash(SELLER);
    let disputes =
        world.nodes[SELLER].broker.deal(&id).unwrap().lease().unwrap().settlement().disputes();
    assert_eq!(disputes.len(), limits::DISPUTES);
    assert!(disputes.iter().all(|dispute| dispute.text.len() == limits::TEXT_BYTES));
    let kept = world.nodes[SELLER].records.keys();
    let kept = kept.filter(|key| matches!(key, RecordKey::Dispute(of, _) if *of == id));
    assert_eq!(kept.count(), limits::DISPUTES);
}

/// As an earlier release kept them: earlier contracts in the deal.
#[test]
fn what_an_earlier_release_kept_in_the_deal_is_taken_over() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.settle();
    for n in 1..=3 {
        change(&mut world, id, n).unwrap();
        world.advance(31_000);
        world.settle();
    }
    let records = &mut world.nodes[SELLER].records;
    let mut inside = Vec::new();
    for n in 0..3 {
        let Some(Record::Earlier(_, _, one)) = records.remove(&RecordKey::Earlier(id, n)) else {
            panic!()
        };
        inside.push(serde_json::to_value(one).unwrap());
    }
    let mut deal = serde_json::to_value(&records[&RecordKey::Deal(id)]).unwrap();
    deal["Deal"]["earlier"] = inside.into();
    let deal: Record = serde_json::from_value(deal).unwrap();
    records.insert(deal.key(), deal);
    let before = world.nodes[SELLER].broker.deal(&id).unwrap().clone();
    world.crash(SELLER);
    assert_eq!(*world.nodes[SELLER].broker.deal(&id).unwrap(), before);
    let records = &world.nodes[SELLER].records;
    assert!((0..3).all(|n| records.contains_key(&RecordKey::Earlier(id, n))));
    world.heal(60_000);
    let deal = world.nodes[SELLER].broker.deal(&id).unwrap();
    assert_eq!((deal.side(), deal.state()), (Side::Provider, State::Active));
}
