//! Sessions that come and go, and ends that move.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::suite::{Level, Stage, level};

use crate::cable::{CABLE, Cable, MTU, Wire};
use crate::carry::PLAIN;
use crate::mercato::{Settings, Tunnel, pod};
use crate::transfer;

/// Memory that may be in use in addition after many sessions: what the allocator keeps.
const MEMORY_BYTES: u64 = 8 << 20;
const MOVED: Duration = Duration::from_secs(2);

/// What a process has in use.
#[derive(Clone, Copy, Debug)]
struct InUse {
    descriptors: usize,
    threads: usize,
    memory_bytes: u64,
}

fn in_use() -> Result<InUse> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(InUse {
        descriptors: std::fs::read_dir("/proc/self/fd")?.count(),
        threads: std::fs::read_dir("/proc/self/task")?.count(),
        memory_bytes: pages * 4_096,
    })
}

fn devices(cable: &Cable) -> Result<usize> {
    let count =
        || std::fs::read_to_string("/proc/thread-self/net/dev").map(|all| all.lines().count());
    Ok(cable.namespace(0).within(count)??)
}

pub(crate) async fn many_sessions(_: &Stage) -> Result<()> {
    let sessions = if level() == Level::Full { 200 } else { 20 };
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let one = |number: u32| -> Result<()> {
        let tunnel = Tunnel::begin(&cable, Settings { shards: 1 + number as u8 % 3, ..PLAIN })?;
        transfer::stream(&cable, (pod(0, 0), pod(1, 0)), 1_000_000)?;
        transfer::datagrams(&cable, (pod(0, 1), pod(1, 1)), 1_000, 16)?;
        tunnel.stop().map(drop)
    };
    // The first few fill what is kept for later.
    (0..6).try_for_each(one)?;
    let (before, devices_before) = (in_use()?, devices(&cable)?);
    (0..sessions).try_for_each(one)?;
    let (after, devices_after) = (in_use()?, devices(&cable)?);
    println!("before {sessions} sessions: {before:?}, after: {after:?}, devices {devices_after}");
    ensure!(devices_after == devices_before, "devices: {devices_before}, then {devices_after}");
    ensure!(
        after.descriptors <= before.descriptors
            && after.threads <= before.threads
            && after.memory_bytes <= before.memory_bytes + MEMORY_BYTES,
        "{sessions} sessions left something: {before:?}, then {after:?}"
    );
    Ok(())
}

pub(crate) async fn an_end_moves(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let tunnel = Tunnel::begin(&cable, PLAIN)?;
    let pair = (pod(0, 0), pod(1, 0));
    transfer::datagrams(&cable, pair, 1_400, 16)?;
    for last in [9, 10, 11] {
        let end = cable.namespace(0);
        end.ip(&format!("address flush dev {CABLE}"))?;
        end.ip(&format!("address add 192.168.77.{last}/24 dev {CABLE}"))?;
        let there = transfer::until_heard(&cable, pair)?;
        ensure!(there < MOVED, "after {there:?} from 192.168.77.{last}");
        // The other way as well: the peer sends to where it heard us last.
        transfer::stream(&cable, pair, 1_000_000)?;
    }
    tunnel.stop().map(drop)
}
