//! What the owners' policies make of requests and orders.

use mercato_broker::{
    Affiliation, Approve, BuyPolicy, Command, Demand, EndReason, Input, Inventory, Membership,
    Party, Rate, Refusal, Reply, Selector, SharePolicy, ShareRule, Standing,
    syntax::{FromText as _, PriceChange},
};
use mercato_protocol::id::{FederationId, NegotiationId};
use mercato_protocol::limits::{POOLS, PRICE_LINES};
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::Class;

use crate::world::{BUYER, SELLER, World, demand, inventory, policy, resources};

/// The first answer to an order, under rules.
fn answered(rules: Vec<ShareRule>, allowed: bool, demand: Demand) -> State {
    let mut world = World::acquainted(Approve::Ask, 0);
    let allow = allowed.then(|| Party::Cluster(world.cluster(BUYER))).into_iter().collect();
    let share = SharePolicy { rules, allow, ..policy(Approve::Ask) };
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    let order = Command::Order { demand, note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.deliver(0);
    world.nodes[SELLER].broker.deal(&id).unwrap().state()
}

#[test]
fn the_first_rule_that_covers_a_request_decides() {
    let rule = ShareRule { then: Approve::Auto, ..ShareRule::default() };
    let (granted, asked, denied) = (State::Agreed, State::Review, State::Terminated);
    let deny = ShareRule { then: Approve::Deny, ..ShareRule::default() };
    let some_cpu = ShareRule { most: resources(2_000), ..rule.clone() };
    for (rules, allowed, cpu_millis, expected) in [
        (vec![], false, 1_000, asked),
        (vec![], true, 1_000, granted),
        (vec![rule.clone()], false, 1_000, granted),
        (vec![deny.clone()], true, 1_000, denied),
        (vec![rule.clone(), deny.clone()], false, 1_000, granted),
        (vec![some_cpu.clone()], false, 2_000, granted),
        (vec![some_cpu], false, 2_001, asked),
        (vec![ShareRule { longest_s: Some(3_600), ..rule.clone() }], false, 1_000, granted),
        (vec![ShareRule { longest_s: Some(3_599), ..rule.clone() }], false, 1_000, asked),
        (vec![ShareRule { class: Some(Class::Reserved), ..rule.clone() }], false, 1_000, granted),
        (vec![ShareRule { class: Some(Class::Spot), ..rule.clone() }], false, 1_000, asked),
        (vec![ShareRule { resources: [Resource::Cpu].into(), ..deny.clone() }], false, 10, denied),
        (
            vec![ShareRule { resources: ["gpu.h100".parse().unwrap()].into(), ..deny.clone() }],
            false,
            10,
            asked,
        ),
        (vec![ShareRule { standing: Some(Standing::Stranger), ..deny.clone() }], false, 10, denied),
        (vec![ShareRule { standing: Some(Standing::Trusted), ..rule.clone() }], false, 10, asked),
        (vec![ShareRule { jurisdictions: ["IT".to_owned()].into(), ..rule }], false, 10, asked),
    ] {
        let said = format!("{rules:?} {allowed} {cpu_millis}");
        assert_eq!(answered(rules, allowed, demand(cpu_millis)), expected, "{said}");
    }
}

/// The seller's answer to an order of so much, where its advertisement says 3.9 of 3.97 CPUs: the
/// buyer asks all the same.
fn answer_at_the_limit(then: Approve, cpu_millis: u64) -> (State, Option<TerminateReason>) {
    let mut world = World::acquainted(Approve::Ask, 0);
    let little = ShareRule { most: resources(30), then: Approve::Auto, ..ShareRule::default() };
    let share = SharePolicy { rules: vec![little], ..policy(then) };
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    let named = |world: &World, cpu_millis| Demand {
        from: Some(world.cluster(SELLER)),
        ..demand(cpu_millis)
    };
    let little = named(&world, 30);
    order(&mut world, little).unwrap();
    world.settle();
    let much = named(&world, cpu_millis);
    let Ok(Reply::Ordered { id, .. }) = order(&mut world, much) else { panic!() };
    world.deliver(0);
    let deal = world.nodes[SELLER].broker.deal(&id).unwrap();
    let reason = deal.end().map(|end| match end.reason {
        EndReason::Terminated(reason) => reason,
        EndReason::Closed(reason) => panic!("{reason:?}"),
    });
    (deal.state(), reason)
}

#[test]
fn who_is_not_granted_learns_no_more_of_what_is_free_than_all_do() {
    let none = TerminateReason::NoCapacity;
    for (then, cpu_millis, expected) in [
        (Approve::Auto, 3_900, (State::Agreed, None)),
        (Approve::Auto, 3_970, (State::Agreed, None)),
        (Approve::Auto, 3_971, (State::Terminated, Some(none))),
        (Approve::Ask, 3_900, (State::Review, None)),
        (Approve::Ask, 3_901, (State::Terminated, Some(none))),
        (Approve::Ask, 3_970, (State::Terminated, Some(none))),
        (Approve::Ask, 3_971, (State::Terminated, Some(none))),
        (Approve::Deny, 3_900, (State::Terminated, Some(TerminateReason::Denied))),
        (Approve::Deny, 3_971, (State::Terminated, Some(TerminateReason::Denied))),
    ] {
        assert_eq!(answer_at_the_limit(then, cpu_millis), expected, "{then:?} {cpu_millis}");
    }
}

/// Says at `node` that the other belongs to a federation, as that organisation's.
fn certify(world: &mut World, (node, other): (usize, usize), (sells, buys): (bool, bool)) {
    let affiliation = Affiliation {
        federation: FederationId([7; 32]),
        name: "alps".parse().unwrap(),
        organisation: Some("polito".parse().unwrap()),
        sells,
        buys,
        attributes: Default::default(),
    };
    let certified = [(world.cluster(other), vec![affiliation])].into();
    let membership = Membership { certified, ..Membership::default() };
    world.input(node, Input::Membership(membership));
}

#[test]
fn organisations_and_federations_are_dealt_with_by_name() {
    let (granted, asked) = (State::Agreed, State::Review);
    for (party, buys, standing, expected) in [
        ("org=polito", true, None, granted),
        ("org=sapienza", true, None, asked),
        ("federation=alps", true, None, granted),
        ("federation=polito", true, None, asked),
        ("org=polito", true, Some(Standing::Trusted), granted),
        // One whose certificate does not let it buy is a stranger as a buyer.
        ("federation=alps", false, Some(Standing::Trusted), asked),
    ] {
        let mut world = World::acquainted(Approve::Ask, 0);
        certify(&mut world, (SELLER, BUYER), (true, buys));
        let buyers = [party.parse().unwrap()].into();
        let rule = ShareRule { buyers, standing, then: Approve::Auto, ..ShareRule::default() };
        let share = SharePolicy { rules: vec![rule], ..policy(Approve::Ask) };
        world.command(SELLER, Command::Share(Some(share))).unwrap();
        let Ok(Reply::Ordered { id, .. }) = order(&mut world, demand(1_000)) else { panic!() };
        world.deliver(0);
        let state = world.nodes[SELLER].broker.deal(&id).unwrap().state();
        assert_eq!(state, expected, "{party} {buys} {standing:?}");
    }
}

#[test]
fn only_from_whom_a_federation_lets_sell() {
    for (sells, selector, bought) in [
        (true, "", true),
        (true, "organisation in (polito,sapienza), federation=alps", true),
        (true, "organisation!=polito", false),
        (true, "federation=apennines", false),
        (false, "", false),
    ] {
        let selector = Selector::from_text(selector).unwrap_or_default();
        // Nobody but the federation says that it can be trusted.
        let mut world = World::new(Approve::Auto, 0);
        world.show_ad();
        let policy = BuyPolicy { selector, ..BuyPolicy::default() };
        world.command(BUYER, Command::Buy(Some(policy))).unwrap();
        certify(&mut world, (BUYER, SELLER), (sells, true));
        assert_eq!(order(&mut world, demand(1_000)).is_ok(), bought, "{sells} {bought}");
    }
}

/// What a buyer pays for an hour of `cpu_millis`, granted at once; none: it is not.
fn paid(share: SharePolicy, cpu_millis: u64) -> Option<u64> {
    let mut world = World::acquainted(Approve::Auto, 0);
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    // Its advertisement follows in time.
    world.advance(60_000);
    world.show_ad();
    let Ok(Reply::Ordered { id, .. }) = order(&mut world, demand(cpu_millis)) else { panic!() };
    world.settle();
    let deal = world.nodes[BUYER].broker.deal(&id).unwrap();
    deal.agreement()?;
    (deal.state() == State::Active).then(|| deal.total().unwrap().map_or(0, |total| total.micros))
}

#[test]
fn a_rule_behind_one_that_takes_as_much_is_never_reached() {
    let all = ShareRule::default;
    let of = |names: &[&str]| {
        let buyers = names.iter().map(|name| name.parse::<Party>().unwrap()).collect();
        ShareRule { buyers, ..all() }
    };
    let long = |shortest_s| ShareRule { shortest_s: Some(shortest_s), ..all() };
    for (rules, never) in [
        (vec![of(&["org=polito"]), all(), of(&["org=unito"]), all()], &[2, 3][..]),
        (vec![of(&["org=polito"]), of(&["org=unito"]), all()], &[]),
        (vec![of(&["org=polito", "org=unito"]), of(&["org=unito"])], &[1]),
        (vec![of(&["org=unito"]), of(&["org=polito", "org=unito"])], &[]),
        (vec![long(60), long(3_600), long(30)], &[1]),
        (vec![ShareRule { most: resources(8), ..all() }, all()], &[]),
        (vec![ShareRule { class: Some(Class::Spot), ..all() }, long(60)], &[]),
    ] {
        let policy = SharePolicy { rules, ..policy(Approve::Auto) };
        assert_eq!(policy.unreached(), never, "{:?}", policy.rules);
    }
}

#[test]
fn a_rule_has_a_price_of_its_own() {
    let price = |text: &str| Some(PriceChange::from_text(text).unwrap());
    let rule = |text: &str| ShareRule {
        least: resources(4_000),
        price: price(text),
        then: Approve::Auto,
        ..ShareRule::default()
    };
    let share = |rules| SharePolicy {
        rules,
        price: Price::from_text("cpu=1 EUR/h").unwrap(),
        ..policy(Approve::Auto)
    };
    let hour = |cpu_millis: u64| cpu_millis * 1_000;
    // Much is cheaper, and taken by itself.
    assert_eq!(paid(share(vec![rule("cpu=0.50 EUR/h")]), 3_000), Some(hour(3_000)));
    assert_eq!(paid(share(vec![rule("cpu=0.50 EUR/h")]), 4_000), Some(hour(2_000)));
    assert_eq!(paid(share(vec![rule("free")]), 4_000), Some(0));
    // What is dearer than posted waits for the buyer's owner.
    assert_eq!(paid(share(vec![rule("cpu=2 EUR/h")]), 4_000), None);
    // What it does not name stays as posted: a GiB of memory for an hour.
    let dear = |text: &str| {
        let price = Price::from_text("cpu=1 EUR/h, memory=1 EUR/h").unwrap();
        paid(SharePolicy { price, ..share(vec![rule(text)]) }, 4_000)
    };
    assert_eq!(dear("cpu=0.50 EUR/h"), Some(hour(2_000) + hour(1_000)));
    assert_eq!(dear("cpu=0.50 EUR/h, memory=0"), Some(hour(2_000)));
    assert_eq!(dear("memory=0"), Some(hour(4_000)));
    assert_eq!(dear("free"), Some(0));
    // In two currencies nothing can be summed.
    let mixed = World::acquainted(Approve::Auto, 0)
        .command(SELLER, Command::Share(Some(share(vec![rule("memory=0.50 USD/h")]))));
    let Err(Refusal::Invalid(said)) = mixed else { panic!("{mixed:?}") };
    assert!(said.contains("memory=0.50 USD/h: the price is in EUR"), "{said}");
    // A term that is too short is no case of it.
    let long = ShareRule { shortest_s: Some(7_200), ..rule("free") };
    assert_eq!(paid(share(vec![long]), 4_000), Some(hour(4_000)));
    let asked = ShareRule { then: Approve::Ask, ..rule("free") };
    let refused = World::acquainted(Approve::Auto, 0)
        .command(SELLER, Command::Share(Some(share(vec![asked]))));
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
}

fn buying(policy: BuyPolicy) -> World {
    let mut world = World::acquainted(Approve::Auto, 0);
    world.command(BUYER, Command::Buy(Some(policy))).unwrap();
    world
}

fn order(world: &mut World, demand: Demand) -> Result<Reply, Refusal> {
    world.command(BUYER, Command::Order { demand, note: String::new(), id: None })
}

fn rate(text: &str) -> Rate {
    Rate::from_text(text).unwrap()
}

#[test]
fn only_what_the_policy_permits_is_bought() {
    let selector = Selector::from_text("cpu>=4").unwrap();
    let mut world = buying(BuyPolicy { selector, ..BuyPolicy::default() });
    assert!(order(&mut world, demand(1_000)).is_ok());
    let selector = Selector::from_text("jurisdiction=IT").unwrap();
    let mut world = buying(BuyPolicy { selector, ..BuyPolicy::default() });
    assert_eq!(order(&mut world, demand(1_000)), Err(Refusal::NoMatch { seen: 1 }));
    let market = world.nodes[BUYER].broker.browse(world.now(BUYER), &demand(1_000), true);
    let [group] = &market.excluded[..] else { panic!("{market:?}") };
    assert_eq!(group.by, "policy: jurisdiction=IT");
    assert_eq!(group.nearest.lacks[0].to_string(), "jurisdiction is not said");
    let mut world = buying(BuyPolicy { longest_s: Some(3_599), ..BuyPolicy::default() });
    assert_eq!(order(&mut world, demand(1_000)), Err(Refusal::NoMatch { seen: 1 }));
    // It is remembered, until there is none.
    world.crash(BUYER);
    assert_eq!(order(&mut world, demand(1_000)), Err(Refusal::NoMatch { seen: 1 }));
    world.command(BUYER, Command::Buy(None)).unwrap();
    assert!(order(&mut world, demand(1_000)).is_ok());
}

#[test]
fn a_budget_is_never_exceeded() {
    // One processor for an hour is two cents.
    let budget = Some(rate("0.05 EUR/d"));
    let mut world = buying(BuyPolicy { budget, ..BuyPolicy::default() });
    assert!(order(&mut world, demand(1_000)).is_ok());
    world.settle();
    assert_eq!(order(&mut world, demand(2_000)), Err(Refusal::NoMatch { seen: 1 }));
    let market = world.nodes[BUYER].broker.browse(world.now(BUYER), &demand(2_000), true);
    let lacks = market.excluded[0].nearest.lacks[0].to_string();
    assert_eq!(lacks, "0.04 EUR for the whole term, 0.03 EUR is left of the budget");
    assert!(order(&mut world, demand(1_000)).is_ok(), "three cents are left");
    assert_eq!(order(&mut world, demand(1_000)), Err(Refusal::NoMatch { seen: 1 }));
}

#[test]
fn a_namespace_has_a_budget_of_its_own() {
    let namespaces = [("shop".to_owned(), rate("0.02 EUR/d")), ("lab".to_owned(), rate("9 USD/d"))];
    let mut world = buying(BuyPolicy { namespaces: namespaces.into(), ..BuyPolicy::default() });
    let on_behalf = |name: &str| Demand { namespaces: [name.to_owned()].into(), ..demand(1_000) };
    let none = Err(Refusal::NoMatch { seen: 1 });
    assert_eq!(order(&mut world, on_behalf("lab")), none, "currencies do not compare");
    assert!(order(&mut world, on_behalf("shop")).is_ok());
    assert_eq!(order(&mut world, on_behalf("shop")), none);
    assert!(order(&mut world, on_behalf("other")).is_ok());
    assert!(order(&mut world, demand(1_000)).is_ok());
}

#[test]
fn what_came_to_nothing_is_not_spent() {
    let budget = Some(rate("0.02 EUR/d"));
    let mut world = buying(BuyPolicy { budget, ..BuyPolicy::default() });
    let Ok(Reply::Ordered { id, .. }) = order(&mut world, demand(1_000)) else { panic!() };
    let cancel = Command::Cancel { deal: id, text: String::new() };
    world.command(BUYER, cancel).unwrap();
    assert!(order(&mut world, demand(1_000)).is_ok());
}

#[test]
fn a_policy_that_cannot_be_is_refused() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let nothing = Rate { per_s: 0, ..rate("1 EUR/h") };
    for policy in [
        BuyPolicy { budget: Some(nothing), ..BuyPolicy::default() },
        BuyPolicy { longest_s: Some(0), ..BuyPolicy::default() },
    ] {
        let refused = world.command(BUYER, Command::Buy(Some(policy)));
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    }
    let rules = vec![ShareRule::default(); 65];
    let share = SharePolicy { rules, ..policy(Approve::Auto) };
    let refused = world.command(SELLER, Command::Share(Some(share)));
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
}

