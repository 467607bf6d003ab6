//! GPUs by family between two daemons: shared, priced and ordered as `h100`, signed as the model.

use serde_json::{Value, json};

use crate::kit::{Daemon, stderr, stdout};
use crate::market::{buyer, wait_for_state};

/// What a contract says of GPUs and their price, and its total.
fn signed(contract: &Value) -> (Value, Value, Value) {
    let terms = &contract["terms"];
    let units = &terms["price"]["posted"]["units"];
    let gpus = units.as_object().unwrap().iter().filter(|(line, _)| line.starts_with("gpu."));
    let lines = gpus.map(|(line, unit)| (line.clone(), unit["micros"].clone())).collect();
    (terms["quantity"]["gpus"].clone(), lines, contract["total"]["micros"].clone())
}

#[test]
fn a_family_is_shared_priced_and_ordered_and_its_model_is_signed() {
    let size = ["--simulated-cluster", "cpu=8,memory=32Gi,gpu.h100-80gb-sxm=4"];
    let turin = Daemon::start_with("turin", &size);
    let set = ["share", "set", "--cpu", "100%", "--memory", "100%", "--gpu", "h100=3"];
    let price = ["--price", "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h", "--approve", "auto"];
    let shared = turin.ask(&[&set[..], &price].concat());
    assert!(shared.status.success(), "{}", stderr(&shared));
    let rome = buyer(&[(&turin, "turin")]);

    let order = |args: &str| {
        let args: Vec<&str> = args.split(' ').chain(["--for", "1h", "-o", "json"]).collect();
        let ordered = rome.json(&args);
        ordered["id"].as_str().unwrap().to_owned()
    };
    let lines = json!({ "gpu.h100-80gb-sxm": 2_400_000 });
    let id = order("order --cpu 4 --memory 16Gi --gpu h100=2");
    for side in [&rome, &turin] {
        let two = (json!({ "h100-80gb-sxm": 2 }), lines.clone(), json!(4_880_000));
        assert_eq!(signed(&wait_for_state(side, &id, "active")), two);
    }
    let other = order("order gpu.model=h100 --cpu 1 --memory 1Gi --gpu h100-80gb-sxm=1");
    let one = (json!({ "h100-80gb-sxm": 1 }), lines, json!(2_420_000));
    assert_eq!(signed(&wait_for_state(&rome, &other, "active")), one);

    let resize = ["contracts", "resize", &id, "--cpu", "2", "--memory", "8Gi", "--gpu", "h100=1"];
    let resized = rome.ask(&resize);
    assert!(resized.status.success(), "{}", stderr(&resized));
    let show = ["contracts", "show", &id, "-o", "json"];
    let gpus = |contract: &Value| contract["terms"]["quantity"]["gpus"] == one.0;
    turin.wait_for(&show, gpus);

    for (args, said) in [
        (
            "order --cpu 1 --memory 1Gi",
            "sold with GPUs alone: 2 cpu and 8Gi memory come with each h100-80gb-sxm",
        ),
        ("order --cpu 3 --memory 1Gi --gpu h100=1", "2 cpu comes with these GPUs"),
        ("order --cpu 1 --memory 1Gi --gpu h100.1g.10gb=1", "0 gpu.h100.1g.10gb free"),
    ] {
        let args: Vec<&str> = args.split(' ').chain(["--for", "1h"]).collect();
        let refused = rome.ask(&args);
        assert_eq!(refused.status.code(), Some(3), "{}", stdout(&refused));
        let words = stderr(&refused).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(said), "{words}");
    }
    let page = stdout(&rome.ask(&["offer", "show", "turin"]));
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("h100-80gb-sxm 80Gi whole, hardware, its owner's word"), "{page}");
    [rome, turin].into_iter().for_each(Daemon::stop);
}
