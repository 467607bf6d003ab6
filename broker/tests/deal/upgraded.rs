//! Leases of the release before, in which pools and models of GPUs had shorter names: what they have
//! is not sold again, and they go on.

use mercato_broker::{
    Amount, Approve, Command, Deal, Demand, Input, Inventory, PoolInventory, Refusal, Reply,
    SharePolicy,
};
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;

use crate::world::{BUYER, SELLER, World, demand, inventory, policy};

/// Eight GPUs in a pool of their own, each with a processor.
fn gpus(pool: &str, model: &str) -> Inventory {
    let gpu = GpuPool {
        cpu_millis_per_unit: 1_000,
        memory_bytes_per_unit: 4 << 30,
        ..GpuPool::whole(model.parse().unwrap(), 8, 81_559)
    };
    let Inventory { mut pools, .. } = inventory();
    let plain = pools.remove(0);
    let has = |of: Resources| Resources { gpus: [(gpu.model.clone(), 8)].into(), ..of };
    pools.push(PoolInventory {
        id: pool.parse().unwrap(),
        allocatable: has(plain.allocatable.clone()),
        largest_pod: has(plain.largest_pod.clone()),
        gpus: vec![gpu],
        ..plain
    });
    Inventory { pools, ..Inventory::default() }
}

fn two(model: &str) -> Resources {
    Resources { gpus: [(model.parse().unwrap(), 2)].into(), ..demand(2_000).quantity }
}

/// A lease of two, sold as `h100`; then the seller starts again as the new release.
fn upgraded(approve: Approve) -> World {
    let amounts = [("cpu", 8_000), ("gpu.h100", 8)];
    let amounts = amounts.map(|(line, n)| (line.parse().unwrap(), Amount::Exactly(n)));
    let mut share: SharePolicy = policy(approve);
    share.amounts.extend(amounts);
    let mut world = World::acquainted(Approve::Auto, 0);
    let sell = Command::Share(Some(SharePolicy { approve: Approve::Auto, ..share.clone() }));
    world.command(SELLER, sell).unwrap();
    world.input(SELLER, Input::Inventory(gpus("amd64-h100", "h100")));
    world.advance(30_000);
    world.show_ad();
    let demand = Demand { quantity: two("h100"), ..demand(2_000) };
    let ordered = world.command(BUYER, Command::Order { demand, note: String::new(), id: None });
    assert!(ordered.is_ok(), "{ordered:?}");
    world.settle();
    assert_eq!(lease(&world, BUYER).state(), State::Active);
    world.crash(SELLER);
    world.input(SELLER, Input::Inventory(gpus("amd64-h100-80gb-sxm", "h100-80gb-sxm")));
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    world.advance(30_000);
    world.settle();
    world.show_ad();
    world
}

fn lease(world: &World, node: usize) -> &Deal {
    world.nodes[node].broker.deals().find(|deal| deal.lease().is_some()).unwrap()
}

fn amend(
    world: &mut World,
    quantity: Option<Resources>,
    term_s: Option<u64>,
) -> Result<Reply, Refusal> {
    let contract = lease(world, BUYER).id().into();
    let amended = world.command(BUYER, Command::Amend { contract, quantity, term_s });
    world.settle();
    amended
}

#[test]
fn what_was_sold_under_an_earlier_name_is_not_sold_again() {
    let world = upgraded(Approve::Auto);
    let [row] = &world.ad().header.rows[..] else { panic!("one pool") };
    assert_eq!(row.pool.as_str(), "amd64-h100-80gb-sxm");
    let free: Vec<_> = row.free.gpus.iter().map(|(model, n)| (model.as_str(), *n)).collect();
    assert_eq!(free, [("h100-80gb-sxm", 6)], "two of eight are under lease");
    assert_eq!(row.free.cpu_millis, 6_000);
}

#[test]
fn a_lease_of_an_earlier_name_is_extended() {
    let mut world = upgraded(Approve::Auto);
    amend(&mut world, None, Some(7_200)).unwrap();
    assert_eq!(lease(&world, BUYER).terms().term_s, 7_200);
    assert_eq!(lease(&world, SELLER).terms().term_s, 7_200);
    assert_eq!(lease(&world, SELLER).terms().pool.as_str(), "amd64-h100");
}

#[test]
fn more_of_an_earlier_name_is_refused_with_what_to_do() {
    let mut world = upgraded(Approve::Auto);
    let more = Resources { cpu_millis: 3_000, ..two("h100") };
    amend(&mut world, Some(more), None).unwrap();
    assert_eq!(lease(&world, SELLER).terms().quantity, two("h100"));
    let change = lease(&world, BUYER).amendment().unwrap();
    let said = format!("{change:?}");
    assert!(said.contains("under this name: order anew"), "{said}");
}

#[test]
fn the_owner_is_asked_about_an_extension_where_it_asks() {
    let mut world = upgraded(Approve::Ask);
    amend(&mut world, None, Some(7_200)).unwrap();
    assert_eq!(lease(&world, SELLER).amendment().unwrap().state(), State::Review);
}
