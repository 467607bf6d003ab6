//! The process that starts a bed, outlives it, and removes what it left.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::leftovers;

/// The line on standard input after which the bed stays when its starter ends.
pub const DETACH: &str = "detach\n";

/// Holds the bed in `dir` until its starter ends or it is told to end.
///
/// Standard input is the tie to the starter: when it closes before [`DETACH`]
/// was read, the bed ends. A file `end` in `dir` ends it, too.
///
/// # Errors
/// When the bed cannot be started; nothing is left then.
pub fn run(dir: &Path) -> Result<()> {
    let lock = leftovers::claim(dir)?;
    // The kernel ends each when the one before it dies: unshare, then init.
    let mut bed = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(["--pid", "--mount", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc"])
        .arg(std::env::current_exe()?)
        .arg("init")
        .arg(dir)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .context("unshare (of util-linux) starts the bed")?;

    let (ended, end) = sync_channel(1);
    std::thread::spawn(move || {
        if !read_detach() {
            // The receiver goes away when the bed has ended by itself.
            let _ = ended.send(());
            return;
        }
        // Detached: this end of the channel stays open.
        loop {
            std::thread::park();
        }
    });
    loop {
        match end.recv_timeout(Duration::from_millis(50)) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if dir.join("end").exists() || bed.try_wait()?.is_some() {
                    break;
                }
            }
        }
    }
    // `unshare --kill-child` takes init with it, and the kernel everything else.
    let _ = bed.kill();
    bed.wait()?;
    leftovers::remove(dir)?;
    drop(lock);
    fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))
}

/// Reads standard input to its end; true if it says that the bed stays.
fn read_detach() -> bool {
    let mut said = String::new();
    // An unreadable input is a closed one.
    let _ = std::io::stdin().read_to_string(&mut said);
    said == DETACH
}
