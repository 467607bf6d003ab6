//! `runner`: runs the test programs of the workspace as `cargo test` would, several side by side, and ends
//! with a table of what passed and what it cost. `tests/run` starts it.
//!
//! What waits for clusters runs beside what computes; programs that need the machine to themselves, as
//! [`costs`] has it, come last, one at a time. The output of each is written to a file of its own, and
//! printed whole once it has ended.
#![allow(clippy::disallowed_methods, reason = "it tells how long programs took")]

mod outcome;
mod play;
mod programs;
mod table;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use futures::stream::{self, StreamExt as _};
use mercato_tests::costs;
use mercato_tests::suite::{self, Level};
use tokio::signal::unix::{SignalKind, signal};

use play::Stage;
use programs::Program;
use table::Played;

/// Run the test programs of the workspace, several side by side.
///
/// Programs that count time or what the machine does run alone, after the others.
#[derive(Parser)]
#[command(name = "runner")]
struct Cli {
    /// How many run side by side; one at level full
    #[arg(long, env = "MERCATO_TESTS_AT_ONCE", value_name = "NUMBER")]
    at_once: Option<u8>,
    /// Name what runs at level full alone, and for how many minutes; nothing runs
    #[arg(long)]
    list: bool,
    /// Run those alone whose name contains this
    filter: Option<String>,
}

/// As many as keep two processors busy: a suite on the bed has work for one of them. With three, what suites
/// wait for was late now and then.
const AT_ONCE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.list {
        print!("{}", table::at_full(cli.filter.as_deref().unwrap_or_default()));
        return ExitCode::SUCCESS;
    }
    let played = mercato_tests::runtime().and_then(|runtime| {
        let played = runtime.block_on(run(&cli));
        // Whoever still waits for the machine is not waited for.
        runtime.shutdown_background();
        played
    });
    match played {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("runner: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all of them passed.
async fn run(cli: &Cli) -> Result<bool> {
    let at_once = match (cli.at_once, suite::level()) {
        (Some(asked), _) => asked.max(1),
        (None, Level::Ci) => AT_ONCE,
        (None, Level::Full) => 1,
    };
    let mut programs = programs::built()?;
    if let Some(filter) = &cli.filter {
        programs.retain(|program| program.name.contains(filter.as_str()));
        ensure!(!programs.is_empty(), "no test program has a name with {filter} in it");
    }
    let stage = Stage::new(programs::target_dir()?.join("test-outputs"))?;
    let mut end = signal(SignalKind::terminate()).context("listen to signals")?;
    let begun = Instant::now();
    let played = tokio::select! {
        played = all(&stage, programs, at_once.into()) => played,
        // Whoever is dropped is killed, and its bed ends with it.
        _ = end.recv() => anyhow::bail!("it was told to end"),
    };
    let summary = table::Summary { played: &played, seconds: begun.elapsed().as_secs(), at_once };
    let summary = summary.to_string();
    print!("{summary}");
    std::fs::write(stage.beside("tests-summary"), &summary).context("write the summary")?;
    let may_skip = std::env::var("CI").as_deref() != Ok("true");
    let skipped = played.iter().any(|one| !one.outcome.skipped.is_empty());
    if skipped && !may_skip {
        eprintln!("Under CI=true nothing may be skipped.");
    }
    Ok(played.iter().all(Played::passed) && (may_skip || !skipped))
}

/// Those that may have company, the longest first, and then the others; in the end, as they are named.
async fn all(stage: &Stage, mut programs: Vec<Program>, at_once: usize) -> Vec<Played> {
    programs.sort_by_key(|program| std::cmp::Reverse(costs::of(&program.name).seconds));
    let (alone, beside): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| costs::of(&program.name).alone.is_some());
    let count = alone.len() + beside.len();
    let mut played = Vec::new();
    for (group, at_once) in [(beside, at_once), (alone, 1)] {
        let mut running = stream::iter(group)
            .map(|program| async move {
                let outcome = play::play(stage, &program).await;
                (program, outcome)
            })
            .buffer_unordered(at_once);
        while let Some((program, outcome)) = running.next().await {
            let one = Played { outcome, program };
            stage.print(&one, played.len() + 1, count);
            played.push(one);
        }
    }
    played.sort_by(|a, b| a.program.order().cmp(&b.program.order()));
    played
}
