//! Two clusters with a contract in force and a pod over there, and how a row of the table is played
//! on them.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::courier::Sender;
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::suite::Stage;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::Value;

use super::row::{At, Fault, Mend, Row};
use super::table::ON;

const NODE: &str = "mercato-turin";
const NAMESPACE: &str = "calls";
/// A pod that is over there before anything is broken.
pub(super) const STEADY: &str = "steady";
const SQUATTER: &str = "squatter";
/// Until a fault is told, and until its end is seen: some look every ten seconds.
const PATIENCE: Duration = Duration::from_secs(40);

/// Rome, which buys of Turin.
pub(crate) struct Stand<'a> {
    home: Daemon<'a>,
    provider: Daemon<'a>,
}

impl<'a> Stand<'a> {
    pub(crate) async fn open(stage: &'a Stage) -> Result<Self> {
        let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
        let program = stage.program("mercato")?;
        let home = Daemon::start(rome, &program, ON).await?;
        let provider = Daemon::start(turin, &program, ON).await?;
        home.leases_from(&provider, 8).await?;
        rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
        home.offload(NAMESPACE, "Both").await?;
        let this = Self { home, provider };
        this.user().run(STEADY, SLEEP).await?;
        this.is_called(STEADY).await?;
        Ok(this)
    }

    /// Breaks it, reads of it, mends it.
    pub(crate) async fn play(&self, row: &Row) -> Result<()> {
        let steady = self.address(STEADY).await?;
        self.break_it(row).await.context("break it")?;
        self.is_said(row).await?;
        // Pods run whatever is wrong, without an address or with the one that they have.
        if matches!(row.fault, Fault::Comes(_)) {
            self.is_apart("fresh").await.context("whom no packet reaches")?;
        } else {
            self.user().run("fresh", SLEEP).await?;
            let fresh = self.address("fresh").await?;
            ensure!(fresh.is_empty(), "it shows {fresh}");
        }
        self.mend(row).await.context("mend it")?;
        self.is_called("fresh").await.context("who came meanwhile")?;
        self.is_called(STEADY).await.context("who was there before")?;
        ensure!(self.address(STEADY).await? == steady, "another address than {steady}");
        let is_up = || async { Ok(self.condition().await?.status == "True") };
        wait::until("the node says that the tunnel is there", PATIENCE, is_up).await?;
        self.user().kubectl(&["delete", "pod", "fresh", "--force", "--grace-period=0"]).await?;
        Ok(())
    }

    /// One that comes while a tunnel is silent runs, and is not ready before that answers.
    async fn is_apart(&self, pod: &str) -> Result<()> {
        self.user().start(pod, SLEEP, &[]).await?;
        let path = "jsonpath={.status.phase} {.status.conditions[?(@.type=='Ready')].reason}";
        wait::until("it runs, and is not ready", PATIENCE, || async {
            let said = self.user().kubectl(&["get", "pod", pod, "-o", path]).await?;
            ensure!(said == "Running PeerUnreachable", "it is {said}");
            Ok(true)
        })
        .await
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.home.kept_to_its_rights().context("in rome")?;
        self.provider.kept_to_its_rights().context("in turin")
    }

