//! Pid 1 of a bed: sets up the LAN, then starts, signals and reaps programs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use super::{Answer, Program, Request, Status};

/// The address of the bed itself on its LAN.
pub const BED_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 255, 254);
/// The same for IPv6, with the LAN's prefix.
pub const LAN_V6: &str = "fd77::ffff/64";
/// The bridge that is the LAN.
pub const LAN_BRIDGE: &str = "lan";

/// Before a program that has failed is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// Everything that was started, by name.
#[derive(Default)]
struct Programs {
    by_name: Mutex<BTreeMap<String, (Program, Status)>>,
    started: Condvar,
}

/// Runs as pid 1 until it is killed.
///
/// # Errors
/// When the bed's files or network cannot be set up.
pub fn run(dir: &Path) -> Result<()> {
    ensure!(std::process::id() == 1, "init must be pid 1 of a namespace of its own");
    files(dir).context("set up the bed's files")?;
    network().context("set up the bed's network")?;

    let programs = Arc::new(Programs::default());
    let reaper = Arc::clone(&programs);
    std::thread::spawn(move || reaper.reap());

    // Bound under another name first: who finds `control` finds it listening.
    let bound = dir.join("control.new");
    let listener = UnixListener::bind(&bound).context("listen for requests")?;
    fs::rename(&bound, dir.join("control"))?;
    for client in listener.incoming().flatten() {
        let programs = Arc::clone(&programs);
        std::thread::spawn(move || programs.serve(&client));
    }
    bail!("the bed's socket was closed")
}

/// A tmpfs for the bed's data, which so ends with the bed.
fn files(dir: &Path) -> Result<()> {
    let data = dir.join("data");
    fs::create_dir_all(&data)?;
    let data = data.to_string_lossy();
    crate::run("mount", &["-t", "tmpfs", "-o", "mode=755", "bed", &data]).map(drop)
}

fn network() -> Result<()> {
    let ip = |args: &str| crate::run("ip", &args.split(' ').collect::<Vec<_>>());
    ip("link set lo up")?;
    // Snooping without a querier forgets groups, and with them mDNS.
    ip(&format!("link add {LAN_BRIDGE} type bridge mcast_snooping 0"))?;
    ip(&format!("addr add {BED_V4}/16 dev {LAN_BRIDGE}"))?;
    ip(&format!("addr add {LAN_V6} dev {LAN_BRIDGE} nodad"))?;
    ip(&format!("link set {LAN_BRIDGE} up")).map(drop)
}

impl Programs {
    fn serve(&self, client: &UnixStream) {
        let mut line = String::new();
        if BufReader::new(client).read_line(&mut line).is_err() {
            return;
        }
        let answer = serde_json::from_str(&line)
            .context("malformed request")
            .and_then(|request| self.handle(request))
            .unwrap_or_else(|error| Answer::Failed(format!("{error:#}")));
        let mut bytes = serde_json::to_vec(&answer).expect("answers are plain data");
        bytes.push(b'\n');
        // A client that went away needs no answer.
        let _ = (&mut &*client).write_all(&bytes);
    }

    fn handle(&self, request: Request) -> Result<Answer> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        match request {
            Request::List => {
                let all = by_name.values().map(|(_, status)| status.clone());
                return Ok(Answer::Programs(all.collect()));
            }
            Request::Start(program) => self.start(&mut by_name, program)?,
            Request::Restart(name) => {
                let (program, _) = by_name.get(&name).context("it was never started")?;
                let program = program.clone();
                self.start(&mut by_name, program)?;
            }
            Request::Signal { name, signal } => {
                let (_, status) = by_name.get(&name).context("there is no such program")?;
                if let Some(code) = status.exit {
                    bail!("it ended with {code}");
                }
                kill(Pid::from_raw(status.pid), Signal::try_from(signal)?)?;
            }
        }
        Ok(Answer::Done)
    }

    fn start(
        &self,
        by_name: &mut BTreeMap<String, (Program, Status)>,
        program: Program,
    ) -> Result<()> {
        if let Some((_, Status { exit: None, pid, .. })) = by_name.get(&program.name) {
            bail!("it runs already, as {pid}");
        }
        let status = Status { name: program.name.clone(), pid: spawn(&program)?, exit: None };
        by_name.insert(program.name.clone(), (program, status));
        self.started.notify_all();
        Ok(())
    }

    /// Starts a program that has failed again, after a pause.
    fn restart_soon(self: &Arc<Self>, name: String) {
        let programs = Arc::clone(self);
        std::thread::spawn(move || {
            std::thread::sleep(PAUSE);
            // Somebody else may have been sooner.
            if let Err(error) = programs.handle(Request::Restart(name.clone())) {
                eprintln!("{name} is not started again: {error:#}");
            }
        });
    }

    /// Collects whatever ends, orphans included, for as long as the bed lives.
    ///
    /// It looks first and collects under the lock: a child that fails to start is
    /// collected by whoever starts it.
    fn reap(self: &Arc<Self>) {
        loop {
            let ended = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
            match ended {
                Ok(status) => {
                    let Some(pid) = status.pid() else { continue };
                    let exit = match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
                        Ok(WaitStatus::Exited(_, code)) => code,
                        Ok(WaitStatus::Signaled(_, signal, _)) => -(signal as i32),
                        Ok(_) | Err(_) => continue,
                    };
                    let mut running = by_name.values_mut();
                    let ended = running
                        .find(|(_, status)| status.pid == pid.as_raw() && status.exit.is_none());
                    if let Some((program, status)) = ended {
                        status.exit = Some(exit);
                        if program.restarts && exit > 0 {
                            self.restart_soon(program.name.clone());
                        }
                    }
                }
                Err(Errno::ECHILD) => drop(self.started.wait(by_name)),
                Err(_) => {}
            }
        }
    }
}

fn spawn(program: &Program) -> Result<i32> {
    let (path, args) = program.argv.split_first().context("no program given")?;
    if let Some(parent) = program.log.parent() {
        fs::create_dir_all(parent)?;
    }
    let log = OpenOptions::new().create(true).append(true).open(&program.log)?;
    let child = Command::new(path)
        .args(args)
        // Set for the test's own errors, it makes a daemon of ours slower and larger.
        .env_remove("RUST_BACKTRACE")
        .envs(program.env.iter().map(|(k, v)| (k, v)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| path.clone())?;
    Ok(i32::try_from(child.id())?)
}
