//! Programs of this machine in the networks of a bed, as `lab in` starts them. The bed's end leaves
//! them, since they are outside of its table of processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Place, wait};

/// For how long a daemon may take back what it offers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the visitors of a bed to end, and ends those that do not within ten seconds. Call it while the bed
/// lives. Returns how many there were.
///
/// # Errors
/// When the table of processes cannot be read, or one of them stays.
pub fn end(place: &Place) -> Result<usize> {
    let all = of(place)?;
    signal(&all, Signal::SIGTERM);
    let gone = || Ok(of(place)?.is_empty());
    if wait::until_blocking("the programs in the bed end", PATIENCE, gone).is_err() {
        signal(&of(place)?, Signal::SIGKILL);
        wait::until_blocking("the programs in the bed are ended", PATIENCE, gone)?;
    }
    Ok(all.len())
}

/// Processes that see this machine's table of processes and one of the bed's networks.
fn of(place: &Place) -> Result<BTreeSet<i32>> {
    let bed = place.supervisor().pid();
    let (bed_table, own_table) = (namespace(bed, "pid"), namespace(own(), "pid"));
    // Whoever else had that number by now would make all of this machine a visitor.
    ensure!(bed_table.is_some() && bed_table != own_table, "process {bed} holds no bed any more");
    let networks: BTreeSet<_> = processes()?
        .into_iter()
        .filter(|process| namespace(*process, "pid") == bed_table)
        .filter_map(|process| namespace(process, "net"))
        .filter(|network| Some(network) != namespace(own(), "net").as_ref())
        .collect();
    let is_inside = |process: i32| {
        namespace(process, "pid") == own_table
            && namespace(process, "net").is_some_and(|network| networks.contains(&network))
    };
    // Whoever started the bed waits for it in there.
    let starter = parent(bed);
    let visits = |process: &i32| Some(*process) != starter && is_inside(*process);
    Ok(processes()?.into_iter().filter(visits).collect())
}

fn signal(processes: &BTreeSet<i32>, signal: Signal) {
    for process in processes {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(*process), signal);
    }
}

fn own() -> i32 {
    std::process::id().cast_signed()
}

fn processes() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc").context("read the table of processes")?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// None for a process that has ended.
fn namespace(process: i32, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/{kind}")).ok()
}

fn parent(process: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}
