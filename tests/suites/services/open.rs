//! A namespace that never leaves home, and opens some of its Services to guests of another.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{Carried, PORT, Sender};
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::names::Asker;
use super::shop::{NAMESPACE, NODE};

/// The namespace, and what stands for it over there.
const DATA: &str = "data";
const GUESTS: &str = "data-rome";
/// Its Services that are opened, the second of them headless, and one that is not.
const OPENED: [&str; 2] = ["db", "peers"];
const UNOPENED: &str = "backup";
/// The guest that asks for names, and calls.
const ASKER: &str = "asker";
const MARKER: &str = "from-a-guest-to-another-namespace";
const BYTES: u64 = 200_000;
const DATAGRAMS: u64 = 10;
/// As soon as consent ends.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The namespace, at home and as guests of the other one see it.
pub(crate) struct Data<'a> {
    home: &'a Cluster,
    provider: &'a Cluster,
    asker: User<'a>,
}

impl<'a> Data<'a> {
    /// With a pod, and a guest elsewhere that knows none of its names.
    pub(crate) async fn begin(home: &'a Cluster, provider: &'a Cluster) -> Result<Self> {
        let this = Self { home, provider, asker: User::new(home, NAMESPACE) };
        home.kubectl(&["create", "namespace", DATA]).await?.ok()?;
        for name in OPENED.into_iter().chain([UNOPENED]) {
            home.apply(&service(name).to_string()).await?;
        }
        User::new(home, DATA).on("rome-1").serves("db").await?;
        this.asker.on(NODE).serves(ASKER).await?;
        this.is_closed().await.context("nothing is said")?;
        let line = format!("mercato offload {DATA} --strategy local --services {}", OPENED[0]);
        this.is_told(&line).await.context("nothing is said")?;
        Ok(this)
    }

    /// Its pod at home has one event of the first name that it has not found, which says what opens it.
    async fn is_told(&self, line: &str) -> Result<()> {
        let about = format!("involvedObject.name={ASKER},reason=NamespaceNotOpen");
        let path = "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}";
        let get = ["get", "events", "--field-selector", &about, "-o", path];
        let told = format!(
            "{}.{DATA}: namespace {DATA} is not open to guests at this provider; {line}",
            OPENED[0]
        );
        wait::until("its owner is told", super::shop::SOON, || async {
            let said = self.asker.kubectl(&get).await?;
            ensure!(said.lines().eq([told.as_str()]), "it says {said:?}");
            Ok(true)
        })
        .await
    }

    /// By each of its ways what it opens is called, and nothing else.
    pub(crate) async fn is_called(&self, daemon: &Daemon<'_>) -> Result<()> {
        daemon.offload(DATA, "Local").await?;
        self.is_closed().await.context("without a word of Services")?;
        self.says(&json!({ "services": OPENED })).await?;
        let asker = self.asker();
        for name in OPENED {
            wait::until(&format!("{name} has a name"), super::shop::SOON, || async {
                asker.found(&full(name)).await.map(|_| true)
            })
            .await?;
            self.answers(asker.found(&full(name)).await?.parse()?).await.context(name)?;
        }
        asker.finds_none(&full(UNOPENED)).await?;
        let there = self.there("services").await?;
        ensure!(!there.contains(UNOPENED), "there is {there}");
        let pods = self.there("pods").await?;
        ensure!(pods.is_empty(), "{pods} of {DATA} has left home");
        Ok(())
    }

    /// Only guests of those that it names call it.
    pub(crate) async fn is_called_by_whom_it_names(&self) -> Result<()> {
        self.says(&json!({ "callers": ["bank"] })).await?;
        self.closes(None).await.context("others are named")?;
        self.says(&json!({ "callers": [NAMESPACE] })).await?;
        let asker = self.asker();
        wait::until("guests that are named find it", super::shop::SOON, || async {
            asker.found(&full(OPENED[0])).await.map(|_| true)
        })
        .await
    }

    /// With the object's end there is no such name, and no answer.
    pub(crate) async fn closes_with_its_object(&self) -> Result<()> {
        let known: IpAddr = self.asker().found(&full(OPENED[0])).await?.parse()?;
        ensure!(self.connects(known).await?, "nothing answers at {known}");
        let delete = ["-n", DATA, "delete", "namespaceoffload", "default"];
        self.home.kubectl(&delete).await?.ok()?;
        self.closes(Some(known)).await?;
        self.home.kubectl(&["delete", "namespace", DATA, "--wait=false"]).await?.ok()?;
        self.asker.kubectl(&["delete", "pod", ASKER, "--grace-period=0", "--force"]).await?;
        wait::until("nothing of it is left over there", super::shop::SOON, || async {
            let left = self.there("services").await?;
            ensure!(left.is_empty(), "there is {left}");
            Ok(true)
        })
        .await
    }

    /// Waits, no longer than it may take, until there is no such name and nobody answers where it was.
    async fn closes(&self, known: Option<IpAddr>) -> Result<()> {
        let (asker, began) = (self.asker(), Instant::now());
        wait::until("it is closed", AT_ONCE, || async {
            asker.finds_none(&full(OPENED[0])).await.map(|()| true)
        })
        .await?;
        if let Some(known) = known {
            ensure!(!self.connects(known).await?, "{known} answers");
        }
        println!("closed after {:?}", began.elapsed());
        Ok(())
    }

    /// Whether a connection of the guest begins there.
    async fn connects(&self, to: IpAddr) -> Result<bool> {
        let connect = format!("busybox nc -w 1 {to} {PORT} < /dev/null && echo connected; true");
        let exec = ["exec", ASKER, "--", "busybox", "sh", "-c", &connect];
        Ok(self.asker.kubectl(&exec).await?.contains("connected"))
    }

    async fn is_closed(&self) -> Result<()> {
        for name in OPENED.into_iter().chain([UNOPENED]) {
            self.asker().finds_none(&full(name)).await?;
        }
        Ok(())
    }

    async fn answers(&self, at: IpAddr) -> Result<()> {
        let from = Sender::Pod(self.asker, ASKER);
        let tcp = from.tcp(at, BYTES, MARKER).await?;
        ensure!(tcp == Carried { there: BYTES, back: BYTES, ..tcp }, "by TCP {tcp:?}");
        let udp = from.udp(at, DATAGRAMS, MARKER).await?;
        ensure!(udp == Carried { there: DATAGRAMS, back: DATAGRAMS, ..udp }, "by UDP {udp:?}");
        Ok(())
    }

    async fn says(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        let words =
            ["-n", DATA, "patch", "namespaceoffload", "default", "--type=merge", "-p", &patch];
        self.home.kubectl(&words).await?.ok().map(drop)
    }

    /// What of a kind stands for it over there.
    async fn there(&self, kind: &str) -> Result<String> {
        let get = ["-n", GUESTS, "get", kind, "-l", "mercato.dev/contract", "-o", "name"];
        self.provider.kubectl(&get).await?.ok()
    }

    fn asker(&self) -> Asker<'a> {
        Asker { user: self.asker, pod: ASKER }
    }
}

fn full(name: &str) -> String {
    format!("{name}.{DATA}.svc.rome.example.")
}

/// All of them lead to the one pod.
fn service(name: &str) -> Value {
    let port = |protocol: &str| json!({ "name": protocol.to_lowercase(), "protocol": protocol, "port": PORT });
    let mut spec = json!({ "selector": { "run": "db" }, "ports": [port("TCP"), port("UDP")] });
    if name == OPENED[1] {
        spec["clusterIP"] = "None".into();
    }
    json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": DATA }, "spec": spec })
}
