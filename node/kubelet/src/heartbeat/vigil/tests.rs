//! Daemons that come and go, as one vigil sees it.

use serde_json::json;

use super::*;
use crate::daemon_lease::Holder;

const START_MS: u64 = 1_798_761_600_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// So many seconds after the start, by both clocks.
fn at(seconds: u64) -> Now {
    Now { mono_ms: seconds * 1_000, wall_ms: START_MS + seconds * 1_000 }
}

/// The daemon's Lease, renewed so many seconds after the start by its clock.
fn renewed(seconds: u64) -> DaemonLease {
    let renewed = clock::micro_from_ms(START_MS + seconds * 1_000);
    DaemonLease { holder: Holder::default(), renewed }
}

fn object(name: &str, end_s: u64) -> Value {
    json!({ "metadata": { "name": name, "labels": { CONTRACT: "c1" },
            "annotations": { NOT_AFTER: clock::from_ms(START_MS + end_s * 1_000) } },
        "spec": { "providerID": "mercato://turin/c1" } })
}

fn node(end_s: u64) -> Node {
    Node::read(&object("mercato-turin", end_s)).unwrap()
}

/// Looks every three seconds, in `from..to`, at a Lease that was renewed at `sign`.
fn watch(vigil: &mut Vigil, from: u64, to: u64, sign: u64) {
    for second in (from..to).step_by(3) {
        vigil.see(at(second), Some(&renewed(sign)));
    }
}

#[test]
fn a_daemon_that_renews_is_never_away() {
    let mut vigil = Vigil::new(HOUR);
    for second in 0..300 {
        vigil.see(at(second), Some(&renewed(second / 10 * 10)));
        assert_eq!(vigil.standing(at(second)), Standing::Lives, "{second}");
    }
}

#[test]
fn one_that_is_silent_is_away_from_fifteen_seconds_on_for_an_hour() {
    let mut vigil = Vigil::new(HOUR);
    vigil.see(at(90), Some(&renewed(90)));
    vigil.see(at(100), Some(&renewed(100)));
    watch(&mut vigil, 103, 114, 100);
    assert_eq!(vigil.standing(at(114)), Standing::Lives);
    vigil.see(at(115), Some(&renewed(100)));
    let Standing::Away(away) = vigil.standing(at(115)) else { panic!() };
    assert_eq!((away.since_ms, away.now_ms), (START_MS + 100_000, START_MS + 115_000));
    assert_eq!(away.until_ms, START_MS + 3_700_000);
    assert!(matches!(vigil.standing(at(3_699)), Standing::Away(_)));
    assert_eq!(vigil.standing(at(3_700)), Standing::Lost);
    vigil.see(at(3_800), Some(&renewed(3_800)));
    assert_eq!(vigil.standing(at(3_800)), Standing::Lives, "it is back");
}

#[test]
fn one_that_starts_anew_counts_from_the_daemons_last_sign() {
    for late in [30, 3_599] {
        let mut vigil = Vigil::new(HOUR);
        vigil.see(at(late), Some(&renewed(0)));
        assert!(matches!(vigil.standing(at(late)), Standing::Away(_)), "{late}");
        assert_eq!(vigil.standing(at(3_600)), Standing::Lost, "{late}");
    }
    let mut vigil = Vigil::new(HOUR);
    vigil.see(at(7_000), Some(&renewed(0)));
    assert_eq!(vigil.standing(at(7_000)), Standing::Lost, "however often it starts");
}

#[test]
fn clocks_that_differ_do_not_make_a_daemon_away() {
    // The daemon's clock is behind, or ahead.
    for (sign, next) in [(80, 90), (130, 140)] {
        let mut vigil = Vigil::new(HOUR);
        vigil.see(at(100), Some(&renewed(sign)));
        assert_eq!(vigil.standing(at(100)), Standing::Lives, "{sign}");
        vigil.see(at(104), Some(&renewed(next)));
        assert_eq!(vigil.standing(at(104)), Standing::Lives, "{sign}");
    }
    // What is renewed goes by the daemon's clock: never before its own last renewal.
    let mut vigil = Vigil::new(HOUR);
    watch(&mut vigil, 100, 121, 130);
    let Standing::Away(away) = vigil.standing(at(120)) else { panic!() };
    assert_eq!(away.now_ms, START_MS + 150_000);
}

#[test]
fn what_could_not_be_looked_at_is_no_silence() {
    let mut vigil = Vigil::new(HOUR);
    vigil.see(at(0), Some(&renewed(0)));
    // The API server is away for a minute, for the daemon as well.
    vigil.see(at(60), Some(&renewed(0)));
    assert_eq!(vigil.standing(at(60)), Standing::Lives);
    watch(&mut vigil, 63, 75, 0);
    let Standing::Away(away) = vigil.standing(at(75)) else { panic!() };
    assert_eq!(away.since_ms, START_MS, "the hour counts from its last sign");
}

#[test]
fn without_a_daemon_nothing_is_kept() {
    let mut vigil = Vigil::new(HOUR);
    let never = DaemonLease { holder: Holder::default(), renewed: String::new() };
    for lease in [None, Some(&never)] {
        vigil.see(at(0), lease);
        assert_eq!(vigil.standing(at(100)), Standing::Lives);
    }
    watch(&mut vigil, 100, 130, 100);
    assert!(matches!(vigil.standing(at(130)), Standing::Away(_)));
    vigil.see(at(133), None);
    assert_eq!(
        vigil.standing(at(133)),
        Standing::Lives,
        "its Lease was deleted: it is uninstalled"
    );
}

#[test]
fn a_node_is_kept_until_its_contract_ends_and_renewed_as_a_kubelet_does() {
    let mut vigil = Vigil::new(HOUR);
    watch(&mut vigil, 0, 20, 0);
    let Standing::Away(away) = vigil.standing(at(20)) else { panic!() };
    let (short, long) = (node(21), node(9_000));
    assert!(away.keeps(&short) && away.keeps(&long));
    assert_eq!(away.of(&short).until_ms, START_MS + 21_000);
    assert_eq!(away.of(&long).until_ms, START_MS + 3_600_000);
    let Standing::Away(later) = vigil.standing(at(21)) else { panic!() };
    assert!(!later.keeps(&short) && later.keeps(&long));
    let nodes = [long.clone()];
    let mut times = Vec::new();
    for second in (21..60).step_by(3) {
        for node in vigil.due(at(second), &nodes) {
            vigil.renewed(at(second), node.name);
            times.push(second);
        }
    }
    assert_eq!(times, [21, 30, 39, 48, 57]);
    vigil.rest();
    assert_eq!(vigil.due(at(58), &nodes), [long], "away again, it is renewed at once");
}

#[test]
fn only_virtual_nodes_that_say_their_end_are_kept() {
    assert!(Node::read(&object("mercato-turin", 60)).is_some());
    assert_eq!(Node::read(&object("worker-1", 60)), None);
    for (part, field, value) in [
        ("spec", "providerID", json!("aws:///x")),
        ("metadata", "labels", json!({})),
        ("metadata", "annotations", json!({})),
        ("metadata", "annotations", json!({ NOT_AFTER: "later" })),
    ] {
        let mut other = object("mercato-turin", 60);
        other[part][field] = value;
        assert_eq!(Node::read(&other), None, "{other}");
    }
}
