//! `simnet`: tries a federation out before it exists, and checks that the agents keep their
//! promises whatever happens.

#![allow(clippy::disallowed_methods, reason = "people are told how long a run takes")]

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::{Args, Parser, Subcommand};
use mercato_config::{FromText as _, Seconds};
use mercato_simnet::hostile::Liar;
use mercato_simnet::tunnel::{TunnelBug, TunnelTrial};
use mercato_simnet::{
    Bug, Failure, Fault, FaultPlan, Federation, LiarTrial, Plan, Progress, Run, Topology, Trial,
    WrongRule, hostile, limits, report, sweep,
};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Federations of clusters in virtual time.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try a federation out: its clusters trade, and a report says what comes of it.
    Run {
        /// A scenario file (*.yaml), or a name of `simnet topologies`.
        scenario: String,
        #[command(flatten)]
        size: Size,
        /// Where the report goes: report.html, *.csv, report.json.
        #[arg(long, default_value = "simnet-report")]
        report: PathBuf,
    },
    /// Try several federations under the same demand, side by side.
    Compare {
        /// Scenario files or names of topologies.
        #[arg(required = true, num_args = 2..)]
        scenarios: Vec<String>,
        #[command(flatten)]
        size: Size,
        /// The folder that the report goes to.
        #[arg(long, default_value = "simnet-report")]
        report: PathBuf,
    },
    /// Many trials with faults of all kinds: the promises of the design must hold.
    Check {
        /// How many seeds are tried.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(limits::SEEDS))]
        seeds: u64,
        /// The first of the seeds.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Only this topology, of its usual size; otherwise 3 to 30 clusters of any.
        #[arg(long)]
        topology: Option<Topology>,
        /// Instead, a trial of the topology, `pair` if none is named, for each single fault.
        #[arg(long)]
        each: bool,
    },
    /// One trial of `check` again, with its trace.
    Replay {
        /// A name of `simnet topologies`.
        topology: Topology,
        /// How many clusters; the usual number of the topology otherwise.
        #[arg(long, value_parser = clusters)]
        clusters: Option<usize>,
        /// All chance comes of it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Without faults, and with every turn that a pod's life can take.
        #[arg(long)]
        clean: bool,
        /// The same with one fault: `crash:PLACE:EFFECT`, `lost:N`, `doubled:N`, `late:N`.
        #[arg(long)]
        fault: Option<Fault>,
        /// With this bug in every agent: see `simnet bugs`.
        #[arg(long)]
        bug: Option<Bug>,
        /// Only what came of it.
        #[arg(long, short)]
        quiet: bool,
    },
    /// Pairs in which one lies about the end of leases: the other loses nothing by it.
    Liars {
        /// How many seeds are tried with each liar.
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(limits::SEEDS))]
        seeds: u64,
        /// The first of the seeds.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Of the liars this one alone.
        #[arg(long)]
        liar: Option<Liar>,
        /// With this wrong rule in both: see `simnet bugs`.
        #[arg(long)]
        bug: Option<WrongRule>,
    },
    /// Real sessions of the tunnel over bad links: nothing is delivered twice, changed or to
    /// another lease, and packets flow again when the faults stop.
    Tunnel {
        /// How many seeds are tried.
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(limits::SEEDS))]
        seeds: u64,
        /// The first of the seeds.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// With this mistake around all sessions: see `simnet bugs`.
        #[arg(long)]
        bug: Option<TunnelBug>,
        /// With the trace of each.
        #[arg(long)]
        trace: bool,
    },
    /// The named federations, and the kinds of hostile peers.
    Topologies,
    /// Bugs that can be planted.
    Bugs,
}

#[derive(Args)]
struct Size {
    /// How many clusters; what the topology or the file says otherwise.
    #[arg(long, value_parser = clusters)]
    clusters: Option<usize>,
    /// All chance comes of it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How much virtual time passes.
    #[arg(long = "for", default_value = "1h", value_parser = seconds)]
    duration: Seconds,
}

fn seconds(text: &str) -> Result<Seconds, String> {
    Seconds::from_text(text).map_err(|error| error.to_string())
}

