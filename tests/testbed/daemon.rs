//! Mercato's own daemon in a cluster of the bed: the real program, with the
//! ServiceAccount of `config/deploy` and no other rights, one part of the cluster among
//! others.

mod offload;
mod rights;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::account;
use crate::cluster::{Cluster, Output};
use crate::fault_proxy::FaultProxy;
use crate::wait;
use rights::WithoutRights;

/// The daemon's name among the parts of its cluster.
pub const PART: &str = "mercato";
const ACCOUNT: &str = "mercato";
const KUBECONFIG: &str = "mercato.kubeconfig";
const CONFIG: &str = "mercato.yaml";
/// As an owner applies them: what the account may do, and on what.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/deploy");
const FILES: [&str; 4] = ["crds.yaml", "rbac.yaml", "policies.yaml", "storage.yaml"];
/// The exit code of a command that has found nothing.
const NOTHING: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon, and the command line that talks to it. It runs on the cluster's first machine: in
/// the network and the mounts of that node, as root there, beside its API server.
#[derive(Debug)]
pub struct Daemon<'a> {
    /// Where it runs.
    pub cluster: &'a Cluster,
    program: PathBuf,
}

impl<'a> Daemon<'a> {
    /// Gives the daemon's account its rights in the cluster, starts `mercato run` with
    /// this configuration, which may be empty, and waits until it answers.
    ///
    /// # Errors
    /// When it does not answer within half a minute, or something stands in the way.
    pub async fn start(cluster: &'a Cluster, program: &Path, config: &str) -> Result<Self> {
        deploy(cluster).await?;
        Self::prepared(cluster, program, config).await
    }

    /// The same where the account has its rights already.
    ///
    /// # Errors
    /// As [`Daemon::start`].
    pub async fn prepared(cluster: &'a Cluster, program: &Path, config: &str) -> Result<Self> {
        let this = Self::account_and_settings(cluster, program, config).await?;
        this.run()?;
        this.answers().await?;
        Ok(this)
    }

    /// All of [`Daemon::start`] that comes before the program: rights, account, and
    /// configuration.
    ///
    /// # Errors
    /// When something stands in the way.
    pub async fn prepare(cluster: &'a Cluster, program: &Path, config: &str) -> Result<Self> {
        deploy(cluster).await?;
        Self::account_and_settings(cluster, program, config).await
    }

    async fn account_and_settings(
        cluster: &'a Cluster,
        program: &Path,
        config: &str,
    ) -> Result<Self> {
        let this = Self { cluster, program: program.to_owned() };
        account::write(cluster, ACCOUNT, KUBECONFIG).await?;
        if !config.is_empty() {
            this.configure(config)?;
        }
        Ok(this)
    }

    /// What a probe reads of its readiness.
    ///
    /// # Errors
    /// When nobody can ask.
    pub async fn readiness(&self) -> Result<String> {
        let ask = "printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' | nc 127.0.0.1 7476";
        // A server may take the end of the question for the end of the connection.
        for _ in 0..20 {
            let answer = self.cluster.command("busybox")?.args(["sh", "-c", ask]).output().await?;
            if !answer.stdout.is_empty() {
                return Ok(String::from_utf8_lossy(&answer.stdout).into_owned());
            }
        }
        Ok(String::new())
    }

