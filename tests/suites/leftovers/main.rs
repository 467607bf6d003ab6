//! Whatever ends a bed, nothing of it stays on the machine.
//!
//! The suite starts `lab` as a person does and compares what the machine had
//! before with what it has after. It needs the machine to itself only as far as
//! what it compares is named after its own beds.

mod machine;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::{leftovers, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LAB: &str = env!("CARGO_BIN_EXE_lab");

/// How long a killed bed may take to be gone.
const GONE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let tests = vec![
        Test::ci("up_and_down_leave_nothing", |s| Box::pin(up_and_down(s))),
        Test::ci("a_killed_reaper_is_tidied_up_after", |s| Box::pin(killed_reaper(s))),
        Test::ci("a_panic_ends_the_bed", |s| Box::pin(panic(s))),
        Test::ci("ctrl_c_ends_the_bed", |s| Box::pin(interrupt(s))),
        Test::ci("a_bed_is_not_started_twice", |s| Box::pin(twice(s))),
    ];
    // Whoever starts a bed tidies up after all that have died: one at a time.
    suite::run_in_turn("leftovers", LAB, Vec::new(), tests)
}

/// A bed of this suite, by a name that no other run has.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn lab(bed: &str, args: &[&str]) -> Command {
    let mut lab = Command::new(LAB);
    lab.args(["--bed", bed]).args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    lab
}

fn finish(child: Child) -> Result<()> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "lab: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The rounds of a run: two beds side by side in each, of which in every fourth
/// round one is killed in the middle of coming up.
async fn up_and_down(_: &Stage) -> Result<()> {
    let rounds = if suite::level() == Level::Full { 20 } else { 4 };
    let before = machine::Snapshot::take()?;
    for round in 0..rounds {
        let (first, second) = (name(&format!("a{round}")), name(&format!("b{round}")));
        let killed = round % 4 == 3;
        let mut one = lab(&first, &["up", "rome"]).spawn()?;
        let two = lab(&second, &["up", "turin", "--same-cidrs"]).spawn()?;
        if killed {
            // In mid-flight: later in each such round.
            let part = ["control", "rome.cluster"][usize::from(round % 8 == 7)];
            let flying = Path::new(leftovers::ROOT).join(&first).join(part);
            wait::until("the bed is coming up", Duration::from_secs(30), || async {
                Ok(flying.exists())
            })
            .await?;
            one.kill()?;
            one.wait()?;
            gone(&first).await?;
        } else {
            finish(one)?;
            finish(lab(&first, &["down"]).spawn()?)?;
        }
        finish(two)?;
        finish(lab(&second, &["down"]).spawn()?)?;
        gone(&second).await?;
    }
    before.compare()
}

/// Waits until a bed has left nothing, for no longer than a killed one may take.
async fn gone(bed: &str) -> Result<()> {
    wait::until(&format!("{bed} has left nothing"), GONE, || async {
        let left = machine::named(bed)?;
        ensure!(left.is_empty(), "{}", left.join(", "));
        Ok(true)
    })
    .await
}

/// The reaper itself is killed with the bed: the next run removes what it could not.
async fn killed_reaper(_: &Stage) -> Result<()> {
    let bed = name("orphan");
    finish(lab(&bed, &["up", "rome"]).spawn()?)?;
    let reaper = machine::process(&["reaper", &bed])?.context("the reaper lives")?;
    kill(Pid::from_raw(reaper), Signal::SIGKILL)?;
    wait::until("every process of the bed has ended", GONE, || async {
        Ok(machine::process(&[&bed])?.is_none())
    })
    .await?;
    ensure!(!machine::named(&bed)?.is_empty(), "a killed reaper cannot have tidied up");
    finish(lab(&name("other"), &["down"]).spawn()?)?;
    gone(&bed).await
}

/// A test that panics: this suite's own binary, asked to do so.
async fn panic(stage: &Stage) -> Result<()> {
    let bed = name("panic");
    let dropped = std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            let _bed = mercato_tests::Testbed::start(&bed, Path::new(LAB)).expect("a bed starts");
            panic!("on purpose");
        });
        started.join().is_err()
    });
    ensure!(dropped, "the thread did not panic");
    ensure!(stage.bed.dir().exists(), "another bed ended with it");
    gone(&bed).await
}

/// Ctrl-C reaches the whole group of the terminal while clusters come up.
async fn interrupt(_: &Stage) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let bed = name("interrupt");
    let mut up = lab(&bed, &["up", "rome"]).process_group(0).spawn()?;
    // The first that is there of it: the cluster may be up a moment after its own.
    let control = Path::new(leftovers::ROOT).join(&bed).join("control");
    wait::until("the bed is coming up", Duration::from_secs(30), || async { Ok(control.exists()) })
        .await?;
    let group = Pid::from_raw(i32::try_from(up.id())?);
    nix::sys::signal::killpg(group, Signal::SIGINT)?;
    ensure!(!up.wait()?.success(), "an interrupted lab succeeded");
    gone(&bed).await
}

async fn twice(stage: &Stage) -> Result<()> {
    let again = mercato_tests::Testbed::start(stage.bed.name(), Path::new(LAB));
    let error = again.err().context("a second bed of one name started")?;
    ensure!(error.to_string().contains("is up already"), "{error:#}");
    Ok(())
}
