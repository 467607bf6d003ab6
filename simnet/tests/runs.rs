//! Seeds by chance, seeds that were found, and each single fault in turn. The level is
//! `MERCATO_TEST_LEVEL`: `ci`, or `full` with the counts of a release.

#![allow(missing_docs, reason = "a test")]

use mercato_simnet::{Bug, Scenario, Topology, Trouble, sweep};

fn is_full() -> bool {
    std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full")
}

fn assert_all_hold(scenarios: &[Scenario]) {
    assert!(!scenarios.is_empty());
    let failures = sweep::run_all(scenarios);
    let told: Vec<String> = failures.iter().take(10).map(ToString::to_string).collect();
    let last = failures.first().map(|failure| failure.trace.join("\n")).unwrap_or_default();
    assert!(
        failures.is_empty(),
        "{} of {} runs broke a promise:\n{}\n\nThe last of the first one:\n{last}",
        failures.len(),
        scenarios.len(),
        told.join("\n"),
    );
}

#[test]
fn mixed_seeds_keep_all_promises() {
    let (pairs, lans) = if is_full() { (4_500, 500) } else { (180, 20) };
    let pairs = sweep::mixed(Topology::Pair, 1..=pairs);
    let lans = sweep::mixed(Topology::Lan, 1..=lans);
    assert_all_hold(&[pairs, lans].concat());
}

#[test]
fn found_seeds_stay_fixed() {
    let kept = include_str!("../seeds.txt").lines();
    let kept = kept.filter_map(|line| {
        let text = line.split('#').next().unwrap_or_default();
        let mut words = text.split_whitespace();
        let topology: Topology = words.next()?.parse().unwrap();
        let seed = words.next().unwrap().parse().unwrap();
        Some(Scenario { topology, seed, trouble: Trouble::Mixed, bug: None })
    });
    assert_all_hold(&kept.collect::<Vec<_>>());
}

/// For one buyer and one seller: a crash before every effect of either, and every message
/// lost, doubled and late.
#[test]
fn every_single_fault_is_survived() {
    let topology = Topology::Pair;
    let clean = Scenario { topology, seed: 1, trouble: Trouble::One(None), bug: None };
    let outcome = clean.run(false).expect("nothing goes wrong");
    assert!(outcome.effects.iter().all(|effects| *effects > 50), "{outcome:?}");
    assert_all_hold(&sweep::one_fault_each(topology, 1, &outcome));
}

#[test]
fn equal_seeds_have_equal_traces() {
    let run = |seed| {
        let trouble = Trouble::Mixed;
        Scenario { topology: Topology::Lan, seed, trouble, bug: None }.run(false).expect("it holds")
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).trace, run(2).trace);
}

/// Each planted bug breaks a promise within a few seeds.
#[test]
fn every_planted_bug_is_caught() {
    for bug in Bug::ALL {
        let caught = (1..=MOST_SEEDS).any(|seed| {
            let (topology, trouble) = (Topology::Pair, Trouble::Mixed);
            Scenario { topology, seed, trouble, bug: Some(bug) }.run(false).is_err()
        });
        assert!(caught, "{bug} is not caught within {MOST_SEEDS} seeds");
    }
}

/// Within so many seeds a planted bug shows.
const MOST_SEEDS: u64 = 20;
