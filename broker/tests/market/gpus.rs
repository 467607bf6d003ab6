//! What is found and bought for the names of GPUs: models for families, parts for parts, and the
//! processors and memory that come with them.

use mercato_broker::size::check_share;
use mercato_broker::syntax::FromText as _;
use mercato_broker::{
    Command, Demand, Effect, Exclusion, Input, Market, Refusal, Reply, Sort, Standing,
};
use mercato_protocol::ad::Ad;
use mercato_protocol::gpu::{GpuPool, is_a};
use mercato_protocol::price::Usage;
use mercato_protocol::resources::Resources;
use proptest::prelude::*;

use crate::fair::{NOW, ad, body, broker, found, gpu, header, selecting, with_pool};

const PRICE: &str = "cpu=0.01 EUR/h, gpu.h100-80gb-sxm=3 EUR/h, gpu.h100-80gb-pcie=2 EUR/h, \
                     gpu.h100-94gb-nvl=2.50 EUR/h, gpu.h100=1 EUR/h, gpu.h100-80gb-sxm.1g.10gb=0.40 EUR/h";
const MODELS: [&str; 7] = [
    "h100-80gb-sxm",
    "h100-80gb-pcie",
    "h100-94gb-nvl",
    "h100",
    "h100-80gb-sxm.1g.10gb",
    "t4",
    "t4.ts4",
];
const NAMES: [&str; 8] = [
    "h100",
    "h100-80gb-sxm",
    "h100-94gb-nvl",
    "h100.1g.10gb",
    "h100-80gb-sxm.1g.10gb",
    "t4",
    "t4.ts4",
    "t4-16gb",
];

/// A provider of which nothing but these pools is known.
fn selling(name: &str, pools: &[&[GpuPool]]) -> Ad {
    let mut ad = ad(name);
    header(&mut ad).rows.clear();
    body(&mut ad).pools.clear();
    for (n, gpus) in pools.iter().enumerate() {
        ad = with_pool(ad, &format!("p{n}"), "cpu=64,memory=512Gi,pods=110", PRICE, None);
        body(&mut ad).pools[n].gpus = gpus.to_vec();
        let free = gpus.iter().map(|gpu| (gpu.model.clone(), gpu.count));
        header(&mut ad).rows[n].free.gpus = free.filter(|(_, count)| *count > 0).collect();
    }
    ad
}

fn wanting(quantity: &str) -> Demand {
    let quantity = Resources::from_text(quantity).unwrap();
    Demand { quantity, term_s: 3_600, sort: Sort::Price, ..Demand::default() }
}

/// Which models would be bought, and for how many cents.
fn bought(market: &Market) -> Vec<(String, u64)> {
    let models = market.offers.iter().map(|offer| {
        let models: Vec<_> =
            offer.quantity.gpus.iter().map(|(model, n)| format!("{model}={n}")).collect();
        (models.join(","), offer.total.map_or(0, |total| total.micros / 10_000))
    });
    models.collect()
}

fn lacks(market: &Market) -> Vec<String> {
    market.excluded.iter().flat_map(|it| &it.nearest.lacks).map(Exclusion::to_string).collect()
}

#[test]
fn a_family_finds_each_of_its_models_at_its_own_price() {
    let (sxm, pcie) = (gpu("h100-80gb-sxm", 4, 80), gpu("h100-80gb-pcie", 4, 80));
    let part = gpu("h100-80gb-sxm.1g.10gb", 7, 10);
    let broker = broker([selling("turin", &[&[sxm], &[pcie], &[part], &[gpu("h100", 1, 80)]])]);
    let buys = |quantity: &str| bought(&broker.browse(NOW, &wanting(quantity), false));
    let of = |models: &str, cents| (models.to_owned(), cents);
    let all = [of("h100=1", 100), of("h100-80gb-pcie=1", 200), of("h100-80gb-sxm=1", 300)];
    assert_eq!(buys("gpu.h100=1"), all);
    assert_eq!(buys("gpu.h100=2"), [of("h100-80gb-pcie=2", 400), of("h100-80gb-sxm=2", 600)]);
    assert_eq!(buys("gpu.h100-80gb-sxm=2"), [of("h100-80gb-sxm=2", 600)]);
    assert_eq!(buys("gpu.h100.1g.10gb=3"), [of("h100-80gb-sxm.1g.10gb=3", 120)]);
    assert_eq!(buys("gpu.h100=1,gpu.h100.1g.10gb=1"), [], "they are in two pools");
    let mut frugal = wanting("gpu.h100=2");
    frugal.max_price = Some(mercato_broker::Rate::from_text("5 EUR/h").unwrap());
    let market = broker.browse(NOW, &frugal, true);
    assert_eq!(bought(&market), [of("h100-80gb-pcie=2", 400)]);
    let dear = lacks(&market);
    assert!(dear.iter().any(|it| it.starts_with("6.00 EUR for the whole term")), "{dear:?}");
}

