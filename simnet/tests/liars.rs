//! Partners that lie about an end, by seed; and that each wrong rule of settling is caught by what
//! the honest side loses.

#![allow(missing_docs, reason = "a test")]

use mercato_simnet::hostile::Liar;
use mercato_simnet::{LiarTrial, WrongRule, sweep};

fn is_full() -> bool {
    std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full")
}

#[test]
fn whoever_lies_about_an_end_gains_nothing() {
    let seeds = 1..=if is_full() { 600 } else { 12 };
    for liar in Liar::ALL {
        let trials: Vec<_> =
            seeds.clone().map(|seed| LiarTrial { liar, seed, wrong: None }).collect();
        let outcomes = sweep::run_liars(&trials);
        let (mut tried, mut settled) = (0, 0);
        for (trial, outcome) in trials.iter().zip(outcomes) {
            let outcome = outcome.unwrap_or_else(|violation| panic!("{violation}; again: {trial}"));
            tried += outcome.tried;
            settled += outcome.settled;
        }
        assert!(tried > 0, "{liar} never lies");
        assert!(settled > 0 || liar == Liar::CloseLiarSeller, "nothing is settled with {liar}");
    }
}

/// Within so many seeds a wrong rule shows.
const MOST_SEEDS: u64 = 20;

#[test]
fn every_wrong_rule_is_caught() {
    for wrong in WrongRule::ALL {
        for liar in wrong.liars().iter().copied() {
            let planted = |seed| LiarTrial { liar, seed, wrong: Some(wrong) };
            let found = (1..=MOST_SEEDS).find_map(|seed| planted(seed).run().err());
            let violation = found.unwrap_or_else(|| panic!("{wrong} is not caught with {liar}"));
            // What the honest side loses, and no other promise.
            let loss = match (wrong, liar) {
                (WrongRule::BilledAfterEnd, _) => "after the end are signed for",
                (_, Liar::CloseLiarBuyer) => "its buyer ended it, and has",
                (_, _) => "is taken off for an early end",
            };
            assert!(violation.0.contains(loss), "{wrong} with {liar}: {violation}");
        }
    }
}
