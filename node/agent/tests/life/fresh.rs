//! How soon an offer that has changed is at a neighbour's, while pods of the provider's own come and
//! go all the time.

use mercato_agent::{BrokerInput, Input};
use mercato_broker::{Command, SharePolicy};
use mercato_protocol::ad::Ad;
use mercato_protocol::id::ContractId;
use mercato_protocol::negotiation::State;
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::Resource;

use crate::story::{BUYER, SELLER, active, inventory, leased, order, policy};
use crate::world::World;

const TICK_MS: u64 = 500;

/// For so long the cluster has other pods at each tick.
fn busy(world: &mut World, for_ms: u64) {
    for tick in 0..for_ms / TICK_MS {
        let mut inventory = inventory();
        let pool = &mut inventory.pools[0];
        // So that what is left to sell, and the largest pod of it, are others each time.
        pool.requested.cpu_millis = 12_000 + 100 * (tick % 4);
        pool.largest_pod.cpu_millis = 4_000 - 100 * (tick % 3);
        world.tell(SELLER, Input::Broker(BrokerInput::Inventory(inventory)));
        world.pass(TICK_MS);
    }
}

/// What the buyer knows of the seller's offer, once that is so; it has two seconds.
fn heard(world: &mut World, what: &str, is_so: impl Fn(&Ad) -> bool) {
    let until_ms = world.now_ms + 2_000;
    let provider = world.cluster_id(SELLER);
    while !world.nodes[BUYER].agent.broker().ad(&provider).is_some_and(&is_so) {
        assert!(world.now_ms < until_ms, "{what} is not heard of in two seconds");
        busy(world, TICK_MS);
    }
}

fn priced(micros: u64) -> Price {
    let units = [(Resource::Cpu, UnitPrice { micros, period_s: 3_600 })].into();
    Price::Posted { currency: "EUR".parse().unwrap(), units }
}

fn share(world: &mut World, micros: u64) {
    let price = priced(micros);
    world.command(SELLER, Command::Share(Some(SharePolicy { price: price.clone(), ..policy() })));
    heard(world, "a price", |ad| ad.header.rows.iter().all(|row| row.price == price));
}

fn free(ad: &Ad) -> u64 {
    ad.header.rows[0].free.cpu_millis
}

fn end(world: &mut World, contract: ContractId) {
    let reclaim = Command::Reclaim { contract, notice_s: Some(0), text: String::new() };
    world.command(SELLER, reclaim);
    let is_closed = |world: &World| {
        let deal = world.nodes[SELLER].agent.broker().deal(&contract.into());
        deal.is_some_and(|deal| deal.state() == State::Closed)
    };
    while !is_closed(world) {
        world.step();
    }
    heard(world, "the end of a contract", |ad| free(ad) > 3_500);
}

#[test]
fn a_price_a_sale_and_its_end_are_heard_in_two_seconds() {
    let (mut world, contract) = leased();
    for round in 0..4 {
        busy(&mut world, 150_000);
        share(&mut world, 1_000 + round);
    }
    end(&mut world, contract);
    busy(&mut world, 60_000);
    // All of it in a row.
    share(&mut world, 2_000);
    world.command(BUYER, order());
    while active(&world).is_none() {
        let deals = world.nodes[SELLER].agent.broker().deals();
        let review = deals.filter(|deal| deal.state() == State::Review).map(|deal| deal.id());
        if let Some(request) = review.last() {
            world.command(SELLER, Command::Accept(request));
        }
        world.pass(10);
    }
    heard(&mut world, "a sale", |ad| free(ad) <= 2_000);
    let contract = active(&world).unwrap();
    end(&mut world, contract);
}

/// One that has just been connected has heard the offer of before a moment ago.
#[test]
fn a_price_is_heard_at_once_by_one_that_has_just_come() {
    let (mut world, _) = leased();
    world.pass(120_000);
    world.restart(BUYER, None);
    world.pass(2_000);
    share(&mut world, 7);
}
