//! A daemon that starts again finds those with whom it has leases, though nobody tells it where.

use std::fs;
use std::time::{Duration, Instant};

use crate::crowd::{partners, trade};
use crate::kit::{Daemon, done};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn partners_are_found_where_they_were_met_last() {
    let (turin, rome) = partners();
    trade(&rome, &turin);
    kept(&rome, |text| text.lines().count() == 1);
    // It listens elsewhere now, so that turin does not find it either.
    let rome = rome.restart();
    rome.wait_for(&["peers", "-o", "json"], |peers| peers[0]["connected"].is_string());
    let contracts = rome.json(&["contracts", "-o", "json"]);
    let id = contracts[0]["id"].as_str().unwrap();
    done(&rome, &["contracts", "cancel", id, "--reason", "done", "--yes"]);
    kept(&rome, str::is_empty);
    rome.stop();
    turin.stop();
}

/// Waits until its list of them is so.
fn kept(daemon: &Daemon, is_so: impl Fn(&str) -> bool) {
    let (file, start) = (daemon.file("partners"), Instant::now());
    while !fs::read_to_string(&file).is_ok_and(|text| is_so(&text)) {
        assert!(start.elapsed() < PATIENCE, "{:?}", fs::read_to_string(&file));
        std::thread::sleep(Duration::from_millis(50));
    }
}
