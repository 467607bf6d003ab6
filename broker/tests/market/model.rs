//! The search against a plain reading of the same advertisements.

use std::collections::BTreeMap;

use mercato_broker::syntax::FromText as _;
use mercato_broker::{Demand, Selector, Sort};
use mercato_protocol::ad::Ad;
use mercato_protocol::price::{Price, Usage};
use mercato_protocol::resources::Resources;
use proptest::prelude::*;

use crate::fair::{NOW, ad, body, broker, found, gpu, header, with_pool};

/// One offer: a country, processors, GPUs of a model with so much memory, cents an hour.
type Offer = (Option<usize>, u64, Option<(usize, u64, u64)>, Option<u64>);

const COUNTRIES: [&str; 3] = ["IT", "FR", "NO"];
const MODELS: [&str; 3] = ["h100", "a100", "l4"];

#[derive(Clone, Debug)]
enum Asked {
    Country(Vec<usize>, bool),
    Cpu(u64),
    Model(usize),
    Memory(u64),
    Count(u64),
    Cents(u64),
}

impl Asked {
    fn text(&self) -> String {
        match self {
            Self::Country(countries, not) => {
                let names: Vec<_> = countries.iter().map(|n| COUNTRIES[*n]).collect();
                format!("jurisdiction {} ({})", if *not { "notin" } else { "in" }, names.join(","))
            }
            Self::Cpu(n) => format!("cpu>={n}"),
            Self::Model(n) => format!("gpu.model={}", MODELS[*n]),
            Self::Memory(gib) => format!("gpu.mem>={gib}Gi"),
            Self::Count(n) => format!("gpu.count>={n}"),
            Self::Cents(n) => format!("price.cpu.EUR<={}.{:02}/h", n / 100, n % 100),
        }
    }

    fn holds(&self, (country, cpu, gpus, cents): &Offer) -> bool {
        let gpu = |is: &dyn Fn(usize, u64, u64) -> bool| gpus.is_some_and(|(m, n, g)| is(m, n, g));
        match self {
            Self::Country(wanted, not) => country.is_some_and(|c| wanted.contains(&c) != *not),
            Self::Cpu(n) => cpu >= n,
            Self::Model(wanted) => gpu(&|model, _, _| model == *wanted),
            Self::Count(wanted) => gpu(&|_, count, _| count >= *wanted),
            Self::Memory(wanted) => gpu(&|_, _, gib| gib >= *wanted),
            Self::Cents(most) => cents.is_none_or(|cents| cents <= *most),
        }
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        (prop::collection::vec(0..3usize, 1..3), any::<bool>())
            .prop_map(|(c, n)| Asked::Country(c, n)),
        (0..20u64).prop_map(Asked::Cpu),
        (0..3usize).prop_map(Asked::Model),
        (1..100u64).prop_map(Asked::Memory),
        (0..9u64).prop_map(Asked::Count),
        (0..300u64).prop_map(Asked::Cents),
    ]
}

fn offer() -> impl Strategy<Value = Offer> {
    let gpus = prop::option::of((0..3usize, 0..9u64, 1..100u64));
    (prop::option::of(0..3usize), 0..20u64, gpus, prop::option::of(1..300u64))
}

