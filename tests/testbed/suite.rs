//! A suite of tests on one bed: its clusters come up with the first test that
//! runs, a failed test leaves a dump, and the bed ends with the suite.
//!
//! It is a harness of libtest's kind (`cargo test` counts and filters its tests),
//! since only at run time is it known whether a bed can be made here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use futures::future::{BoxFuture, try_join_all};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::cluster::{Cluster, ClusterSpec};
use crate::leftovers::cgroup_name;
use crate::toolchain::Toolchain;
use crate::{Testbed, costs, requirements, runtime, turn, work};

/// When a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// With every change.
    Ci,
    /// Only when `MERCATO_TEST_LEVEL` is `full`.
    Full,
}

/// The level that this run was asked for.
#[must_use]
pub fn level() -> Level {
    match std::env::var("MERCATO_TEST_LEVEL").as_deref() {
        Ok("full") => Level::Full,
        _ => Level::Ci,
    }
}

/// What this run was asked for by an environment variable, such as `MERCATO_POD_NETWORK`; none, if it
/// is not set.
///
/// # Errors
/// When it says something else than a value's name.
pub fn asked<T: ValueEnum>(variable: &str) -> Result<Option<T>> {
    let Some(said) = std::env::var_os(variable) else { return Ok(None) };
    let said = said.to_string_lossy();
    let value = T::from_str(&said, false).map_err(|_| {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
        anyhow!("{variable} is {said}: it may be {}", names.join(", "))
    })?;
    Ok(Some(value))
}

/// What a test is given: the bed's clusters, up.
#[derive(Debug)]
pub struct Stage {
    /// The bed, for what concerns more than one cluster.
    pub bed: Testbed,
    /// What the clusters are made of.
    pub toolchain: Toolchain,
    /// Where the programs of this workspace are built.
    programs: PathBuf,
    clusters: Vec<Cluster>,
}

impl Stage {
    /// The cluster of that name.
    ///
    /// # Panics
    /// When the suite has none of that name.
    #[must_use]
    pub fn cluster(&self, name: &str) -> &Cluster {
        let found = self.clusters.iter().find(|cluster| cluster.name() == name);
        found.unwrap_or_else(|| panic!("the suite has no cluster {name}"))
    }

    /// A program of this workspace that was built with the tests, such as `mercato`.
    ///
    /// # Errors
    /// When it was not: a single crate's tests are built without it.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.programs.join(name);
        let found = path.exists().then_some(path);
        found.with_context(|| format!("{name} is not built yet: cargo build --workspace"))
    }
}

/// How long a test takes at level `ci` at most, unless it says otherwise, and how long it is waited for
/// until what it has left is written down.
const LIMIT: Duration = Duration::from_mins(10);
const DUMP_LIMIT: Duration = Duration::from_mins(2);
/// How long the clusters of a suite take to come up at most, with the programs of the bed where they are
/// not built yet.
const SETUP_LIMIT: Duration = Duration::from_hours(1);

/// A test of a suite.
pub struct Test {
    name: &'static str,
    level: Level,
    /// How long it may take at level `ci`.
    limit: Duration,
    body: for<'a> fn(&'a Stage) -> BoxFuture<'a, Result<()>>,
}

impl Test {
    /// A test that runs with every change.
    #[must_use]
    pub fn ci(
        name: &'static str,
        body: for<'a> fn(&'a Stage) -> BoxFuture<'a, Result<()>>,
    ) -> Self {
        Self { name, level: Level::Ci, limit: LIMIT, body }
    }

    /// The same test, which may take so long at level `ci`.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// How long it may take at this level; at `full` some do for hours what they do for minutes.
    fn limit(&self, level: Level) -> Duration {
        match level {
            Level::Ci => self.limit,
            Level::Full => Duration::from_hours(24),
        }
    }

    /// A test that runs at level `full` only.
    #[must_use]
    pub fn full(
        name: &'static str,
        body: for<'a> fn(&'a Stage) -> BoxFuture<'a, Result<()>>,
    ) -> Self {
        Self { name, level: Level::Full, limit: LIMIT, body }
    }
}

/// [`run`], one test after the other, in this order: each finds the clusters as the one before left them.
#[must_use]
pub fn run_in_turn(
    name: &'static str,
    lab: &'static str,
    specs: Vec<ClusterSpec>,
    tests: Vec<Test>,
) -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    play(name, lab, specs, tests, &arguments)
}

/// Runs a suite; the `main` of its test binary. `lab` is the binary of this crate.
#[must_use]
pub fn run(
    name: &'static str,
    lab: &'static str,
    specs: Vec<ClusterSpec>,
    tests: Vec<Test>,
) -> ExitCode {
    play(name, lab, specs, tests, &Arguments::from_args())
}

