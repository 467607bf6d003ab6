//! What the tunnel of this machine can carry: two gateways in two network namespaces of this
//! process, joined by a virtual cable, with load through them and beside them. Nothing of the
//! machine's own network is touched, and all of it ends with the process.

mod ends;
mod load;
mod namespace;

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use self::ends::{Cable, End};
use self::load::{Path, Stream};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How long each load lasts.
    pub(crate) each: Duration,
    /// How often all of them are done, in turn.
    pub(crate) rounds: usize,
    /// Whether the cable's ends cut and put together segments, as good network cards do.
    pub(crate) offloads: bool,
}

/// What was measured on one path, in the median of all rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    /// The bare cable, or the tunnel.
    pub(crate) path: &'static str,
    /// Bits of one TCP stream a second.
    pub(crate) bits_per_second: u64,
    /// The least and the most of all rounds.
    pub(crate) spread: [u64; 2],
    /// Processor time for 10^9 bytes, of load and tunnel together, in milliseconds.
    pub(crate) cpu_ms_per_gigabyte: u64,
    /// From a question of one byte to its answer, in microseconds.
    pub(crate) round_trip_us: u64,
}

/// Brings two ends up and loads them.
///
/// # Errors
/// Without the rights to make network namespaces and devices, or without the program `ip`.
pub(crate) fn tunnel(plan: Plan, mut told: impl FnMut(&str)) -> Result<Vec<Figures>> {
    let cable = Cable::lay(plan.offloads)?;
    let ends = [End::begin(&cable, 0)?, End::begin(&cable, 1)?];
    ends::wait_for_link(&cable).context("the two ends do not reach each other")?;
    let mut streams: Vec<[Stream; 2]> = Vec::new();
    for round in 1..=plan.rounds {
        told(&format!("round {round} of {}", plan.rounds));
        let bare = load::stream(&cable, Path::Cable, plan.each)?;
        let tunnel = load::stream(&cable, Path::Tunnel, plan.each)?;
        streams.push([bare, tunnel]);
    }
    let figures = [Path::Cable, Path::Tunnel].into_iter().enumerate().map(|(nth, path)| {
        let of_path: Vec<Stream> = streams.iter().map(|round| round[nth]).collect();
        figures(&cable, path, &of_path)
    });
    let figures = figures.collect::<Result<Vec<_>>>()?;
    for end in ends {
        end.stop()?;
    }
    Ok(figures)
}

fn figures(cable: &Cable, path: Path, streams: &[Stream]) -> Result<Figures> {
    let mut rates: Vec<u64> = streams.iter().map(Stream::bits_per_second).collect();
    let mut cpu: Vec<u64> = streams.iter().map(Stream::cpu_ms_per_gigabyte).collect();
    rates.sort_unstable();
    cpu.sort_unstable();
    Ok(Figures {
        path: path.name(),
        bits_per_second: rates[rates.len() / 2],
        spread: [rates[0], rates[rates.len() - 1]],
        cpu_ms_per_gigabyte: cpu[cpu.len() / 2],
        round_trip_us: load::round_trip(cable, path)?.as_micros() as u64,
    })
}
