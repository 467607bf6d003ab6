//! The clock of a gateway, the same in all threads and processes of a machine.

use std::time::SystemTime;

use mercato_protocol::time::Now;
use nix::time::{ClockId, clock_gettime};

/// Counts from the start of the machine, and goes on while it sleeps: keys and leases end in time
/// although nobody was awake (`CLOCK_BOOTTIME`, clock_gettime(2)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn mono_ms(self) -> u64 {
        // Every Linux since 2.6.39 has it.
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("the machine has this clock");
        now.tv_sec() as u64 * 1_000 + now.tv_nsec() as u64 / 1_000_000
    }

    pub(crate) fn now(self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { mono_ms: self.mono_ms(), wall_ms: wall.as_millis() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SLEPT_S: u64 = 86_400;
    const SLEPT: &str = "MERCATO_TEST_SLEPT";

    fn monotonic_ms() -> u64 {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
        now.tv_sec() as u64 * 1_000 + now.tv_nsec() as u64 / 1_000_000
    }

    /// In a time namespace a machine has slept for a day.
    #[test]
    fn it_counts_while_the_machine_sleeps() {
        if std::env::var_os(SLEPT).is_some() {
            let ahead_ms = Clock.mono_ms() - monotonic_ms();
            assert!(ahead_ms >= SLEPT_S * 1_000, "{ahead_ms} ms ahead");
            return;
        }
        let this = std::env::current_exe().unwrap();
        let test = "clock::tests::it_counts_while_the_machine_sleeps";
        let words = ["--user", "--map-root-user", "--time", "--boottime"];
        let mut command = Command::new("unshare");
        command.args(words).arg(SLEPT_S.to_string()).arg(this).args(["--exact", test]);
        let output = command.env(SLEPT, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    }
}
