//! Running the program.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The program, with a home of its own.
pub(crate) fn mercato(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mercato"));
    command.env_clear().env("TMPDIR", home).env("HOME", home).stdin(Stdio::null());
    // What is written without a folder's name is not written into the sources.
    command.current_dir(home);
    command
}

/// Runs it to its end.
pub(crate) fn run(home: &Path, args: &[&str]) -> Output {
    mercato(home).args(args).output().unwrap()
}

/// Runs a daemon that is not to start; one that does is ended after a minute.
pub(crate) fn run_in_vain(home: &Path, args: &[&str]) -> Output {
    let mut command = mercato(home);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    // It has ended, or is to.
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Tells a process to end.
pub(crate) fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(id, signal).unwrap();
}

/// A daemon, ended with its test.
pub(crate) struct Daemon {
    dir: TempDir,
    child: Child,
}

impl Daemon {
    /// On loopback, with a simulated cluster, knowing only these peers.
    pub(crate) fn start(name: &str, peers: &[&str]) -> Self {
        Self::start_in(TempDir::new().unwrap(), name, peers)
    }

    /// On loopback, knowing nobody, with these options in the place of a simulated cluster.
    pub(crate) fn start_with(name: &str, options: &[&str]) -> Self {
        Self::run_in(TempDir::new().unwrap(), name, options)
    }

    /// On what was left, with all of these options.
    pub(crate) fn start_joining(dir: TempDir, name: &str, options: &[&str]) -> Self {
        Self::spawn(dir, name, options)
    }

    /// Kills it, and starts it again on what it left.
    pub(crate) fn restart(self) -> Self {
        self.restart_with(&[])
    }

    /// The same, knowing these peers.
    pub(crate) fn restart_with(self, peers: &[&str]) -> Self {
        Self::start_in(self.kill(), "another name", peers)
    }

    /// The same with these options in the place of peers.
    pub(crate) fn restart_as(self, options: &[&str]) -> Self {
        Self::run_in(self.kill(), "another name", options)
    }

