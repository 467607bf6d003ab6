//! People at a desk ask rome's daemon in its pod, each by what the cluster knows them by: a token, a
//! client certificate, a program. Who may look may not buy, and who may do nothing is told what to ask
//! for.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mercato_tests::cluster::{Cluster, Output};
use mercato_tests::wait;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

const PATIENCE: Duration = Duration::from_secs(60);
const REFUSED: i32 = 4;
const ORDER: [&str; 9] =
    ["order", "--from", "turin", "--cpu", "100m", "--memory", "64Mi", "--for", "1h"];

/// The desk, with a kubeconfig for each person.
pub(crate) struct Desk<'a> {
    rome: &'a Cluster,
    program: &'a Path,
    dir: TempDir,
}

impl<'a> Desk<'a> {
    /// A desk from which rome's API server is reached.
    pub(crate) fn at(rome: &'a Cluster, program: &'a Path) -> Result<Self> {
        Ok(Self { rome, program, dir: tempfile::tempdir()? })
    }

    /// Everybody does what they may, and nothing else. Nothing is left of them afterwards.
    pub(crate) async fn asks(&self) -> Result<()> {
        let looker = self.by_token("looker").await?;
        let trader = self.by_certificate("trader").await.context("a certificate")?;
        let plugin = self.by_program("trader-by-program").await?;
        self.may_nothing_yet(&looker).await?;
        self.let_in(&["looker", "trader-by-program"], &["trader"]).await?;
        self.looks(&looker).await.context("by a token")?;
        self.is_shown(&looker, "/market", "turin").await.context("the page, by a token")?;
        self.looks(&trader).await.context("by a certificate")?;
        self.looks(&plugin).await.context("by a program")?;
        self.trades(&trader).await.context("by a certificate")?;
        self.asks_as_plugin(&plugin).await.context("kubectl mercato")?;
        self.loses_its_right(&looker).await?;
        self.forgets().await
    }

    /// An account of the cluster, by a token of it.
    async fn by_token(&self, name: &str) -> Result<PathBuf> {
        let token = self.token(name).await?;
        self.kubeconfig(name, &json!({ "token": token })).await
    }

