//! Whoever has no hardware tries the market out with simulated clusters: GPUs are traded, and a
//! second contract with one provider has a node of its own.

use crate::kit::{Daemon, done, run, stderr};

const GPU: [&str; 9] = ["order", "--cpu", "1", "--memory", "2Gi", "--gpu", "h100=1", "--for", "1h"];

#[test]
fn simulated_gpus_are_sold_twice_to_one_buyer() {
    let size = ["--simulated-cluster", "cpu=8,memory=32Gi,gpu.h100=4"];
    let turin = Daemon::start_with("turin", &size);
    let rome = Daemon::start("rome", &[&turin.address()]);
    let half = ["share", "set", "--cpu", "50%", "--memory", "50%", "--gpu", "h100=2"];
    let price = ["--price", "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h", "--approve", "auto"];
    done(&turin, &[&half[..], &price].concat());
    rome.wait_for(&["browse", "gpu.model=h100", "-o", "json"], |all| all["suiting"] == 1);
    let table = done(&rome, &["browse", "gpu.model=h100"]);
    assert!(table.contains("h100=2") && table.contains("0.02/cpu 2.40/h100 EUR/h"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    done(&rome, &["peer", "trust", "turin", "--yes"]);
    let nodes: Vec<String> = [(); 2]
        .map(|()| {
            let ordered = rome.json(&[&GPU[..], &["--pods", "10", "-o", "json"]].concat());
            let show = ["contracts", "show", ordered["id"].as_str().unwrap(), "-o", "json"];
            let deal = rome.wait_for(&show, |deal| deal["state"] == "active");
            deal["node"].as_str().unwrap().to_owned()
        })
        .into();
    assert_eq!(nodes[0], "mercato-turin");
    assert!(nodes[1].starts_with("mercato-turin-"), "{nodes:?}");
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn what_cannot_start_is_a_usage_error_that_says_why() {
    let home = tempfile::TempDir::new().unwrap();
    for (args, why) in [
        (&["--name", "../../etc"][..], "is not a name"),
        (&["--name="], "is not a name"),
        (&["--name", "ro\u{202e}me"], "U+202E cannot be seen"),
        (&["--simulated-cluster", "cpu=0,memory=1Gi"], "pods need CPU and memory"),
        (&["--listen", "nowhere"], "write IP:PORT"),
        (&["--peer", "nowhere"], "write HOST:PORT"),
        (&["--public-address", "a b"], "write HOST or HOST:PORT"),
    ] {
        let start = ["run", "--no-lan", "--no-kubernetes", "--listen", "127.0.0.1:0"];
        let start = if args[0].starts_with("--sim") || args[0] == "--listen" {
            &start[..2]
        } else {
            &start[..]
        };
        let data = home.path().join("data");
        let folder = ["--data-dir", data.to_str().unwrap()];
        let output = run(home.path(), &[start, args, &folder].concat());
        assert!(!data.exists(), "{args:?}: nothing was made");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    }
}
