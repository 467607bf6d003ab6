//! What the tunnel carries whatever the kernel does for it, whatever the cable takes, and with how
//! many shards.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_session::DropReason;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use mercato_tunnel::{Offload, Offloads};

use crate::cable::{CABLE, Cable, MTU, Wire};
use crate::mercato::{Settings, Tunnel, pod};
use crate::transfer;

const TEN_MEGABYTES: usize = 10_000_000;
/// How long two ends take to know their path, at most, and to say so.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) const PLAIN: Settings =
    Settings { shards: 1, offloads: Offloads::ALL, leases: 2, mtu: MTU, is_outer_v6: false };

/// Begins a tunnel over a cable, carries a stream and datagrams by it, and ends it.
fn carry(cable: &Cable, settings: Settings) -> Result<()> {
    let tunnel = Tunnel::begin(cable, settings)?;
    settles(&tunnel)?;
    let pair = (pod(0, 0), pod(1, 0));
    transfer::stream(cable, pair, TEN_MEGABYTES)?;
    // By version 6 as well, no more than one datagram carries.
    transfer::datagrams(cable, pair, 1_390.min(settings.mtu - 110), 400)?;
    transfer::datagrams(cable, pair, 64, 400)?;
    let traffic = tunnel.stop()?;
    for (end, of_end) in traffic.iter().enumerate() {
        ensure!(of_end.leases.len() == 1, "the other lease carried nothing: {of_end:?}");
        let counters = of_end.leases.values().next().context("a lease")?;
        let carried = if end == 0 { &counters.outbound } else { &counters.inbound };
        ensure!(carried.passed.bytes as usize > TEN_MEGABYTES, "not all is counted: {carried:?}");
        for reason in DropReason::ALL {
            let dropped = carried.dropped(reason);
            ensure!(dropped.packets == 0, "{} dropped: {reason}", dropped.packets);
        }
    }
    Ok(())
}

/// Waits until both ends know how large packets to the other one may be: nobody is told of it before.
pub(crate) fn settles(tunnel: &Tunnel) -> Result<()> {
    wait::until_blocking("both ends know their path", PATIENCE, || {
        let [one, other] = &tunnel.ends;
        let peers = [one.handle.peers(PATIENCE)?, other.handle.peers(PATIENCE)?];
        Ok(peers.iter().flatten().all(|peer| peer.path.is_settled))
    })
}

pub(crate) async fn without_each_offload(_: &Stage) -> Result<()> {
    for wire in [Wire::Segments, Wire::Gro] {
        let cable = Cable::lay(wire, MTU)?;
        let fewer = Offload::ALL.map(|offload| Offloads::ALL.without(offload));
        for offloads in fewer.into_iter().chain([Offloads::ALL, Offloads::NONE]) {
            carry(&cable, Settings { offloads, ..PLAIN })
                .with_context(|| format!("with {offloads:?}, wire {}", wire.name()))?;
        }
    }
    Ok(())
}

pub(crate) async fn cards_that_do_nothing(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let features = ["tx", "rx", "sg", "tso", "gso", "tx-udp-segmentation", "gro"];
    for end in 0..2 {
        for feature in features {
            let words = ["-K", "cable", feature, "off"].map(str::to_owned);
            cable.namespace(end).run("ethtool", words.to_vec())?;
        }
    }
    carry(&cable, PLAIN)
}

pub(crate) async fn by_version_6(_: &Stage) -> Result<()> {
    for wire in [Wire::Segments, Wire::Gro] {
        let cable = Cable::lay(wire, MTU)?;
        // A way by version 4 would go unseen.
        (0..2).try_for_each(|end| {
            let address = crate::cable::outer(end);
            cable.namespace(end).ip(&format!("address del {address}/24 dev {CABLE}"))
        })?;
        for shards in [1, 2] {
            carry(&cable, Settings { is_outer_v6: true, shards, ..PLAIN })
                .with_context(|| format!("{shards} shards, wire {}", wire.name()))?;
        }
    }
    Ok(())
}

pub(crate) async fn several_shards(_: &Stage) -> Result<()> {
    for wire in [Wire::Segments, Wire::Gro] {
        let cable = Cable::lay(wire, MTU)?;
        for shards in [2, 3, 16] {
            let settings = Settings { shards, ..PLAIN };
            let tunnel = Tunnel::begin(&cable, settings)?;
            let pair = (pod(0, 0), pod(1, 0));
            std::thread::scope(|scope| {
                let stream = || scope.spawn(|| transfer::stream(&cable, pair, TEN_MEGABYTES / 8));
                let all: Vec<_> = (0..8).map(|_| stream()).collect();
                all.into_iter().try_for_each(|one| one.join().expect("a stream panicked"))
            })
            .with_context(|| format!("{shards} shards, wire {}", wire.name()))?;
            transfer::datagrams(&cable, pair, 64, 400)?;
            let [sent, received] = tunnel.stop()?;
            let (sent, received) = (sent.all.passed.packets, received.all.passed.packets);
            ensure!(sent > 0 && received > 0, "{sent} packets were sent, {received} received");
        }
    }
    Ok(())
}
