//! What the process itself uses, as the kernel counts it, by the names that every
//! Prometheus client has for it.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::add;

pub(super) struct Process {
    resident: Gauge,
    files: Gauge,
    cpu: Counter<f64, AtomicU64>,
}

impl Process {
    pub(super) fn register(all: &mut Registry) -> Self {
        let resident = "Resident memory of the daemon";
        let cpu = "Processor time that it has used";
        Self {
            resident: add(all, "process_resident_memory_bytes", resident, Gauge::default()),
            files: add(all, "process_open_fds", "Its open files", Gauge::default()),
            cpu: add(all, "process_cpu_seconds", cpu, Counter::default()),
        }
    }

    /// Sets them. What the kernel does not tell stays.
    pub(super) fn look(&self) {
        let unit = |variable| sysconf(variable).ok().flatten().unwrap_or(1).max(1);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // proc(5): after the program's name in parentheses, the fields from the third on.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        if let Some(pages) = field(24) {
            let pages = i64::try_from(pages).unwrap_or(i64::MAX);
            self.resident.set(pages.saturating_mul(unit(SysconfVar::PAGE_SIZE)));
        }
        if let (Some(user), Some(system)) = (field(14), field(15)) {
            let seconds = seconds(user.saturating_add(system), unit(SysconfVar::CLK_TCK));
            self.cpu.inner().store(seconds.to_bits(), Ordering::Relaxed);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            self.files.set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
    }
}

/// Ticks of the kernel's clock, so many of which are a second, as seconds.
fn seconds(ticks: u64, hertz: i64) -> f64 {
    let hertz = u64::try_from(hertz).unwrap_or(1).max(1);
    let spent = Duration::from_secs(ticks / hertz);
    let rest = Duration::from_secs(ticks % hertz) / u32::try_from(hertz).unwrap_or(u32::MAX);
    (spent + rest).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn processor_time_goes_on_counting_after_fifty_days() {
        for (ticks, expected) in [(0, 0.0), (150, 1.5), (100 * 4_294_968, 4_294_968.0)] {
            let shown = seconds(ticks, 100);
            assert!((shown - expected).abs() < 1e-6, "{ticks} ticks are {shown} s");
        }
        assert!(seconds(u64::MAX, 100) > seconds(u64::MAX / 2, 100));
    }
}
