//! `simnet`: runs the simulation, one seed or many, and says what broke and how to see it
//! again.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mercato_simnet::{Bug, Failure, Scenario, Strike, Topology, Trouble, sweep};

/// Clusters in virtual time.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One run, with its trace.
    Run {
        /// Which clusters: see `simnet topologies`.
        topology: Topology,
        /// All chance comes of it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Without faults, and with every turn that a pod's life can take.
        #[arg(long)]
        clean: bool,
        /// The same with one fault: `crash:PLACE:EFFECT`, `lost:N`, `doubled:N`, `late:N`.
        #[arg(long)]
        strike: Option<Strike>,
        /// With this bug in every agent: see `simnet bugs`.
        #[arg(long)]
        bug: Option<Bug>,
        /// Only what came of it.
        #[arg(long, short)]
        quiet: bool,
    },
    /// Many runs with faults of all kinds.
    Check {
        /// How many seeds.
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Which clusters.
        #[arg(long, default_value_t = Topology::Pair)]
        topology: Topology,
        /// Instead, a run for each single fault of one run.
        #[arg(long)]
        each: bool,
    },
    /// Which clusters there are.
    Topologies,
    /// Bugs that can be planted.
    Bugs,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { topology, seed, clean, strike, bug, quiet } => {
            let trouble =
                if clean || strike.is_some() { Trouble::One(strike) } else { Trouble::Mixed };
            run(Scenario { topology, seed, trouble, bug }, quiet)
        }
        Command::Check { seeds, from, topology, each: false } => {
            check(&sweep::mixed(topology, from..from.saturating_add(seeds)))
        }
        Command::Check { from, topology, each: true, .. } => {
            let clean = Scenario { topology, seed: from, trouble: Trouble::One(None), bug: None };
            match clean.run(false) {
                Ok(outcome) => check(&sweep::one_fault_each(topology, from, &outcome)),
                Err(failure) => report(&[*failure]),
            }
        }
        Command::Topologies => {
            for topology in Topology::ALL {
                println!("{topology:<6} {}", topology.description());
            }
            ExitCode::SUCCESS
        }
        Command::Bugs => {
            Bug::ALL.iter().for_each(|bug| println!("{bug}"));
            ExitCode::SUCCESS
        }
    }
}

fn run(scenario: Scenario, quiet: bool) -> ExitCode {
    match scenario.run(!quiet) {
        Ok(outcome) => {
            println!(
                "{scenario}: all promises held in {} s of virtual time\ntrace {}",
                outcome.virtual_ms / 1_000,
                outcome.trace
            );
            ExitCode::SUCCESS
        }
        Err(failure) => report(&[*failure]),
    }
}

fn check(scenarios: &[Scenario]) -> ExitCode {
    let failures = sweep::run_all(scenarios);
    println!("{} runs, {} failed", scenarios.len(), failures.len());
    report(&failures)
}

fn report(failures: &[Failure]) -> ExitCode {
    for failure in failures {
        println!("{failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
