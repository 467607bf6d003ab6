//! How a cluster is used: kubectl, a client, any program, its parts' lives.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{Cluster, Machine, PATIENCE, control_plane, machine};
use crate::wait;

/// Makes the table of processes that of the caller again, in mounts that follow those of the machine.
const VISIT: &str = r#"mount -t proc proc /proc && cd "$1" && shift && exec "$@""#;

/// What a program printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output of a program that succeeded.
    ///
    /// # Errors
    /// When it failed, with what it said.
    pub fn ok(self) -> Result<String> {
        ensure!(self.code == Some(0), "exit code {:?}: {}{}", self.code, self.stdout, self.stderr);
        Ok(self.stdout)
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Cluster {
    /// A client with all rights; the caller's runtime lives in the bed's network.
    ///
    /// # Errors
    /// When the cluster's keys are not made yet.
    pub async fn client(&self) -> Result<Client> {
        let path = self.data_outside().join("admin.kubeconfig");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{} has no keys yet", self.name()))?;
        let config = Kubeconfig::from_yaml(&text)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// A program to run in the network of the cluster's first machine, with
    /// `KUBECONFIG` and the toolchain's programs on its path. It ends with the thread
    /// that starts it.
    ///
    /// # Errors
    /// When the machine is not up.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let toolchain = [self.toolchain.programs()];
        let paths = toolchain.into_iter().chain(std::env::split_paths(&path));
        let mut command = self.system_command(1, program)?;
        let kubeconfig = control_plane::kubeconfig_path(self, "admin");
        command.env("KUBECONFIG", self.place.from_outside(&kubeconfig));
        if let Ok(path) = std::env::join_paths(paths) {
            command.env("PATH", path);
        }
        Ok(command)
    }

    /// A program to run on the cluster's first machine, as [`Cluster::command`] gives it, with the mounts
    /// of that node, too: it sees the networks of the pods there. It has this machine's table of
    /// processes, and begins in the folder of the caller.
    ///
    /// # Errors
    /// When the machine is not up, or the folder is gone.
    pub fn visitor(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = self.command("nsenter")?;
        command.arg(self.mounts(1)?).args(["--", "unshare", "--mount", "--propagation", "slave"]);
        command.args(["--", "sh", "-c", VISIT, "lab"]);
        command.arg(std::env::current_dir()?).arg(program);
        Ok(command)
    }

    /// How `nsenter` is told the mounts of a machine.
    fn mounts(&self, number: u8) -> Result<String> {
        let process = machine::process(&self.place, self.name(), number)?;
        let mounts = self.place.from_outside(format!("/proc/{process}/ns/mnt").as_ref());
        Ok(format!("--mount={}", mounts.display()))
    }

    /// One of the cluster's machines, counted from 1: the node's network and mounts.
    #[must_use]
    pub fn machine(&self, number: u8) -> Machine {
        Machine::new(&self.place, &self.layout, number)
    }

    /// The path of a program of the toolchain.
    #[must_use]
    pub fn program_path(&self, name: &str) -> PathBuf {
        self.toolchain.program(name)
    }

    /// The folder of the toolchain's programs.
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.toolchain.programs()
    }

    /// A program on one of the cluster's machines, counted from 1.
    pub(super) fn system_command(&self, number: u8, program: impl AsRef<OsStr>) -> Result<Command> {
        self.machine(number).command(program)
    }

    /// Runs a script of `sh` on the cluster's first machine, which has mounts of its own.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn on_machine(&self, script: &str) -> Result<()> {
        self.on_nth_machine(1, script).await
    }

    /// The same on one of its machines, counted from 1.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn on_nth_machine(&self, number: u8, script: &str) -> Result<()> {
        let mounts = self.mounts(number)?;
        let done = self.system_command(number, "nsenter")?;
        let done = { done }.args([&mounts, "--", "sh", "-ec", script]).output().await?;
        ensure!(
            done.status.success(),
            "{script}: {}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(())
    }

    /// Runs kubectl with all rights.
    ///
    /// # Errors
    /// When it cannot be started; its own failure is in the answer.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.run(&self.toolchain.program("kubectl"), args, "").await
    }

    /// Runs kubectl with text on its standard input.
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub async fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<Output> {
        self.run(&self.toolchain.program("kubectl"), args, input).await
    }

    /// Runs a program as [`Cluster::command`] does, with text on its standard input.
    ///
    /// # Errors
    /// When it cannot be started; its own failure is in the answer.
    pub async fn run(&self, program: &Path, args: &[&str], input: &str) -> Result<Output> {
        let mut child = self
            .command(program)?
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut stdin = child.stdin.take().context("piped above")?;
        let write = async {
            // It may end without reading it all; its exit code tells.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let (output, ()) = futures::join!(child.wait_with_output(), write);
        Ok(output?.into())
    }

    /// Applies manifests, as `kubectl apply -f -` does.
    ///
    /// # Errors
    /// When kubectl refuses them, with what it says.
    pub async fn apply(&self, manifests: &str) -> Result<()> {
        let output = self.kubectl_with_input(&["apply", "-f", "-"], manifests).await?;
        output.ok().map(drop)
    }

    /// Stops a part in its tracks (`SIGSTOP`): `kube-apiserver`, `kubelet-1`, ...
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, part: &str) -> Result<()> {
        self.signal(part, Signal::SIGSTOP)
    }

    /// Lets a paused part go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, part: &str) -> Result<()> {
        self.signal(part, Signal::SIGCONT)
    }

    /// Kills a part (`SIGKILL`) and waits for its end; its data stays.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, part: &str) -> Result<()> {
        self.end(part, Signal::SIGKILL)
    }

    /// Asks a part to end (`SIGTERM`) and waits for its end.
    ///
    /// # Errors
    /// When it does not run, or does not end within a minute.
    pub fn stop(&self, part: &str) -> Result<()> {
        self.end(part, Signal::SIGTERM)
    }

    /// Makes a part fail: it ends as a Go program that panics does, with an exit code.
    ///
    /// # Errors
    /// When it does not run.
    pub fn crash(&self, part: &str) -> Result<()> {
        self.signal(part, Signal::SIGQUIT)
    }

    fn end(&self, part: &str, signal: Signal) -> Result<()> {
        self.signal(part, signal)?;
        let name = self.part(part);
        wait::until_blocking(&format!("{name} has ended"), PATIENCE, || {
            let all = self.place.supervisor().list()?;
            Ok(all.iter().any(|status| status.name == name && status.exit.is_some()))
        })
    }

    /// Whether a part runs.
    ///
    /// # Errors
    /// When the bed does not answer.
    pub fn runs(&self, part: &str) -> Result<bool> {
        let name = self.part(part);
        let all = self.place.supervisor().list()?;
        Ok(all.iter().any(|status| status.name == name && status.exit.is_none()))
    }

    /// Starts a part again that has ended, with its data.
    ///
    /// # Errors
    /// When it still runs, or never did.
    pub fn restart(&self, part: &str) -> Result<()> {
        self.place.supervisor().restart(&self.part(part))
    }

    /// Takes the cluster's machines off the LAN, or puts them back: those that are off reach
    /// none that is off, of whichever cluster, and what they send it is lost without a
    /// word. The tests reach them as before.
    ///
    /// # Errors
    /// When the machines are not up.
    pub fn set_apart(&self, apart: bool) -> Result<()> {
        (1..=self.spec.nodes.max(1)).try_for_each(|number| {
            machine::set_apart(&self.place, self.layout.index, number, apart)
        })
    }

    /// Starts a program of the caller's own beside the cluster's parts, on its
    /// first machine, in the network and the mounts of that node; paused, killed and
    /// restarted like them.
    ///
    /// # Errors
    /// When one of that name runs.
    pub fn start_program(&self, name: &str, path: &Path, args: &[String]) -> Result<()> {
        self.start_program_on(1, name, path, args)
    }

    /// The same on another of its machines.
    ///
    /// # Errors
    /// When one of that name runs.
    pub fn start_program_on(
        &self,
        machine: u8,
        name: &str,
        path: &Path,
        args: &[String],
    ) -> Result<()> {
        self.start_system(machine, name, &path.to_string_lossy(), args)
    }

    fn signal(&self, part: &str, signal: Signal) -> Result<()> {
        self.place.supervisor().signal(&self.part(part), signal)
    }

    pub(super) fn part(&self, part: &str) -> String {
        format!("{}/{part}", self.name())
    }

    /// Approves the serving certificates that the cluster's own kubelets ask for; says how many
    /// kubelets have theirs. One may be ready before it has asked.
    pub(super) async fn approve_kubelets(&self) -> Result<usize> {
        let requests: Api<CertificateSigningRequest> = Api::all(self.client().await?);
        let mut certified = BTreeSet::new();
        for request in requests.list(&ListParams::default()).await? {
            if request.spec.signer_name != "kubernetes.io/kubelet-serving" {
                continue;
            }
            let status = request.status.unwrap_or_default();
            if status.certificate.is_some() {
                certified.insert(request.spec.username);
            }
            if status.conditions.is_some() {
                continue;
            }
            let approved = json!({"type": "Approved", "status": "True", "reason": "OfTheBed"});
            let patch = Patch::Merge(json!({"status": {"conditions": [approved]}}));
            let name = request.metadata.name.unwrap_or_default();
            requests.patch_approval(&name, &PatchParams::default(), &patch).await?;
        }
        Ok(certified.len())
    }
}
