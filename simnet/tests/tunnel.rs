//! Real sessions of the tunnel over bad links, by seed; and that each planted mistake is caught.
//! The level is `MERCATO_TEST_LEVEL`: `ci`, or `full` with the counts of a release.

#![allow(missing_docs, reason = "a test")]

use mercato_simnet::sweep;
use mercato_simnet::tunnel::{HEALING_MS, TunnelBug, TunnelTrial};

/// Within so many seeds a planted mistake shows.
const MOST_SEEDS: u64 = 30;

/// Seeds that broke a promise once.
const BROKEN: [u64; 1] = [
    // Began anew with its clock set back, and the other had heard a recording.
    4_040,
];

fn trials(seeds: u64) -> Vec<TunnelTrial> {
    BROKEN.into_iter().chain(1..=seeds).map(|seed| TunnelTrial { seed, bug: None }).collect()
}

#[test]
fn sessions_keep_all_promises_over_bad_links() {
    let is_full = std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full");
    let trials = trials(if is_full { 10_000 } else { 40 });
    for outcome in sweep::run_tunnels(&trials) {
        let outcome = outcome.unwrap_or_else(|failure| {
            panic!("{failure}\n\nThe last of it:\n{}", failure.trace.join("\n"))
        });
        assert!(outcome.delivered > 100 && outcome.healed_ms <= HEALING_MS, "{outcome:?}");
    }
}

#[test]
fn equal_seeds_have_equal_traces() {
    let run = |seed| TunnelTrial { seed, bug: None }.run(false).expect("it holds");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).trace, run(2).trace);
}

#[test]
fn every_planted_mistake_is_caught() {
    for bug in TunnelBug::ALL {
        let mut seeds = 1..=MOST_SEEDS;
        let caught = seeds.any(|seed| TunnelTrial { seed, bug: Some(bug) }.run(false).is_err());
        assert!(caught, "{bug} is not caught within {MOST_SEEDS} seeds");
    }
}
