//! The process on another node, as long as nobody is there to lead it.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::kit::{mercato, signal};

#[test]
fn a_node_says_what_it_lacks_and_ends_when_told() {
    let home = TempDir::new().unwrap();
    let log = home.path().join("log");
    let mut command = mercato(home.path());
    command.args(["node", "--control", "control", "--token", "token"]).stdout(Stdio::null());
    let mut child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    let wait_for = |part: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !said().contains(part) {
            assert!(Instant::now() < deadline, "{part}: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("control/address cannot be read: No such file");
    std::fs::create_dir(home.path().join("control")).unwrap();
    std::fs::write(home.path().join("control/address"), "nowhere").unwrap();
    wait_for("no address: IP:PORT");
    assert_eq!(said().matches("No such file").count(), 1, "{}", said());
    signal(&child, Signal::SIGTERM);
    assert!(child.wait().unwrap().success());
    assert!(said().contains("what is in force on this node stays"), "{}", said());
}
