//! What test programs cost, and which of them need the machine to themselves. The `runner` orders them
//! by it, and says who costs more than is written here; a suite on the bed takes its lock by it, so that
//! this holds of one that is run by hand, too.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::leftovers::ROOT;
use crate::wait;

/// How long the processes of a bed take to end after the program that had it, at most.
const TIDY: Duration = Duration::from_secs(10);

/// A test program that costs more than [`CHEAP`] at level `ci`, or has to be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name, as in `Cargo.toml`; that of a crate's own tests has the crate's folder in front.
    pub program: &'static str,
    /// What processors work for it at level `ci`, in seconds, as `tests/run` shows it (`WORK`).
    pub seconds: u16,
    /// Why nothing may run beside it; none, where others may.
    pub alone: Option<&'static str>,
}

/// Seconds of those that have no row.
pub const CHEAP: u16 = 15;
/// What a suite may cost at level `ci` that is added to these, in seconds: the rest of it runs at level
/// `full`.
pub const BUDGET: u16 = 90;
/// Who costs so many times what its row says is named at the end of a run: machines differ.
pub const SLACK: f64 = 1.5;

const COUNTS: &str = "it counts what happens in a time";
const MEASURES: &str = "it measures what a daemon uses";
const LOOKS: &str = "it looks at all that this machine has";
const RATES: &str = "it compares rates of packets";

/// Every suite on the bed, and what else costs more than [`CHEAP`].
pub const COSTS: [Cost; 31] = [
    Cost { program: "api", seconds: 65, alone: None },
    Cost { program: "between", seconds: 70, alone: None },
    Cost { program: "broker/deal", seconds: 28, alone: None },
    Cost { program: "churn", seconds: 170, alone: Some(MEASURES) },
    Cost { program: "clusters", seconds: 115, alone: None },
    Cost { program: "conformance", seconds: 50, alone: None },
    Cost { program: "faults", seconds: 430, alone: None },
    Cost { program: "floors", seconds: 18, alone: None },
    Cost { program: "gateway", seconds: 83, alone: None },
    Cost { program: "hostile", seconds: 200, alone: Some(MEASURES) },
    Cost { program: "host/machine", seconds: 63, alone: Some(RATES) },
    Cost { program: "idle", seconds: 21, alone: Some(COUNTS) },
    Cost { program: "install", seconds: 151, alone: None },
    Cost { program: "isolation", seconds: 240, alone: None },
    Cost { program: "journey", seconds: 166, alone: None },
    Cost { program: "kubectl", seconds: 73, alone: None },
    Cost { program: "kubelet", seconds: 70, alone: None },
    Cost { program: "leftovers", seconds: 44, alone: Some(LOOKS) },
    Cost { program: "load", seconds: CHEAP, alone: Some(RATES) },
    Cost { program: "mercato (src/main.rs)", seconds: 19, alone: None },
    Cost { program: "network", seconds: CHEAP, alone: None },
    Cost { program: "node/program", seconds: 95, alone: None },
    Cost { program: "nodes", seconds: 103, alone: None },
    Cost { program: "quickstart", seconds: 20, alone: None },
    Cost { program: "refusals", seconds: 36, alone: None },
    Cost { program: "rights", seconds: CHEAP, alone: None },
    Cost { program: "scopes", seconds: 69, alone: None },
    Cost { program: "services", seconds: 125, alone: None },
    Cost { program: "session/link", seconds: 39, alone: None },
    Cost { program: "simnet/runs", seconds: 287, alone: None },
    Cost { program: "tunnel", seconds: 46, alone: Some(RATES) },
];

/// What a test program costs: its row, or that of all that have none.
#[must_use]
pub fn of(program: &str) -> Cost {
    let row = COSTS.iter().find(|cost| cost.program == program);
    row.copied().unwrap_or(Cost { program: "", seconds: CHEAP, alone: None })
}

