//! Pods without room: bought for once, the cheapest first, up to what is allowed, and given back.

use mercato_broker::syntax::FromText as _;
use mercato_broker::{Approve, BurstPolicy, BurstWord, BuyPolicy, Command, Deal, Rate, burst_of};
use mercato_protocol::resources::Resource;

use crate::terms::{policy, price, quantity, share};
use crate::world::{HOME, World};

fn two() -> [mercato_broker::SharePolicy; 2] {
    [share(100, "cpu=0.04 EUR/h", Approve::Auto), share(100, "cpu=0.02 EUR/h", Approve::Auto)]
}

#[test]
fn a_crowd_gets_what_is_allowed_of_the_cheapest_and_gives_it_back() {
    let mut world = World::new(policy(), &two());
    world.pods("shop", 60, 1_000);
    world.run(5);
    assert_eq!(world.bound(), 40, "{:?}", world.news);
    assert_eq!(world.bought().len(), 1);
    let deal = world.bought()[0];
    assert_eq!((deal.peer(), deal.terms().quantity.pods), (world.cluster(2), 40));
    assert_eq!(burst_of(deal).unwrap().namespace, "shop");
    assert_eq!(world.words(), [BurstWord::Bought, BurstWord::OverBudget].into());
    let over: Vec<_> =
        world.news.iter().filter(|news| news.word == BurstWord::OverBudget).collect();
    assert_eq!((over.len(), over[0].pods.len()), (1, 20), "{over:?}");
    assert!(over[0].text.contains("bursts.most allows cpu=40"), "{over:?}");

    // The oldest run, and nobody buys more for the others while they do.
    assert!(world.pods.iter().take(40).all(|(_, pod)| pod.on.is_some()));
    world.run(100);
    assert_eq!((world.bought().len(), world.bound()), (1, 40));
    world.pods.clear();
    world.run(29);
    assert_eq!(world.running().len(), 1, "not yet");
    world.run(3);
    assert_eq!(world.running().len(), 0, "{:?}", world.news);
    assert!(world.words().contains(&BurstWord::GivenBack));
}

#[test]
fn nothing_is_bought_that_nobody_allows() {
    for (bursts, namespace) in [
        (None, "shop"),
        (Some(BurstPolicy { max_price: price("cpu=0.01 EUR/h"), ..policy() }), "shop"),
        (Some(BurstPolicy { max_price: price("cpu=9 USD/h"), ..policy() }), "shop"),
        (Some(BurstPolicy { max_price: price("free"), ..policy() }), "shop"),
        (
            Some(BurstPolicy { selector: "arch=arm64".to_owned().try_into().unwrap(), ..policy() }),
            "shop",
        ),
        (Some(BurstPolicy { term_s: 2 * 86_400, ..policy() }), "shop"),
    ] {
        let mut world = World::new(policy(), &two());
        let said = format!("{bursts:?}");
        let bursts = bursts.map(Box::new);
        let is_allowed = bursts.is_some();
        world.command(HOME, Command::Buy(Some(BuyPolicy { bursts, ..BuyPolicy::default() })));
        world.pods(namespace, 3, 1_000);
        world.run(20);
        assert_eq!(world.bought().len(), 0, "{said}");
        let words = if is_allowed { [BurstWord::NoOffer].into() } else { [].into() };
        assert_eq!(world.words(), words, "{said}");
        assert!(world.news.len() <= 1, "it is said once: {:?}", world.news);
    }
}

#[test]
fn why_there_is_no_offer_is_said_by_the_nearest() {
    let dear = BurstPolicy { max_price: price("cpu=0.01 EUR/h"), ..policy() };
    let mut world = World::new(dear, &two());
    world.pods("shop", 1, 1_000);
    world.run(3);
    let text = &world.news[0].text;
    assert_eq!(text, "lyon: price.cpu.EUR is 0.02 EUR/h; wanted is price.cpu.EUR<=0.01/h");
}

#[test]
fn a_budget_is_said_and_counts_again_with_time() {
    let mut world = World::new(policy(), &two());
    let budget = Some(Rate::from_text("0.02 EUR/h").unwrap());
    let bursts = Some(Box::new(policy()));
    world.command(HOME, Command::Buy(Some(BuyPolicy { budget, bursts, ..BuyPolicy::default() })));
    // Ten minutes of six processors are 0.02 EUR.
    world.pods("shop", 10, 1_000);
    world.run(5);
    assert_eq!(world.bound(), 6, "{:?}", world.news);
    world.run(20);
    assert_eq!(world.bound(), 6);
    assert!(world.words().contains(&BurstWord::OverBudget), "{:?}", world.news);
}

