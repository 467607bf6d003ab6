//! Seeds by chance, seeds that were found, and each single fault in turn. The level is
//! `MERCATO_TEST_LEVEL`: `ci`, or `full` with the counts of a release.

#![allow(missing_docs, reason = "a test")]

use mercato_simnet::{Bug, Fault, FaultPlan, Topology, Trial, sweep};

fn is_full() -> bool {
    std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full")
}

fn trial(topology: Topology, seed: u64, faults: FaultPlan) -> Trial {
    Trial { topology, clusters: topology.default_clusters(), seed, faults, bug: None }
}

fn assert_all_hold(trials: &[Trial]) {
    assert!(!trials.is_empty());
    let failures = sweep::run_all(trials);
    let told: Vec<String> = failures.iter().take(10).map(ToString::to_string).collect();
    let last = failures.first().map(|failure| failure.trace.join("\n")).unwrap_or_default();
    assert!(
        failures.is_empty(),
        "{} of {} trials broke a promise:\n{}\n\nThe last of the first one:\n{last}",
        failures.len(),
        trials.len(),
        told.join("\n"),
    );
}

/// One buyer and one seller, and a local network.
#[test]
fn mixed_seeds_keep_all_promises() {
    let (pairs, lans) = if is_full() { (4_500, 500) } else { (60, 8) };
    let pairs = sweep::mixed(Topology::Pair, 1..=pairs);
    let lans = sweep::mixed(Topology::Lan, 1..=lans);
    assert_all_hold(&[pairs, lans].concat());
}

/// One whose pods find no room, which buys by itself of three.
#[test]
fn mixed_overflows_keep_all_promises() {
    assert_all_hold(&sweep::mixed(Topology::Overflow, 1..=if is_full() { 600 } else { 8 }));
}

/// A purchase, an extension, what is bought in vain and what is given back: the daemon that buys dies before
/// every effect of its own; at level `ci`, before one in sixteen.
#[test]
fn a_crash_anywhere_buys_nothing_twice() {
    let clean = trial(Topology::Overflow, 1, FaultPlan::One(None));
    let outcome = clean.run(false).expect("nothing goes wrong");
    assert!(outcome.effects[0] > 100, "{outcome:?}");
    let all = sweep::one_fault_each(clean, &outcome).into_iter();
    let is_buyers =
        |trial: &Trial| matches!(trial.faults, FaultPlan::One(Some(Fault::Crash(0, _))));
    let some: Vec<Trial> =
        if is_full() { all.collect() } else { all.filter(is_buyers).step_by(16).collect() };
    assert_all_hold(&some);
}

/// 3 to 30 clusters of any topology, hostile ones among them.
#[test]
fn mixed_federations_keep_all_promises() {
    assert_all_hold(&sweep::federations(1..=if is_full() { 10_000 } else { 60 }));
}

#[test]
fn found_seeds_stay_fixed() {
    let kept = include_str!("../seeds.txt").lines();
    let kept = kept.filter_map(|line| {
        let text = line.split('#').next().unwrap_or_default();
        let mut words = text.split_whitespace();
        let topology: Topology = words.next()?.parse().unwrap();
        let seed = words.next().unwrap().parse().unwrap();
        let mut kept = trial(topology, seed, FaultPlan::Mixed);
        kept.clusters = words.next().map_or(kept.clusters, |clusters| clusters.parse().unwrap());
        Some(kept)
    });
    assert_all_hold(&kept.collect::<Vec<_>>());
}

/// For one buyer and one seller: a crash before every effect of either, and every message
/// lost, doubled and late; at level `ci`, one in six.
#[test]
fn every_single_fault_is_survived() {
    let clean = trial(Topology::Pair, 1, FaultPlan::One(None));
    let outcome = clean.run(false).expect("nothing goes wrong");
    assert!(outcome.effects.iter().all(|effects| *effects > 50), "{outcome:?}");
    let all = sweep::one_fault_each(clean, &outcome);
    let some: Vec<Trial> = all.into_iter().step_by(if is_full() { 1 } else { 6 }).collect();
    assert_all_hold(&some);
}

#[test]
fn equal_seeds_have_equal_traces() {
    let run = |seed| trial(Topology::Lan, seed, FaultPlan::Mixed).run(false).expect("it holds");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).trace, run(2).trace);
}

/// Each planted bug breaks a promise within a few seeds.
#[test]
fn every_planted_bug_is_caught() {
    for bug in Bug::ALL {
        let caught = (1..=MOST_SEEDS).any(|seed| {
            let planted = trial(bug.topology(), seed, FaultPlan::Mixed);
            let planted = Trial { bug: Some(bug), ..planted };
            planted.run(false).is_err()
        });
        assert!(caught, "{bug} is not caught within {MOST_SEEDS} seeds");
    }
}

/// Within so many seeds a planted bug shows.
const MOST_SEEDS: u64 = 20;
