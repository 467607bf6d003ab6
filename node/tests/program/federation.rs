//! Three daemons that know each other by list: an offer spreads, is bought, used, billed
//! and ended, all by the command line.

use crate::kit::{Daemon, stderr, stdout};

const SHARE: [&str; 8] =
    ["share", "set", "--cpu", "50%", "--memory", "50%", "--price", "cpu=0.60 EUR/h"];

#[test]
fn an_offer_spreads_is_bought_and_ended() {
    let turin = Daemon::start("turin", &[]);
    let oslo = Daemon::start("oslo", &[&turin.address()]);
    // Rome reaches turin only through what oslo tells of it.
    let rome = Daemon::start("rome", &[&oslo.address()]);
    let shared = turin.ask(&SHARE);
    assert!(shared.status.success(), "{}", stderr(&shared));
    let market = rome.wait_for(&["browse", "-o", "json"], |browse| browse["suiting"] == 1);
    assert_eq!(market["offers"][0]["name"], "turin");
    let selector = "cpu>=2, provider in (turin,oslo), gpu.model";
    let explained = rome.ask(&["browse", selector, "--explain", "-o", "json"]);
    assert_eq!(explained.status.code(), Some(3), "{}", stderr(&explained));
    let market: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!((&market["seen"], &market["suiting"]), (&1.into(), &0.into()));
    assert_eq!(market["excluded"][0]["by"], "gpu.model");
    assert_eq!(rome.ask(&["browse", selector]).status.code(), Some(3));
    rome.wait_for(&["peers", "-o", "json"], |peers| {
        let turin = |peer: &&serde_json::Value| peer["name"] == "turin";
        peers
            .as_array()
            .unwrap()
            .iter()
            .find(turin)
            .is_some_and(|peer| peer["connected"].is_string())
    });

    let order = ["order", "--cpu", "2", "--memory", "4Gi", "--pods", "10", "--for", "1h"];
    let stranger = rome.ask(&order);
    assert_eq!(stranger.status.code(), Some(1), "{}", stderr(&stranger));
    assert!(stderr(&stranger).contains("mercato peer trust"), "{}", stderr(&stranger));
    let unasked = rome.ask(&["peer", "trust", "turin"]);
    assert_eq!(unasked.status.code(), Some(2), "{}", stderr(&unasked));
    assert!(stderr(&unasked).contains("fingerprint"), "{}", stderr(&unasked));
    assert!(rome.ask(&["peer", "trust", "turin", "--yes"]).status.success());
    let much = rome.ask(&["order", "--cpu", "64", "--memory", "4Gi", "--for", "1h"]);
    assert_eq!(much.status.code(), Some(3), "{}", stderr(&much));

    let ordered = rome.json(&[&order[..], &["-o", "json"]].concat());
    let id = ordered["id"].as_str().unwrap();
    turin.wait_for(&["requests", "-o", "json"], |all| all[0]["id"] == id);
    assert!(turin.ask(&["requests", "accept", &id[..8]]).status.success());
    let show = ["contracts", "show", id, "-o", "json"];
    let contract = rome.wait_for(&show, |contract| contract["state"] == "active");
    assert_eq!(contract["node"], "mercato-turin");
    let table = stdout(&rome.ask(&["contracts"]));
    assert!(table.contains("turin  active"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");

    assert!(rome.ask(&["contracts", "cancel", id, "--yes"]).status.success());
    for side in [&rome, &turin] {
        side.wait_for(&show, |contract| {
            contract["state"] == "closed" && contract["node"].is_null()
        });
    }
    let again = turin.ask(&["requests", "accept", id]);
    assert_eq!(again.status.code(), Some(3), "{}", stderr(&again));
    [rome, oslo, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_restart_changes_nothing_and_one_daemon_has_the_records() {
    let turin = Daemon::start("turin", &[]);
    assert!(turin.ask(&SHARE).status.success());
    let before = turin.json(&["status", "-o", "json"]);
    let second = turin.ask(&["run", "--no-lan", "--no-kubernetes", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("in use by another daemon"), "{}", stderr(&second));
    let turin = turin.restart();
    assert_eq!(
        turin.json(&["status", "-o", "json"])["daemon"]["cluster"],
        before["daemon"]["cluster"]
    );
    let shared = turin.wait_for(&["share", "-o", "json"], |shared| shared["onSale"][0].is_object());
    assert_eq!(shared["policy"]["amounts"]["cpu"]["percent"], 50);
}
