//! A disk that is full, under the records and under the log.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::Value;

use crate::kit::{Daemon, done};
use crate::market::share;

const EVENTS: [&str; 3] = ["events", "-o", "json"];

fn count(events: &Value, kind: &str) -> usize {
    let events = events.as_array().map_or(&[][..], Vec::as_slice);
    events.iter().filter(|event| event["kind"] == kind).count()
}

#[test]
fn people_are_told_once_that_the_disk_is_full() {
    let turin = Daemon::start("turin", &[]);
    share(&turin, "free", "auto");
    let rome = Daemon::start_piped("rome", &turin.address());
    rome.wait_for(&EVENTS, |events| count(events, "offer_published") == 1);
    rome.full(true);
    // What is to be kept is refused, each time.
    rome.wait_for(&["status", "-o", "json"], |status| {
        let refused = rome.ask(&["peer", "trust", "turin", "--yes"]);
        let attention = status["daemon"]["attention"].as_array().unwrap();
        !refused.status.success()
            && attention.iter().any(|what| what["kind"] == "records_read_only")
    });
    // It tries again, and what can be opened is not taken for what can be written.
    rome.wait_for_log("the records still cannot be written");
    let events = rome.json(&EVENTS);
    for (kind, times) in [
        ("peer_connected", 1),
        ("peer_disconnected", 0),
        ("offer_published", 1),
        ("records_read_only", 1),
        ("records_writable", 0),
    ] {
        assert_eq!(count(&events, kind), times, "{kind}: {events:#}");
    }
    rome.full(false);
    let events = rome.wait_for(&EVENTS, |events| count(events, "records_writable") == 1);
    assert_eq!(count(&events, "records_read_only"), 1, "{events:#}");
    done(&rome, &["peer", "trust", "turin", "--yes"]);
    turin.stop();
}

#[test]
fn the_data_folder_is_its_users_alone() {
    let dir = tempfile::TempDir::new().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let rome = Daemon::start_in(dir, "rome", &[]);
    share(&rome, "free", "auto");
    let (mut folders, mut files) = (vec![rome.path().to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            folders.extend(path.is_dir().then(|| path.clone()));
            files += usize::from(path.is_file());
            let mode = path.metadata().unwrap().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
    assert!(files > 4, "the records are among them");
    assert_eq!(rome.path().metadata().unwrap().mode() & 0o777, 0o700);
    rome.stop();
}

#[test]
fn a_log_that_cannot_be_written_ends_no_daemon() {
    let rome = Daemon::start_without_log("rome");
    done(&rome, &["share", "set", "--cpu", "30%", "--memory", "30%"]);
    done(&rome, &["status"]);
    rome.stop();
}
