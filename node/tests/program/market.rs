//! Firm offers, counter-offers and changes of a contract, by the command line.

use serde_json::Value;

use crate::kit::{Daemon, stderr, stdout};

pub(crate) const DEMAND: [&str; 7] = ["--cpu", "2", "--memory", "4Gi", "--pods", "10", "--for"];

pub(crate) fn share(seller: &Daemon, price: &str, approve: &str) {
    let set = ["share", "set", "--cpu", "50%", "--memory", "50%", "--price", price];
    let shared = seller.ask(&[&set[..], &["--approve", approve]].concat());
    assert!(shared.status.success(), "{}", stderr(&shared));
}

/// A buyer who knows and trusts these sellers, and what they offer.
pub(crate) fn buyer(sellers: &[(&Daemon, &str)]) -> Daemon {
    let addresses: Vec<String> = sellers.iter().map(|(seller, _)| seller.address()).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let rome = Daemon::start("rome", &addresses);
    rome.wait_for(&["browse", "-o", "json"], |offers| {
        offers["offers"].as_array().is_some_and(|offers| offers.len() == sellers.len())
    });
    for (_, name) in sellers {
        assert!(rome.ask(&["peer", "trust", name, "--yes"]).status.success());
    }
    rome
}

pub(crate) fn order(rome: &Daemon, more: &[&str]) -> String {
    let ordered = rome.json(&[&["order"], &DEMAND[..], &["1h", "-o", "json"], more].concat());
    ordered["id"].as_str().unwrap().to_owned()
}

pub(crate) fn wait_for_state(daemon: &Daemon, id: &str, state: &str) -> Value {
    let show = ["contracts", "show", id, "-o", "json"];
    daemon.wait_for(&show, |contract| contract["state"] == state)
}

