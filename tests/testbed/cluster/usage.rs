//! What a part of a cluster costs the machine: processor time and memory, as the kernel
//! counts them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Cluster;

/// What a part has used since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads, in ms.
    pub cpu_ms: u64,
    /// What it has in memory now, in KiB.
    pub rss_kib: u64,
}

impl Cluster {
    /// What a part has used: `kube-apiserver`, `mercato`, ...
    ///
    /// # Errors
    /// When it does not run.
    pub fn usage(&self, part: &str) -> Result<Usage> {
        let name = self.part(part);
        let programs = self.place.supervisor().list()?;
        let running = |program: &&crate::supervisor::Status| program.exit.is_none();
        let program = programs.iter().filter(running).find(|program| program.name == name);
        let pid = program.with_context(|| format!("{name} does not run"))?.pid;
        let read = |file: &str| {
            let path = self.place.from_outside(&Path::new("/proc").join(pid.to_string()));
            fs::read_to_string(path.join(file)).with_context(|| format!("{file} of {name}"))
        };
        Ok(Usage {
            cpu_ms: cpu_ms(&read("stat")?).with_context(|| format!("processor time of {name}"))?,
            rss_kib: rss_kib(&read("status")?).with_context(|| format!("memory of {name}"))?,
        })
    }
}

/// Of `/proc/PID/stat` (proc(5)): the name, in parentheses, may hold spaces.
fn cpu_ms(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = |nth: usize| fields.split(' ').nth(nth)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) * MS_PER_TICK)
}

fn rss_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What the kernel tells in user space is in 1/100 s on every architecture of Linux.
const MS_PER_TICK: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_past_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 0 0 0 25 17 0 0 20 0 9 0 5 6 7";
        assert_eq!(cpu_ms(stat), Some(420));
        assert_eq!(rss_kib("VmHWM:\t  90 kB\nVmRSS:\t  84 kB\n"), Some(84));
        assert_eq!((cpu_ms("7 (a"), rss_kib("")), (None, None));
    }
}
