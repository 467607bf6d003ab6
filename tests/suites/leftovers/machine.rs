//! What a bed could leave on a machine, and how it is seen.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, ensure};
use mercato_tests::leftovers::{ROOT, cgroup_hierarchies, cgroup_name};
use mercato_tests::run;

/// What bears the name of a bed: processes, control groups, its folder.
pub(crate) fn named(bed: &str) -> Result<Vec<String>> {
    let mut left = Vec::new();
    if let Some(pid) = process(&[bed])? {
        left.push(format!("process {pid}"));
    }
    for hierarchy in cgroup_hierarchies()? {
        let group = hierarchy.join(cgroup_name(bed));
        if group.exists() {
            left.push(group.display().to_string());
        }
    }
    let dir = format!("{ROOT}/{bed}");
    if fs::exists(&dir)? {
        left.push(dir);
    }
    Ok(left)
}

/// A process, other than this one, whose command line holds all these words.
pub(crate) fn process(words: &[&str]) -> Result<Option<i32>> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ends meanwhile has no command line any more.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if words.iter().all(|word| line.contains(word)) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// What a machine has that is not named after a bed.
#[derive(Debug)]
pub(crate) struct Snapshot {
    parts: [(&'static str, BTreeSet<String>); 4],
}

impl Snapshot {
    pub(crate) fn take() -> Result<Self> {
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        // The suite's tests run in its bed's network; its main thread does not.
        let host = format!("--net=/proc/{}/ns/net", std::process::id());
        let ip = |args: &[&str]| run("nsenter", &[&[host.as_str(), "ip"], args].concat());
        let links = ip(&["-o", "link"])?;
        // Flags and counters change by themselves; the names are what may be left.
        let names = links.lines().filter_map(|line| line.split(": ").nth(1)).map(str::to_owned);
        Ok(Self {
            parts: [
                ("network link", names.collect()),
                ("route", lines(ip(&["route", "show", "table", "all"])?)),
                ("network namespace", lines(ip(&["netns", "list"])?)),
                ("mount", lines(fs::read_to_string("/proc/self/mounts")?)),
            ],
        })
    }

    /// Fails with whatever is there now and was not when this was taken.
    pub(crate) fn compare(&self) -> Result<()> {
        let now = Self::take()?;
        for ((what, before), (_, after)) in self.parts.iter().zip(&now.parts) {
            let new: Vec<_> = after.difference(before).map(String::as_str).collect();
            ensure!(new.is_empty(), "left behind, {what}: {}", new.join("; "));
        }
        Ok(())
    }
}