    /// Kills it; what it left.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.dir, TempDir::new().unwrap())
    }

    /// On what was left, at an address that stays.
    pub(crate) fn start_at(dir: TempDir, name: &str, listen: &str, peer: &str) -> Self {
        let simulated = ["--simulated-cluster", "cpu=8,memory=16Gi,pods=110", "--peer", peer];
        Self::listen_at(dir, name, listen, &simulated)
    }

    /// A file in its data folder.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Its data folder.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// In that data folder.
    pub(crate) fn start_in(dir: TempDir, name: &str, peers: &[&str]) -> Self {
        let simulated = ["--simulated-cluster", "cpu=8,memory=16Gi,pods=110"];
        let peers = peers.iter().flat_map(|peer| ["--peer", peer]);
        let options: Vec<&str> = simulated.into_iter().chain(peers).collect();
        Self::run_in(dir, name, &options)
    }

    /// Without a cluster, and without an address that it could tell anybody.
    pub(crate) fn start_unpublished(name: &str) -> Self {
        let daemon = Self::spawn(
            TempDir::new().unwrap(),
            name,
            &["--no-kubernetes", "--listen", "127.0.0.1:0"],
        );
        daemon.wait_for_text(&["status"], |text| text.contains("can be reached"));
        daemon
    }

    fn run_in(dir: TempDir, name: &str, options: &[&str]) -> Self {
        Self::listen_at(dir, name, "127.0.0.1:0", options)
    }

    /// All are on one machine: nobody would be told of loopback otherwise.
    fn listen_at(dir: TempDir, name: &str, listen: &str, options: &[&str]) -> Self {
        let public = ["--listen", listen, "--public-address", "127.0.0.1"];
        let daemon = Self::spawn(dir, name, &[&public, options].concat());
        daemon.wait_for(&["status", "-o", "json"], |status| {
            status["daemon"]["addresses"].as_array().is_some_and(|all| !all.is_empty())
        });
        daemon
    }

    fn spawn(dir: TempDir, name: &str, options: &[&str]) -> Self {
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        Self::spawn_logging(dir, name, options, log.into())
    }

    fn spawn_logging(dir: TempDir, name: &str, options: &[&str], log: Stdio) -> Self {
        // What it may not write is an error that it is told of, and no signal that ends it.
        let mut command = Command::new("sh");
        // Of files it begins with as few as many starters leave it.
        let begin = "trap '' XFSZ; ulimit -S -n 1024; exec \"$0\" \"$@\"";
        command.args(["-c", begin, env!("CARGO_BIN_EXE_mercato")]);
        command.env_clear().env("TMPDIR", dir.path()).env("HOME", dir.path()).stdin(Stdio::null());
        command.args(["run", "--verbose", "--name", name, "--no-lan"]).args(options);
        let child = command.stderr(log).arg("--data-dir").arg(dir.path()).spawn().unwrap();
        Self { dir, child }
    }

    /// With a log that is not a file of its own, so that [`Self::full`] leaves it alone.
    pub(crate) fn start_piped(name: &str, peer: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let options = ["--listen", "127.0.0.1:0", "--public-address", "127.0.0.1", "--peer", peer];
        let simulated = ["--simulated-cluster", "cpu=8,memory=16Gi,pods=110"];
        let options = [&options[..], &simulated].concat();
        let mut daemon = Self::spawn_logging(dir, name, &options, Stdio::piped());
        let (mut from, path) = (daemon.child.stderr.take().unwrap(), daemon.path().join("log"));
        let mut to = std::fs::File::create(path).unwrap();
        // Ends with the daemon.
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        daemon.wait_for_text(&["status"], |text| text.contains(name));
        daemon
    }

    /// With a log on a disk that is full.
    pub(crate) fn start_without_log(name: &str) -> Self {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let options = ["--no-kubernetes", "--listen", "127.0.0.1:0"];
        let daemon = Self::spawn_logging(TempDir::new().unwrap(), name, &options, full.into());
        daemon.wait_for_text(&["status"], |text| text.contains(name));
        daemon
    }

    /// Nothing can be written to a file any more, as on a disk that is full; or again.
    pub(crate) fn full(&self, is_full: bool) {
        let limit = if is_full { "--fsize=0:unlimited" } else { "--fsize=unlimited:unlimited" };
        let mut prlimit = Command::new("prlimit");
        prlimit.args(["--pid", &self.child.id().to_string(), limit]);
        assert!(prlimit.status().unwrap().success());
    }

    /// How many files it may have open: now, and at most.
    pub(crate) fn files(&self) -> [u64; 2] {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.child.id())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
        [words.next().unwrap(), words.next().unwrap()]
    }

    /// The memory that it has, in MiB.
    pub(crate) fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        let status = self.json(&["status", "-o", "json"]);
        status["daemon"]["addresses"][0].as_str().unwrap().to_owned()
    }

    /// Runs a command that asks it.
    pub(crate) fn ask(&self, args: &[&str]) -> Output {
        mercato(self.dir.path()).args(args).arg("--data-dir").arg(self.dir.path()).output().unwrap()
    }

    /// Begins a command that asks it.
    pub(crate) fn begin(&self, args: &[&str]) -> Child {
        let mut command = mercato(self.dir.path());
        command.args(args).arg("--data-dir").arg(self.dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs a command that asks it, which must go well and answer in JSON.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.ask(args);
        assert!(output.status.success(), "{args:?}: {}{}", stderr(&output), self.log());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asks until the answer is as it should be.
    pub(crate) fn wait_for(
        &self,
        args: &[&str],
        is_so: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let read = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let text = self.wait_for_text(args, |text| is_so(&read(text)));
        read(&text)
    }

    /// The same for what people are shown.
    pub(crate) fn wait_for_text(&self, args: &[&str], is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let output = self.ask(args);
            let text = stdout(&output);
            if output.status.success() && is_so(&text) {
                return text;
            }
            let said = format!("{text}{}", stderr(&output));
            assert!(Instant::now() < deadline, "{args:?}: {said}{}", self.log());
        }
    }

    /// Waits until it has logged this.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Ends it in good order: nothing broken was logged.
    pub(crate) fn stop(mut self) {
        signal(&self.child, nix::sys::signal::Signal::SIGTERM);
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
        assert!(!self.log().contains("ERROR"), "{}", self.log());
        assert!(!self.dir.path().join("admin.sock").exists());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command that must go well prints.
pub(crate) fn done(daemon: &Daemon, args: &[&str]) -> String {
    let output = daemon.ask(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}
