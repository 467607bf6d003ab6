//! Home's daemon dies at any of its effects: whatever it has bought then, it buys once.

use mercato_broker::{Approve, SharePolicy};
use proptest::prelude::*;

use crate::terms::{policy, share};
use crate::world::World;

fn shares() -> [SharePolicy; 2] {
    [share(100, "cpu=0.04 EUR/h", Approve::Auto), share(100, "cpu=0.02 EUR/h", Approve::Auto)]
}

fn story(crash_at: Option<usize>) -> World {
    let mut world = World::new(policy(), &shares());
    world.crash_at = crash_at.map(|n| n + world.effects);
    world.pods("shop", 12, 1_000);
    world.run(540);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever comes and goes, and however often the daemon dies, no pod is bought for twice, and all
    /// is given back.
    #[test]
    fn pods_come_and_go(steps in prop::collection::vec((0u8..4, 1usize..9, 1u64..12), 1..12)) {
        let mut world = World::new(policy(), &shares());
        let mut made = 0;
        for (what, count, seconds) in steps {
            match what {
                0 | 1 if made + count <= 20 => {
                    // A small one on what was bought for a large one would leave that without room,
                    // and more would rightly be bought.
                    world.pods("shop", count, 700);
                    made += count;
                }
                2 => world.crash(),
                _ => {
                    let crash_at = world.effects + count;
                    world.crash_at = Some(crash_at);
                }
            }
            world.run(seconds);
        }
        world.crash_at = None;
        // Providers whose answers were lost are left aside for a while, some of them twice.
        world.run(60);
        let cpu: u64 = world.pods.values().map(|pod| pod.cpu_millis).sum();
        let terms = world.bought().into_iter().map(|deal| &deal.terms().quantity);
        let (bought, pods) = terms.fold((0, 0), |(cpu, pods), it| (cpu + it.cpu_millis, pods + it.pods));
        prop_assert_eq!((bought, pods), (cpu, made as u64));
        prop_assert_eq!(world.bound(), made);
        world.pods.clear();
        world.run(120);
        prop_assert_eq!(world.running().len(), 0);
    }
}

#[test]
fn nothing_is_bought_twice_wherever_the_daemon_dies() {
    let whole = story(None);
    let begun = World::new(policy(), &shares()).effects;
    assert_eq!((whole.bought().len(), whole.bound()), (1, 12));
    assert!(whole.bought()[0].terms().term_s > 600, "it was extended as well");
    let effects = whole.effects - begun;
    assert!(effects > 12, "{effects}");
    for n in 1..=effects {
        let mut world = story(Some(n));
        assert_eq!((world.bound(), world.running().len()), (12, 1), "effect {n}");
        let sizes: Vec<u64> =
            world.bought().iter().map(|deal| deal.terms().quantity.pods).collect();
        assert_eq!(sizes, [12], "effect {n}");
        world.pods.clear();
        world.run(100);
        assert_eq!(world.running().len(), 0, "effect {n}: it is given back");
    }
}
