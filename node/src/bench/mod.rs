//! What the tunnel of this machine can carry: two gateways in two network namespaces of this
//! process, joined by a virtual cable, with load through them, beside them, and through other
//! tunnels over the same cable. Nothing of the machine's own network is touched, and all of it
//! ends with the process.

mod cable;
mod case;
mod flood;
mod ground;
mod load;
mod memory;
mod mercato;
mod namespace;
mod processes;
mod wireguard;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mercato_tunnel::Offloads;
use nix::unistd::Pid;

use self::cable::Ends;
pub(crate) use self::cable::Wire;
use self::case::MANY;
use self::case::Sample;
pub(crate) use self::case::{Case, Figures};
use self::flood::Flood;
use self::ground::Ground;
pub(crate) use self::ground::Through;
use self::load::Pair;
use self::mercato::{PORT, Settings, Tunnel, pod};
pub(crate) use self::wireguard::Rival;
use self::wireguard::RivalTunnel;

/// Initiations of a flood in each ms.
const FLOOD_PER_MS: u64 = 100;
/// How our tunnel is called in a table.
const OURS: &str = "mercato";

/// What a run measures, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How long each load lasts.
    pub(crate) each: Duration,
    /// How often all of them are done, in turn.
    pub(crate) rounds: usize,
    /// The loads that are measured.
    pub(crate) cases: Vec<Case>,
    /// How packets go over the cable, one after the other.
    pub(crate) wires: Vec<Wire>,
    /// Where the load of each tunnel begins and ends.
    pub(crate) through: Through,
    /// Other tunnels, in turn with ours.
    pub(crate) beside: Vec<Rival>,
    /// Shards of each of our gateways.
    pub(crate) shards: u8,
    /// What our gateways may use.
    pub(crate) offloads: Offloads,
}

/// A way from the first end of the load to the second.
struct Path<'a> {
    name: String,
    ends: Ends<'a>,
    pairs: Vec<Pair>,
    processes: Vec<Pid>,
}

type Samples = BTreeMap<(Case, usize), Vec<Sample>>;

/// Brings two ends up and loads them.
///
/// # Errors
/// Without the rights to make network namespaces and devices, or without the program `ip`.
pub(crate) fn tunnel(plan: &Plan, mut told: impl FnMut(&str)) -> Result<Vec<Figures>> {
    // First: what others leave behind would be used again, and not seen.
    let idle = if plan.cases.contains(&Case::IdlePeer) {
        told(Case::IdlePeer.name());
        let idle = Sample::plain(memory::idle_peer(plan.shards)?);
        Some(Figures::of("none", Case::IdlePeer, OURS.to_owned(), &[idle], None))
    } else {
        None
    };
    let mut all = Vec::new();
    for wire in plan.wires.iter().copied() {
        all.extend(on_wire(plan, wire, &mut told)?);
    }
    all.extend(idle);
    Ok(all)
}

fn on_wire(plan: &Plan, wire: Wire, told: &mut impl FnMut(&str)) -> Result<Vec<Figures>> {
    let Plan { shards, offloads, through, .. } = *plan;
    let ground = Ground::lay(wire, cable::MTU, through)?;
    let cable = &ground.cable;
    let settings = Settings { shards, offloads, leases: MANY, mtu: cable::MTU, is_outer_v6: false };
    let tunnel = ground.begin(settings).context("our own tunnel")?;
    let mut beside = plan.beside.clone();
    if Rival::is_kernel_ready(cable) {
        beside.push(Rival::Kernel);
    }
    // A machine has one gateway and one overlay: with nodes, each tunnel has machines of its own.
    let mut own = Vec::new();
    if through == Through::Nodes {
        for _ in &beside {
            own.push(Ground::lay(wire, cable::MTU, through)?);
        }
    }
    let grounds: Vec<&Ground> =
        own.iter().chain(std::iter::repeat(&ground)).take(beside.len()).collect();
    let mut rivals = Vec::new();
    for (number, rival) in beside.iter().enumerate() {
        let begun = RivalTunnel::begin(grounds[number], rival, number as u8, cable::MTU);
        rivals.push(begun.with_context(|| format!("the tunnel of {}", rival.name()))?);
    }
    let mut paths = vec![
        Path {
            name: "cable".to_owned(),
            ends: cable.ends(),
            pairs: vec![Pair { from: cable::outer(0).into(), to: cable::outer(1).into() }],
            processes: Vec::new(),
        },
        Path {
            name: OURS.to_owned(),
            ends: ground.ends(),
            pairs: (0..MANY).map(|lease| Pair { from: pod(0, lease), to: pod(1, lease) }).collect(),
            processes: Vec::new(),
        },
    ];
    paths.extend(beside.iter().zip(&rivals).zip(&grounds).map(|((rival, tunnel), ground)| Path {
        name: rival.name().to_owned(),
        ends: ground.ends(),
        pairs: vec![Pair { from: tunnel.address(0), to: tunnel.address(1) }],
        processes: tunnel.processes(),
    }));
    let mut samples = Samples::new();
    for round in 0..plan.rounds {
        told(&format!("{}, round {} of {}", wire.name(), round + 1, plan.rounds));
        measure(plan, &paths, round, &mut samples)?;
        if plan.cases.contains(&Case::FloodedStream) {
            flooded(cable, plan, &paths[1], &tunnel, &mut samples)?;
        }
    }
    tunnel.stop()?;
    Ok(figures(wire, &paths, &samples))
}