#[test]
fn whom_the_policy_trusts_is_bought_from_unless_blocked() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let seller = world.cluster(SELLER);
    let mut say = |command| world.command(BUYER, command);
    say(Command::Peer(seller, Standing::Stranger)).unwrap();
    let buy = || Command::Order { demand: demand(1_000), note: String::new(), id: None };
    assert!(matches!(say(buy()), Err(Refusal::Untrusted { provider, .. }) if provider == seller));
    let trust = BuyPolicy { trust: [seller].into(), ..BuyPolicy::default() };
    say(Command::Buy(Some(trust.clone()))).unwrap();
    say(buy()).unwrap();
    say(Command::Buy(None)).unwrap();
    assert!(matches!(say(buy()), Err(Refusal::Untrusted { .. })));
    say(Command::Buy(Some(trust))).unwrap();
    say(Command::Peer(seller, Standing::Blocked)).unwrap();
    assert_eq!(say(buy()), Err(Refusal::NoMatch { seen: 1 }));
}

/// What does not fit into an advertisement is left out of it; the rest is sold.
#[test]
fn more_pools_than_an_advertisement_holds_are_left_out() {
    let mut world = World::new(Approve::Auto, 0);
    world.nodes[SELLER].published.clear();
    let unit = UnitPrice { micros: 1, period_s: u32::MAX };
    let models = (0..PRICE_LINES - 1).map(|n| format!("gpu.model-{n:026}").parse().unwrap());
    let units = models.chain([Resource::Cpu]).map(|resource| (resource, unit)).collect();
    let price = Price::Posted { currency: "EUR".parse().unwrap(), units };
    let share = SharePolicy { price, ..policy(Approve::Auto) };
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    let pool = |n: usize| {
        let mut pool = inventory().pools.remove(0);
        pool.platform.arch = format!("arch-{n:02}").parse().unwrap();
        pool.id = pool.platform.arch.clone();
        pool
    };
    let pools = (0..POOLS).map(pool).collect();
    world.input(SELLER, Input::Inventory(Inventory { pools, ..Inventory::default() }));
    world.advance(60_000);
    let (ad, all) = (world.ad(), 1..POOLS);
    assert!(all.contains(&ad.body.pools.len()), "{}", ad.body.pools.len());
    world.command(BUYER, Command::Peer(world.cluster(SELLER), Standing::Trusted)).unwrap();
    world.show_ad();
    let order = Command::Order { demand: demand(100), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.deliver(0);
    assert_eq!(world.nodes[SELLER].broker.deal(&id).unwrap().state(), State::Agreed);
}

#[test]
fn an_order_under_the_same_id_buys_nothing_more() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let id = NegotiationId([7; 16]);
    let buy = |demand| Command::Order { demand, note: String::new(), id: Some(id) };
    let first = world.command(BUYER, buy(demand(1_000))).unwrap();
    assert_eq!(first, Reply::Ordered { id, provider: world.cluster(SELLER) });
    assert_eq!(world.command(BUYER, buy(demand(2_000))), Ok(first.clone()));
    world.deliver(0);
    world.crash(BUYER);
    assert_eq!(world.command(BUYER, buy(demand(1_000))), Ok(first));
    assert_eq!(world.nodes[BUYER].broker.deals().count(), 1);
    assert_eq!(world.command(SELLER, buy(demand(1_000))), Err(Refusal::Unknown(id)));
}
