//! A daemon that is killed and started again, and what it logs.

use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::DEADLINE;
use crate::kit::{Daemon, stderr};

/// A daemon and what it has logged since its start.
pub(super) struct Party {
    pub(super) name: &'static str,
    pub(super) listen: String,
    pub(super) peer: String,
    pub(super) running: Option<Running>,
}

pub(super) struct Running {
    pub(super) daemon: Daemon,
    log: File,
    rest: String,
    lines: Vec<Value>,
}

impl Party {
    pub(super) fn start(&mut self, dir: TempDir) {
        let daemon = Daemon::start_at(dir, self.name, &self.listen, &self.peer);
        let log = File::open(daemon.file("log")).unwrap();
        self.running = Some(Running { daemon, log, rest: String::new(), lines: Vec::new() });
    }

    pub(super) fn kill(&mut self) -> TempDir {
        self.running.take().unwrap().daemon.kill()
    }

    pub(super) fn daemon(&self) -> &Daemon {
        &self.running.as_ref().unwrap().daemon
    }

    /// What it has logged since its start, or since it was cleared.
    pub(super) fn lines(&mut self) -> &mut Vec<Value> {
        let running = self.running.as_mut().unwrap();
        running.log.read_to_string(&mut running.rest).unwrap();
        let whole = running.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = running.rest.split_off(whole);
        let text = std::mem::replace(&mut running.rest, rest);
        running.lines.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        &mut running.lines
    }

    /// Waits until it has logged that.
    pub(super) fn logs(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(line) = self.lines().iter().find(|line| is_it(line)) {
                return line.clone();
            }
            let late = Instant::now() >= deadline;
            assert!(
                !late,
                "{} never logs {what}: {:#?}",
                self.name,
                self.running.as_ref().unwrap().lines
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What it has logged since its start, or since it was cleared, to read.
    pub(super) fn story(&mut self) -> String {
        let name = self.name;
        self.lines().iter().map(|line| format!("{name} {line}\n")).collect()
    }

    pub(super) fn done(&self, args: &[&str]) {
        let output = self.daemon().ask(args);
        assert!(output.status.success(), "{}: {args:?}: {}", self.name, stderr(&output));
    }

    /// The contract as this side has it; nothing if it does not know it.
    pub(super) fn contract(&self, id: &str) -> Value {
        let output = self.daemon().ask(&["contracts", "show", id, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }
}
