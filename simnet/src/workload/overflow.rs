//! A cluster that buys by itself what its pods find no room for, and those that sell it: what their owners
//! say, and how many pods there are to be when.

use std::collections::BTreeMap;

use mercato_broker::syntax::FromText as _;
use mercato_broker::{Approve, BurstPolicy, BuyPolicy, Rate, SharePolicy};
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};

use super::crowds::Crowd;
use super::script::{Action, Script};
use super::shares::{euro, hourly, policy};
use crate::engine::rng::Rng;

const CORE: u64 = 1_000;
const GI: u64 = 1 << 30;
/// What is paid at most for a core and a gibibyte, in micros an hour.
const MOST_PAID: [u64; 2] = [50_000, 10_000];

/// What home's owner lets be bought by itself; by chance, or enough for its script.
pub(super) fn buys(chance: Option<u64>) -> BuyPolicy {
    let most =
        Resources { cpu_millis: 6 * CORE, memory_bytes: 24 * GI, pods: 12, ..Resources::default() };
    let mut bursts = BurstPolicy {
        max_price: priced(MOST_PAID),
        most,
        term_s: 240,
        after_s: 1,
        idle_s: 20,
        wait_s: 3,
        selector: String::new().try_into().expect("it asks for nothing"),
        class: None,
    };
    let mut buys = BuyPolicy::default();
    if let Some(seed) = chance {
        let mut rng = Rng::new(seed, "bursts");
        let mut one_of = |all: [u64; 3]| all[rng.within(0..=2) as usize];
        bursts.most.cpu_millis = one_of([2, 5, 12]) * CORE;
        bursts.most.pods = one_of([4, 10, 20]);
        (bursts.term_s, bursts.idle_s) = (one_of([120, 240, 600]), one_of([5, 20, 60]));
        (bursts.after_s, bursts.wait_s) = (one_of([1, 2, 10]), one_of([1, 3, 8]));
        let rate = |text| Rate::from_text(text).expect("it is a rate");
        buys.budget = rng.chance(250).then(|| rate("0.03 EUR/h"));
        buys.longest_s = rng.chance(250).then_some(600);
    }
    BuyPolicy { bursts: Some(Box::new(bursts)), ..buys }
}

/// On what terms the cluster at a place sells; by chance some ask more than is paid, and some look at each
/// request.
pub(super) fn sells(at: usize, chance: Option<u64>) -> SharePolicy {
    let of_place = 20_000 + 10_000 * (at as u64 % 3);
    let (cpu, approve) = match chance.map(|seed| Rng::new(seed, &format!("sells {at}"))) {
        None => (of_place, Approve::Auto),
        Some(mut rng) => {
            let asks = rng.chance(200);
            (rng.within(15_000..=60_000), if asks { Approve::Ask } else { Approve::Auto })
        }
    };
    let mut sells = SharePolicy { price: priced([cpu, 5_000]), approve, ..policy(0) };
    // No storage is bought so.
    sells.amounts.remove(&Resource::Storage);
    sells
}

fn priced([cpu, memory]: [u64; 2]) -> Price {
    let units = [(Resource::Cpu, hourly(cpu)), (Resource::Memory, hourly(memory))];
    Price::Posted { currency: euro(), units: BTreeMap::from(units) }
}

/// A purchase, its extension, what is bought in vain, what is given back, and another purchase.
pub(super) fn whole() -> Script {
    Script::of(vec![
        (Action::Invite, 0),
        (Action::Scale(Crowd::Web, 3), 4_000),
        (Action::Scale(Crowd::Web, 9), 20_000),
        (Action::Scale(Crowd::Vain, 2), 110_000),
        (Action::Scale(Crowd::Vain, 0), 0),
        (Action::Scale(Crowd::Web, 2), 40_000),
        (Action::Scale(Crowd::Batch, 2), 75_000),
        (Action::Scale(Crowd::Night, 1), 10_000),
    ])
}

/// Crowds that grow and shrink by chance.
pub(super) fn by_chance(seed: u64) -> Script {
    let mut rng = Rng::new(seed, "crowds");
    let mut actions = vec![(Action::Invite, 0)];
    for _ in 0..rng.within(6..=14) {
        let crowd = match rng.within(0..=9) {
            0..=4 => Crowd::Web,
            5..=6 => Crowd::Batch,
            7..=8 => Crowd::Night,
            _ => Crowd::Vain,
        };
        let count = if rng.chance(250) { 0 } else { rng.within(1..=9) };
        let pause_ms = if rng.chance(150) { 150_000 } else { rng.within(0..=40_000) };
        actions.push((Action::Scale(crowd, count), pause_ms));
    }
    Script::of(actions)
}
