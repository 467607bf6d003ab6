//! Room for volumes: shared by amount, ordered, resized and billed.

use serde_json::Value;

use crate::kit::{Daemon, stderr, stdout};
use crate::market::{DEMAND, buyer, order, wait_for_state};

const GIB: u64 = 1 << 30;

/// A decimal text of so many places, as a whole number of the last.
fn whole(text: &Value, places: usize) -> u64 {
    let text = text.as_str().unwrap();
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    assert!(rest.len() <= places, "{text}");
    format!("{whole}{rest:0<places$}").parse().unwrap()
}

/// What storage costs, in micros, of which so many billionths of GiB-hours are said. What was held is
/// a multiple of 5 GiB for a millisecond, so that it is known exactly.
fn cost(nanos: u64) -> u64 {
    const MIB_MS_IN_GIB_HOUR: u128 = 1_024 * 3_600_000;
    const STEP: u128 = 5 * 1_024;
    let counter = (u128::from(nanos) * MIB_MS_IN_GIB_HOUR).div_ceil(1_000_000_000 * STEP) * STEP;
    u64::try_from(360_000_000 * counter / MIB_MS_IN_GIB_HOUR).unwrap()
}

fn share(turin: &Daemon, storage: &[&str]) -> std::process::Output {
    let set = ["share", "set", "--cpu", "50%", "--memory", "50%", "--approve", "auto"];
    // A euro for each ten GiB and second: whatever is held for a moment has a bill.
    turin.ask(&[&set[..], &["--price", "storage=360 EUR/h"], storage].concat())
}

#[test]
fn storage_is_ordered_resized_and_billed() {
    let turin = Daemon::start("turin", &[]);
    let refused = share(&turin, &["--storage", "30%"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let why = "no class of storage says how much it has";
    assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    let shared = share(&turin, &["--storage", "100Gi", "--storage-kind", "ssd"]);
    let page = stdout(&shared);
    assert!(page.contains("storage: 100Gi of 100Gi free, of all pools together"), "{page}");

    let rome = buyer(&[(&turin, "turin")]);
    let much = rome.ask(&[&["order"], &DEMAND[..], &["1h", "--storage", "1Ti"]].concat());
    assert!(!much.status.success());
    let why = stderr(&much);
    assert!(why.contains("turin") && why.contains("96Gi storage free"), "in buckets: {why}");
    let selector = "storage>=50Gi, storage.kind=ssd, price.storage.EUR<=360/h";
    let offers = stdout(&rome.ask(&["browse", selector, "-o", "wide"]));
    assert!(offers.contains("STORAGE") && offers.contains("96Gi"), "{offers}");
    let offer = stdout(&rome.ask(&["offer", "show", "turin"]));
    assert!(offer.contains("96Gi, ssd"), "{offer}");

    let id = order(&rome, &["--storage", "10Gi"]);
    wait_for_state(&rome, &id, "active");
    let resized = rome.ask(&["contracts", "resize", &id, "--storage", "15Gi"]);
    assert!(stdout(&resized).contains("storage=15Gi"), "{}", stderr(&resized));
    for side in [&rome, &turin] {
        let contract = wait_for_state(side, &id, "active");
        assert_eq!(contract["terms"]["quantity"]["storageBytes"], 15 * GIB);
    }
    turin.wait_for_text(&["share"], |text| text.contains("85Gi of 100Gi free"));
    assert!(rome.ask(&["contracts", "cancel", &id, "--yes"]).status.success());
    for side in [&rome, &turin] {
        is_billed(side, &id);
    }
    [rome, turin].into_iter().for_each(Daemon::stop);
}

/// The line for storage is right to the micro, and the same in each form.
fn is_billed(side: &Daemon, id: &str) {
    // It is closed before both have signed the last receipt.
    let is_settled = |it: &Value| it["state"] == "closed" && !it["billed"].is_null();
    let closed = side.wait_for(&["contracts", "show", id, "-o", "json"], is_settled);
    let rows = side.wait_for(&["contracts", "statement", id, "-o", "json"], |rows| {
        rows.as_array().is_some_and(|rows| rows.iter().any(|row| row["SkuMeter"] == "storage"))
    });
    let rows = rows.as_array().unwrap();
    let row = rows.iter().find(|row| row["SkuMeter"] == "storage").unwrap();
    assert_eq!(
        (&row["ServiceCategory"], &row["PricingUnit"]),
        (&"Storage".into(), &"GiB-hours".into())
    );
    assert_eq!(row["ListUnitPrice"], "360");
    let billed = whole(&row["BilledCost"], 6);
    assert_eq!(billed, cost(whole(&row["ConsumedQuantity"], 9)), "to the micro: {row:#}");
    assert!(billed > 0, "{row:#}");
    // No other line has a price.
    assert_eq!(closed["billed"]["micros"], billed, "{closed:#}");
    let of_others = rows.iter().filter(|row| row["SkuMeter"] != "storage");
    for row in of_others {
        assert_ne!(row["ServiceCategory"], "Storage", "{row:#}");
    }
    let csv = stdout(&side.ask(&["contracts", "statement", id, "-o", "csv"]));
    let line = csv.lines().find(|line| line.contains(",storage,")).unwrap();
    assert!(line.starts_with(row["BilledCost"].as_str().unwrap()), "{line}");
    let table = stdout(&side.ask(&["contracts", "statement", id]));
    let line = table.lines().find(|line| line.starts_with("storage")).unwrap();
    let amount = format!("{}.{:06}", billed / 1_000_000, billed % 1_000_000);
    assert!(line.contains("GiB-hours") && line.contains(amount.trim_end_matches('0')), "{table}");
}
