//! The whole state, moved: identity, records, and a contract that runs.

use std::path::Path;

use tempfile::TempDir;

use crate::kit::{Daemon, run, run_in_vain, stderr};

/// Turin sells to Rome; the contract's id.
fn contract(turin: &Daemon, rome: &Daemon) -> String {
    let share = ["share", "set", "--cpu", "50%", "--memory", "50%", "--approve", "auto"];
    assert!(turin.ask(&share).status.success());
    rome.wait_for(&["browse", "-o", "json"], |offers| offers["offers"][0]["name"] == "turin");
    assert!(rome.ask(&["peer", "trust", "turin", "--yes"]).status.success());
    let order = ["order", "--cpu", "2", "--memory", "4Gi", "--for", "1h", "--wait", "-o", "json"];
    rome.json(&order)["id"].as_str().unwrap().to_owned()
}

fn import(file: &Path, into: &Path) -> std::process::Output {
    let (file, into) = (file.to_str().unwrap(), into.to_str().unwrap());
    run(Path::new("/tmp"), &["import", file, "--data-dir", into])
}

#[test]
fn a_contract_runs_on_where_its_state_is_imported() {
    let turin = Daemon::start("turin", &[]);
    let rome = Daemon::start("rome", &[&turin.address()]);
    let id = contract(&turin, &rome);
    let place = TempDir::new().unwrap();
    let file = place.path().join("rome.state");
    let exported = rome.ask(&["export", file.to_str().unwrap()]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let again = rome.ask(&["export", file.to_str().unwrap()]);
    assert!(stderr(&again).contains("choose another name"), "{}", stderr(&again));

    // What is exported is behind of what the original does after it: links come and go.
    let rome = rome.restart_with(&[&turin.address()]);
    rome.wait_for(&["contracts", "show", &id, "-o", "json"], |deal| deal["state"] == "active");
    let fingerprint = rome.json(&["status", "-o", "json"])["daemon"]["cluster"].clone();
    rome.stop();

    let moved = TempDir::new().unwrap();
    let imported = import(&file, moved.path());
    assert!(imported.status.success(), "{}", stderr(&imported));
    let rome = Daemon::start_in(moved, "another name", &[&turin.address()]);
    assert_eq!(rome.json(&["status", "-o", "json"])["daemon"]["cluster"], fingerprint);
    let events = ["events", "-o", "json"];
    rome.wait_for(&events, |events| events.to_string().contains("connected with turin"));
    for daemon in [&rome, &turin] {
        let show = ["contracts", "show", &id, "-o", "json"];
        daemon.wait_for(&show, |deal| deal["state"] == "active");
    }
    // It trades on: what it says counts as newer than what the original said.
    assert!(rome.ask(&["share", "set", "--cpu", "10%", "--memory", "10%"]).status.success());
    turin.wait_for(&["browse", "-o", "json"], |offers| offers["offers"][0]["name"] == "rome");
    let end = ["contracts", "cancel", &id, "--yes"];
    assert!(rome.ask(&end).status.success());
    turin.wait_for(&["contracts", "show", &id, "-o", "json"], |deal| deal["state"] == "closed");
    rome.stop();
    turin.stop();
}

#[test]
fn what_is_no_state_is_refused_and_nothing_stays() {
    let rome = Daemon::start("rome", &[]);
    let place = TempDir::new().unwrap();
    let file = place.path().join("state");
    assert!(rome.ask(&["export", file.to_str().unwrap()]).status.success());
    let whole = std::fs::read(&file).unwrap();
    let newer = [b"mercato state 9\n", &whole[16..]].concat();
    let cases = [
        (whole[..whole.len() / 2].to_vec(), "cut short"),
        (newer, "run the release that wrote it"),
        (b"something else\n".to_vec(), "it is no state"),
    ];
    let target = place.path().join("target");
    for (bytes, said) in cases {
        std::fs::write(&file, bytes).unwrap();
        let refused = import(&file, &target);
        assert_eq!(refused.status.code(), Some(1));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
        assert!(!target.exists());
    }
    std::fs::write(&file, &whole).unwrap();
    let busy = import(&file, rome.path());
    assert!(stderr(&busy).contains("is not empty"), "{}", stderr(&busy));
    rome.stop();
}

#[test]
fn what_a_later_release_keeps_is_refused_before_anything_is_written() {
    let rome = Daemon::start("rome", &[]);
    let place = TempDir::new().unwrap();
    let [state, again, data] = ["state", "again", "data"].map(|name| place.path().join(name));
    assert!(rome.ask(&["export", state.to_str().unwrap()]).status.success());
    rome.stop();
    assert!(import(&state, &data).status.success());
    std::fs::write(data.join("records/format"), "99 mercato/9.1.0\n").unwrap();
    let run = ["run", "--no-kubernetes", "--listen", "127.0.0.1:0"];
    for command in [&run[..], &["export", again.to_str().unwrap()]] {
        let command = [command, &["--data-dir", data.to_str().unwrap()]].concat();
        let refused = run_in_vain(Path::new("/tmp"), &command);
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("mercato/9.1.0, in format 99"), "{said}");
        assert!(said.contains("run the release that wrote it"), "{said}");
    }
    // A start would have written that it is no copy any more.
    let stamp = std::fs::read_to_string(data.join("identity.stamp")).unwrap();
    assert!(stamp == "imported\n" && !again.exists(), "{stamp}");
}
