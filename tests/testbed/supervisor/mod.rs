//! The processes that hold a bed, and how to ask them for something.
//!
//! A bed is two processes. The *reaper* stays in the host's namespaces: it
//! starts the bed, outlives it, and removes what the kernel does not. *Init* is
//! pid 1 of the bed's own process, mount and network namespaces: it starts and
//! reaps every program of the bed and listens on a socket. When either dies,
//! however it dies, the kernel ends every process in the bed, and with the last
//! of them go its mounts, its network and its files (a tmpfs).
//!
//! What to start, in which order, is not known here: see [`crate::cluster`].

pub mod init;
pub mod reaper;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use serde::{Deserialize, Serialize};

/// A program for init to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Unique in the bed, for instance `rome/kubelet-1`.
    pub name: String,
    /// Path of the program, then its arguments.
    pub argv: Vec<String>,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// Where its output goes (appended).
    pub log: PathBuf,
    /// Whether it is started again when it fails, as a kubelet does with a cluster's own parts.
    pub restarts: bool,
}

/// What a client asks of init: one JSON line, answered by one [`Answer`] line.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Start(Program),
    Restart(String),
    Signal { name: String, signal: i32 },
    List,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    Programs(Vec<Status>),
    Failed(String),
}

/// How a program of the bed is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// As given when it was started.
    pub name: String,
    /// Its process id inside the bed.
    pub pid: i32,
    /// `None` while it runs; then the exit code, or minus the signal that ended it.
    pub exit: Option<i32>,
}

/// A client of a running bed's init.
#[derive(Clone, Debug)]
pub struct Supervisor {
    socket: PathBuf,
    pid: i32,
}

impl Supervisor {
    /// Connects to the init that listens on `socket`.
    ///
    /// # Errors
    /// When nothing listens there: the bed is not up, or no longer.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("no bed answers on {}", socket.display()))?;
        let pid = getsockopt(&stream, PeerCredentials).context("the bed's process id")?.pid();
        Ok(Self { socket: socket.to_owned(), pid })
    }

    /// Init's process id, as seen from the caller.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Starts a program; one of the same name must have ended.
    ///
    /// # Errors
    /// When it cannot be started, or one of that name runs.
    pub fn start(&self, program: Program) -> Result<()> {
        let name = program.name.clone();
        self.done(&Request::Start(program)).with_context(|| format!("start {name}"))
    }

    /// Starts a program again that has ended, as it was started before.
    ///
    /// # Errors
    /// When it runs, or was never started.
    pub fn restart(&self, name: &str) -> Result<()> {
        self.done(&Request::Restart(name.to_owned())).with_context(|| format!("restart {name}"))
    }

    /// Sends a signal to a program that runs.
    ///
    /// # Errors
    /// When no program of that name runs.
    pub fn signal(&self, name: &str, signal: nix::sys::signal::Signal) -> Result<()> {
        self.done(&Request::Signal { name: name.to_owned(), signal: signal as i32 })
            .with_context(|| format!("send {signal} to {name}"))
    }

    /// Every program that was started, in the order of their names.
    ///
    /// # Errors
    /// When the bed does not answer.
    pub fn list(&self) -> Result<Vec<Status>> {
        match self.ask(&Request::List)? {
            Answer::Programs(all) => Ok(all),
            other @ (Answer::Done | Answer::Failed(_)) => bail!("unexpected answer {other:?}"),
        }
    }

    fn done(&self, request: &Request) -> Result<()> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            Answer::Failed(why) => bail!(why),
            other @ Answer::Programs(_) => bail!("unexpected answer {other:?}"),
        }
    }

    fn ask(&self, request: &Request) -> Result<Answer> {
        let mut stream = UnixStream::connect(&self.socket)
            .with_context(|| format!("no bed answers on {}", self.socket.display()))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        serde_json::from_str(&answer).context("the bed ended in mid-answer")
    }
}