    pub(super) fn user(&self) -> User<'a> {
        User::new(self.home.cluster, NAMESPACE).on(NODE)
    }

    /// Whether a daemon is the one of home.
    pub(super) fn is_home(&self, daemon: &Daemon<'_>) -> bool {
        daemon.cluster.name() == self.home.cluster.name()
    }

    pub(super) fn at(&self, at: At) -> Vec<&Daemon<'a>> {
        match at {
            At::Rome => vec![&self.home],
            At::Turin => vec![&self.provider],
            At::Both => vec![&self.home, &self.provider],
        }
    }

    async fn break_it(&self, row: &Row) -> Result<()> {
        let daemons = self.at(row.at);
        if let Fault::Comes(script) = &row.fault {
            for daemon in daemons {
                daemon.cluster.on_machine(script).await?;
            }
            return Ok(());
        }
        for daemon in &daemons {
            daemon.cluster.kill(PART)?;
        }
        for daemon in &daemons {
            let mut wrapper: &[&str] = &[];
            match &row.fault {
                Fault::Found(script) | Fault::Comes(script) => {
                    daemon.cluster.on_machine(script).await?;
                }
                Fault::Configured(config) => daemon.configure(&self.config(daemon, config))?,
                Fault::Under(program) => wrapper = program,
                Fault::Squatter => squat(daemon).await?,
            }
            daemon.run_under(wrapper)?;
        }
        for daemon in &daemons {
            daemon.answers().await?;
        }
        Ok(())
    }

    /// This configuration, of this daemon.
    fn config(&self, daemon: &Daemon<'_>, config: &str) -> String {
        let other = if self.is_home(daemon) { &self.provider } else { &self.home };
        config.replace("OTHER", &other.cluster.machine(1).address().to_string())
    }

    /// Wherever people look they read what is wrong and what to do.
    async fn is_said(&self, row: &Row) -> Result<()> {
        let names = |text: &str| {
            let missing = [row.cause, row.cure].into_iter().find(|part| !text.contains(part));
            missing.map_or(Ok(()), |part| Err(anyhow::anyhow!("no {part:?} in {text:?}")))
        };
        wait::until("the node says why there is no tunnel", PATIENCE, || async {
            let Condition { status, message } = self.condition().await?;
            names(&message)?;
            Ok(status == "False")
        })
        .await?;
        let Condition { message, .. } = self.condition().await?;
        wait::until("one event of the node says so", PATIENCE, || async {
            let warnings = self.warnings().await?;
            let said = warnings.iter().filter(|warning| **warning == message).count();
            ensure!(said == 1, "{said} of {warnings:#?} do");
            Ok(true)
        })
        .await?;
        for daemon in [&[&self.home], &self.at(row.at)[..]].concat() {
            // Each end finds out by itself.
            let what = format!("the status of {} says so", daemon.cluster.name());
            wait::until(&what, PATIENCE, || async {
                let status = daemon.mercato(&["status"]).await?.ok()?;
                let words: Vec<&str> = status.split_whitespace().collect();
                names(&words.join(" ")).map(|()| true)
            })
            .await?;
        }
        Ok(())
    }

    async fn mend(&self, row: &Row) -> Result<()> {
        for daemon in self.at(row.at) {
            let cluster = daemon.cluster;
            match &row.mend {
                Mend::Script(script) => cluster.on_machine(script).await?,
                Mend::Again { after, config } => {
                    cluster.on_machine(after).await?;
                    daemon.configure(config)?;
                    cluster.kill(PART)?;
                    daemon.run()?;
                    daemon.answers().await?;
                }
                Mend::AgainWithoutKey { config } => {
                    daemon.configure(config)?;
                    cluster.kill(PART)?;
                    fs::remove_file(cluster.data_outside().join(PART).join(KEY))?;
                    daemon.run()?;
                    daemon.answers().await?;
                }
                Mend::End(command) => {
                    let words: Vec<&str> = command.split(' ').collect();
                    let found = cluster.machine(1).command(words[0])?.args(&words[1..]).output();
                    let found = String::from_utf8_lossy(&found.await?.stdout).into_owned();
                    ensure!(found.contains("((\"courier\","), "{command} finds {found}");
                    cluster.kill(SQUATTER)?;
                }
            }
        }
        Ok(())
    }

    async fn address(&self, pod: &str) -> Result<String> {
        let address = ["get", "pod", pod, "-o", "jsonpath={.status.podIP}"];
        self.user().kubectl(&address).await
    }

    /// Home's node gets an answer from a pod over there, by the address that it shows.
    async fn is_called(&self, pod: &str) -> Result<()> {
        wait::until(&format!("{pod} answers"), PATIENCE, || self.answers(pod)).await
    }

    pub(super) async fn answers(&self, pod: &str) -> Result<bool> {
        let address = self.user().address_of(pod).await?;
        Ok(Sender::Node(self.home.cluster, 1).ping(address, 1).await? == 1)
    }

    pub(super) async fn condition(&self) -> Result<Condition> {
        let node = ["get", "node", NODE, "-o", "json"];
        let node = self.home.cluster.kubectl(&node).await?.ok()?;
        let node: Value = serde_json::from_str(&node)?;
        let all = node["status"]["conditions"].as_array().context("conditions")?;
        let one = all.iter().find(|it| it["type"] == "mercato.dev/TunnelReady");
        let one = one.context("no condition about the tunnel")?;
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        Ok(Condition { status: text("status"), message: text("message") })
    }

    /// The messages of all warnings about the node's tunnel.
    async fn warnings(&self) -> Result<Vec<String>> {
        let of = format!("involvedObject.name={NODE},reason=NoTunnel,type=Warning");
        let events = ["get", "events", "-A", "--field-selector", &of, "-o", "json"];
        let events = self.home.cluster.kubectl(&events).await?.ok()?;
        let events: Value = serde_json::from_str(&events)?;
        let all = events["items"].as_array().context("events")?.iter();
        Ok(all.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect())
    }
}

/// What the virtual node says of its tunnel.
pub(super) struct Condition {
    pub(super) status: String,
    pub(super) message: String,
}

/// Of the gateway, in the data folder of a daemon.
const KEY: &str = "tunnel/gateway.key";
const SLEEP: &str = "while :; do sleep 1; done";

/// Another program has the gateway's port.
async fn squat(daemon: &Daemon<'_>) -> Result<()> {
    let (program, args) = (daemon.cluster.program_path("courier"), ["serve", "7475"]);
    daemon.cluster.start_program(SQUATTER, &program, &args.map(str::to_owned))?;
    wait::until("the port is taken", PATIENCE, || async {
        let listening = daemon.cluster.machine(1).command("ss")?.args(["-Huln"]).output().await?;
        Ok(String::from_utf8_lossy(&listening.stdout).contains(":7475"))
    })
    .await
}
