//! Which of the offers that suit comes first: whole numbers, so that every machine ranks
//! alike. Two currencies never compare: offers in one come before offers in another.

use std::collections::BTreeMap;

use mercato_protocol::price::Currency;
use serde::{Deserialize, Serialize};

/// By what offers are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sort {
    /// The cheapest for the whole term first.
    Price,
    /// The nearest first; those that were not measured last.
    Rtt,
    /// The least carbon first; those that do not say last.
    Carbon,
    /// All of it together, and what is known of the provider.
    #[default]
    Score,
}

/// What a ranking looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merits {
    /// For the whole term; none when free, or without a term.
    pub(crate) cost: Option<(Currency, u64)>,
    /// The last round trip, in microseconds.
    pub(crate) rtt_us: Option<u64>,
    /// Grams of CO2 for each kilowatt-hour.
    pub(crate) carbon: Option<u64>,
    /// Thousandths of the best there is.
    pub(crate) reputation: Option<u64>,
}

/// The better one is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// None: it is for free.
    currency: Option<Currency>,
    key: u64,
}

/// Within so many hundredths of the best, one is as good as the other.
const HERD_PERCENT: u128 = 2;

// How much each merit counts: a guess. The price counts as much as all else.
const COST: u64 = 5;
const RTT: u64 = 1;
const CARBON: u64 = 1;
const REPUTATION: u64 = 3;

// A merit is measured against something that is usual: as much scores one half, none at
// all zero, and however much never more than one. The usual cost is the median of the
// offers at hand, which no single offer can move far. The others are guesses.
const USUAL_RTT_US: u64 = 50_000;
const USUAL_CARBON: u64 = 250;
const BEST_REPUTATION: u64 = 1_000;

/// One, as a score counts it.
const ONE: u64 = 1_000_000;

/// How offers are to be ranked among each other.
#[derive(Debug)]
pub(crate) struct Ranking {
    sort: Sort,
    usual_cost: BTreeMap<Currency, u64>,
}

impl Ranking {
    /// The ranking of offers that cost so much.
    pub(crate) fn new(sort: Sort, costs: impl IntoIterator<Item = (Currency, u64)>) -> Self {
        let mut all: BTreeMap<Currency, Vec<u64>> = BTreeMap::new();
        if sort == Sort::Score {
            costs.into_iter().for_each(|(currency, n)| all.entry(currency).or_default().push(n));
        }
        let median = |mut costs: Vec<u64>| {
            let middle = costs.len() / 2;
            *costs.select_nth_unstable(middle).1
        };
        let medians = all.into_iter().map(|(currency, costs)| (currency, median(costs)));
        Self { sort, usual_cost: medians.collect() }
    }

    pub(crate) fn rank(&self, merits: &Merits) -> Rank {
        let money = |key| Rank { currency: merits.cost.map(|(currency, _)| currency), key };
        match self.sort {
            Sort::Price => money(merits.cost.map_or(0, |(_, micros)| micros)),
            Sort::Rtt => Rank { currency: None, key: merits.rtt_us.unwrap_or(u64::MAX) },
            Sort::Carbon => Rank { currency: None, key: merits.carbon.unwrap_or(u64::MAX) },
            Sort::Score => money(self.lacks(merits)),
        }
    }

    /// How good an offer is, in thousandths of the best there could be; none unless that is
    /// what offers are sorted by.
    pub(crate) fn score(&self, merits: &Merits) -> Option<u64> {
        (self.sort == Sort::Score).then(|| (ONE - self.lacks(merits).min(ONE)) * 1_000 / ONE)
    }

    /// What an offer lacks of the best there could be, in millionths.
    fn lacks(&self, merits: &Merits) -> u64 {
        let against = |n: u64, usual: u64| {
            let (n, usual) = (u128::from(n), u128::from(usual.max(1)));
            u64::try_from(n * u128::from(ONE) / (n + usual)).unwrap_or(ONE)
        };
        let unknown = ONE / 2;
        let cost = merits.cost.map_or(0, |(currency, micros)| {
            against(micros, self.usual_cost.get(&currency).copied().unwrap_or(micros))
        });
        let rtt = merits.rtt_us.map_or(unknown, |us| against(us, USUAL_RTT_US));
        let carbon = merits.carbon.map_or(unknown, |grams| against(grams, USUAL_CARBON));
        let reputation = merits
            .reputation
            .map_or(unknown, |best| ONE - best.min(BEST_REPUTATION) * (ONE / BEST_REPUTATION));
        let sum = COST * cost + RTT * rtt + CARBON * carbon + REPUTATION * reputation;
        sum / (COST + RTT + CARBON + REPUTATION)
    }
}

