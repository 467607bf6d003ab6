//! What processors work for test programs and their clusters, as control groups count it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait;

/// How long the processes of a bed take to end after the program that had it, at most.
const TIDY: Duration = Duration::from_secs(10);

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
pub fn of(name: &str) -> Option<Duration> {
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
