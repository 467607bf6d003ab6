//! What a person does to pods with kubectl, and what then has to be seen: the same on a
//! node of the cluster's own and on one that stands for another cluster.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::cluster::{Cluster, Output};
use crate::courier;
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(60);

/// Somebody with pods in one namespace.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    /// Where the pods are put; none: where the scheduler puts them.
    node: Option<&'a str>,
}

impl<'a> User<'a> {
    /// A user of this namespace, which is there.
    #[must_use]
    pub fn new(cluster: &'a Cluster, namespace: &'a str) -> Self {
        Self { cluster, namespace, node: None }
    }

    /// The same, with pods on this node.
    #[must_use]
    pub fn on(self, node: &'a str) -> Self {
        Self { node: Some(node), ..self }
    }

    /// Runs kubectl in the namespace.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.output(args).await?.ok()
    }

    /// Runs kubectl in the namespace; its own failure is in the answer.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn output(&self, args: &[&str]) -> Result<Output> {
        self.cluster.kubectl(&[&["-n", self.namespace], args].concat()).await
    }

    /// Makes a pod of busybox that runs a script, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready within a minute.
    pub async fn run(&self, name: &str, script: &str) -> Result<()> {
        self.start(name, script, &[]).await?;
        let pod = format!("pod/{name}");
        self.kubectl(&["wait", &pod, "--for=condition=Ready", "--timeout=120s"]).await?;
        Ok(())
    }

    /// Waits until a pod's status is as it should be: its phase, reason and message.
    ///
    /// # Errors
    /// When it is not within a minute, with how it is.
    pub async fn sees(&self, pod: &str, status: &str) -> Result<()> {
        let fields = "jsonpath={.status.phase} {.status.reason} {.status.message}";
        wait::until(&format!("{pod} is {status}"), PATIENCE, || async {
            let is = self.kubectl(&["get", "pod", pod, "-o", fields]).await?;
            ensure!(is.starts_with(status), "it is {is}");
            Ok(true)
        })
        .await
    }

    /// Makes a pod of busybox that runs a script, with more flags of `kubectl run`.
    ///
    /// # Errors
    /// When kubectl refuses.
    pub async fn start(&self, name: &str, script: &str, flags: &[&str]) -> Result<()> {
        let there =
            self.node.map(|node| format!("--overrides={{\"spec\":{{\"nodeName\":\"{node}\"}}}}"));
        let there: Vec<&str> = there.as_deref().into_iter().collect();
        let run = ["run", name, "--image=mercato.test/busybox:1"];
        let script = ["--command", "--", "sh", "-c", script];
        self.kubectl(&[&run, flags, &there, &script].concat()).await?;
        Ok(())
    }

    /// Makes a pod of this spec, on this user's node.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn makes(&self, name: &str, spec: &Value) -> Result<()> {
        let mut spec = spec.clone();
        if let Some(node) = self.node {
            spec["nodeName"] = node.into();
        }
        let metadata = json!({ "name": name, "namespace": self.namespace });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        self.cluster.apply(&pod.to_string()).await
    }

    /// Makes a pod of the bed's courier, which serves, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready within two minutes.
    pub async fn serves(&self, name: &str) -> Result<()> {
        // The courier is the first process of its pod, which ends by no other signal.
        let mut spec = json!({ "terminationGracePeriodSeconds": 0 });
        if let Some(node) = self.node {
            spec["nodeName"] = node.into();
        }
        let overrides = format!("--overrides={}", json!({ "spec": spec }));
        let image = format!("--image={}", courier::IMAGE);
        self.kubectl(&["run", name, &image, &overrides]).await?;
        let pod = format!("pod/{name}");
        self.kubectl(&["wait", &pod, "--for=condition=Ready", "--timeout=120s"]).await?;
        Ok(())
    }

    /// The address that a pod shows, once it shows one.
    ///
    /// # Errors
    /// When it shows none within a minute.
    pub async fn address_of(&self, pod: &str) -> Result<IpAddr> {
        let get = ["get", "pod", pod, "-o", "jsonpath={.status.podIP}"];
        wait::until(&format!("{pod} shows an address"), PATIENCE, || async {
            Ok(!self.kubectl(&get).await?.is_empty())
        })
        .await?;
        let address = self.kubectl(&get).await?;
        address.parse().with_context(|| format!("{pod} shows {address:?}"))
    }

    /// The addresses that a pod shows, once it shows one of each family; that of `status.podIP` is the
    /// first.
    ///
    /// # Errors
    /// When it shows others within a minute, or in another order.
    pub async fn addresses_of(&self, pod: &str) -> Result<[IpAddr; 2]> {
        let get = ["get", "pod", pod, "-o", "jsonpath={.status.podIP} {.status.podIPs[*].ip}"];
        let what = format!("{pod} shows an address of each family");
        wait::until(&what, PATIENCE, || async {
            let said = self.kubectl(&get).await?;
            ensure!(said.split_whitespace().count() == 3, "it shows {said:?}");
            Ok(true)
        })
        .await?;
        let said = self.kubectl(&get).await?;
        let all = said.split_whitespace().map(str::parse).collect::<Result<Vec<IpAddr>, _>>();
        match all.with_context(|| format!("{pod} shows {said:?}"))?[..] {
            [alone, first, second] if alone == first && first.is_ipv4() && second.is_ipv6() => {
                Ok([first, second])
            }
            _ => bail!("{pod} shows {said:?}"),
        }
    }

    /// What a pod answers through its cluster's API server, as anybody may ask who has the
    /// rights.
    ///
    /// # Errors
    /// When kubectl fails, with what it said.
    pub async fn proxied(&self, pod: &str, port: u16, path: &str) -> Result<String> {
        let of = format!("/api/v1/namespaces/{}/pods/{pod}:{port}/proxy/{path}", self.namespace);
        self.cluster.kubectl(&["get", "--raw", &of]).await?.ok()
    }

    /// What a pod says is followed as it is said.
    ///
    /// # Errors
    /// When something else is seen.
    pub async fn follows_logs(&self) -> Result<()> {
        let script =
            "echo first; until [ -e /tmp/go ]; do sleep 0.1; done; echo second; sleep 3600";
        self.run("talker", script).await?;
        let (_follow, mut lines) = self.piped(&["logs", "-f", "talker"])?;
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
        ensure!(first.as_deref() == Some("first"), "{first:?}");
        // Said only now, so what comes next was followed.
        self.kubectl(&["exec", "talker", "--", "touch", "/tmp/go"]).await?;
        let second = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
        ensure!(second.as_deref() == Some("second"), "{second:?}");
        Ok(())
    }

    /// A command in a pod has an exit code, an input, and a terminal of the right size.
    ///
    /// # Errors
    /// When something else is seen.
    pub async fn executes(&self) -> Result<()> {
        self.run("shell", "sleep 3600").await?;
        let exec = ["-n", self.namespace, "exec"];
        let coded = [&exec[..], &["shell", "--", "sh", "-c", "exit 7"]].concat();
        let coded = self.cluster.kubectl(&coded).await?;
        ensure!(coded.code == Some(7), "{coded:?}");
        let input = [&exec[..], &["-i", "shell", "--", "tr", "a-z", "A-Z"]].concat();
        let shouted = self.cluster.kubectl_with_input(&input, "quiet").await?.ok()?;
        ensure!(shouted == "QUIET", "{shouted}");
        // The size follows the start of the command, so that it may not be there at once.
        let size = "until stty size 2>/dev/null; do sleep 0.1; done";
        let on_terminal = format!(
            "stty cols 101 rows 33; kubectl -n {} exec -it shell -- sh -c '{size}'",
            self.namespace
        );
        wait::until("the terminal's size is seen in the pod", PATIENCE, || async {
            let mut terminal = self
                .cluster
                .command("script")?
                .args(["--quiet", "--return", "--command", &on_terminal, "/dev/null"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            // Held open: a terminal whose input ends hangs up.
            let input = terminal.stdin.take();
            let output = tokio::time::timeout(PATIENCE, terminal.wait_with_output()).await??;
            drop(input);
            let said = String::from_utf8_lossy(&output.stdout);
            ensure!(said.contains("33 101"), "the terminal's size is {said:?}, {}", output.status);
            Ok(true)
        })
        .await
    }

    /// Who attaches to a pod is heard and hears.
    ///
    /// # Errors
    /// When something else is seen.
    pub async fn attaches(&self) -> Result<()> {
        let script = "while read -r line; do echo \"heard $line\"; done";
        self.start("listener", script, &["--stdin", "--attach=false"]).await?;
        self.kubectl(&["wait", "pod/listener", "--for=condition=Ready", "--timeout=120s"]).await?;
        let mut attach = self
            .cluster
            .command("kubectl")?
            .args(["-n", self.namespace, "attach", "-i", "listener"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(attach.stdout.take().context("piped above")?).lines();
        attach.stdin.as_mut().context("piped above")?.write_all(b"me\n").await?;
        let heard = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
        ensure!(heard.as_deref() == Some("heard me"), "{heard:?}");
        Ok(())
    }

    /// A file is the same after it went into a pod and back.
    ///
    /// # Errors
    /// When it differs.
    pub async fn copies(&self) -> Result<()> {
        self.run("files", "sleep 3600").await?;
        let dir = tempfile::tempdir()?;
        let (there, back) = (dir.path().join("there"), dir.path().join("back"));
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| ((n ^ (n >> 7)) & 0xff) as u8).collect();
        std::fs::write(&there, &bytes)?;
        self.kubectl(&["cp", &there.to_string_lossy(), "files:/tmp/copy"]).await?;
        self.kubectl(&["cp", "files:/tmp/copy", &back.to_string_lossy()]).await?;
        ensure!(std::fs::read(&back)? == bytes, "the copy differs");
        Ok(())
    }

    /// A server in a pod answers through a forwarded port.
    ///
    /// # Errors
    /// When it does not.
    pub async fn forwards_a_port(&self) -> Result<()> {
        let script = "mkdir /w; echo forwarded > /w/index.html; exec httpd -f -p 8080 -h /w";
        self.run("server", script).await?;
        let (_forward, mut lines) = self.piped(&["port-forward", "server", ":8080"])?;
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await??.unwrap_or_default();
        // Forwarding from 127.0.0.1:40123 -> 8080
        let local = line.split(' ').find(|word| word.starts_with("127.0.0.1:"));
        let local = local.with_context(|| format!("kubectl said {line:?}"))?.replace(':', " ");
        // It listens on the loopback of the cluster's machine, not on this test's.
        let fetch = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc {local}");
        wait::until("the server answers", PATIENCE, || async {
            let answer =
                self.cluster.command("busybox")?.args(["sh", "-c", &fetch]).output().await?;
            let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
            ensure!(answer.contains("200 OK") && answer.contains("forwarded"), "{answer:?}");
            Ok(true)
        })
        .await
    }

    /// kubectl, and the lines that it prints; it ends with its handle.
    fn piped(&self, args: &[&str]) -> Result<(Child, Lines<BufReader<ChildStdout>>)> {
        let mut child = self
            .cluster
            .command("kubectl")?
            .args(["-n", self.namespace])
            .args(args)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("piped above")?).lines();
        Ok((child, lines))
    }
}
