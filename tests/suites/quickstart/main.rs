//! The quick start, word for word: its commands are read out of docs/quickstart.md and typed into one
//! shell, from the checkout. What comes before them has been done by whoever runs this: a clone, and
//! `tests/run setup`.

use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::{self, Stage, Test};
use tokio::process::Command;

const LAB: &str = env!("CARGO_BIN_EXE_lab");
const PAGE: &str = include_str!("../../../docs/quickstart.md");
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What is left out, since it is done.
const DONE: [&str; 1] = ["cd mercato && tests/run setup"];
/// What has to work at once, on a cluster that has nothing of it yet: who tries again would not see that
/// its files come in a wrong order.
const AT_ONCE: &str = "kubectl apply -f config/deploy/";
/// What runs on when the shell is closed.
const DETACHED: &str = "lab in --detach";
/// As many as anybody types who wants to see it.
const MOST: usize = 12;

/// A person tries again what is not ready yet, and starts daemons from a shell that they close then. Whatever
/// ends the shell ends the bed, and that the daemons, of which there are two.
const PERSON: &str = r#"
set -u
daemons() {
  grep -lzsx "MERCATO_LAB=$MERCATO_LAB" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do
    [ "$(cat "/proc/$pid/comm")" != mercato ] || echo "$pid"
  done
}
over() {
  local code=$? ran left
  ran=$(daemons | wc -l)
  cat "/run/mercato-lab/$MERCATO_LAB"/*.log >&2
  lab down >&2
  left=$(daemons)
  [ "$ran" = 2 ] || { echo "$ran daemons run at the end" >&2; code=1; }
  [ -z "$left" ] || { echo "lab down has left: $left" >&2; kill $left; code=1; }
  exit "$code"
}
trap over EXIT
once() {
  eval "$1" || { echo "this fails: $1" >&2; exit 1; }
}
closed() {
  bash -c "$1" || { echo "this fails: $1" >&2; exit 1; }
}
try() {
  local until=$((SECONDS + 90))
  until eval "$1"; do
    [ "$SECONDS" -lt "$until" ] || { echo "this fails: $1" >&2; exit 1; }
    sleep 1
  done
}
"#;

fn main() -> ExitCode {
    let tests = vec![Test::ci("the_quick_start_works_as_it_stands", |s| Box::pin(typed(s)))];
    // It starts a bed of its own.
    suite::run_in_turn("quickstart", LAB, Vec::new(), tests)
}

async fn typed(_: &Stage) -> Result<()> {
    let commands = commands(PAGE)?;
    ensure!(commands.len() <= MOST, "{} commands are more than {MOST}", commands.len());
    let (done, rest) = commands.split_at(DONE.len());
    ensure!(done == DONE, "it begins with {done:?}");
    for needed in [AT_ONCE, DETACHED] {
        ensure!(rest.iter().any(|command| command.contains(needed)), "nothing has {needed}");
    }
    let tries = rest.iter().map(|command| {
        let how = match command {
            command if command.contains(AT_ONCE) => "once",
            command if command.contains(DETACHED) => "closed",
            _ => "try",
        };
        format!("{how} '{}'\n", command.replace('\'', r"'\''"))
    });
    let script = format!("{PERSON}{}", tries.collect::<String>());
    let target = Path::new(LAB).ancestors().nth(2).context("the folder of what is built")?;
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(CHECKOUT)
        .env("CARGO_TARGET_DIR", target)
        .env("MERCATO_LAB", format!("quickstart-{}", std::process::id()))
        .stdin(Stdio::null())
        .output()
        .await?;
    let [said, complained] =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    ensure!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    ensure!(said.contains("nginx"), "the pod over there does not answer: {said}\n{complained}");
    let row = said.lines().rfind(|line| line.starts_with("web-")).unwrap_or_default();
    ensure!(row.contains("mercato-turin"), "the page does not show where it runs: {said}");
    Ok(())
}

/// What a person types on one machine, in order.
fn commands(page: &str) -> Result<Vec<&str>> {
    let (_, section) = page.split_once("\n## On one machine\n").context("no such section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().map(str::trim_start);
    Ok(lines.filter_map(|line| line.strip_prefix("# ")).collect())
}