#[test]
fn of_two_models_in_one_pool_the_cheaper_is_bought_that_suits() {
    let both = |pcie| {
        let gpus = [gpu("h100-80gb-sxm", 4, 80), gpu("h100-80gb-pcie", pcie, 64)];
        broker([selling("turin", &[&gpus])])
    };
    let buys = |pcie, demand: &Demand| bought(&both(pcie).browse(NOW, demand, false));
    let of = |models: &str, cents| [(models.to_owned(), cents)];
    assert_eq!(buys(4, &wanting("gpu.h100=2")), of("h100-80gb-pcie=2", 400));
    assert_eq!(buys(1, &wanting("gpu.h100=2")), of("h100-80gb-sxm=2", 600), "one is too few");
    let large = Demand { selector: selecting("gpu.mem>=80Gi").selector, ..wanting("gpu.h100=2") };
    assert_eq!(buys(4, &large), of("h100-80gb-sxm=2", 600), "the other has too little memory");
    let exact = Demand { selector: large.selector, ..wanting("gpu.h100-80gb-pcie=2") };
    assert_eq!(buys(4, &exact), [], "what is bought must meet the terms, not what lies beside");
}

#[test]
fn an_order_signs_the_model_and_names_that_may_be_one_are_refused() {
    let turin = selling("turin", &[&[gpu("h100-80gb-sxm", 4, 80)]]);
    let provider = turin.header.provider;
    let mut broker = broker([turin]);
    broker.handle(NOW, Input::Command(1, Box::new(Command::Peer(provider, Standing::Trusted))));
    let mut reply = |command| {
        let effects = broker.handle(NOW, Input::Command(2, Box::new(command)));
        let replies = effects.into_iter().find_map(|effect| {
            if let Effect::Reply(_, reply) = effect { Some(reply) } else { None }
        });
        (replies.unwrap(), broker.deals().last().map(|deal| deal.terms().quantity.clone()))
    };
    let order = |quantity| {
        let demand = wanting(quantity);
        Command::Order { demand, note: String::new(), id: None }
    };
    let twice = "cpu=1,memory=1Gi,pods=1,gpu.h100=1,gpu.h100-80gb-sxm=1";
    let (Err(Refusal::Invalid(said)), None) = reply(order(twice)) else { panic!("not refused") };
    assert!(said.contains("gpu.h100-80gb-sxm may be had for gpu.h100, too"), "{said}");
    let (said, signed) = reply(order("cpu=1,memory=1Gi,pods=1,gpu.h100=2"));
    assert!(matches!(said, Ok(Reply::Ordered { .. })), "{said:?}");
    let exact = Resources::from_text("cpu=1,memory=1Gi,pods=1,gpu.h100-80gb-sxm=2").unwrap();
    assert_eq!(signed, Some(exact.clone()));
    let demand = wanting("cpu=1,memory=1Gi,pods=1,gpu.h100=2");
    let (said, signed) = reply(Command::Rfq { demand, note: String::new() });
    assert!(matches!(said, Ok(Reply::Asked { .. })), "{said:?}");
    assert_eq!(signed, Some(exact));
}