#[test]
fn the_oldest_are_bought_for_where_no_offer_takes_all() {
    let little =
        [share(7, "cpu=0.02 EUR/h", Approve::Auto), share(5, "cpu=0.03 EUR/h", Approve::Auto)];
    let mut world = World::new(policy(), &little);
    world.pods("shop", 20, 1_000);
    world.run(10);
    assert_eq!(world.bound(), 12, "{:?}", world.news);
    assert_eq!(world.bought().len(), 2);
    assert!(world.words().contains(&BurstWord::NoOffer));
}

#[test]
fn a_pod_that_is_too_large_for_a_node_keeps_nobody_else_waiting() {
    let mut world = World::new(policy(), &two());
    world.pods("shop", 1, 9_000);
    world.pods("shop", 3, 1_000);
    world.run(10);
    assert_eq!(world.bound(), 3, "{:?}", world.news);
    assert!(world.bought().iter().all(|deal| deal.terms().quantity.cpu_millis == 3_000));
}

#[test]
fn each_namespace_has_a_contract_of_its_own() {
    let mut world = World::new(policy(), &two());
    world.pods("shop", 2, 1_000);
    world.pods("lab", 3, 1_000);
    world.run(5);
    let names: Vec<_> =
        world.bought().iter().map(|it| burst_of(it).unwrap().namespace.clone()).collect();
    assert_eq!((world.bound(), names.len()), (5, 2));
    assert!(names.contains(&"lab".to_owned()) && names.contains(&"shop".to_owned()));
}

#[test]
fn more_pods_than_before_are_bought_for_alone() {
    let mut world = World::new(policy(), &two());
    world.pods("shop", 5, 1_000);
    world.run(5);
    world.pods("shop", 4, 1_000);
    world.run(5);
    let sizes: Vec<u64> =
        world.bought().iter().map(|it| it.terms().quantity.quantity(&Resource::Pods)).collect();
    assert_eq!((world.bound(), sizes), (9, vec![5, 4]));
}

#[test]
fn a_pod_counts_only_after_its_time() {
    let mut world = World::new(BurstPolicy { after_s: 30, ..policy() }, &two());
    world.pods("shop", 1, 1_000);
    world.run(29);
    assert_eq!(world.bought().len(), 0);
    world.run(3);
    assert_eq!(world.bought().len(), 1);
    assert_eq!(quantity("cpu=1,memory=64Mi,pods=1"), world.bought()[0].terms().quantity);
}

#[test]
fn younger_pods_are_bought_for_with_the_oldest() {
    let mut world = World::new(BurstPolicy { after_s: 30, ..policy() }, &two());
    world.pods("shop", 2, 1_000);
    world.run(20);
    world.pods("shop", 3, 500);
    world.pods("lab", 1, 1_000);
    world.run(15);
    let bought: Vec<_> =
        world.bought().iter().map(|deal| deal.terms().quantity.cpu_millis).collect();
    assert_eq!((world.bound(), bought), (5, vec![3_500]), "those of another namespace wait on");
}

#[test]
fn what_is_bought_and_what_is_lacking_is_seen_by_namespace() {
    let mut world = World::new(policy(), &two());
    world.pods("shop", 2, 1_000);
    world.pods("lab", 1, 90_000);
    world.run(5);
    let home = &world.nodes[0].broker;
    let now = mercato_broker::bursts_now(home).unwrap();
    let shop = &now.namespaces["shop"];
    assert_eq!((shop.contracts, shop.bought.cpu_millis, shop.waiting), (1, 2_000, 0));
    assert_eq!(shop.lacks, None);
    let lab = &now.namespaces["lab"];
    assert_eq!((lab.contracts, lab.waiting), (0, 1));
    assert_eq!(lab.lacks.map(|(word, _)| word), Some(BurstWord::OverBudget), "{lab:?}");
}

#[test]
fn pods_that_are_never_bound_take_nothing_of_what_is_bought_for_others() {
    let mut world = World::new(policy(), &two());
    world.stuck = ["vain".to_owned()].into();
    world.pods("vain", 3, 1_000);
    world.run(70);
    assert!(world.words().contains(&BurstWord::BoughtInVain), "{:?}", world.news);
    world.pods("shop", 5, 1_000);
    world.run(20);
    let of_shop = |deal: &&&Deal| burst_of(deal).is_some_and(|key| key.namespace == "shop");
    let bought = world.bought();
    let sizes: Vec<u64> =
        bought.iter().filter(of_shop).map(|it| it.terms().quantity.pods).collect();
    assert_eq!((world.bound(), sizes), (5, vec![5]), "{:?}", world.news);
}

#[test]
fn a_node_that_takes_no_pods_for_a_moment_is_waited_for() {
    let mut world = World::new(policy(), &two());
    world.binds_none = true;
    world.pods("shop", 3, 1_000);
    world.run(3);
    assert_eq!(world.bought().len(), 1, "its node is there, and no pod was bound yet");
    world.closed_until_ms = world.now_ms + 5_000;
    world.run(4);
    world.binds_none = false;
    world.run(5);
    assert_eq!((world.bound(), world.bought().len()), (3, 1), "{:?}", world.news);
}
