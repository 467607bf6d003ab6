//! One test program: started in its package, measured, and ended where it goes on for too long.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mercato_tests::suite::{self, Level};
use mercato_tests::work::Group;
use mercato_tests::{costs, requirements, turn};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::outcome::Outcome;
use super::programs::{Kind, Program};
use super::table::Played;

/// What unit and crate tests have at level `ci`, each program of them. `MERCATO_TEST_LIMIT` says
/// another, in seconds.
const LIMIT: Duration = Duration::from_mins(15);
/// A suite on the bed watches each of its tests (`tests/testbed/suite.rs`), and has so many times as long.
const OF_SUITES: u32 = 8;
/// What a program has to end once it is told to.
const GRACE: Duration = Duration::from_secs(10);

/// Where the outputs of all programs are written.
pub(crate) struct Stage {
    outputs: PathBuf,
}

impl Stage {
    /// In this folder, which is made anew.
    pub(crate) fn new(outputs: PathBuf) -> Result<Self> {
        let failed = || format!("make {} anew", outputs.display());
        if outputs.exists() {
            fs::remove_dir_all(&outputs).with_context(failed)?;
        }
        fs::create_dir_all(&outputs).with_context(failed)?;
        Ok(Self { outputs })
    }

    /// A file beside the folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.outputs.with_file_name(name)
    }

    fn output_of(&self, program: &Program) -> PathBuf {
        self.outputs.join(&program.file)
    }

    /// The whole output of a program, once it has ended.
    pub(crate) fn print(&self, one: &Played, number: usize, count: usize) {
        let Played { program, outcome } = one;
        // One that could not be started has none.
        let output = read(&self.output_of(program)).unwrap_or_default();
        println!("\n=== {} ({number} of {count}, {})", program.name, program.file);
        print!("{output}");
        let end = match &outcome.died {
            Some(died) => died,
            None if outcome.failed > 0 => "failed",
            None => "passed",
        };
        println!("=== {}: {end} after {:.1} s", program.name, outcome.took.as_secs_f64());
    }
}

/// Runs it to its end, or to its limit.
pub(crate) async fn play(stage: &Stage, program: &Program) -> Outcome {
    run(stage, program).await.unwrap_or_else(|error| {
        let died = Some(format!("could not be run: {error:#}"));
        Outcome { failed: 1, died, ..Outcome::default() }
    })
}

async fn run(stage: &Stage, program: &Program) -> Result<Outcome> {
    // That no suite of another run is beside it, either. Without root there is none.
    let is_alone = program.kind != Kind::Bed && costs::of(&program.name).alone.is_some();
    let _turn = match is_alone && requirements::met().is_ok() {
        true => Some(tokio::task::spawn_blocking(|| turn::take(true)).await??),
        false => None,
    };
    let group = Group::make(&program.file);
    let begun = Instant::now();
    let mut child = start(stage, program, group.as_ref())?;
    let (status, was_ended) = wait(&mut child, limit(program)).await?;
    let mut outcome = Outcome::read(&read(&stage.output_of(program))?);
    outcome.took = begun.elapsed();
    let own = tokio::task::spawn_blocking(|| group.and_then(Group::end)).await?;
    outcome.worked = own.map(|own| own + outcome.worked.unwrap_or_default());
    outcome.died = match status {
        _ if was_ended => Some(format!("was ended after {} s", outcome.took.as_secs())),
        status if status.success() || outcome.failed > 0 => None,
        status => Some(format!("died ({status})")),
    };
    if outcome.died.is_some() {
        // It has not come to say so.
        outcome.failed = outcome.failed.max(1);
    } else {
        outcome.unended.clear();
    }
    Ok(outcome)
}

fn start(stage: &Stage, program: &Program, group: Option<&Group>) -> Result<Child> {
    let path = stage.output_of(program);
    let output = File::create(&path).with_context(|| format!("write {}", path.display()))?;
    let mut command = match group {
        // It goes into the group before it starts anything.
        Some(group) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(group.processes());
            shell.arg(&program.command);
            shell
        }
        None => Command::new(&program.command),
    };
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", program.name))
}

/// How it ended, and whether it had to be.
async fn wait(child: &mut Child, limit: Option<Duration>) -> Result<(ExitStatus, bool)> {
    let Some(limit) = limit else { return Ok((child.wait().await?, false)) };
    if let Ok(status) = tokio::time::timeout(limit, child.wait()).await {
        return Ok((status?, false));
    }
    if let Some(pid) = child.id() {
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
    }
    if let Ok(status) = tokio::time::timeout(GRACE, child.wait()).await {
        return Ok((status?, true));
    }
    child.kill().await?;
    Ok((child.wait().await?, true))
}

/// How long it may take: at level `full` some go on for hours.
fn limit(program: &Program) -> Option<Duration> {
    let asked = std::env::var("MERCATO_TEST_LIMIT").ok().and_then(|limit| limit.parse().ok());
    let limit = asked.map_or(LIMIT, Duration::from_secs);
    match (suite::level(), program.kind) {
        (Level::Full, _) => None,
        (Level::Ci, Kind::Bed) => Some(limit * OF_SUITES),
        (Level::Ci, _) => Some(limit),
    }
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