    /// An account whose token a program gives.
    async fn by_program(&self, name: &str) -> Result<PathBuf> {
        let token = self.token(name).await?;
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": { "token": token, "expirationTimestamp": "2100-01-01T00:00:00Z" },
        });
        let file = self.dir.path().join("credential.json");
        std::fs::write(&file, credential.to_string())?;
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "cat", "args": [file],
        });
        self.kubeconfig(name, &json!({ "exec": exec })).await
    }

    async fn token(&self, name: &str) -> Result<String> {
        self.rome.kubectl(&["-n", "shop", "create", "serviceaccount", name]).await?.ok()?;
        let token = ["-n", "shop", "create", "token", name, "--duration", "1h"];
        Ok(self.rome.kubectl(&token).await?.ok()?.trim().to_owned())
    }

    /// A person whose certificate the cluster's own signer of clients has made.
    async fn by_certificate(&self, name: &str) -> Result<PathBuf> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let request = params.serialize_request(&key)?.pem()?;
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": { "name": name },
            "spec": {
                "request": BASE64.encode(request), "usages": ["client auth"],
                "signerName": "kubernetes.io/kube-apiserver-client",
            },
        });
        self.rome.apply(&object.to_string()).await?;
        self.rome.kubectl(&["certificate", "approve", name]).await?.ok()?;
        let get = ["get", "csr", name, "-o", "jsonpath={.status.certificate}"];
        wait::until("the certificate is made", PATIENCE, || async {
            Ok(!self.rome.kubectl(&get).await?.ok()?.is_empty())
        })
        .await?;
        let certificate = self.rome.kubectl(&get).await?.ok()?;
        let key = BASE64.encode(key.serialize_pem());
        let user = json!({ "client-certificate-data": certificate, "client-key-data": key });
        self.kubeconfig(name, &user).await
    }

    /// The administrator's, with another user.
    async fn kubeconfig(&self, name: &str, user: &Value) -> Result<PathBuf> {
        let view = ["config", "view", "--raw", "--minify", "--flatten", "-o", "json"];
        let mut config: Value = serde_json::from_str(&self.rome.kubectl(&view).await?.ok()?)?;
        let first = config.pointer_mut("/users/0/user").context("the administrator")?;
        *first = user.clone();
        let file = self.dir.path().join(name);
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    async fn let_in(&self, accounts: &[&str], people: &[&str]) -> Result<()> {
        for name in accounts {
            self.bind(name, &format!("--serviceaccount=shop:{name}")).await?;
        }
        for name in people {
            self.bind(name, &format!("--user={name}")).await?;
        }
        Ok(())
    }

    async fn bind(&self, name: &str, subject: &str) -> Result<()> {
        let connects = ["-n", "mercato", "create", "rolebinding", name, subject];
        let connects = [&connects[..], &["--role=mercato-connect"]].concat();
        self.rome.kubectl(&connects).await?.ok()?;
        let role = if name.starts_with("trader") { "trader" } else { "viewer" };
        let role = format!("--clusterrole=mercato-{role}");
        let may = ["create", "clusterrolebinding", name, subject, &role];
        self.rome.kubectl(&may).await?.ok().map(drop)
    }

    /// Runs the program as this person.
    async fn mercato(&self, person: &Path, args: &[&str]) -> Result<Output> {
        let person = person.to_string_lossy();
        self.rome.run(self.program, &[&["--kubeconfig", &*person], args].concat(), "").await
    }

    async fn is_refused(&self, person: &Path, args: &[&str], words: &str) -> Result<()> {
        let said = self.mercato(person, args).await?;
        ensure!(said.code == Some(REFUSED) && said.stderr.contains(words), "{said:?}");
        Ok(())
    }

    async fn may_nothing_yet(&self, person: &Path) -> Result<()> {
        self.is_refused(person, &["status"], "mercato-connect").await?;
        self.is_shown(person, "/leases", "mercato-connect")
            .await
            .context("the page, without a role")
    }

    /// The page that this person serves to themselves has these words on the screen at this address.
    async fn is_shown(&self, person: &Path, path: &str, words: &str) -> Result<()> {
        let mut page = self.rome.command(self.program)?;
        page.arg("--kubeconfig").arg(person).arg("page").stdout(Stdio::piped()).kill_on_drop(true);
        let mut page = page.spawn()?;
        let mut line = String::new();
        let mut output = BufReader::new(page.stdout.take().context("it says nothing")?);
        output.read_line(&mut line).await?;
        let (site, token) = line.trim().split_once("/#").with_context(|| line.clone())?;
        let (header, url) = (format!("Mercato-Token: {token}"), format!("{site}{path}"));
        let wget = ["wget", "-q", "-O", "-", "--header", &header, &url];
        let said = self.rome.run(Path::new("/bin/busybox"), &wget, "").await?.ok()?;
        ensure!(said.contains(words), "{path} does not say {words}: {said}");
        page.kill().await.context("end the page")
    }

    async fn looks(&self, person: &Path) -> Result<()> {
        let market = self.mercato(person, &["browse", "-o", "json"]).await?.ok()?;
        let market: Value = serde_json::from_str(&market)?;
        let offers = market["offers"].as_array().context("a list of offers")?;
        ensure!(offers.iter().any(|offer| offer["name"] == "turin"), "{market}");
        let events = self.mercato(person, &["events", "-w", "--timeout", "3s"]).await?.ok()?;
        ensure!(events.contains("has started"), "{events}");
        // Another check may fail, which is the exit code.
        let found = self.mercato(person, &["doctor", "-o", "json"]).await?;
        let found: Value = serde_json::from_str(&found.stdout)?;
        let is_desk = |finding: &&Value| finding["check"] == "desk" && finding["verdict"] == "ok";
        ensure!(found.as_array().is_some_and(|all| all.iter().any(|one| is_desk(&one))), "{found}");
        self.is_refused(person, &["share", "stop", "--yes"], "mercato-owner").await?;
        self.is_refused(person, &["export", "/nowhere/state"], "create exports").await
    }

    async fn trades(&self, person: &Path) -> Result<()> {
        let id = self.mercato(person, &[&ORDER[..], &["-o", "json"]].concat()).await?.ok()?;
        let id: Value = serde_json::from_str(&id)?;
        let id = id["id"].as_str().context("an id")?;
        let cancel = ["contracts", "cancel", id, "--reason", "seen", "--yes"];
        self.mercato(person, &cancel).await?.ok().map(drop)
    }

    /// By the name by which kubectl finds it, in the cluster that kubectl would ask.
    async fn asks_as_plugin(&self, person: &Path) -> Result<()> {
        let bin = self.dir.path().join("bin");
        std::fs::create_dir(&bin)?;
        std::os::unix::fs::symlink(self.program, bin.join("kubectl-mercato"))?;
        let kubectl = self.rome.program_path("kubectl");
        let mut asked = self.rome.command(&kubectl)?;
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = [bin].into_iter().chain(std::env::split_paths(&paths));
        // No socket of another daemon of this machine is found there.
        asked.env("PATH", std::env::join_paths(paths)?).env("KUBECONFIG", person);
        asked.args(["mercato", "status", "-o", "json", "--timeout", "30s"]);
        let said = Output::from(asked.output().await?).ok()?;
        let status: Value = serde_json::from_str(&said)?;
        ensure!(status["daemon"]["name"] == "rome", "{status}");
        Ok(())
    }

    /// Who may look may not buy; and may not look any longer once that right is taken.
    async fn loses_its_right(&self, looker: &Path) -> Result<()> {
        let words = "user \"system:serviceaccount:shop:looker\" may not create orders.mercato.dev";
        self.is_refused(looker, &ORDER, words).await?;
        self.is_refused(looker, &ORDER, "--serviceaccount shop:looker").await?;
        self.rome.kubectl(&["delete", "clusterrolebinding", "looker"]).await?.ok()?;
        wait::until("the right to look is gone", PATIENCE, || async {
            self.is_refused(looker, &["status"], "may not get daemons").await.map(|()| true)
        })
        .await?;
        // What was allowed is believed for a moment.
        wait::until("the page says so as well", PATIENCE, || async {
            self.is_shown(looker, "/leases", "mercato-viewer").await.map(|()| true)
        })
        .await
    }

    async fn forgets(&self) -> Result<()> {
        let bindings = ["delete", "clusterrolebinding", "trader", "trader-by-program"];
        self.rome.kubectl(&bindings).await?.ok()?;
        let all = ["looker", "trader", "trader-by-program"];
        self.rome
            .kubectl(&[&["-n", "mercato", "delete", "rolebinding"], &all[..]].concat())
            .await?
            .ok()?;
        let accounts = ["-n", "shop", "delete", "serviceaccount", "looker", "trader-by-program"];
        self.rome.kubectl(&accounts).await?.ok()?;
        self.rome.kubectl(&["delete", "csr", "trader"]).await?.ok().map(drop)
    }
}
