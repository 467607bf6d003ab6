//! The disk and the clock of a simulated cluster.

use mercato_agent::Record;
use mercato_agent::limits::RECORD_BYTES;
use mercato_protocol::id::ContractId;

use super::*;

#[test]
fn it_takes_no_record_that_a_daemon_would_not_keep() {
    let namespaces = |count: usize| {
        let names = (0..count).map(|at| (format!("{at:063}"), String::new())).collect();
        vec![Effect::Persist(Change::Put(Record::Namespaces(ContractId([1; 16]), names)))]
    };
    let mut site = Site::new(0, "rome", [1; 32], Clock::default(), Interner::new(1)).unwrap();
    site.keep(namespaces(64)).unwrap();
    let Violation(what) = site.keep(namespaces(RECORD_BYTES / 63)).unwrap_err();
    assert!(what.contains("at most 524288 are kept"), "{what}");
}

#[test]
fn a_clock_drifts_and_jumps_and_its_words_can_be_dated() {
    let clock = Clock { skew_ms: -500, drift_ppm: 100, jump_ms: 2_000 };
    let site = Site::new(0, "rome", [1; 32], clock, Interner::new(1)).unwrap();
    assert_eq!(site.now(0).wall_ms, START_WALL_MS + 1_500);
    assert_eq!(site.now(1_000_000).wall_ms, START_WALL_MS + 1_001_600);
    let days_ms = 40 * 86_400_000;
    assert_eq!(site.now(days_ms).wall_ms, START_WALL_MS + days_ms + 1_500);
    let most_ms = days_ms + DRIFT_MS;
    assert_eq!(site.now(most_ms).wall_ms, START_WALL_MS + most_ms + 1_500 + 360);
    assert_eq!(site.run_ms(START_WALL_MS + 61_500), 60_000);
}
