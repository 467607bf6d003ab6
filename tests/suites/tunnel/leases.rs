//! What one lease may carry, and what it gets when another wants everything.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_session::{DropReason, Rate};
use mercato_tests::suite::Stage;
use mercato_tunnel::{Command, LeaseRates};

use crate::cable::{CABLE, Cable, MTU, Wire};
use crate::carry::PLAIN;
use crate::mercato::{Tunnel, contract, pod};
use crate::transfer;

const MEGABYTE: u64 = 1_000_000;
/// Packets of 1,400 bytes in a millisecond: twice what the link of that test carries, and no more
/// than a gateway built without optimisation takes from its device.
const FLOOD: usize = 8;
/// So many times as much as the other lease the flood may carry meanwhile: TCP begins slowly.
const MOST_OF_FLOOD: u64 = 3;
/// Bytes of the other lease, by TCP.
const MODEST: usize = 3 * MEGABYTE as usize;

pub(crate) async fn a_rate_is_kept(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let tunnel = Tunnel::begin(&cable, PLAIN)?;
    let rate = Rate { bytes_per_second: 4 * MEGABYTE, burst_bytes: MEGABYTE / 4 };
    let rates = LeaseRates { outbound: Some(rate), inbound: None };
    tunnel.ends[0].handle.send(Command::LimitLease { lease: contract(0), rates })?;
    let began = Instant::now();
    transfer::stream(&cable, (pod(0, 0), pod(1, 0)), 8 * MEGABYTE as usize)?;
    let took = began.elapsed();
    // 8 MB and headers, less the burst and what one packet may be ahead.
    ensure!(took > Duration::from_millis(1_850), "8 MB at 4 MB/s took {took:?}");
    let began = Instant::now();
    transfer::stream(&cable, (pod(0, 1), pod(1, 1)), 8 * MEGABYTE as usize)?;
    ensure!(began.elapsed() < took, "the other lease was held up for {:?}", began.elapsed());
    tunnel.stop().map(drop)
}

pub(crate) async fn what_comes_too_fast_is_dropped(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let tunnel = Tunnel::begin(&cable, PLAIN)?;
    let rate = Rate { bytes_per_second: MEGABYTE / 10, burst_bytes: 50_000 };
    let rates = LeaseRates { outbound: None, inbound: Some(rate) };
    tunnel.ends[1].handle.send(Command::LimitLease { lease: contract(0), rates })?;
    // The command is obeyed once its answer is here.
    tunnel.ends[1].handle.traffic()?;
    let here = cable.namespace(0).within(|| UdpSocket::bind((pod(0, 0), 0)))??;
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        here.send_to(&[7; 1_000], (pod(1, 0), 9))?;
        let traffic = tunnel.ends[1].handle.traffic()?;
        let counters = traffic.leases.get(&contract(0)).context("nothing was counted")?;
        let (passed, dropped) =
            (counters.inbound.passed, counters.inbound.dropped(DropReason::Rate));
        if passed.packets + dropped.packets > 900 {
            ensure!(dropped.packets > 300, "{passed:?} passed, {dropped:?} did not");
            break;
        }
        ensure!(Instant::now() < until, "{passed:?} and {dropped:?} arrived");
    }
    tunnel.stop().map(drop)
}

pub(crate) async fn a_flood_leaves_room_for_others(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, MTU)?;
    let slow = "qdisc add dev cable root tbf rate 40mbit burst 128k limit 8m";
    ensure!(CABLE == "cable", "the name stands in the line above");
    cable.namespace(0).run("tc", slow.split(' ').map(str::to_owned).collect())?;
    let tunnel = Tunnel::begin(&cable, PLAIN)?;
    let flood = cable.namespace(0).within(|| UdpSocket::bind((pod(0, 0), 0)))??;
    let is_over = AtomicBool::new(false);
    let carried = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // What is too much is lost somewhere: that is the point.
                for _ in 0..FLOOD {
                    let _ = flood.send_to(&[7; 1_400], (pod(1, 0), 9));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let carried = transfer::stream(&cable, (pod(0, 1), pod(1, 1)), MODEST);
        is_over.store(true, Ordering::Relaxed);
        carried
    });
    carried.context("beside a flood")?;
    let [sent, _] = tunnel.stop()?;
    let of_lease = |number| {
        let counters = sent.leases.get(&contract(number)).context("a lease that sent nothing");
        counters.map(|counters| counters.outbound)
    };
    let (flooded, other) = (of_lease(0)?, of_lease(1)?);
    let lost = flooded.dropped(DropReason::Queue).packets;
    ensure!(lost > 0, "the link was never full: {flooded:?}");
    // What waits for all in the kernel delays TCP, and delay keeps it from its share.
    let (of_flood, of_other) = (flooded.passed.bytes, other.passed.bytes);
    ensure!(of_flood < MOST_OF_FLOOD * of_other, "{of_flood} bytes of the flood, {of_other}");
    // Whoever sends less than its share loses nothing.
    for reason in DropReason::ALL {
        ensure!(other.dropped(reason).packets == 0, "{other:?} beside {flooded:?}");
    }
    Ok(())
}
