//! Providers that do not sign, ask their owner, want more, or take no pod.

use mercato_broker::syntax::{FromText as _, PriceChange};
use mercato_broker::{
    Approve, BurstWord, Command, Deal, NodeChoice, NodeFact, NodeTerm, SharePolicy, ShareRule,
    burst_of,
};

use mercato_protocol::resources::Resource;

use crate::terms::{policy, share};
use crate::world::{HOME, World};

fn of(first: SharePolicy) -> [SharePolicy; 2] {
    [first, share(100, "cpu=0.04 EUR/h", Approve::Auto)]
}

/// The pods run at the second provider within five seconds, and nothing is left of the first order.
fn next_is_asked(mut world: World) {
    world.run(6);
    assert_eq!(world.bound(), 3, "{:?}", world.news);
    let bought = world.bought();
    assert_eq!((bought.len(), bought[0].peer()), (1, world.cluster(2)));
    assert_eq!(world.running().len(), 1);
    assert!(world.words().contains(&BurstWord::GivenUp));
    world.nodes[1].is_dead = false;
    world.run(60);
    assert_eq!(world.running().len(), 1, "its signature came after it was given up");
    let held = |deal: &&Deal| deal.end().is_none();
    assert_eq!(world.nodes[1].broker.deals().filter(held).count(), 0);
    assert_eq!(world.bought().len(), 1);
}

#[test]
fn the_next_provider_is_asked_where_the_cheapest_is_silent() {
    let cheap = share(100, "cpu=0.02 EUR/h", Approve::Auto);
    let mut world = World::new(policy(), &of(cheap));
    world.settle();
    world.nodes[1].is_dead = true;
    world.pods("shop", 3, 1_000);
    next_is_asked(world);
}

#[test]
fn the_next_provider_is_asked_where_the_owner_would_have_to_be() {
    let mut world = World::new(policy(), &of(share(100, "cpu=0.02 EUR/h", Approve::Ask)));
    world.pods("shop", 3, 1_000);
    next_is_asked(world);
}

#[test]
fn the_next_provider_is_asked_where_an_offer_is_dearer() {
    let price = Some(PriceChange::from_text("cpu=0.03 EUR/h").unwrap());
    let rule = ShareRule { price, then: Approve::Auto, ..ShareRule::default() };
    let cheap = share(100, "cpu=0.02 EUR/h", Approve::Auto);
    let mut world = World::new(policy(), &of(SharePolicy { rules: vec![rule], ..cheap }));
    world.pods("shop", 3, 1_000);
    next_is_asked(world);
}

#[test]
fn who_does_not_sign_is_left_aside_longer_each_time() {
    let mut world = World::new(policy(), &[share(100, "cpu=0.02 EUR/h", Approve::Ask)]);
    world.pods("shop", 3, 1_000);
    world.run(400);
    let mut asked: Vec<u64> =
        world.nodes[HOME].broker.deals().map(|it| it.end().unwrap().at_ms).collect();
    asked.sort_unstable();
    let waits: Vec<u64> = asked.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect();
    assert!(waits.len() >= 4, "{waits:?}");
    for (n, wait) in waits.iter().enumerate() {
        assert!((15 << n..=(15 << n) + 2).contains(wait), "{waits:?}");
    }
}

#[test]
fn a_restart_forgets_nobody_who_is_left_aside() {
    let mut world = World::new(policy(), &[share(100, "cpu=0.02 EUR/h", Approve::Ask)]);
    world.pods("shop", 3, 1_000);
    world.run(4);
    let orders = |world: &World| world.nodes[HOME].broker.deals().count();
    assert_eq!(orders(&world), 1);
    world.crash();
    world.run(8);
    assert_eq!(orders(&world), 1);
    world.run(10);
    assert_eq!(orders(&world), 2);
}

#[test]
fn what_takes_no_pod_is_given_back_and_not_bought_again() {
    let mut world = World::new(policy(), &of(share(100, "cpu=0.02 EUR/h", Approve::Auto)));
    world.pods("shop", 3, 1_000);
    world.binds_none = true;
    world.run(59);
    assert_eq!(world.running().len(), 1);
    world.run(8);
    assert_eq!(world.running().len(), 0);
    assert!(world.words().contains(&BurstWord::BoughtInVain), "{:?}", world.news);
    let meter = world.bought()[0].meter().unwrap();
    let used = &meter.signed().unwrap().receipt.usage.counters[&Resource::Cpu];
    assert!((1..3_000 * 120_000).contains(used), "billed for less than two minutes: {used}");
    world.run(600);
    world.crash();
    world.run(600);
    assert_eq!(world.bought().len(), 1, "not within an hour, over a restart either");
    world.binds_none = false;
    world.run(3_600);
    assert_eq!((world.bought().len(), world.bound()), (2, 3));
}

