//! What programs use: processor time, and memory.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Processor time of this process and of others so far.
pub(super) fn processor_time(others: &[Pid]) -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let own = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let own = Duration::from_micros(u64::try_from(own).unwrap_or(0));
    others.iter().try_fold(own, |sum, pid| Ok(sum + of_process(*pid)?))
}

/// `proc_pid_stat(5)`: the 14th and 15th field; the second is a name that may hold spaces.
fn of_process(pid: Pid) -> Result<Duration> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("the process {pid} has ended"))?;
    let (_, fields) = line.rsplit_once(')').context("no line of /proc")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>())
        .sum::<Result<u64, _>>()?;
    let in_second = sysconf(SysconfVar::CLK_TCK)?.context("the kernel has no clock ticks")?;
    Ok(Duration::from_secs_f64(ticks as f64 / in_second as f64))
}

/// Bytes of memory that this process has in use.
pub(super) fn resident_bytes() -> Result<u64> {
    let line = std::fs::read_to_string("/proc/self/statm")?;
    let pages = line.split_whitespace().nth(1).context("no line of /proc")?;
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE)?.context("the kernel has no pages")?;
    Ok(pages.parse::<u64>()? * u64::try_from(page_bytes)?)
}