/// Waits for the machine, and has it until what is returned is dropped: to itself, or with others that
/// may have company.
///
/// # Errors
/// When the file of the lock cannot be made, as root may.
pub fn lock(alone: bool) -> Result<File> {
    let path = Path::new(ROOT).join(".machine");
    fs::create_dir_all(ROOT).with_context(|| format!("make {ROOT} (root may)"))?;
    let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
    if alone { file.lock() } else { file.lock_shared() }
        .with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

/// A control group in which processors' time is counted, and all processes that are begun in it.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// A new one of this name, below the root; none where control groups do not count time, or only
    /// root may make them.
    #[must_use]
    pub fn make(name: &str) -> Option<Self> {
        let group = hierarchy()?.join(format!("mercato-tests-{}-{name}", std::process::id()));
        fs::create_dir(&group).ok()?;
        Some(Self(group))
    }

    /// A process that writes its id into this file is in the group, with all that it starts.
    #[must_use]
    pub fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Removes it, once it is empty, and says what processors have worked for it. What still tidies up
    /// after a program is waited for, some seconds at most.
    #[must_use]
    pub fn end(self) -> Option<Duration> {
        let gone = || Ok(fs::remove_dir(&self.0).is_ok() || !self.0.exists());
        let worked = worked(&self.0);
        // What stays for longer is not this one's to end, and its group stays with it.
        let _ = wait::until_blocking("the control group is empty", TIDY, gone);
        worked
    }
}

/// What processors have worked for a control group of this name below the root, and all below it.
#[must_use]
pub fn worked_for(name: &str) -> Option<Duration> {
    worked(&hierarchy()?.join(name))
}

/// Where time is counted: `cpuacct` of version 1, or the one of version 2.
fn hierarchy() -> Option<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let places = [root.join("cpuacct"), root.to_owned()];
    places.into_iter().find(|place| {
        place.join("cpuacct.usage").exists() || place.join("cgroup.controllers").exists()
    })
}

fn worked(group: &Path) -> Option<Duration> {
    if let Ok(nanos) = fs::read_to_string(group.join("cpuacct.usage")) {
        return nanos.trim().parse().ok().map(Duration::from_nanos);
    }
    let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
    let micros = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    micros.trim().parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The suites that cost more than a new one may, as they were when [`BUDGET`] was set.
    const EARLIER: [&str; 9] = [
        "churn",
        "clusters",
        "faults",
        "hostile",
        "install",
        "isolation",
        "journey",
        "nodes",
        "services",
    ];

    /// The tests that the manifest of this package names.
    fn suites() -> Vec<&'static str> {
        let manifest = include_str!("../Cargo.toml");
        let tables = manifest.split("[[test]]\nname = \"").skip(1);
        tables.map(|table| table.split_once('"').unwrap().0).collect()
    }

    #[test]
    fn each_suite_has_one_row() {
        let suites = suites();
        assert!(suites.len() > 20, "{suites:?}");
        for suite in suites {
            let rows = COSTS.iter().filter(|cost| cost.program == suite).count();
            assert_eq!(rows, 1, "suite {suite} says in this table what it costs");
        }
    }

    #[test]
    fn a_suite_that_is_added_keeps_to_the_budget() {
        for cost in COSTS.iter().filter(|cost| suites().contains(&cost.program)) {
            let may = cost.seconds <= BUDGET || EARLIER.contains(&cost.program);
            assert!(
                may,
                "{} costs {} s: the rest of it runs at level full",
                cost.program, cost.seconds
            );
        }
    }

    #[test]
    fn work_is_read_as_both_versions_write_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(worked(dir.path()), None);
        fs::write(dir.path().join("cpu.stat"), "usage_usec 2500000\nuser_usec 1\n").unwrap();
        assert_eq!(worked(dir.path()), Some(Duration::from_millis(2500)));
        fs::write(dir.path().join("cpuacct.usage"), "1500000000\n").unwrap();
        assert_eq!(worked(dir.path()), Some(Duration::from_millis(1500)));
    }
}
