//! Help, mistakes and exit codes.

use tempfile::TempDir;

use crate::kit::{run, stderr, stdout};

const COMMANDS: [&str; 17] = [
    "demo",
    "run",
    "status",
    "peers",
    "peer",
    "share",
    "browse",
    "order",
    "rfq",
    "requests",
    "contracts",
    "reclaim",
    "offload",
    "unoffload",
    "completion",
    "gateway",
    "node",
];

#[test]
fn every_command_has_two_examples() {
    let home = TempDir::new().unwrap();
    for command in COMMANDS {
        let help = run(home.path(), &[command, "--help"]);
        assert!(help.status.success());
        let help = stdout(&help);
        let examples = help.split_once("Examples:").unwrap_or_default().1;
        assert_eq!(examples.matches("\n  mercato ").count(), 2, "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}

#[test]
fn a_mistake_is_pointed_at() {
    let home = TempDir::new().unwrap();
    for (args, said) in [
        (vec!["brows"], "browse"),
        (vec!["order", "--cpu", "8Gi"], "  8Gi\n   ^"),
        (vec!["order", "--cpu", "8", "--for", "4x"], "s, m, h, d or w"),
        (vec!["browse", "--max-price", "3 EUR"], "for example 3 EUR/h"),
        (vec!["share", "set", "--cpu", "130%"], "0 to 100 percent"),
        (vec!["share", "set", "--class", "best"], "spot, reserved"),
        (vec!["run", "--kubeconfig", "x", "--no-kubernetes"], "cannot be used with"),
    ] {
        let output = run(home.path(), &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_configuration_that_is_wrong_stops_before_anything_is_made() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("mercato.yaml");
    std::fs::write(&file, "share:\n  cpu: 3O%\n").unwrap();
    let data = home.path().join("data");
    let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
    let output = run(home.path(), &["run", "--config", file, "--data-dir", data]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cpu: 3O%"), "{}", stderr(&output));
    assert!(!std::path::Path::new(data).exists());
}

#[test]
fn without_a_daemon_it_says_so() {
    let home = TempDir::new().unwrap();
    for command in [["status"].as_slice(), &["browse"], &["contracts", "list"]] {
        let output = run(home.path(), command);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(stderr(&output).contains("mercato run"), "{}", stderr(&output));
    }
}

#[test]
fn what_asks_for_nothing_is_a_mistake() {
    let home = TempDir::new().unwrap();
    let output = run(home.path(), &["order"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--for <DURATION>"));
}

#[test]
fn a_shell_can_complete() {
    let home = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(home.path(), &["completion", shell]));
        assert!(script.contains("unoffload"), "{shell}");
    }
}
