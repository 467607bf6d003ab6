//! What a person asks when something is wrong.

use std::os::unix::fs::symlink;

use serde_json::Value;
use tempfile::TempDir;

use crate::kit::{Daemon, run, stderr, stdout};

/// How it is about a thing.
fn verdicts<'a>(findings: &'a Value, check: &str) -> Vec<&'a str> {
    let of = findings.as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    of.map(|finding| finding["verdict"].as_str().unwrap()).collect()
}

#[test]
fn the_doctor_looks_at_machine_peers_and_cluster() {
    let turin = Daemon::start("turin", &[]);
    let rome = Daemon::start("rome", &[&turin.address(), "localhost:1"]);
    let connected = |findings: &Value| verdicts(findings, "clock") == ["ok"];
    let findings = rome.wait_for(&["doctor", "-o", "json"], connected);
    for check in ["daemon", "data folder", "records", "names", "kubernetes"] {
        assert_eq!(verdicts(&findings, check), ["ok"], "{check}: {findings}");
    }
    // On one machine TCP may well be the faster way.
    let path = verdicts(&findings, "udp path");
    assert!(path == ["ok"] || path == ["warn"], "{findings}");
    assert_eq!(verdicts(&findings, "ports"), ["ok", "ok"]);
    let text = stdout(&rome.ask(&["doctor"]));
    assert!(text.starts_with("ok    daemon          rome answers (mercato "), "{text}");
    assert!(text.contains("\nok    names           localhost is "), "{text}");
    rome.stop();
    turin.stop();
}

#[test]
fn without_a_daemon_the_doctor_looks_at_the_machine_and_fails() {
    let home = TempDir::new().unwrap();
    let dir = home.path().to_str().unwrap();
    let output = run(home.path(), &["doctor", "--data-dir", dir, "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdicts(&findings, "daemon"), ["fail"]);
    assert_eq!(findings[0]["todo"][0], "start one: mercato run");
    assert_eq!(verdicts(&findings, "data folder"), ["ok"]);
    assert_eq!(verdicts(&findings, "udp offloads").len(), 1);
    assert!(stderr(&output).contains("1 check failed"), "{}", stderr(&output));
}

#[test]
fn events_outlive_a_restart_and_are_numbered_on() {
    let started = |event: &Value| event["text"].to_string().contains("rome has started");
    let starts = |rome: &Daemon, number: usize| {
        rome.wait_for(&["events", "-o", "json"], |events| {
            events
                .as_array()
                .is_some_and(|all| all.iter().filter(|one| started(one)).count() == number)
        })
    };
    let rome = Daemon::start("rome", &[]);
    // It answers before its journal has the start; what is shown is on disk.
    starts(&rome, 1);
    let rome = rome.restart();
    let events = starts(&rome, 2);
    let numbers = events.as_array().unwrap().iter().map(|event| event["number"].as_u64().unwrap());
    assert!(numbers.zip(1..).all(|(number, nth)| number == nth), "{events}");
    rome.stop();
}

#[test]
fn it_is_a_plugin_of_kubectl_by_its_name() {
    let home = TempDir::new().unwrap();
    let plugin = home.path().join("kubectl-mercato");
    symlink(env!("CARGO_BIN_EXE_mercato"), &plugin).unwrap();
    let help = std::process::Command::new(&plugin).args(["order", "--help"]).output().unwrap();
    assert!(stdout(&help).contains("Usage: kubectl mercato order "), "{}", stdout(&help));
    let wrong = std::process::Command::new(&plugin).arg("evnts").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("'events'"), "{}", stderr(&wrong));
    let script = run(home.path(), &["completion", "bash"]);
    assert!(stdout(&script).contains("doctor"), "{}", stderr(&script));
}