#[test]
fn who_provides_again_is_not_left_aside_for_what_was_before() {
    let mut world = World::new(policy(), &[share(100, "cpu=0.02 EUR/h", Approve::Auto)]);
    world.settle();
    world.nodes[1].is_dead = true;
    world.pods("shop", 3, 1_000);
    world.run(60);
    let given_up =
        |world: &World| world.news.iter().filter(|it| it.word == BurstWord::GivenUp).count();
    assert!(given_up(&world) >= 3, "{:?}", world.news);
    world.nodes[1].is_dead = false;
    world.run(70);
    assert_eq!(world.bound(), 3);
    world.pods.clear();
    world.run(100);
    let before = given_up(&world);
    world.nodes[1].is_dead = true;
    world.pods("shop", 3, 1_000);
    world.run(8);
    assert_eq!(given_up(&world), before + 1);
    world.nodes[1].is_dead = false;
    world.run(20);
    assert_eq!(world.bound(), 3, "fifteen seconds as for the first time: {:?}", world.news);
}

#[test]
fn a_node_that_was_used_before_is_in_vain_for_those_that_wait_for_it() {
    let mut world = World::new(policy(), &of(share(100, "cpu=0.02 EUR/h", Approve::Auto)));
    world.pods("shop", 3, 1_000);
    world.run(10);
    assert_eq!(world.bound(), 3);
    world.pods.clear();
    world.binds_none = true;
    world.run(20);
    // They find room, and it is not given back from under them; but nobody binds them.
    world.pods("shop", 2, 1_000);
    world.run(58);
    assert_eq!(world.running().len(), 1, "{:?}", world.news);
    world.run(8);
    assert_eq!(world.running().len(), 0);
    let last = world.news.last().map(|it| it.word);
    assert_eq!(last, Some(BurstWord::BoughtInVain), "{:?}", world.news);
    // Those that come afterwards are told as well.
    let told = world.news.len();
    world.pods("shop", 1, 1_000);
    world.run(600);
    let news: Vec<_> = world.news[told..].iter().map(|it| (it.word, it.pods.len())).collect();
    assert_eq!(news, [(BurstWord::BoughtInVain, 1)], "{:?}", &world.news[told..]);
    assert!(world.news[told].text.contains("nothing is bought"), "{:?}", world.news[told]);
    assert_eq!(world.bought().len(), 1);
}

#[test]
fn pods_go_where_they_may() {
    let both = of(share(100, "cpu=0.02 EUR/h", Approve::Auto));
    let named = |name: &str| {
        let among = [format!("mercato-{name}")].into();
        NodeChoice(vec![vec![NodeTerm { of: NodeFact::Name, among, not: false }]])
    };
    for (name, provider) in [("turin", Some(1)), ("lyon", Some(2)), ("graz", None)] {
        let mut world = World::new(policy(), &both);
        world.pods("shop", 2, 1_000);
        world.pods.values_mut().for_each(|pod| pod.to = named(name));
        world.run(5);
        let bought: Vec<_> = world.bought().iter().map(|deal| deal.peer()).collect();
        let expected: Vec<_> = provider.map(|n| world.cluster(n)).into_iter().collect();
        assert_eq!(bought, expected, "{name}");
    }
}

#[test]
fn what_a_person_orders_is_no_burst() {
    let mut world = World::new(policy(), &of(share(100, "cpu=0.02 EUR/h", Approve::Auto)));
    world.settle();
    let demand = mercato_broker::Demand {
        quantity: crate::terms::quantity("cpu=2,memory=1Gi,pods=4"),
        term_s: 3_600,
        ..mercato_broker::Demand::default()
    };
    world.command(HOME, Command::Order { demand, note: String::new(), id: None });
    world.run(120);
    let runs = |deal: &&Deal| deal.is_active() && burst_of(deal).is_none();
    assert_eq!(world.nodes[HOME].broker.deals().filter(runs).count(), 1, "nobody gives it back");
}
