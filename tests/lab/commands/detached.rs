//! `lab in --detach`: a program that runs on until `lab down`, whatever becomes of the shell that
//! started it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mercato_tests::Testbed;

use super::{attach, say, visitor};

/// What sets a program apart from whoever starts it: a session of its own, as a child whose parent ends
/// at once. It says its number, and then prints to the log alone.
const SET_APART: [&str; 4] = ["--fork", "sh", "-c", r#"echo $$; exec "$@" >&2"#];
/// A program that ends sooner has not begun: a word that is wrong, a port that is taken.
const BEGINS: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// What is shown of the log of such a one.
const LINES: usize = 10;

/// Starts it, and says where it prints to.
pub(crate) fn run(bed: &str, cluster: &str, command: &[String]) -> Result<()> {
    let (bed, program) = (attach(bed)?, command.first().context("clap demands a program")?);
    // A cluster that is not there leaves no log.
    let mut setsid = visitor(&bed, cluster, "setsid")?;
    let path = log(&bed, cluster, program);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file: File = file.with_context(|| format!("write {}", path.display()))?;
    let from = file.metadata()?.len();
    let mut child = setsid
        .args(SET_APART)
        .arg("sh")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()
        .context("start setsid")?;
    let mut number = String::new();
    BufReader::new(child.stdout.take().context("piped above")?).read_line(&mut number)?;
    child.wait()?;
    let number: u32 = number.trim().parse().with_context(|| said(&path, from))?;
    let begun = Instant::now();
    while begun.elapsed() < BEGINS {
        if !lives(number) {
            bail!("{program} has ended: {}", said(&path, from));
        }
        std::thread::sleep(LOOK);
    }
    say(&format!(
        "{program} runs on in {cluster} as process {number}, until lab down; what it prints: {}",
        path.display()
    ));
    Ok(())
}

/// Copies what such programs of a cluster have printed to a folder.
pub(crate) fn dump(bed: &Testbed, cluster: &str, to: &Path) -> Result<()> {
    for entry in fs::read_dir(bed.dir())? {
        let entry = entry?;
        let name = entry.file_name();
        let is_log = name.to_str().and_then(|name| name.strip_prefix(&format!("{cluster}-")));
        if is_log.is_some_and(|name| name.ends_with(".log")) {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// Ends with the bed. One program that is started again goes on in it.
fn log(bed: &Testbed, cluster: &str, program: &str) -> PathBuf {
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    bed.dir().join(format!("{cluster}-{program}.log"))
}

/// Where it has printed to, and the last of what this start has.
fn said(log: &Path, from: u64) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let bytes = usize::try_from(from).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    format!("{}\n{}", log.display(), last.join("\n"))
}

/// One that has ended and that nobody has waited for does not.
fn lives(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
