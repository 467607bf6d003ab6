//! Pods, services and kubectl on real nodes.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use tokio::io::{AsyncBufReadExt, BufReader};

const PATIENCE: Duration = Duration::from_secs(60);

/// A web server of two replicas on different nodes where there are two, its
/// service, and a client; in a namespace of the test's own.
fn web(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
          labelSelector: {{matchLabels: {{app: web}}}}}}
      containers:
      - {{name: web, image: 'mercato.test/agnhost:1', args: [netexec, --http-port=8080]}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {namespace}}}
spec:
  selector: {{app: web}}
  ipFamilyPolicy: PreferDualStack
  ports: [{{port: 80, targetPort: 8080}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: client, namespace: {namespace}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: client, image: 'mercato.test/agnhost:1', args: [pause]}}
"
    )
}

/// Applies [`web`] and waits until all of it runs.
async fn serve(cluster: &Cluster, namespace: &str) -> Result<()> {
    cluster.apply(&web(namespace)).await?;
    let wait = ["-n", namespace, "rollout", "status", "deploy/web", "--timeout=60s"];
    cluster.kubectl(&wait).await?.ok()?;
    let ready = ["-n", namespace, "wait", "pod/client", "--for=condition=Ready", "--timeout=60s"];
    cluster.kubectl(&ready).await?.ok()?;
    Ok(())
}

async fn connect(cluster: &Cluster, namespace: &str, to: &str) -> Result<()> {
    wait::until(&format!("{to} is reached from a pod"), PATIENCE, || async {
        let connect = ["-n", namespace, "exec", "client", "--", "/agnhost", "connect", to];
        cluster.kubectl(&connect).await?.ok()?;
        Ok(true)
    })
    .await
}

pub(crate) async fn service(stage: &Stage) -> Result<()> {
    let rome = stage.cluster("rome");
    serve(rome, "default").await?;
    connect(rome, "default", "web.default.svc.cluster.local:80").await?;

    // Each replica by its own address, so across nodes as well.
    let ask = ["get", "pods", "-l", "app=web", "-o"];
    let ask = |what| [&ask[..], &[what]].concat();
    let addresses = ask("jsonpath={.items[*].status.podIP}");
    for address in rome.kubectl(&addresses).await?.ok()?.split_whitespace() {
        connect(rome, "default", &format!("{address}:8080")).await?;
    }
    let nodes = rome.kubectl(&ask("jsonpath={.items[*].spec.nodeName}")).await?.ok()?;
    let mut nodes: Vec<_> = nodes.split_whitespace().collect();
    nodes.sort_unstable();
    ensure!(nodes == ["rome-1", "rome-2"], "the replicas are on {nodes:?}");
    Ok(())
}

pub(crate) async fn same_ranges(stage: &Stage) -> Result<()> {
    for name in ["rome", "turin"] {
        let cluster = stage.cluster(name);
        serve(cluster, "same").await?;
        connect(cluster, "same", "web.same.svc.cluster.local:80").await?;
    }
    // A name that only one of them has.
    let turin = stage.cluster("turin");
    turin
        .kubectl(&["-n", "same", "expose", "deploy/web", "--name=only", "--port=8080"])
        .await?
        .ok()?;
    connect(turin, "same", "only.same.svc.cluster.local:8080").await?;
    let lookup = ["-n", "same", "exec", "client", "--", "nslookup", "only.same.svc.cluster.local"];
    let found = stage.cluster("rome").kubectl(&lookup).await?;
    ensure!(found.code != Some(0), "Rome resolved Turin's service: {}", found.stdout);
    Ok(())
}

pub(crate) async fn own_api_server(stage: &Stage) -> Result<()> {
    let rome = stage.cluster("rome");
    let kit = stage.kit.dir().display();
    rome.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: whoami}}
spec:
  restartPolicy: Never
  volumes: [{{name: kit, hostPath: {{path: '{kit}'}}}}]
  containers:
  - name: kubectl
    image: mercato.test/busybox:1
    command: [/kit/kubernetes, kubectl, auth, whoami, -o, 'jsonpath={{.status.userInfo.username}}']
    volumeMounts: [{{name: kit, mountPath: /kit, readOnly: true}}]
"
    ))
    .await?;
    let done = ["wait", "pod/whoami", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"];
    rome.kubectl(&done).await?.ok()?;
    let who = rome.kubectl(&["logs", "whoami"]).await?.ok()?;
    ensure!(who == "system:serviceaccount:default:default", "the pod is {who}");
    Ok(())
}

/// Where kubectl's streams are tried: a node beside the API server, in a cluster whose
/// ranges another has, and a second node.
const NODES: [(&str, &str); 2] = [("turin", "turin-1"), ("rome", "rome-2")];

/// A pod of busybox on a node that runs a script.
async fn busybox(cluster: &Cluster, node: &str, name: &str, script: &str) -> Result<()> {
    let there = format!("--overrides={{\"spec\":{{\"nodeName\":\"{node}\"}}}}");
    let run = ["run", name, "--image=mercato.test/busybox:1", &there, "--command", "--"];
    cluster.kubectl(&[&run[..], &["sh", "-c", script]].concat()).await?.ok()?;
    let pod = format!("pod/{name}");
    let ready = ["wait", &pod, "--for=condition=Ready", "--timeout=60s"];
    cluster.kubectl(&ready).await?.ok()?;
    Ok(())
}

pub(crate) async fn logs(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        logs_on(stage.cluster(cluster), node).await?;
    }
    Ok(())
}