/// One round: each load on each path, whose turns move from round to round.
fn measure(plan: &Plan, paths: &[Path<'_>], round: usize, samples: &mut Samples) -> Result<()> {
    let on_all =
        |case: &&Case| !matches!(case, Case::ManyStreams | Case::FloodedStream | Case::IdlePeer);
    for case in plan.cases.iter().filter(on_all).copied() {
        for turn in 0..paths.len() {
            let nth = (turn + round) % paths.len();
            let path = &paths[nth];
            let sample = path.measure(case, &path.pairs[..1], plan.each);
            let sample = sample.with_context(|| format!("{} over {}", case.name(), path.name))?;
            samples.entry((case, nth)).or_default().push(sample);
        }
    }
    if !plan.cases.contains(&Case::ManyStreams) {
        return Ok(());
    }
    // Our own tunnel again: all streams of one lease, and each of its own.
    let ours = &paths[1];
    let one = ours.measure(Case::ManyStreams, &ours.pairs[..1], plan.each)?;
    let many = ours.measure(Case::ManyStreams, &ours.pairs, plan.each)?;
    samples.entry((Case::ManyStreams, 0)).or_default().push(one);
    samples.entry((Case::ManyStreams, 1)).or_default().push(many);
    Ok(())
}

/// A stream through our own tunnel beside a flood that nobody reads, and beside one to a gateway.
fn flooded(
    cable: &cable::Cable,
    plan: &Plan,
    ours: &Path<'_>,
    tunnel: &Tunnel,
    samples: &mut Samples,
) -> Result<()> {
    for (nth, port) in [None, Some(PORT)].into_iter().enumerate() {
        let flood = Flood::begin(cable, tunnel.ends[1].key, port, FLOOD_PER_MS)?;
        let sample = ours.measure(Case::FloodedStream, &ours.pairs[..1], plan.each);
        flood.stop()?;
        samples.entry((Case::FloodedStream, nth)).or_default().push(sample?);
    }
    Ok(())
}

impl Path<'_> {
    fn measure(&self, case: Case, pairs: &[Pair], time: Duration) -> Result<Sample> {
        let streams = |count: usize| -> Result<Sample> {
            let pairs: Vec<Pair> = pairs.iter().copied().cycle().take(count).collect();
            let before = processes::processor_time(&self.processes)?;
            let (bytes, took) = load::streams(self.ends, &pairs, time)?;
            let cpu = processes::processor_time(&self.processes)?.saturating_sub(before);
            Ok(Sample::of_bytes(bytes, took, cpu))
        };
        match case {
            Case::OneStream | Case::FloodedStream => streams(1),
            Case::FourStreams => streams(4),
            Case::ManyStreams => streams(MANY.into()),
            Case::SmallPackets => {
                let (packets, took) = load::small_packets(self.ends, pairs[0], time)?;
                Ok(Sample::of_packets(packets, took))
            }
            Case::RoundTrip => {
                let took = load::round_trip(self.ends, pairs[0])?;
                Ok(Sample::plain(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)))
            }
            Case::IdlePeer => Ok(Sample::plain(memory::idle_peer(1)?)),
        }
    }
}

fn figures(wire: Wire, paths: &[Path<'_>], samples: &Samples) -> Vec<Figures> {
    let of = |((case, nth), samples_of): (&(Case, usize), &Vec<Sample>)| {
        let name = match (case, nth) {
            (Case::ManyStreams, 0) => format!("{OURS}, one lease"),
            (Case::ManyStreams, _) => format!("{OURS}, {MANY} leases"),
            (Case::FloodedStream, 0) => format!("{OURS}, to nobody"),
            (Case::FloodedStream, _) => format!("{OURS}, to it"),
            (_, nth) => paths[*nth].name.clone(),
        };
        let ours = samples.get(&(*case, 1)).filter(|_| *nth != 1);
        Figures::of(wire.name(), *case, name, samples_of, ours.map(Vec::as_slice))
    };
    samples.iter().map(of).collect()
}
