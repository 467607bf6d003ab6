//! A bed: namespaces of its own with a LAN in them, on which clusters come up.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sched::{CloneFlags, setns};

use crate::supervisor::Supervisor;
use crate::supervisor::reaper::DETACH;
use crate::{leftovers, wait};

/// A running bed.
///
/// The one that [`Testbed::start`] returns ends the bed when it is dropped, and the
/// bed ends, too, when the process that holds it does, however that happens.
#[derive(Debug)]
pub struct Testbed {
    place: Place,
    /// The reaper; the closing of its input ends the bed.
    reaper: Option<Child>,
}

/// Where a running bed is, and what can be done in it.
#[derive(Clone, Debug)]
pub struct Place {
    dir: PathBuf,
    supervisor: Supervisor,
}

impl Testbed {
    /// Starts a bed under a name that no other bed has.
    ///
    /// `lab` is the binary of this crate, which holds the bed.
    ///
    /// # Errors
    /// When not root, when a bed of that name is up, or a program is missing.
    pub fn start(name: &str, lab: &Path) -> Result<Self> {
        leftovers::sweep()?;
        let dir = Path::new(leftovers::ROOT).join(name);
        ensure!(!dir.exists(), "a bed named {name} is up already");
        let mut reaper = Command::new(lab)
            .arg("reaper")
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C on the terminal is for the starter; the reaper tidies up after it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", lab.display()))?;
        let control = dir.join("control");
        wait::until_blocking("the bed answers", Duration::from_secs(20), || {
            Ok(control.exists() || reaper.try_wait()?.is_some())
        })?;
        if !control.exists() {
            let mut why = String::new();
            reaper.stderr.take().context("piped above")?.read_to_string(&mut why)?;
            bail!("the bed did not start: {}", why.trim());
        }
        let supervisor = Supervisor::connect(&control)?;
        Ok(Self { place: Place { dir, supervisor }, reaper: Some(reaper) })
    }

    /// Starts a bed under a random name, as a test does.
    ///
    /// # Errors
    /// As [`Testbed::start`].
    pub fn start_anonymous(lab: &Path) -> Result<Self> {
        let nanos = std::time::UNIX_EPOCH.elapsed()?.subsec_nanos();
        Self::start(&format!("{}-{nanos:x}", std::process::id()), lab)
    }

    /// The bed of that name that is up already; dropping it does not end it.
    ///
    /// # Errors
    /// When there is none.
    pub fn attach(name: &str) -> Result<Self> {
        let dir = Path::new(leftovers::ROOT).join(name);
        let supervisor = Supervisor::connect(&dir.join("control"))?;
        Ok(Self { place: Place { dir, supervisor }, reaper: None })
    }

    /// Lets the bed stay when its starter ends. [`Testbed::end`] ends it then.
    ///
    /// # Errors
    /// When the reaper is gone.
    pub fn detach(mut self) -> Result<()> {
        if let Some(mut reaper) = self.reaper.take() {
            let mut input = reaper.stdin.take().context("the reaper's input is a pipe")?;
            input.write_all(DETACH.as_bytes())?;
        }
        Ok(())
    }

    /// Ends the bed and waits until nothing of it is left.
    ///
    /// # Errors
    /// When something of it stays for twenty seconds.
    pub fn end(mut self) -> Result<()> {
        fs::write(self.dir.join("end"), "")?;
        if let Some(mut reaper) = self.reaper.take() {
            reaper.wait()?;
        }
        wait::until_blocking("nothing of the bed is left", Duration::from_secs(20), || {
            Ok(!self.dir.exists())
        })
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if let Some(mut reaper) = self.reaper.take() {
            // Closes its input, which ends the bed; then waits until it has tidied up.
            drop(reaper.stdin.take());
            let _ = reaper.wait();
        }
    }
}

impl Deref for Testbed {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Place {
    /// Moves this thread, and those it starts from now on, into the bed's
    /// network, where each cluster's API server can be reached. Call it before a
    /// runtime is built.
    ///
    /// # Errors
    /// When not root.
    pub fn enter_network(&self) -> Result<()> {
        let net = fs::File::open(self.network())?;
        setns(net, CloneFlags::CLONE_NEWNET).context("enter the bed's network")
    }

    /// The path of the namespace of the bed's network, in which the LAN is.
    #[must_use]
    pub fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.supervisor.pid()).into()
    }

    /// Runs `body` on a thread that lives in the bed's network, and so those it starts.
    ///
    /// # Errors
    /// Those of `body`; also when it panics.
    pub fn scope<T: Send>(&self, body: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter_network()?;
                body()
            });
            thread.join().unwrap_or_else(|panic| {
                let said = panic.downcast_ref::<String>().cloned();
                let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
                Err(anyhow!("panicked: {}", said.unwrap_or_default()))
            })
        })
    }

    /// A program to run in the network of a process, which is numbered as in the
    /// bed. It has the host's files and process table, and ends with the thread
    /// that starts it.
    #[must_use]
    pub fn command(&self, process: i32, program: impl AsRef<OsStr>) -> Command {
        let net = self.from_outside(format!("/proc/{process}/ns/net").as_ref());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nsenter"]);
        command.arg(format!("--net={}", net.display())).arg("--").arg(program);
        command
    }

    /// Who starts and signals the bed's programs.
    #[must_use]
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// The bed's folder as the host sees it; for what shall be seen from outside.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the bed's own files are, as programs *in* the bed see it.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// A path in the bed, as it can be opened from outside.
    #[must_use]
    pub fn from_outside(&self, path: &Path) -> PathBuf {
        let root = format!("/proc/{}/root", self.supervisor.pid());
        Path::new(&root).join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The name under which it was started.
    #[must_use]
    pub fn name(&self) -> &str {
        self.dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}
