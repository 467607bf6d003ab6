//! Federations tried out: what comes of them, and what attacks on them gain.

#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;

use mercato_broker::limits;
use mercato_simnet::hostile::{Character, Gain};
use mercato_simnet::{Federation, Plan, Run, Topology, report};

const MINUTE_MS: u64 = 60_000;

fn run(plan: Plan, seed: u64, minutes: u64) -> Run {
    Federation { plan, seed, for_ms: minutes * MINUTE_MS }.run(|_| {}).expect("promises hold")
}

/// One of each kind of attacker among honest clusters: none gains more than the market's
/// limits allow. At level `full` it goes on for half an hour, and then each has really
/// tried, and honest trade went on.
#[test]
fn no_attack_gains_more_than_the_limits_allow() {
    let full = std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full");
    let run = run(Topology::Hostile.plan(Some(16), 3), 3, if full { 32 } else { 3 });
    let gains: BTreeMap<Character, &Gain> =
        run.measures.gains.values().map(|gain| (gain.character, gain)).collect();
    assert_eq!(gains.len(), Character::ALL.len());
    for (character, gain) in &gains {
        assert!(gain.is_contained(), "{character}: {gain:?}");
        // These two need not do anything but be there.
        let passive = matches!(character, Character::CheapestStranger | Character::ClockLiar);
        assert!(!full || passive || gain.tried > 0, "{character} did nothing: {gain:?}");
    }
    // An attack that gains nothing at all where it may gain something tests nothing.
    for character in [Character::Flooder, Character::HoldHoarder, Character::NonSigningBuyer] {
        assert!(!full || gains[&character].gained > 0, "{:?}", gains[&character]);
    }
    assert!(!full || run.measures.jobs.away > 10, "{:?}", run.measures.jobs);
}

#[test]
fn a_federation_serves_more_jobs_than_its_clusters_alone() {
    let run = run(Topology::Lan.plan(None, 1), 1, 40);
    let jobs = run.measures.jobs;
    assert!(jobs.away > 10 && jobs.given_up < run.alone.given_up, "{jobs:?} {:?}", run.alone);
    let (with, without) = run.measures.utilisation(&run.federation.plan);
    assert!(with > without, "{with} and {without}");
    assert_eq!(run.measures.trades.len(), run.measures.contract_ms.len());
}

/// A hundred leases a day and more between two clusters, for forty days at level `full`: what is
/// over takes no room from what is to come, and of what is kept there is no more than that.
#[test]
fn trade_goes_on_for_as_long_as_there_are_days() {
    let full = std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full");
    let hours = if full { 40 * 24 } else { 3 };
    let run = run(Topology::Pair.plan(None, 4), 4, hours * 60);
    let trades = &run.measures.trades;
    let within = |from: u64, hours: u64| {
        let hours_ms = from * 60 * MINUTE_MS..(from + hours) * 60 * MINUTE_MS;
        trades.iter().filter(|trade| hours_ms.contains(&trade.at_ms)).count()
    };
    println!("{} contracts in {hours} h, records {:?}", trades.len(), run.records);
    // Work rises and falls once an hour: what is asked for is counted by the day.
    let day = hours.min(24);
    for from in (0..hours).step_by(24) {
        let leases = within(from, day);
        assert!(leases as u64 * 24 >= 100 * day, "{leases} contracts in {day} h from hour {from}");
    }
    let idle = (0..hours).find(|hour| within(*hour, 1) == 0);
    assert_eq!(idle, None, "an hour without a contract");
    for records in &run.records {
        let of = |kind| records.get(kind).copied().unwrap_or(0);
        // Each contract is kept for its statement; of what came to nothing a thousand.
        let most = trades.len() + limits::ENDED + 16;
        assert!(of("broker") <= most, "{records:?}, at most {most}");
        // A provider tells for a day how the pods of a lease ended that is over.
        let lately = within(hours.saturating_sub(25), 25) + AT_A_TIME;
        let of_leases = of("home") + of("guest") + of("namespaces");
        assert!(of_leases <= lately * OF_LEASE, "{records:?}, {lately} leases");
    }
}

/// Leases of two clusters at a time, and records of one: its epochs, its namespaces and a pod or
/// a few. Guesses.
const AT_A_TIME: usize = 64;
const OF_LEASE: usize = 8;

/// A job that loses its place and finds another one, or none, counts where it ends: the run itself
/// compares what was counted with the jobs that wait.
#[test]
fn an_interrupted_job_counts_once() {
    let run = run(Topology::Partition.plan(Some(16), 3), 3, 60);
    assert!(run.measures.jobs.interrupted > 0, "{:?}", run.measures.jobs);
}

/// Every named federation trades, and leaves a report.
#[test]
fn every_topology_trades_and_is_reported() {
    for topology in Topology::ALL {
        let run = run(topology.plan(Some(12.min(topology.default_clusters())), 2), 2, 8);
        assert!(run.measures.jobs.came > 0, "{topology}");
        assert!(!report::summary(&run).is_empty());
        let folder = tempfile::tempdir().unwrap();
        report::write(folder.path(), &[&run]).unwrap();
        let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
        assert!(page.contains("</svg>") && !page.contains("NaN") && !page.contains("http"));
        let again =
            format!("simnet run {topology} --clusters {}", run.federation.plan.clusters.len());
        assert!(page.contains(&format!("{again} --seed 2 --for 8m")), "{again}");
        assert!(!page.contains("Minute 20"), "what would come after the end is not told");
        let json = std::fs::read(folder.path().join("report.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json[0]["trace"], run.trace.to_string());
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let traces = [7, 7, 8].map(|seed| {
        let run = run(Topology::National.plan(Some(20), seed), seed, 5);
        (run.trace, run.steps)
    });
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
}

/// Under one demand, side by side.
#[test]
fn compared_federations_have_the_same_demand() {
    let mut plans = [Topology::Ring, Topology::Star].map(|one| one.plan(Some(10), 5));
    report::level(&mut plans, 8 * MINUTE_MS);
    let runs = plans.map(|plan| run(plan, 5, 8));
    assert_eq!(runs[0].measures.jobs.came, runs[1].measures.jobs.came);
    assert_eq!(runs[0].alone, runs[1].alone);
    let table = report::comparison(&[&runs[0], &runs[1]]);
    assert!(table.contains("ring") && table.contains("star"), "{table}");
}