fn play(
    name: &'static str,
    lab: &'static str,
    specs: Vec<ClusterSpec>,
    tests: Vec<Test>,
    arguments: &Arguments,
) -> ExitCode {
    let run = Arc::new(SuiteRun { suite: name, lab, specs, stage: OnceLock::new() });
    let missing = requirements::met().err().map(|why| format!("{why:#}"));
    let mut trials = Vec::new();
    let _lock = match take_turn(name, arguments, missing.is_none()) {
        Ok(lock) => lock,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    for test in tests {
        if test.level == Level::Full && level() == Level::Ci {
            println!("{name}: {} runs at level full (tests/run full)", test.name);
            continue;
        }
        trials.push(match &missing {
            None => {
                let run = Arc::clone(&run);
                Trial::test(test.name, move || run.play(&test))
            }
            Some(why) => skipped(test.name, why),
        });
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    if let Some(run) = Arc::into_inner(run) {
        run.close();
    }
    conclusion.exit_code()
}

/// Waits until this suite may run: beside others, or alone, as its row in [`costs::COSTS`] has it.
fn take_turn(name: &str, arguments: &Arguments, runs: bool) -> Result<Option<File>> {
    if arguments.list || !runs {
        return Ok(None);
    }
    turn::take(costs::of(name).alone.is_some()).map(Some)
}

/// A test that cannot run here: named, and under `CI=true` failed.
fn skipped(name: &'static str, why: &str) -> Trial {
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        let why = why.to_owned();
        return Trial::test(name, move || Err(Failed::from(why)));
    }
    println!("SKIPPED {name}: {why}; run it with: sudo tests/run");
    Trial::test(name, || Ok(())).with_ignored_flag(true)
}

/// Where a suite is played.
struct SuiteRun {
    suite: &'static str,
    lab: &'static str,
    specs: Vec<ClusterSpec>,
    stage: OnceLock<Result<Stage, String>>,
}

impl SuiteRun {
    fn play(&self, test: &Test) -> Result<(), Failed> {
        let stage = self.stage.get_or_init(|| {
            let _watch = Watch::begin(format!("the setup of suite {}", self.suite), SETUP_LIMIT);
            self.set().map_err(|error| format!("{error:#}"))
        });
        let stage = stage.as_ref().map_err(|error| Failed::from(format!("no stage: {error}")))?;
        let limit = test.limit(level());
        let _watch = Watch::begin(format!("{} of suite {}", test.name, self.suite), limit);
        stage
            .bed
            .scope(|| {
                runtime()?.block_on(async {
                    let done = tokio::time::timeout(limit, (test.body)(stage)).await;
                    let late = |_| Err(anyhow!("it took longer than {} s", limit.as_secs()));
                    let Err(error) = done.unwrap_or_else(late) else { return Ok(()) };
                    let to = dumps().join(self.suite).join(test.name);
                    dump(&stage.clusters, &to).await?;
                    // Those that follow may take hours.
                    std::fs::create_dir_all(&to)?;
                    std::fs::write(to.join("why"), format!("{error:#}\n"))?;
                    Err(error.context(format!("logs and objects are in {}", to.display())))
                })
            })
            .map_err(|error| Failed::from(format!("{error:#}")))
    }

    /// Brings the suite's clusters up.
    fn set(&self) -> Result<Stage> {
        let toolchain = Toolchain::build(&mut |line| eprintln!("{line}"))?;
        let bed = Testbed::start_anonymous(Path::new(self.lab))?;
        let clusters = self
            .specs
            .iter()
            .map(|spec| Cluster::new(&bed, &toolchain, spec.clone()))
            .collect::<Result<Vec<_>>>()?;
        bed.scope(|| {
            runtime()?.block_on(async {
                let up = try_join_all(clusters.iter().map(|cluster| async move {
                    cluster.up().await.with_context(|| format!("bring up {}", cluster.name()))
                }));
                let Err(error) = up.await else { return Ok(()) };
                let to = dumps().join(self.suite).join("setup");
                dump(&clusters, &to).await?;
                Err(error.context(format!("logs and objects are in {}", to.display())))
            })
        })?;
        let programs = Path::new(self.lab).parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Stage { bed, toolchain, programs, clusters })
    }

    fn close(self) {
        if let Some(Ok(stage)) = self.stage.into_inner() {
            if let Some(worked) = work::of(&cgroup_name(stage.bed.name())) {
                let hundredths = worked.as_millis() / 10;
                println!("Containers worked for {hundredths} hundredths of a second.");
            }
            if let Err(error) = stage.bed.end() {
                eprintln!("{error:#}");
            }
        }
    }
}

/// Ends the suite if a test goes on beyond its limit: one that does not wait is not told of time.
struct Watch {
    _ended: Sender<()>,
}

impl Watch {
    fn begin(what: String, limit: Duration) -> Self {
        let (ended, wait) = channel();
        let whole = limit + DUMP_LIMIT;
        std::thread::spawn(move || {
            if wait.recv_timeout(whole) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{what} did not end within {} s: the suite ends", whole.as_secs());
                std::process::exit(1);
            }
        });
        Self { _ended: ended }
    }
}

async fn dump(clusters: &[Cluster], to: &Path) -> Result<()> {
    for cluster in clusters {
        cluster.dump(to).await?;
    }
    Ok(())
}

/// Where suites leave what a failure is understood by. It lies beside what was built, so
/// that `cargo clean` takes it along.
#[must_use]
pub fn dumps() -> PathBuf {
    let built = std::env::current_exe().unwrap_or_default();
    built.ancestors().nth(3).unwrap_or(Path::new(".")).join("bed-dumps")
}