impl Rank {
    /// Whether it is as good as the best: a random pick among those keeps buyers from all
    /// running to the same one.
    pub(crate) fn is_near(self, best: Self) -> bool {
        let most = u128::from(best.key) * (100 + HERD_PERCENT);
        self.currency == best.currency && u128::from(self.key) * 100 <= most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn eur(micros: u64) -> Merits {
        Merits { cost: Some(("EUR".parse().unwrap(), micros)), ..Merits::default() }
    }

    fn score(merits: &Merits, all: &[Merits]) -> u64 {
        Ranking::new(Sort::Score, all.iter().filter_map(|one| one.cost)).lacks(merits)
    }

    #[test]
    fn a_score_is_of_a_thousand_and_the_higher_the_better() {
        let ranking = Ranking::new(Sort::Score, [("EUR".parse().unwrap(), 100)]);
        let best = Merits {
            rtt_us: Some(0),
            carbon: Some(0),
            reputation: Some(1_000),
            ..Merits::default()
        };
        assert_eq!(ranking.score(&best), Some(1_000));
        let scores = [eur(50), eur(100), eur(u64::MAX)].map(|merits| ranking.score(&merits));
        assert!(scores.is_sorted_by(|better, worse| better > worse), "{scores:?}");
        assert!(scores.iter().flatten().all(|score| *score < 1_000), "{scores:?}");
    }

    #[test]
    fn each_merit_counts() {
        let all = [eur(100), eur(200), eur(300)];
        let base = score(&eur(200), &all);
        assert!(score(&Merits::default(), &all) < base, "free is better than dear");
        for better in [
            eur(199),
            Merits { rtt_us: Some(5_000), ..eur(200) },
            Merits { carbon: Some(50), ..eur(200) },
            Merits { reputation: Some(900), ..eur(200) },
        ] {
            assert!(score(&better, &all) < base, "{better:?}");
        }
        for worse in [
            eur(201),
            Merits { rtt_us: Some(200_000), ..eur(200) },
            Merits { carbon: Some(700), ..eur(200) },
            Merits { reputation: Some(100), ..eur(200) },
        ] {
            assert!(score(&worse, &all) > base, "{worse:?}");
        }
    }

    #[test]
    fn one_absurd_price_changes_nothing() {
        let honest = [eur(100), eur(150), eur(200), eur(210), eur(300)];
        let absurd = [&honest[..], &[eur(u64::MAX)]].concat();
        let order = |all: &[Merits]| {
            let near = Merits { rtt_us: Some(1_000), ..eur(210) };
            score(&near, all) < score(&eur(100), all)
        };
        assert_eq!(order(&honest), order(&absurd));
    }

    #[test]
    fn what_is_not_known_comes_last() {
        let merits = Merits { rtt_us: Some(1), ..Merits::default() };
        let ranking = Ranking::new(Sort::Rtt, []);
        assert!(ranking.rank(&merits) < ranking.rank(&Merits::default()));
        let ranking = Ranking::new(Sort::Carbon, []);
        assert_eq!(ranking.rank(&merits), ranking.rank(&Merits::default()));
    }

    #[test]
    fn within_two_percent_is_as_good() {
        let ranking = Ranking::new(Sort::Price, []);
        let near = |a, b| ranking.rank(&eur(a)).is_near(ranking.rank(&eur(b)));
        assert_eq!((near(102, 100), near(103, 100)), (true, false));
        let usd = Merits { cost: Some(("USD".parse().unwrap(), 100)), ..Merits::default() };
        assert!(!ranking.rank(&usd).is_near(ranking.rank(&eur(100))));
    }

    proptest! {
        #[test]
        fn dearer_never_ranks_better(a in any::<u64>(), b in any::<u64>(), rtt in any::<u64>()) {
            let of = |micros| Merits { rtt_us: Some(rtt), ..eur(micros) };
            for sort in [Sort::Price, Sort::Score] {
                let ranking = Ranking::new(sort, [a, b].into_iter().filter_map(|n| eur(n).cost));
                prop_assert!(ranking.rank(&of(a.min(b))) <= ranking.rank(&of(a.max(b))));
            }
        }
    }
}
