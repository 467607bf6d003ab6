//! A page of the documentation, word for word: its commands are read out of it and typed into one shell, from
//! the checkout, on a bed of its own; each line that the page shows below a command is printed by it, but
//! for figures.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// What is there already where tests run.
const DONE: &str = "export PATH=";
/// Stands in what is printed before what a command says.
const MARK: &str = "=== command ";

/// A person tries again what is not ready yet: until a command succeeds, and says what the page shows.
const PERSON: &str = r#"
set -u
over() {
  local code=$?
  [ "$code" = 0 ] || cat "/run/mercato-lab/$MERCATO_LAB"/*.log >&2
  lab down >&2
  exit "$code"
}
trap over EXIT
try() {
  local until=$((SECONDS + 90)) said
  until eval "$2" >"$SAID" 2>&1 && shown "$1"; do
    [ "$SECONDS" -lt "$until" ] || { cat "$SAID" >&2; echo "this fails: $2" >&2; exit 1; }
    sleep 1
  done
  echo "=== command $1"; cat "$SAID"
}
shown() {
  local line
  plain <"$SAID" >"$SAID.plain"
  while IFS= read -r line; do
    grep -qxF -- "$line" "$SAID.plain" || { echo "the page shows, and it is not said: $line" >&2; return 1; }
  done <"$SHOWN/$1"
}
plain() {
  sed -E 's/[0-9a-f]{8}/ID/g; s/[0-9]+([.:-][0-9]+)*(m|[KMGT]i|[hds])?/N/g; s/[[:space:]]+/ /g; s/^ //; s/ $//'
}
"#;

/// A command of the page, with the lines that it is shown to print.
struct Typed<'a> {
    command: String,
    shows: Vec<&'a str>,
}

/// Types the commands of a page; how many there were, and how many of them with output. The bed gets a name
/// that begins like this, and `lab` is the program of it.
///
/// # Errors
/// When a command fails for a minute and a half, or does not print what the page shows.
pub async fn typed(page: &str, bed: &str, lab: &str) -> Result<[usize; 2]> {
    let typed = read(page);
    let shown = typed.iter().filter(|it| !it.shows.is_empty()).count();
    let folder = tempfile::tempdir()?;
    let mut script = PERSON.to_owned();
    for (n, it) in typed.iter().enumerate().filter(|(_, it)| !it.command.starts_with(DONE)) {
        std::fs::write(folder.path().join(format!("{n}.as-shown")), it.shows.join("\n") + "\n")?;
        let plain = format!("grep -v '^$' \"$SHOWN/{n}.as-shown\" | plain >\"$SHOWN/{n}\"\n");
        script += &plain;
        script += &format!("try {n} '{}'\n", it.command.replace('\'', r"'\''"));
    }
    let target = Path::new(lab).ancestors().nth(2).context("the folder of what is built")?;
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(CHECKOUT)
        .env("CARGO_TARGET_DIR", target)
        .env("PATH", path(target)?)
        .env("MERCATO_LAB", format!("{bed}-{}", std::process::id()))
        .env("SHOWN", folder.path())
        .env("SAID", folder.path().join("said"))
        .stdin(Stdio::null())
        .output()
        .await?;
    let [said, complained] =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    ensure!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    let done = said.matches(MARK).count();
    ensure!(done + 1 >= typed.len(), "{done} of {} commands were typed: {said}", typed.len());
    println!("{done} commands of the page");
    Ok([typed.len(), shown])
}

/// The programs that are built come first.
fn path(target: &Path) -> Result<std::ffi::OsString> {
    let before = std::env::var_os("PATH").unwrap_or_default();
    let all = [target.join("debug")].into_iter().chain(std::env::split_paths(&before));
    Ok(std::env::join_paths(all)?)
}

/// The commands of all blocks of consoles, in order. A line that ends with a backslash goes on.
fn read(page: &str) -> Vec<Typed<'_>> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut typed: Vec<Typed<'_>> = Vec::new();
    for block in blocks {
        let mut goes_on = false;
        for line in block.lines() {
            let begins = line.strip_prefix("# ");
            match (begins, typed.last_mut()) {
                (_, Some(last)) if goes_on => last.command += &format!("\n{line}"),
                (Some(command), _) => {
                    typed.push(Typed { command: command.to_owned(), shows: Vec::new() });
                }
                (None, Some(last)) => last.shows.push(line),
                (None, None) => {}
            }
            goes_on = line.ends_with('\\');
        }
    }
    typed
}