    /// Starts `mercato run`, for which everything is prepared, and returns at once.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self) -> Result<()> {
        self.run_under(&[])
    }

    /// The same under a program that takes something from it or gives it, such as `setpriv`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_under(&self, wrapper: &[&str]) -> Result<()> {
        self.run_at(1, wrapper)
    }

    /// Starts it on another of the cluster's machines, with the same folder, once it has ended on the first.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_on(&self, machine: u8) -> Result<()> {
        self.run_at(machine, &[])
    }

    fn run_at(&self, machine: u8, wrapper: &[&str]) -> Result<()> {
        let cluster = self.cluster;
        let kubeconfig = cluster.data().join(KUBECONFIG);
        let mut args: Vec<String> =
            ["run", "--name", cluster.name(), "--verbose"].map(String::from).into();
        args.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
        args.extend(["--data-dir".to_owned(), cluster.data().join(PART).display().to_string()]);
        if cluster.data_outside().join(CONFIG).exists() {
            let file = cluster.data().join(CONFIG);
            args.extend(["--config".to_owned(), file.display().to_string()]);
        }
        let log = std::env::var("MERCATO_LOG").unwrap_or_else(|_| "info,mercato=debug".to_owned());
        let mut all = vec![format!("MERCATO_LOG={log}")];
        all.extend(wrapper.iter().copied().map(str::to_owned));
        all.push(self.program.display().to_string());
        all.append(&mut args);
        cluster.start_program_on(machine, PART, Path::new("/usr/bin/env"), &all)
    }

    /// The daemon that this program runs in the cluster already.
    #[must_use]
    pub fn attach(cluster: &'a Cluster, program: &Path) -> Self {
        Self { cluster, program: program.to_owned() }
    }

    /// Its configuration from its next start on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn configure(&self, config: &str) -> Result<()> {
        Ok(fs::write(self.cluster.data_outside().join(CONFIG), config)?)
    }

    /// Whether a daemon runs in the cluster.
    ///
    /// # Errors
    /// When the bed does not answer.
    pub fn runs(cluster: &Cluster) -> Result<bool> {
        cluster.runs(PART)
    }

    /// Kills the daemon (`SIGKILL`), which must have lived, starts it again, and waits until
    /// it answers.
    ///
    /// # Errors
    /// When it had ended by itself, or does not answer within half a minute.
    pub async fn kill(&self) -> Result<()> {
        self.cluster.kill(PART)?;
        self.cluster.restart(PART)?;
        self.answers().await
    }

    /// Starts the daemon again, killed, with its API server behind this proxy, or behind
    /// none.
    ///
    /// # Errors
    /// As [`Daemon::kill`].
    pub async fn behind(&self, proxy: Option<&FaultProxy>) -> Result<()> {
        let path = self.cluster.data_outside().join(KUBECONFIG);
        let mut kubeconfig: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
        let own = || format!("https://{}", self.cluster.api_server());
        kubeconfig["clusters"][0]["cluster"]["server"] =
            proxy.map_or_else(own, FaultProxy::url).into();
        fs::write(path, kubeconfig.to_string())?;
        self.kill().await
    }

    /// Waits until the daemon answers.
    ///
    /// # Errors
    /// When it does not within half a minute.
    pub async fn answers(&self) -> Result<()> {
        wait::until("the daemon answers", PATIENCE, || async {
            self.mercato(&["status"]).await?.ok()?;
            Ok(true)
        })
        .await
    }

    /// Runs `mercato` against this daemon.
    ///
    /// # Errors
    /// When it cannot be started; its own failure is in the answer.
    pub async fn mercato(&self, args: &[&str]) -> Result<Output> {
        let socket = self.cluster.data_outside().join(PART).join("admin.sock");
        let socket = socket.display().to_string();
        self.cluster.run(&self.program, &[&["--socket", &socket], args].concat(), "").await
    }

    /// Removes what a gateway has left on the daemon's machine, as whoever works there does.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn cleans_the_gateway(&self) -> Result<()> {
        let clean =
            self.cluster.machine(1).command(&self.program)?.args(["gateway", "clean"]).output();
        Output::from(clean.await?).ok().map(drop)
    }

    /// What `mercato` answers with `-o json`.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn json(&self, args: &[&str]) -> Result<Value> {
        let text = self.mercato(&[args, &["-o", "json"]].concat()).await?.ok()?;
        serde_json::from_str(&text)
            .with_context(|| format!("mercato {} says {text}", args.join(" ")))
    }

    /// Waits until a provider's offer has come.
    ///
    /// # Errors
    /// When it has not within a minute and a half.
    pub async fn sees_offer_of(&self, provider: &str) -> Result<()> {
        let what = format!("{provider}'s offer is seen");
        wait::until(&what, wait::OFFERED, || self.has_offer_of(provider)).await
    }

    /// Waits so long until there is no offer of a provider.
    ///
    /// # Errors
    /// When there is one after that time.
    pub async fn loses_offer_of(&self, provider: &str, patience: Duration) -> Result<()> {
        let is_gone = || async { Ok(!self.has_offer_of(provider).await?) };
        wait::until(&format!("{provider}'s offer is gone"), patience, is_gone).await
    }

    async fn has_offer_of(&self, provider: &str) -> Result<bool> {
        let market = self.mercato(&["browse", "-o", "json"]).await?;
        if market.code == Some(NOTHING) {
            return Ok(false);
        }
        let market: Value = serde_json::from_str(&market.ok()?)?;
        let offers = market["offers"].as_array().context("a list of offers")?;
        Ok(offers.iter().any(|offer| offer["name"] == provider))
    }

    /// Orders with these words, has the provider's owner accept, and waits until the node
    /// is ready; the contract's id.
    ///
    /// # Errors
    /// When it comes to nothing within a minute.
    pub async fn buy(&self, provider: &Self, order: &[&str]) -> Result<String> {
        let ordered = [order, &["--wait", "--timeout", "60s", "-o", "json"]].concat();
        let ordered = self.mercato(&ordered);
        let accepted = wait::until("the request waits for an answer", PATIENCE, || async {
            let requests = provider.json(&["requests"]).await?;
            let id = requests[0]["id"].as_str().context("no request")?;
            provider.mercato(&["requests", "accept", id]).await?.ok()?;
            Ok(true)
        });
        let (ordered, accepted) = futures::join!(ordered, accepted);
        accepted?;
        let ordered: Value = serde_json::from_str(&ordered?.ok()?)?;
        Ok(ordered["id"].as_str().context("the order has an id")?.to_owned())
    }

    /// Buys of a provider, at once and for nothing, with room for so many small pods: waits
    /// until the node is ready. The provider shares most of what its cluster has.
    ///
    /// # Errors
    /// When something stands in the way, or it is not ready within a minute.
    pub async fn leases_from(&self, provider: &Self, pods: usize) -> Result<()> {
        self.leases_by(provider, pods, "none").await
    }

    /// The same of one who keeps guests apart as said: `none`, `required`.
    ///
    /// # Errors
    /// As [`Daemon::leases_from`].
    pub async fn leases_by(&self, provider: &Self, pods: usize, isolation: &str) -> Result<()> {
        self.buys(provider, &order(pods), isolation).await
    }

    /// The same, by the words of an order: `order`, `--cpu` and so on.
    ///
    /// # Errors
    /// As [`Daemon::leases_from`].
    pub async fn buys(&self, provider: &Self, order: &[String], isolation: &str) -> Result<()> {
        let share = ["share", "set", "--cpu", "80%", "--memory", "80%", "--pods", "8000"];
        let terms = ["--price", "free", "--approve", "auto", "--network-isolation", isolation];
        provider.mercato(&[&share[..], &terms].concat()).await?.ok()?;
        let name = provider.cluster.name();
        self.sees_offer_of(name).await?;
        self.mercato(&["peer", "trust", name, "--yes"]).await?.ok()?;
        let (order, from) = (order.iter().map(String::as_str), ["--from", name]);
        let order = order.chain(from).chain(["--wait", "--timeout", "60s"]);
        self.mercato(&order.collect::<Vec<_>>()).await?.ok().map(drop)
    }

    /// What the daemon's account did to the API server must have been within its rights,
    /// and it must not have asked for all secrets.
    ///
    /// # Errors
    /// When the audit log shows otherwise, with those requests.
    pub fn kept_to_its_rights(&self) -> Result<()> {
        let log = fs::read_to_string(self.cluster.data_outside().join("audit.log"))?;
        let without_rights = WithoutRights::of(&log)?;
        let mut ours = 0;
        let mut beyond = Vec::new();
        for line in log.lines().filter(|line| line.contains("serviceaccount:mercato:mercato")) {
            let event: Value = serde_json::from_str(line)?;
            if event["user"]["username"] != "system:serviceaccount:mercato:mercato" {
                continue;
            }
            ours += 1;
            let object = &event["objectRef"];
            // Not 403: so a quota answers, too.
            let refused = event["annotations"]["authorization.k8s.io/decision"] == "forbid"
                && !without_rights.has(&event);
            // What `mercato doctor` only asks about is asked to be refused, and to ask is the
            // way to learn whether the people of a namespace have agreed.
            let denied =
                event["responseStatus"]["message"].as_str().is_some_and(|message| {
                    message.contains("ValidatingAdmissionPolicy 'mercato-")
                        && !message.contains("ValidatingAdmissionPolicy 'mercato-consent'")
                }) && !event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All"));
            let all_secrets = object["resource"] == "secrets" && object["namespace"].is_null();
            if refused || denied || all_secrets {
                beyond.push(format!("{} {}", event["verb"], event["requestURI"]));
            }
        }
        ensure!(ours > 0, "the audit log does not know the daemon");
        ensure!(beyond.is_empty(), "beyond its rights: {beyond:#?}");
        Ok(())
    }
}

/// Installs the custom resources, the account, its rights and the policies on them.
///
/// # Errors
/// When the API server refuses one.
pub async fn deploy(cluster: &Cluster) -> Result<()> {
    for file in FILES {
        deploy_file(cluster, file).await?;
    }
    Ok(())
}

/// Applies one file of `config/deploy`, such as `optional/offload-all.yaml`.
///
/// # Errors
/// When the API server refuses it.
pub async fn deploy_file(cluster: &Cluster, file: &str) -> Result<()> {
    cluster.apply(&fs::read_to_string(Path::new(DEPLOY).join(file))?).await
}

/// The words of an order with room for so many small pods.
#[must_use]
pub fn order(pods: usize) -> Vec<String> {
    let (cpu, memory) = (format!("{}m", 60 * pods), format!("{}Mi", 80 * pods));
    let pods = pods.to_string();
    let words = ["order", "--cpu", &cpu, "--memory", &memory, "--pods", &pods, "--for", "4h"];
    words.map(str::to_owned).into()
}