fn clusters(text: &str) -> Result<usize, String> {
    let (least, most) = (limits::CLUSTERS.start(), limits::CLUSTERS.end());
    let count = text.parse().ok().filter(|count| limits::CLUSTERS.contains(count));
    count.ok_or_else(|| format!("a federation has {least} to {most} clusters"))
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run { scenario, size, report } => run(&scenario, &size, &report),
        Command::Compare { scenarios, size, report } => compare(&scenarios, &size, &report),
        Command::Check { seeds, from, topology, each: false } => {
            let seeds = from..from.saturating_add(seeds);
            Ok(check(&match topology {
                Some(topology) => sweep::mixed(topology, seeds),
                None => sweep::federations(seeds),
            }))
        }
        Command::Check { from, topology, each: true, .. } => {
            Ok(check_each(topology.unwrap_or(Topology::Pair), from))
        }
        Command::Replay { topology, clusters, seed, clean, fault, bug, quiet } => {
            let one = clean || fault.is_some();
            let faults = if one { FaultPlan::One(fault) } else { FaultPlan::Mixed };
            let clusters = clusters.unwrap_or(topology.default_clusters());
            Ok(replay(Trial { topology, clusters, seed, faults, bug }, quiet))
        }
        Command::Tunnel { seeds, from, bug, trace } => {
            let seeds = from..from.saturating_add(seeds);
            let trials: Vec<_> = seeds.map(|seed| TunnelTrial { seed, bug }).collect();
            Ok(check_tunnel(&trials, trace))
        }
        Command::Liars { seeds, from, liar, bug } => {
            let one = |seed| {
                let liars = Liar::ALL.into_iter().filter(move |it| liar.is_none_or(|l| l == *it));
                liars.map(move |liar| LiarTrial { liar, seed, wrong: bug })
            };
            let trials = (from..from.saturating_add(seeds)).flat_map(one);
            Ok(check_liars(&trials.collect::<Vec<_>>()))
        }
        Command::Topologies => {
            for topology in Topology::ALL {
                let clusters = topology.default_clusters();
                println!("{topology:<12} {clusters:>4}  {}", topology.description());
            }
            println!("\nHostile peers, for `hostile:` of a scenario file:");
            for character in hostile::Character::ALL {
                println!("{character:<18} {}", character.description());
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Bugs => {
            Bug::ALL.iter().for_each(|bug| println!("{bug}"));
            println!("\nRules of settling, for `simnet liars --bug`, and who profits:");
            WrongRule::ALL.iter().for_each(|rule| println!("{rule:<16} {:?}", rule.liars()));
            println!("\nAround the tunnel, for `simnet tunnel --bug`:");
            TunnelBug::ALL.iter().for_each(|bug| println!("{bug}"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn plan(scenario: &str, size: &Size) -> anyhow::Result<Plan> {
    let is_file = scenario.ends_with(".yaml") || scenario.ends_with(".yml");
    if is_file {
        let text = std::fs::read_to_string(scenario).with_context(|| format!("read {scenario}"))?;
        return Ok(Plan::parse(scenario, &text, size.clusters, size.seed)?);
    }
    let topology: Topology = scenario.parse()?;
    Ok(topology.plan(size.clusters, size.seed))
}

/// Tries a plan out, with progress on standard error.
fn try_out(plan: Plan, size: &Size) -> anyhow::Result<Run> {
    let (name, for_ms) = (plan.name.clone(), size.duration.0 * 1_000);
    let began = Instant::now();
    let is_terminal = std::io::stderr().is_terminal();
    let say = |progress: Progress| {
        let Progress { at_ms, steps, leases, waiting } = progress;
        let (minute, of) = (at_ms / 60_000, for_ms / 60_000);
        if !is_terminal && !minute.is_multiple_of(10) {
            return;
        }
        let (end, seconds) = (if is_terminal { '\r' } else { '\n' }, began.elapsed().as_secs());
        eprint!(
            "{name}: minute {minute} of {of}, {leases} leases, {waiting} jobs waiting, \
             {steps} events, {seconds} s   {end}"
        );
        // Progress that cannot be shown is not missed.
        let _ = std::io::stderr().flush();
    };
    let run = Federation { plan, seed: size.seed, for_ms }.run(say);
    if is_terminal {
        eprintln!();
    }
    run.map_err(|violation| anyhow::anyhow!("a promise was broken: {violation}"))
}

fn run(scenario: &str, size: &Size, to: &std::path::Path) -> anyhow::Result<ExitCode> {
    let run = try_out(plan(scenario, size)?, size)?;
    print!("{}", report::summary(&run));
    report::write(to, &[&run]).with_context(|| format!("write the report to {}", to.display()))?;
    println!("report {}", to.join("report.html").display());
    println!("trace {}", run.trace);
    let escaped = run.measures.gains.values().any(|gain| !gain.is_contained());
    Ok(if escaped { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn compare(scenarios: &[String], size: &Size, to: &std::path::Path) -> anyhow::Result<ExitCode> {
    let mut plans: Vec<Plan> =
        scenarios.iter().map(|one| plan(one, size)).collect::<anyhow::Result<_>>()?;
    if size.clusters.is_none() {
        let most = plans.iter().map(|plan| plan.clusters.len()).max().unwrap_or(0);
        if plans.iter().any(|plan| plan.clusters.len() != most) {
            bail!("these are of different sizes, which do not compare: say --clusters {most}");
        }
    }
    report::level(&mut plans, size.duration.0 * 1_000);
    let runs = plans.into_iter().map(|plan| try_out(plan, size));
    let runs: Vec<Run> = runs.collect::<anyhow::Result<_>>()?;
    let all: Vec<&Run> = runs.iter().collect();
    print!("{}", report::comparison(&all));
    report::write(to, &all).with_context(|| format!("write the report to {}", to.display()))?;
    println!("report {}", to.join("report.html").display());
    for run in &runs {
        println!("trace {} {}", run.trace, run.federation.plan.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn check_each(topology: Topology, seed: u64) -> ExitCode {
    let clusters = topology.default_clusters();
    let clean = Trial { topology, clusters, seed, faults: FaultPlan::One(None), bug: None };
    match clean.run(false) {
        Ok(outcome) => check(&sweep::one_fault_each(clean, &outcome)),
        Err(failure) => tell(&[*failure]),
    }
}

fn replay(trial: Trial, quiet: bool) -> ExitCode {
    match trial.run(!quiet) {
        Ok(outcome) => {
            let (seconds, steps) = (outcome.virtual_ms / 1_000, outcome.steps);
            println!("{trial}: all promises held in {seconds} s of virtual time, {steps} events");
            println!("trace {}", outcome.trace);
            ExitCode::SUCCESS
        }
        Err(failure) => tell(&[*failure]),
    }
}

fn check(trials: &[Trial]) -> ExitCode {
    let every = limits::GLOBAL_CHECK_STEPS;
    println!("promises are checked on what each event touched, and all every {every} events");
    let began = Instant::now();
    let failures = sweep::run_all(trials);
    let (n, failed, seconds) = (trials.len(), failures.len(), began.elapsed().as_secs());
    println!("{n} trials, {failed} failed, {seconds} s");
    tell(&failures)
}

fn check_liars(trials: &[LiarTrial]) -> ExitCode {
    let all = sweep::run_liars(trials);
    let tried: u64 = all.iter().flatten().map(|outcome| outcome.tried).sum();
    let settled: usize = all.iter().flatten().map(|outcome| outcome.settled).sum();
    let failed = all.iter().filter(|outcome| outcome.is_err()).count();
    println!("{} trials, {failed} failed, {tried} lies, {settled} bills of both", trials.len());
    for (trial, outcome) in trials.iter().zip(&all) {
        if let Err(violation) = outcome {
            println!("{violation}; again: {trial}");
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check_tunnel(trials: &[TunnelTrial], trace: bool) -> ExitCode {
    let began = Instant::now();
    let all = if trace {
        trials.iter().map(|trial| trial.run(true)).collect()
    } else {
        sweep::run_tunnels(trials)
    };
    let held: Vec<_> = all.iter().flatten().collect();
    let failures: Vec<_> = all.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let delivered: usize = held.iter().map(|outcome| outcome.delivered).sum();
    let healed_ms = held.iter().map(|outcome| outcome.healed_ms).max().unwrap_or_default();
    println!(
        "{} trials, {} failed, {delivered} packets arrived, the longest healing took \
         {healed_ms} ms, {} s",
        trials.len(),
        failures.len(),
        began.elapsed().as_secs(),
    );
    for failure in &failures {
        println!("{failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(failures: &[Failure]) -> ExitCode {
    for failure in failures {
        println!("{failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_the_documentation_are_understood() {
        let docs =
            [include_str!("../../docs/development.md"), include_str!("../../docs/simnet.md")];
        let typed = docs.iter().flat_map(|text| text.lines()).filter_map(|line| {
            let line = line
                .strip_prefix("$ cargo run --bin simnet -- ")
                .or_else(|| line.strip_prefix("simnet ").filter(|line| !line.contains(" is ")))?;
            // What follows two spaces or a '#' is said about it.
            let command = line.split("  ").next()?.split('#').next()?;
            Some(command.split_whitespace().collect::<Vec<_>>())
        });
        let typed: Vec<_> = typed.collect();
        assert!(typed.len() > 8, "{typed:?}");
        for words in typed {
            let read = Cli::try_parse_from([&["simnet"][..], &words].concat());
            assert!(read.is_ok(), "simnet {}: {}", words.join(" "), read.err().unwrap());
        }
    }
}