/// Offers of one country come from one provider, a pool each.
fn published(offers: &[Offer]) -> (Vec<Ad>, BTreeMap<String, Offer>) {
    let (mut ads, mut names) = (Vec::new(), BTreeMap::new());
    for country in [None, Some(0), Some(1), Some(2)] {
        let name = country.map_or("nowhere", |n: usize| COUNTRIES[n]);
        let mut ad = ad(name);
        body(&mut ad).jurisdiction = country.map(|n| COUNTRIES[n].to_owned());
        body(&mut ad).pools.clear();
        header(&mut ad).rows.clear();
        for (n, offer) in offers.iter().enumerate().filter(|(_, offer)| offer.0 == country) {
            let (_, cpu, gpus, cents) = offer;
            let price = cents.map_or("free".to_owned(), |cents| {
                format!("cpu={}.{:02} EUR/h", cents / 100, cents % 100)
            });
            let gpus = gpus.map(|(model, count, gib)| gpu(MODELS[model], count, gib));
            let pool = format!("p{n:03}");
            ad = with_pool(ad, &pool, &format!("cpu={cpu},memory=1Gi,pods=9"), &price, gpus);
            names.insert(format!("{name}/{pool}"), *offer);
        }
        ads.push(ad);
    }
    (ads, names)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_found_is_what_holds(
        offers in prop::collection::vec(offer(), 0..40),
        asked in prop::collection::vec(asked(), 0..5),
        cpu in 0..12u64,
    ) {
        let (ads, names) = published(&offers);
        let broker = broker(ads);
        let text = asked.iter().map(Asked::text).collect::<Vec<_>>().join(", ");
        let quantity = Resources { cpu_millis: cpu * 1_000, ..Resources::default() };
        let selector = Selector::from_text(&text).unwrap();
        let sort = Sort::Price;
        let demand = Demand { selector, quantity, term_s: 3_600, sort, ..Demand::default() };
        let market = broker.browse(NOW, &demand, true);
        let suits = |offer: &Offer| offer.1 >= cpu && asked.iter().all(|one| one.holds(offer));

        // What suits, and nothing else, the cheapest first.
        let mut expected: Vec<_> = names.iter().filter(|(_, offer)| suits(offer)).collect();
        expected.sort_by_key(|(_, offer)| offer.3.map(|cents| cents * cpu));
        let costs = market.offers.iter().map(|one| one.total.map(|total| total.micros / 10_000));
        prop_assert!(costs.eq(expected.iter().map(|(_, offer)| offer.3.map(|cents| cents * cpu))));
        let mut sorted = found(&market);
        sorted.sort();
        let mut expected: Vec<_> = expected.into_iter().map(|(name, _)| name.clone()).collect();
        expected.sort();
        prop_assert_eq!(sorted, expected);
        prop_assert_eq!((market.seen, market.suiting), (names.len(), market.offers.len()));

        // Whoever does not ask why finds the same.
        prop_assert_eq!(&broker.browse(NOW, &demand, false).offers, &market.offers);

        // Each need is blamed for as many as miss it.
        for one in &asked {
            let misses = names.values().filter(|offer| !one.holds(offer)).count();
            let blamed = market.excluded.iter().find(|group| group.by == one.text());
            prop_assert_eq!(blamed.map_or(0, |group| group.offers), misses);
        }
        // The nearest miss is a miss, and what is said of it includes the need itself.
        for group in &market.excluded {
            let nearest = &names[&format!("{}/{}", group.nearest.name, group.nearest.pool)];
            prop_assert!(!suits(nearest));
            prop_assert!(group.alone <= group.offers && !group.nearest.lacks.is_empty());
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in "[a-z.0-9 =<>!(),\"@/è]{0,60}") {
        if let Err(error) = Selector::from_text(&text) {
            prop_assert!(error.column() <= text.chars().count() + 1);
            prop_assert!(error.to_string().lines().count() == 3);
        }
    }

    #[test]
    fn a_price_is_the_exact_sum_of_its_lines(
        micros in prop::collection::vec((any::<u64>(), 1..u32::MAX), 3),
        quantity in (any::<u64>(), any::<u64>(), any::<u64>()),
        ms in any::<u64>(),
    ) {
        use mercato_protocol::price::UnitPrice;
        use mercato_protocol::resources::Resource::{Cpu, Memory, Pods};
        let units: BTreeMap<_, _> = [Cpu, Memory, Pods]
            .into_iter()
            .zip(micros.iter().map(|(micros, period_s)| UnitPrice { micros: *micros, period_s: *period_s }))
            .collect();
        let price = Price::Posted { currency: "EUR".parse().unwrap(), units };
        let (cpu_millis, memory_bytes, pods) = quantity;
        let quantity = Resources { cpu_millis, memory_bytes, pods, ..Resources::default() };
        // In whole numbers of 128 bits, with every step checked.
        let line = |n: u64, per: u128, (micros, period): (u64, u32)| {
            let counter = u64::try_from(u128::from(n) * u128::from(ms)).ok()?;
            let asked = u128::from(micros).checked_mul(u128::from(counter))?;
            u64::try_from(asked / (per * u128::from(period) * 1_000)).ok()
        };
        let expected = [(cpu_millis, 1_000), (memory_bytes >> 20, 1_024), (pods, 1)]
            .into_iter()
            .zip(&micros)
            .map(|((n, per), unit)| line(n, per, *unit))
            .try_fold(0u64, |sum, line| sum.checked_add(line?));
        let total = Usage::of(&quantity, ms).and_then(|usage| price.total(&usage));
        prop_assert_eq!(total.ok().flatten().map(|money| money.micros), expected);
    }
}