#[test]
fn who_asks_for_more_than_comes_with_the_gpus_is_told_how_much_that_is() {
    let shared = GpuPool {
        cpu_millis_per_unit: 8_000,
        memory_bytes_per_unit: 64 << 30,
        ..gpu("h100-80gb-sxm", 4, 80)
    };
    let broker = broker([selling("turin", &[&[shared], &[gpu("h100-80gb-pcie", 4, 80)]])]);
    for (quantity, pools, said) in [
        ("cpu=16,memory=128Gi,gpu.h100-80gb-sxm=2", &["turin/p0"][..], None),
        ("cpu=17,gpu.h100-80gb-sxm=2", &[], Some("16 cpu comes with these GPUs")),
        ("memory=65Gi,gpu.h100-80gb-sxm=1", &[], Some("64Gi memory comes with these GPUs")),
        ("cpu=17,gpu.h100=2", &["turin/p1"], Some("16 cpu comes with these GPUs")),
        (
            "cpu=1,memory=1Gi",
            &["turin/p1"],
            Some("sold with GPUs alone: 8 cpu and 64Gi memory come with each h100-80gb-sxm"),
        ),
        ("pods=1", &["turin/p0", "turin/p1"], None),
    ] {
        let market = broker.browse(NOW, &wanting(quantity), true);
        assert_eq!(found(&market), pools, "{quantity}");
        let is_said = |it: &str| lacks(&market).iter().any(|lack| lack == it);
        assert!(said.is_none_or(is_said), "{quantity}: {:?}", lacks(&market));
        assert_eq!(broker.browse(NOW, &wanting(quantity), false).offers, market.offers);
    }
}

/// Some kinds of GPUs of one pool: a model each, how many are free, and the cores that come with one.
fn any_pool() -> impl Strategy<Value = Vec<GpuPool>> {
    let kind = (0..MODELS.len(), 0..5u64, 0..4u64).prop_map(|(model, free, cores)| GpuPool {
        cpu_millis_per_unit: cores * 1_000,
        ..gpu(MODELS[model], free, 16)
    });
    prop::collection::btree_map(0..MODELS.len(), kind, 0..4).prop_map(|kinds| {
        let mut gpus: Vec<_> = kinds.into_values().collect();
        gpus.sort_by(|a, b| a.model.cmp(&b.model));
        gpus.dedup_by(|a, b| a.model == b.model);
        gpus
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_bought_are_models_of_the_pool_that_are_meant_and_nothing_else(
        pools in prop::collection::vec(any_pool(), 1..5),
        asked in prop::collection::btree_map(0..NAMES.len(), 1..5u64, 0..3),
        cores in 0..9u64,
    ) {
        let gpus = asked.iter().map(|(name, n)| (NAMES[*name].parse().unwrap(), *n)).collect();
        let quantity = Resources { cpu_millis: cores * 1_000, gpus, ..Resources::default() };
        prop_assume!(mercato_broker::size::check(&quantity.or(&Resources {
            cpu_millis: 1_000, memory_bytes: 1 << 30, pods: 1, ..Resources::default()
        })).is_ok());
        let pools: Vec<&[GpuPool]> = pools.iter().map(Vec::as_slice).collect();
        let broker = broker([selling("turin", &pools)]);
        let demand = Demand { quantity: quantity.clone(), term_s: 3_600, ..Demand::default() };
        let market = broker.browse(NOW, &demand, true);
        prop_assert_eq!(&broker.browse(NOW, &demand, false).offers, &market.offers);
        for offer in &market.offers {
            let bought = &offer.quantity;
            prop_assert_eq!(bought.gpus.len(), quantity.gpus.len());
            prop_assert!(bought.fits(&offer.free), "{:?} of {:?}", bought, offer.free);
            prop_assert_eq!(check_share(bought, &offer.pool), Ok(()));
            let hour = Usage::of(bought, 3_600_000).unwrap();
            prop_assert_eq!(offer.price.total(&hour), Ok(offer.total));
            for (name, count) in &quantity.gpus {
                let meant = bought.gpus.iter().filter(|(model, _)| is_a(model, name));
                prop_assert_eq!(meant.map(|(_, n)| n).collect::<Vec<_>>(), [count]);
            }
        }
        // Where one model alone may be meant by each name, all that can be sold is found.
        let found = found(&market);
        for (n, gpus) in pools.iter().enumerate() {
            let mut exact = Resources { gpus: Default::default(), ..quantity.clone() };
            let mut is_sold = true;
            for (name, count) in &quantity.gpus {
                let meant: Vec<_> = gpus.iter().filter(|gpu| is_a(&gpu.model, name)).collect();
                let [one] = meant[..] else { is_sold &= !meant.is_empty(); continue };
                exact.gpus.insert(one.model.clone(), *count);
                is_sold &= one.count >= *count;
            }
            if exact.gpus.len() == quantity.gpus.len() || !is_sold {
                let ad = selling("turin", &[gpus]);
                is_sold &= check_share(&exact, &ad.body.pools[0]).is_ok();
                prop_assert_eq!(found.contains(&format!("turin/p{n}")), is_sold);
            }
        }
    }
}