#[test]
fn the_best_of_several_firm_offers_is_taken() {
    let turin = Daemon::start("turin", &[]);
    let oslo = Daemon::start("oslo", &[]);
    share(&turin, "cpu=0.60 EUR/h", "auto");
    share(&oslo, "cpu=0.50 EUR/h", "auto");
    let rome = buyer(&[(&turin, "turin"), (&oslo, "oslo")]);

    let rfq = [&["rfq"], &DEMAND[..], &["1h"]].concat();
    let table = stdout(&rome.ask(&rfq));
    assert_eq!(table.matches("offered").count(), 2, "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");

    let round = rome.json(&[&rfq[..], &["-o", "json"]].concat());
    let names = [0, 1].map(|n| round["offers"][n]["peerName"].as_str().unwrap());
    assert_eq!(names, ["oslo", "turin"], "the cheapest first");
    let [best, other] = [0, 1].map(|n| round["offers"][n]["id"].as_str().unwrap());
    let taken = rome.json(&["order", "--offer", &best[..8], "-o", "json"]);
    assert_eq!(taken["id"], best);
    wait_for_state(&rome, best, "active");
    for side in [&rome, &turin] {
        wait_for_state(side, other, "terminated");
    }
    let late = rome.ask(&["order", "--offer", other]);
    assert_eq!(late.status.code(), Some(3), "{}", stderr(&late));
    [rome, oslo, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_counter_offer_is_taken_by_hand_or_within_the_limit() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "cpu=0.60 EUR/h, memory=0.01 EUR/h", "ask");
    let rome = buyer(&[(&turin, "turin")]);
    for (more, price) in
        [(&[][..], "cpu=0.70 EUR/h"), (&["--max-price", "2 EUR/h"], "cpu=0.80 EUR/h")]
    {
        let id = order(&rome, more);
        wait_for_state(&turin, &id, "review");
        let countered = turin.ask(&["requests", "accept", &id, "--price", price, "--hold", "8h"]);
        assert!(countered.status.success(), "{}", stderr(&countered));
        if more.is_empty() {
            let offered = wait_for_state(&rome, &id, "offered");
            let held_ms = offered["untilMs"].as_u64().unwrap() - now_ms();
            assert!((7 * 3_600_000..=8 * 3_600_000).contains(&held_ms), "held for {held_ms} ms");
            assert_eq!(offered["asked"]["total"]["micros"], 1_240_000);
            let memory = &offered["terms"]["price"]["posted"]["units"]["memory"]["micros"];
            assert_eq!(*memory, 10_000, "the line that was not named");
            let waits = "offers cpu=2,memory=4Gi,pods=10 for 1.44 EUR, asked 1.24 EUR";
            rome.wait_for_text(&["status"], |text| {
                text.split_whitespace().collect::<Vec<_>>().join(" ").contains(waits)
            });
            assert!(rome.ask(&["order", "--offer", &id]).status.success());
        }
        let contract = wait_for_state(&rome, &id, "active");
        let micros = &contract["terms"]["price"]["posted"]["units"]["cpu"]["micros"];
        assert_eq!(*micros, if more.is_empty() { 700_000 } else { 800_000 });
        assert!(rome.ask(&["contracts", "cancel", &id, "--yes"]).status.success());
        wait_for_state(&turin, &id, "closed");
    }
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_contract_is_extended_and_resized() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "cpu=0.60 EUR/h", "auto");
    let rome = buyer(&[(&turin, "turin")]);
    let id = order(&rome, &[]);
    wait_for_state(&rome, &id, "active");
    let extended = rome.ask(&["contracts", "extend", &id, "--for", "2h"]);
    assert!(stdout(&extended).contains("for 3h in all"), "{}", stderr(&extended));
    let resized = rome.ask(&["contracts", "resize", &id, "--cpu", "3"]);
    assert!(stdout(&resized).contains("cpu=3"), "{}{}", stdout(&resized), stderr(&resized));
    for side in [&rome, &turin] {
        let contract = wait_for_state(side, &id, "active");
        let terms = &contract["terms"];
        assert_eq!(
            (&terms["termS"], &terms["quantity"]["cpuMillis"]),
            (&10_800.into(), &3_000.into())
        );
    }
    let more = rome.ask(&["contracts", "resize", &id, "--cpu", "64"]);
    assert_eq!(more.status.code(), Some(4), "{}", stderr(&more));
    assert!(stderr(&more).contains("not enough is left"), "{}", stderr(&more));

    share(&turin, "cpu=0.90 EUR/h", "auto");
    let asked = rome.ask(&["contracts", "extend", &id, "--for", "1h"]);
    assert!(stdout(&asked).contains("owner"), "at another price now: {}", stderr(&asked));
    turin.wait_for(&["requests", "-o", "json"], |all| all[0]["id"] == id.as_str());
    assert!(turin.ask(&["requests", "accept", &id]).status.success());
    let show = ["contracts", "show", &id, "-o", "json"];
    rome.wait_for(&show, |contract| contract["terms"]["termS"] == 14_400);
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn a_contract_is_taken_back_and_billed() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "cpu=0.60 EUR/h", "auto");
    let rome = buyer(&[(&turin, "turin")]);
    let id = order(&rome, &[]);
    wait_for_state(&turin, &id, "active");
    let unasked = turin.ask(&["reclaim", &id, "--notice", "2s"]);
    assert_eq!(unasked.status.code(), Some(2), "{}", stderr(&unasked));
    assert!(stderr(&unasked).contains("the rest is a credit"), "{}", stderr(&unasked));
    let why = ["--reason", "a broken fan", "--yes"];
    let reclaimed = turin.ask(&[&["reclaim", &id, "--notice", "2s"], &why[..]].concat());
    assert!(reclaimed.status.success(), "{}", stderr(&reclaimed));
    for side in [&rome, &turin] {
        let closed = wait_for_state(side, &id, "closed");
        assert_eq!(closed["reason"], "reclaimed (a broken fan)");
        side.wait_for_text(&["events"], |text| text.contains("is being reclaimed (a broken fan)"));
        let statement = ["contracts", "statement", &id, "-o", "json"];
        let rows = side.wait_for(&statement, |rows| {
            let is_credit = |row: &Value| row["ChargeCategory"] == "Credit";
            rows.as_array().is_some_and(|rows| rows.iter().any(is_credit))
        });
        assert_eq!(rows[0]["BillingCurrency"], "EUR");
        let csv = stdout(&side.ask(&["contracts", "statement", &id, "-o", "csv"]));
        assert!(csv.starts_with("BilledCost,BillingAccountId,"), "{csv}");
        assert_eq!(csv.lines().count(), rows.as_array().unwrap().len() + 1);
        let table = stdout(&side.ask(&["contracts", "statement", &id]));
        assert!(table.contains("credit: notice") && table.contains("0.00 EUR"), "{table}");
        // The credit takes all of what was used.
        let billed = side.json(&["contracts", "show", &id, "-o", "json"]);
        assert_eq!(billed["billed"]["micros"], 0, "{billed:#}");
        assert!(billed["credits"]["micros"].as_u64() > Some(0), "{billed:#}");
    }
    [rome, turin].into_iter().for_each(Daemon::stop);
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}