async fn logs_on(cluster: &Cluster, node: &str) -> Result<()> {
    let script = "echo first; until [ -e /tmp/go ]; do sleep 0.1; done; echo second; sleep 3600";
    busybox(cluster, node, "talker", script).await?;
    let mut follow = cluster
        .command("kubectl")?
        .args(["logs", "-f", "talker"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(follow.stdout.take().context("piped above")?).lines();
    let first = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
    ensure!(first.as_deref() == Some("first"), "{first:?}");
    // Said only now, so what comes next was followed.
    cluster.kubectl(&["exec", "talker", "--", "touch", "/tmp/go"]).await?.ok()?;
    let second = tokio::time::timeout(PATIENCE, lines.next_line()).await??;
    ensure!(second.as_deref() == Some("second"), "{second:?}");
    Ok(())
}

pub(crate) async fn exec(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        exec_on(stage.cluster(cluster), node).await?;
    }
    Ok(())
}

async fn exec_on(cluster: &Cluster, node: &str) -> Result<()> {
    busybox(cluster, node, "shell", "sleep 3600").await?;
    let coded = cluster.kubectl(&["exec", "shell", "--", "sh", "-c", "exit 7"]).await?;
    ensure!(coded.code == Some(7), "{coded:?}");
    let input = ["exec", "-i", "shell", "--", "tr", "a-z", "A-Z"];
    let shouted = cluster.kubectl_with_input(&input, "quiet").await?.ok()?;
    ensure!(shouted == "QUIET", "{shouted}");
    // The size follows the start of the command, so that it may not be there at once.
    let size = "until stty size 2>/dev/null; do sleep 0.1; done";
    let on_terminal = format!("stty cols 101 rows 33; kubectl exec -it shell -- sh -c '{size}'");
    wait::until("the terminal's size is seen in the pod", PATIENCE, || async {
        let mut terminal = cluster
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
    .await?;
    Ok(())
}

pub(crate) async fn copy(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        copy_on(stage.cluster(cluster), node).await?;
    }
    Ok(())
}

async fn copy_on(cluster: &Cluster, node: &str) -> Result<()> {
    busybox(cluster, node, "files", "sleep 3600").await?;
    let dir = tempfile::tempdir()?;
    let (there, back) = (dir.path().join("there"), dir.path().join("back"));
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| ((n ^ (n >> 7)) & 0xff) as u8).collect();
    std::fs::write(&there, &bytes)?;
    cluster.kubectl(&["cp", &there.to_string_lossy(), "files:/tmp/copy"]).await?.ok()?;
    cluster.kubectl(&["cp", "files:/tmp/copy", &back.to_string_lossy()]).await?.ok()?;
    ensure!(std::fs::read(&back)? == bytes, "the copy differs");
    Ok(())
}

pub(crate) async fn port_forward(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        port_forward_on(stage.cluster(cluster), node).await?;
    }
    Ok(())
}

async fn port_forward_on(cluster: &Cluster, node: &str) -> Result<()> {
    serve(cluster, "forward").await?;
    let on_node = format!("--field-selector=spec.nodeName={node}");
    let name = ["-n", "forward", "get", "pods", "-l", "app=web", &on_node, "-o", "name"];
    let pods = cluster.kubectl(&name).await?.ok()?;
    let pod = pods.lines().next().with_context(|| format!("no replica on {node}"))?;
    let mut forward = cluster
        .command("kubectl")?
        .args(["-n", "forward", "port-forward", pod, ":8080"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(forward.stdout.take().context("piped above")?).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await??.unwrap_or_default();
    // Forwarding from 127.0.0.1:40123 -> 8080
    let local = line.split(' ').find(|word| word.starts_with("127.0.0.1:"));
    let local = local.with_context(|| format!("kubectl said {line:?}"))?.to_owned();
    // It listens on the loopback of the cluster's machine, not on this test's.
    let fetch =
        format!("printf 'GET /hostname HTTP/1.0\\r\\n\\r\\n' | nc {}", local.replace(':', " "));
    let answer = cluster.command("busybox")?.args(["sh", "-c", &fetch]).output().await?;
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    ensure!(answer.contains("200 OK") && answer.contains("web-"), "answer {answer:?}");
    Ok(())
}

pub(crate) async fn dual_stack(stage: &Stage) -> Result<()> {
    let siena = stage.cluster("siena");
    serve(siena, "both").await?;
    let ask = |what, path| ["-n", "both", "get", what, "-o", path];
    let pods = ask("pod/client", "jsonpath={.status.podIPs[*].ip}");
    let addresses = siena.kubectl(&pods).await?.ok()?;
    ensure!(addresses.split_whitespace().count() == 2, "the pod has {addresses}");
    let service = siena.kubectl(&ask("svc/web", "jsonpath={.spec.clusterIPs[*]}")).await?.ok()?;
    ensure!(service.contains(':') && service.contains('.'), "the service has {service}");
    for address in service.split_whitespace() {
        let to = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        connect(siena, "both", &format!("{to}:80")).await?;
    }
    Ok(())
}

pub(crate) async fn verified(stage: &Stage) -> Result<()> {
    let siena = stage.cluster("siena");
    busybox(siena, "siena-1", "verified", "echo seen; sleep 3600").await?;
    let seen = siena.kubectl(&["logs", "verified"]).await?.ok()?;
    ensure!(seen == "seen\n", "{seen:?}");
    let signers = "jsonpath={.items[*].spec.signerName}";
    let asked = siena.kubectl(&["get", "csr", "-o", signers]).await?.ok()?;
    ensure!(asked.contains("kubernetes.io/kubelet-serving"), "requests: {asked:?}");
    Ok(())
}
