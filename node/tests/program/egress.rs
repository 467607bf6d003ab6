//! A way out to the Internet: shared, offered, ordered and signed. Simulated clusters have no network,
//! and say that they can keep guests to it; what a real one says is tried in `doctor` and `present`.

use std::process::Output;

use crate::kit::{Daemon, stderr, stdout};
use crate::market::{DEMAND, buyer, order, wait_for_state};

fn share(turin: &Daemon, more: &[&str]) -> Output {
    let set = ["share", "set", "--cpu", "50%", "--memory", "50%", "--approve", "auto"];
    turin.ask(&[&set[..], more].concat())
}

#[test]
fn egress_is_offered_ordered_and_signed() {
    let turin = Daemon::start("turin", &[]);
    let refused = share(&turin, &["--egress", "10.0.0.0/8"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("10.0.0.0/8 is nobody's on the Internet"));
    let ranges = "203.0.114.0/24,2a00:1450::/32";
    let rule = ["--rule", "egress=internet: deny"];
    let shared = share(&turin, &[&["--egress", ranges], &rule[..]].concat());
    let page = stdout(&shared);
    assert!(page.contains(ranges) && page.contains("deny: egress internet"), "{page}");

    let rome = buyer(&[(&turin, "turin")]);
    let offers = stdout(&rome.ask(&["browse", "egress in (named,internet)", "-o", "wide"]));
    assert!(offers.contains("EGRESS") && offers.contains("named"), "{offers}");
    let offer = stdout(&rome.ask(&["offer", "show", "turin"]));
    assert!(offer.contains(ranges), "{offer}");

    for (asked, why) in [
        ("internet", "offers egress to named ranges alone"),
        ("203.0.115.0/24", "does not offer egress to 203.0.115.0/24"),
    ] {
        let much = rome.ask(&[&["order"], &DEMAND[..], &["1h", "--egress", asked]].concat());
        assert!(!much.status.success());
        assert!(stderr(&much).contains(why), "{}", stderr(&much));
    }
    let id = order(&rome, &["--egress", "203.0.114.128/25"]);
    for side in [&rome, &turin] {
        let contract = wait_for_state(side, &id, "active");
        let egress = &contract["terms"]["egress"];
        assert_eq!(egress["named"], serde_json::json!(["203.0.114.128/25"]), "{contract:#}");
        let page = stdout(&side.ask(&["contracts", "show", &id]));
        assert!(page.contains("203.0.114.128/25"), "{page}");
    }
    // Who asks for none has terms that say nothing of it.
    let plain = order(&rome, &[]);
    let contract = wait_for_state(&rome, &plain, "active");
    assert_eq!(contract["terms"].get("egress"), None, "{contract:#}");
    [rome, turin].into_iter().for_each(Daemon::stop);
}
