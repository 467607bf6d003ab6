//! People are told, on both sides: by events, by what needs attention, and by the contract itself.

use serde_json::Value;

use crate::kit::{Daemon, done, stderr, stdout};
use crate::market::{buyer, order, share, wait_for_state};

fn kinds(daemon: &Daemon) -> Vec<String> {
    let events = daemon.json(&["events", "-o", "json"]);
    let kind = |event: &Value| event["kind"].as_str().unwrap().to_owned();
    events.as_array().unwrap().iter().map(kind).collect()
}

/// The last event of a kind, once there is one.
fn event(daemon: &Daemon, kind: &str) -> Value {
    let is = |event: &&Value| event["kind"] == kind;
    let last = |events: &Value| events.as_array()?.iter().rev().find(is).cloned();
    let events = daemon.wait_for(&["events", "-o", "json"], |events| last(events).is_some());
    last(&events).unwrap()
}

/// Until its status says so, wherever its lines are broken.
fn waits(daemon: &Daemon, what: &str) {
    daemon.wait_for_text(&["status"], |text| {
        text.split_whitespace().collect::<Vec<_>>().join(" ").contains(what)
    });
}

#[test]
fn a_change_is_told_refused_and_withdrawn() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "cpu=0.60 EUR/h", "ask");
    let rome = buyer(&[(&turin, "turin")]);
    let id = order(&rome, &[]);
    wait_for_state(&turin, &id, "review");
    assert_eq!(event(&turin, "request_received")["order"], id.as_str());
    turin.wait_for_text(&["status"], |text| text.contains("1 request needs your approval"));
    done(&turin, &["requests", "accept", &id]);
    wait_for_state(&rome, &id, "active");

    // It is shown as what it is, with what it will cost.
    let asked = done(&rome, &["contracts", "extend", &id, "--for", "3h"]);
    assert!(asked.contains("term 1h -> 4h (+3h), 4.80 EUR instead of 1.20 EUR"), "{asked}");
    let requests = turin.wait_for(&["requests", "-o", "json"], |all| all[0]["id"] == id.as_str());
    let change = &requests[0]["change"];
    assert_eq!(change["what"], "term 1h -> 4h (+3h)");
    let cost = (&change["total"]["micros"], &change["differenceMicros"]);
    assert_eq!(cost, (&4_800_000.into(), &3_600_000.into()));

    // While it waits there is no second one, until it is withdrawn.
    let second = rome.ask(&["contracts", "resize", &id, "--cpu", "3"]);
    assert!(stderr(&second).contains("mercato contracts withdraw"), "{}", stderr(&second));
    done(&rome, &["contracts", "withdraw", &id]);
    turin.wait_for(&["requests", "-o", "json"], |all| *all == Value::Array(Vec::new()));
    for side in [&rome, &turin] {
        assert_eq!(event(side, "change_withdrawn")["contract"], id.as_str());
    }

    done(&rome, &["contracts", "resize", &id, "--cpu", "3"]);
    turin.wait_for(&["requests", "-o", "json"], |all| all[0]["id"] == id.as_str());
    done(&turin, &["requests", "deny", &id, "--reason", "not today"]);
    let refused = event(&rome, "change_refused");
    assert_eq!(refused["contract"], id.as_str());
    assert_eq!(refused["peer"]["name"], "turin");
    assert_eq!(refused["reason"], "deniedByOwner");
    assert_eq!(refused["quantity"]["cpuMillis"], 3_000);
    assert_eq!(refused["askedTotal"]["micros"], 1_200_000);
    waits(&rome, "turin refused the change: denied by owner (not today)");
    let page = stdout(&rome.ask(&["contracts", "show", &id]));
    assert!(page.contains("cpu 2 -> 3") && page.contains("not today"), "{page}");

    let sold = turin.ask(&["contracts", "extend", &id, "--for", "1h"]);
    assert!(stderr(&sold).contains("only its consumer can change it"), "{}", stderr(&sold));
    let none = rome.ask(&["contracts", "resize", &id, "--cpu", "0"]);
    assert_eq!(none.status.code(), Some(2), "{}", stderr(&none));
    assert!(kinds(&rome).contains(&"contract_active".to_owned()));
    done(&turin, &["contracts", "cancel", &id, "--reason", "a broken fan", "--yes"]);
    waits(&rome, "the contract with turin ended early: ended by provider (a broken fan)");
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn an_offer_that_is_declined_or_lapses_is_told_to_both() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "cpu=0.60 EUR/h", "ask");
    let rome = buyer(&[(&turin, "turin")]);
    let id = order(&rome, &[]);
    wait_for_state(&turin, &id, "review");
    done(&turin, &["requests", "accept", &id, "--price", "cpu=0.70 EUR/h"]);
    let offer = event(&rome, "firm_offer_received");
    assert_eq!(
        (&offer["order"], &offer["total"]["micros"]),
        (&id.as_str().into(), &1_400_000.into())
    );
    assert_eq!(offer["askedTotal"]["micros"], 1_200_000);
    assert_eq!(event(&turin, "firm_offer_sent")["peer"]["name"], "rome");
    // Meanwhile it is sold to nobody else.
    let free = turin.json(&["share", "-o", "json"]);
    assert_eq!(free["onSale"][0]["free"]["cpuMillis"], 2_000);
    done(&rome, &["contracts", "cancel", &id, "--yes"]);
    assert_eq!(event(&turin, "request_withdrawn")["reason"], "withdrawn");
    assert_eq!(event(&rome, "order_withdrawn")["reason"], "withdrawn");
    turin.wait_for(&["share", "-o", "json"], |share| {
        share["onSale"][0]["free"]["cpuMillis"] == 4_000
    });
    // One's own word needs no attention, the other side's does.
    let denied = order(&rome, &[]);
    wait_for_state(&turin, &denied, "review");
    done(&turin, &["requests", "deny", &denied, "--reason", "not today"]);
    waits(&rome, "the order to turin came to nothing: denied by owner (not today)");
    let status = rome.json(&["status", "-o", "json"]);
    let attention = status["daemon"]["attention"].as_array().unwrap().iter();
    let failed: Vec<_> = attention.filter(|what| what["kind"] == "order_failed").collect();
    assert!(failed.len() == 1 && failed[0]["order"] == denied.as_str(), "{failed:?}");
    [rome, turin].into_iter().for_each(Daemon::stop);
}
