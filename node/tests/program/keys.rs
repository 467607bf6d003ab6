//! A cluster changes its key by the command line: its contract and what others think of it stay,
//! and whoever has the old key is refused.

use serde_json::Value;
use tempfile::TempDir;

use crate::kit::{Daemon, done, stderr};

const ORDER: [&str; 11] =
    ["order", "--cpu", "1", "--memory", "2Gi", "--pods", "10", "--for", "1h", "-o", "json"];

fn key(of: &Daemon) -> String {
    of.json(&["status", "-o", "json"])["daemon"]["key"].as_str().unwrap().to_owned()
}

/// Waits until `with` is connected under this key, as the same cluster.
fn connected(daemon: &Daemon, with: &str, key: &str) -> Value {
    let is =
        |peer: &Value| peer["name"] == with && peer["key"] == key && peer["connected"].is_string();
    let all = daemon.wait_for(&["peers", "-o", "json"], |peers| {
        peers.as_array().is_some_and(|peers| peers.iter().any(is))
    });
    all.as_array().unwrap().iter().find(|peer| is(peer)).unwrap().clone()
}

/// As long as the term was: it was changed by both sides, with the keys that they have now.
fn extend(rome: &Daemon, turin: &Daemon, id: &str, term_s: u64) {
    done(rome, &["contracts", "extend", id, "--for", "1h"]);
    for side in [rome, turin] {
        side.wait_for(&["contracts", "show", id, "-o", "json"], |deal| {
            deal["state"] == "active" && deal["terms"]["termS"] == term_s
        });
    }
}

/// The identity of a daemon as it is now, in another folder.
fn copy(of: &Daemon) -> TempDir {
    let dir = TempDir::new().unwrap();
    for file in ["identity.seed", "identity.cbor"] {
        std::fs::copy(of.path().join(file), dir.path().join(file)).unwrap();
    }
    dir
}

#[test]
fn a_contract_outlives_the_keys_of_both_sides() {
    let rome = Daemon::start("rome", &[]);
    let turin = Daemon::start("turin", &[&rome.address()]);
    let share = ["share", "set", "--cpu", "50%", "--memory", "50%", "--approve", "auto"];
    done(&turin, &[&share[..], &["--price", "cpu=0.60 EUR/h"]].concat());
    rome.wait_for(&["browse", "-o", "json"], |browse| browse["suiting"] == 1);
    done(&rome, &["peer", "trust", "turin", "--yes"]);
    let id = rome.json(&ORDER)["id"].as_str().unwrap().to_owned();
    for side in [&rome, &turin] {
        side.wait_for(&["contracts", "show", &id, "-o", "json"], |deal| deal["state"] == "active");
    }

    let (stolen, old) = (copy(&turin), key(&turin));
    let cluster = connected(&rome, "turin", &old)["cluster"].clone();
    let unasked = turin.ask(&["key", "rotate"]);
    assert_eq!(unasked.status.code(), Some(2), "{}", stderr(&unasked));
    assert!(stderr(&unasked).contains("pods and contracts run on"), "{}", stderr(&unasked));
    assert_eq!(key(&turin), old);
    let said = done(&turin, &["key", "rotate", "--yes"]);
    let new = key(&turin);
    assert_ne!(new, old);
    assert!(said.contains(&new[..8]), "{said}");
    let peer = connected(&rome, "turin", &new);
    assert_eq!((&peer["cluster"], &peer["standing"]), (&cluster, &"trusted".into()));
    extend(&rome, &turin, &id, 7_200);

    // Whoever has the old key is refused, also by one that has just started.
    let thief = Daemon::start_in(stolen, "turin", &[&rome.address()]);
    rome.wait_for_text(&["events"], |text| text.contains("refused: somebody with a key that"));
    let rome = rome.restart_with(&[&thief.address(), &turin.address()]);
    connected(&rome, "turin", &new);
    rome.wait_for_text(&["events"], |text| text.matches("refused: somebody").count() > 1);
    drop(thief);

    // The other side, and a death right after.
    let before = key(&rome);
    done(&rome, &["key", "rotate", "--yes"]);
    let rome = rome.restart_with(&[&turin.address()]);
    assert_ne!(key(&rome), before);
    connected(&turin, "rome", &key(&rome));
    extend(&rome, &turin, &id, 10_800);
    done(&rome, &["contracts", "cancel", &id, "--yes"]);
    turin.wait_for(&["contracts", "show", &id, "-o", "json"], |deal| deal["state"] == "closed");
    turin.wait_for(&["contracts", "statement", &id, "-o", "json"], |rows| {
        rows.as_array().is_some_and(|rows| !rows.is_empty())
    });
    [rome, turin].into_iter().for_each(Daemon::stop);
}
