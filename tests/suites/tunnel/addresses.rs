//! Addresses that come and go while a gateway runs, and what is told of it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_session::{Change, Refused};
use mercato_tests::suite::Stage;
use mercato_tunnel::Applied;

use crate::cable::{Cable, MTU, Wire};
use crate::carry::PLAIN;
use crate::flood::Flood;
use crate::mercato::{PORT, Settings, Tunnel, contract, known_lease, pod};
use crate::transfer;

/// Initiations of a flood in each ms: few, since a build without optimisation takes ms for one.
const FLOOD_PER_MS: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(10);

fn apply(tunnel: &Tunnel, version: u64, changes: Vec<Change>) -> Result<Applied> {
    let applied = tunnel.ends[0].handle.apply(version, changes)?;
    applied.recv_timeout(PATIENCE).context("nothing is told of a change")
}

pub(crate) async fn changes_are_told_in_force(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let tunnel = Tunnel::begin(&cable, Settings { shards: 3, ..PLAIN })?;
    let pair = (pod(0, 0), pod(1, 0));
    transfer::datagrams(&cable, pair, 1_000, 16)?;
    let stale = apply(&tunnel, 1, vec![Change::RemoveLease(contract(0))])?;
    ensure!((stale.version, stale.ended.len()) == (1, 0), "an old version: {stale:?}");
    transfer::datagrams(&cable, pair, 1_000, 16)?;

    let before = tunnel.ends[0].handle.traffic()?;
    let before = before.leases.get(&contract(0)).context("the lease has carried something")?;
    let removed = apply(&tunnel, 2, vec![Change::RemoveLease(contract(0))])?;
    ensure!(removed.version == 2 && removed.refused.is_empty(), "{removed:?}");
    let last = removed.ended.get(&contract(0)).context("its last counters are told")?;
    ensure!(last.outbound == before.outbound, "{last:?}, and before {before:?}");
    let after = tunnel.ends[0].handle.traffic()?;
    ensure!(!after.leases.contains_key(&contract(0)), "it is forgotten: {after:?}");
    ensure!(!transfer::is_heard(&cable, pair.0, pair.1)?, "an address of no lease");
    transfer::datagrams(&cable, (pod(0, 1), pod(1, 1)), 1_000, 16)?;

    let mut again = known_lease(0, 0);
    let gone = Change::RemoveLease(contract(9));
    let nowhere = Change::RemoveLocal { lease: contract(9), local: pod(0, 9) };
    again.extend([gone, nowhere]);
    let last = again.len() - 1;
    let added = apply(&tunnel, 3, again)?;
    ensure!(added.refused == [(last, Refused::UnknownLease(contract(9)))], "{added:?}");
    transfer::datagrams(&cable, pair, 1_000, 16)?;
    let local = pod(0, 0);
    apply(&tunnel, 4, vec![Change::RemoveLocal { lease: contract(0), local }])?;
    ensure!(!transfer::is_heard(&cable, pair.0, pair.1)?, "an address that was taken away");
    tunnel.stop().map(drop)
}

pub(crate) async fn a_flood_of_handshakes_stops_nothing(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let tunnel = Tunnel::begin(&cable, PLAIN)?;
    let flood = Flood::begin(&cable, tunnel.ends[1].key, Some(PORT), FLOOD_PER_MS)?;
    transfer::stream(&cable, (pod(0, 0), pod(1, 0)), 3_000_000)?;
    transfer::datagrams(&cable, (pod(0, 1), pod(1, 1)), 1_000, 16)?;
    let sent = flood.stop()?;
    ensure!(sent > 100, "{sent} initiations were no flood");
    tunnel.stop().map(drop)
}
