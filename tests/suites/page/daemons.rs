//! Daemons on loopback, each with a simulated cluster, and the page of one of them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A program that ends with this.
pub(crate) struct Running(Child);

impl Running {
    /// Takes care of a program that was started.
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or is to.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon with a data folder of its own.
pub(crate) struct Daemon {
    dir: TempDir,
    program: PathBuf,
    options: Vec<String>,
    running: Option<Running>,
}

impl Daemon {
    /// Starts one with a simulated cluster of this size, that knows these peers.
    pub(crate) async fn start(
        stage: &Stage,
        name: &str,
        cluster: &str,
        peers: &[&str],
    ) -> Result<Self> {
        let mut options: Vec<String> = ["--name", name, "--no-lan", "--listen", "127.0.0.1:0"]
            .into_iter()
            .chain(["--public-address", "127.0.0.1", "--simulated-cluster", cluster])
            .map(str::to_owned)
            .collect();
        options.extend(peers.iter().flat_map(|peer| ["--peer".to_owned(), (*peer).to_owned()]));
        let (dir, program) = (TempDir::new()?, stage.program("mercato")?);
        let mut daemon = Self { dir, program, options, running: None };
        daemon.again().await?;
        Ok(daemon)
    }

    /// Starts it once more, on what it has left.
    pub(crate) async fn again(&mut self) -> Result<()> {
        let log = File::options().append(true).create(true).open(self.dir.path().join("log"))?;
        let mut command = self.command();
        command.arg("run").args(&self.options).stdout(Stdio::null()).stderr(log);
        self.running = Some(Running(command.spawn()?));
        let is_up = async || {
            let status = self.json(&["status"]);
            Ok(status.is_ok_and(|it| it["daemon"]["addresses"][0].is_string()))
        };
        wait::until("the daemon answers", PATIENCE, is_up).await.with_context(|| self.log())
    }

    /// Kills the daemon, which says nothing more.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Where others may dial it.
    pub(crate) fn address(&self) -> Result<String> {
        let status = self.json(&["status"])?;
        let address = status["daemon"]["addresses"][0].as_str().context("it has no address")?;
        Ok(address.to_owned())
    }

    /// A command to it, that has to succeed.
    pub(crate) fn does(&self, args: &[&str]) -> Result<String> {
        let output = self.command().args(args).output()?;
        let (said, wrong) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "mercato {}: {said}{wrong}", args.join(" "));
        Ok(said.into_owned())
    }

    /// What a command answers to programs.
    pub(crate) fn json(&self, args: &[&str]) -> Result<Value> {
        let said = self.does(&[args, &["-o", "json"]].concat())?;
        serde_json::from_str(&said).with_context(|| said)
    }

    /// Serves its page, with these options besides.
    pub(crate) fn page(&self, options: &[&str]) -> Result<Page> {
        use std::io::{BufRead as _, BufReader};
        let mut child = self.command();
        let child = child.arg("page").args(options).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("it says nothing")?;
        let running = Running(child);
        BufReader::new(output).read_line(&mut line)?;
        let Some((site, token)) = line.trim().split_once("/#") else {
            bail!("this is no address: {line}");
        };
        Ok(Page { site: site.to_owned(), token: token.to_owned(), _running: running })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", self.dir.path()).env("TMPDIR", self.dir.path());
        command.env("MERCATO_DATA_DIR", self.dir.path().join("data")).stdin(Stdio::null());
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// A page that is served.
pub(crate) struct Page {
    /// The address without a path: `http://127.0.0.1:PORT`.
    pub(crate) site: String,
    pub(crate) token: String,
    _running: Running,
}

impl Page {
    /// The address that a person is given.
    pub(crate) fn address(&self) -> String {
        format!("{}/#{}", self.site, self.token)
    }

    /// Its host and port, as `Host` has them.
    pub(crate) fn host(&self) -> &str {
        self.site.trim_start_matches("http://")
    }
}

/// A buyer and the providers that it knows.
pub(crate) struct Fair {
    pub(crate) rome: Daemon,
    _providers: Vec<Daemon>,
}

/// What each provider has, asks for, and is called.
const PROVIDERS: [[&str; 3]; 5] = [
    ["turin", "cpu=64,memory=512Gi,pods=220,gpu.h100=8", "cpu=0.02 EUR/h, gpu.h100=2.10 EUR/h"],
    ["oslo", "cpu=96,memory=768Gi,pods=220,gpu.h100=4", "cpu=0.03 EUR/h, gpu.h100=1.95 EUR/h"],
    ["bilbao", "cpu=32,memory=256Gi,pods=110,gpu.h100=2", "cpu=0.02 EUR/h, gpu.h100=2.60 EUR/h"],
    ["graz", "cpu=64,memory=512Gi,pods=220,gpu.a100=8", "cpu=0.02 EUR/h, gpu.a100=1.10 EUR/h"],
    ["lund", "cpu=128,memory=512Gi,pods=440", "cpu=0.01 EUR/h"],
];

impl Fair {
    /// All of them, each of which knows the first: its offers reach the buyer.
    pub(crate) async fn open(stage: &Stage) -> Result<Self> {
        let rome = Daemon::start(stage, "rome", "cpu=16,memory=64Gi,pods=110", &[]).await?;
        let hub = rome.address()?;
        let mut providers = Vec::new();
        for [name, cluster, price] in PROVIDERS {
            let provider = Daemon::start(stage, name, cluster, &[&hub]).await?;
            let share = ["share", "set", "--cpu", "100%", "--memory", "100%", "--price", price];
            let gpus = cluster.split_once("gpu.").map(|(_, gpus)| ["--gpu", gpus]);
            let gpus = gpus.as_ref().map(|it| &it[..]).unwrap_or_default();
            let rest = ["--approve", "auto", "--yes"];
            provider.does(&[&share[..], gpus, &rest].concat())?;
            providers.push(provider);
        }
        let all = async || Ok(rome.json(&["browse"]).is_ok_and(|it| it["seen"] == PROVIDERS.len()));
        wait::until("all offers are there", PATIENCE, all).await?;
        Ok(Self { rome, _providers: providers })
    }
}
