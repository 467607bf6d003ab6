//! Contracts that go on while pods are on them, and end where that is not allowed.

use mercato_broker::syntax::FromText as _;
use mercato_broker::{Approve, BurstWord, BuyPolicy, Command, Rate, SharePolicy};

use crate::terms::{policy, share};
use crate::world::{HOME, World};

fn one() -> [SharePolicy; 1] {
    [share(100, "cpu=0.02 EUR/h", Approve::Auto)]
}

fn with(buy: BuyPolicy) -> World {
    let mut world = World::new(policy(), &one());
    let bursts = Some(Box::new(policy()));
    world.command(HOME, Command::Buy(Some(BuyPolicy { bursts, ..buy })));
    world.pods("shop", 3, 1_000);
    world
}

#[test]
fn a_contract_with_pods_is_extended_before_its_end() {
    let mut world = with(BuyPolicy::default());
    world.run(1_900);
    assert_eq!((world.bound(), world.bought().len(), world.running().len()), (3, 1, 1));
    // No longer than is needed: ten minutes each time, before it is known to end.
    let (term_s, ran_s) = (world.bought()[0].terms().term_s, 1_900);
    assert!((ran_s..ran_s + 600 + 660).contains(&term_s), "{term_s}");
    world.pods.clear();
    world.run(40);
    assert_eq!(world.running().len(), 0);
}

#[test]
fn a_contract_that_may_not_be_longer_ends_and_that_is_said_once() {
    let longest_s = Some(1_200);
    let hour = Some(Rate::from_text("0.011 EUR/h").unwrap());
    for (buy, why) in [
        (BuyPolicy { longest_s, ..BuyPolicy::default() }, "longest"),
        (BuyPolicy { budget: hour, ..BuyPolicy::default() }, "budget"),
    ] {
        let mut world = with(buy);
        world.run(1_190);
        let told: Vec<_> =
            world.news.iter().filter(|it| it.word == BurstWord::NotExtended).collect();
        assert_eq!(told.len(), 1, "{why}: {:?}", world.news);
        assert!(told[0].text.contains(why), "{told:?}");
        let first = world.bought()[0].id();
        world.run(20);
        assert!(world.running().iter().all(|deal| deal.id() != first), "{why}");
    }
}

#[test]
fn a_provider_that_refuses_an_extension_is_asked_again_at_a_pace() {
    let mut world = with(BuyPolicy::default());
    world.run(10);
    let deny = share(100, "cpu=0.02 EUR/h", Approve::Deny);
    world.command(1, Command::Share(Some(deny)));
    let before = world.effects;
    world.run(580);
    assert!(world.effects - before < 400, "{}", world.effects - before);
    world.run(100);
    assert_eq!(world.running().len(), 0);
}
