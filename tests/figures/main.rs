//! `figures`: how fast Mercato is and what it costs, measured on beds of real clusters
//! with simulated nodes, so that what is measured is the control planes' and ours; pods that are
//! called run on a real one.
//!
//! `tests/run figures` builds it and runs it. What it prints goes to docs/benchmarks.md.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod burst;
mod change;
mod deal;
mod idle;
mod lease;
mod leaving;
mod memory;
mod reach;
mod services;
mod stage;
mod table;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, ValueEnum};

/// How fast Mercato is, and what it costs: prints tables of Markdown.
#[derive(Parser)]
#[command(name = "figures", after_help = EXAMPLES)]
struct Cli {
    /// What to measure, all by default
    scenes: Vec<Scene>,
    /// Few rounds and small counts: shows that all of it works, in some twelve minutes
    #[arg(long)]
    quick: bool,
    /// How often each is measured, in place of as often as it usually is
    #[arg(long)]
    rounds: Option<usize>,
}

const EXAMPLES: &str = "Examples:
  tests/run figures                     all of it; under an hour
  tests/run figures --quick
  tests/run figures burst large-burst   two scenes of it, one after the other
  tests/run figures large-burst --rounds 2";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scene {
    /// From two strangers to the first guest pod
    Deal,
    /// What the gateways add to a deal and to a pod's start, and the first packet to each pod
    Reach,
    /// 300 pods at once and their end, with Mercato and without
    Burst,
    /// 1,000 pods at once, likewise
    LargeBurst,
    /// What the daemons hold in memory
    Memory,
    /// A config map's change, until it is on the other side
    Change,
    /// An endpoint's change, likewise, and writes for pods behind a Service
    Services,
    /// A Service whose pods come home before their contract ends: requests that are lost
    Leaving,
    /// A lease whose pods do nothing
    Idle,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let all = Scene::value_variants();
    let scenes = if cli.scenes.is_empty() { all } else { &cli.scenes };
    for scene in scenes {
        let start = Instant::now();
        if let Err(error) = measure(*scene, &cli) {
            eprintln!("figures: {error:#}");
            return ExitCode::FAILURE;
        }
        eprintln!("{scene:?}: {} s", start.elapsed().as_secs());
    }
    ExitCode::SUCCESS
}

fn measure(scene: Scene, cli: &Cli) -> Result<()> {
    mercato_tests::requirements::met()?;
    let rounds = cli.rounds.unwrap_or(if cli.quick { 2 } else { 5 });
    let pick = |small, whole| if cli.quick { small } else { whole };
    match scene {
        Scene::Deal => deal::measure(rounds),
        Scene::Reach => reach::measure(rounds, pick(5, 20)),
        Scene::Burst => burst::measure(pick(100, 300), rounds),
        Scene::LargeBurst => burst::measure(pick(300, 1_000), rounds),
        Scene::Memory => memory::measure(pick(100, 1_000), pick(500, 5_000)),
        Scene::Change => change::measure(pick(50, 500)),
        Scene::Services => services::measure(pick(50, 500), pick(10, 40)),
        Scene::Leaving => leaving::measure(pick(1, 3)),
        Scene::Idle => idle::measure(pick(30, 600)),
    }
}
