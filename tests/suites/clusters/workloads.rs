//! Pods, services and kubectl on real nodes.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::suite::Stage;
use mercato_tests::user::User;
use mercato_tests::wait;

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
    let wait = ["-n", namespace, "rollout", "status", "deploy/web", "--timeout=180s"];
    cluster.kubectl(&wait).await?.ok()?;
    let ready = ["-n", namespace, "wait", "pod/client", "--for=condition=Ready", "--timeout=180s"];
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
    let toolchain = stage.toolchain.dir().display();
    rome.apply(&format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: whoami}}
spec:
  restartPolicy: Never
  volumes: [{{name: toolchain, hostPath: {{path: '{toolchain}'}}}}]
  containers:
  - name: kubectl
    image: mercato.test/busybox:1
    command: [/toolchain/kubernetes, kubectl, auth, whoami, -o, 'jsonpath={{.status.userInfo.username}}']
    volumeMounts: [{{name: toolchain, mountPath: /toolchain, readOnly: true}}]
"
    ))
    .await?;
    let done = ["wait", "pod/whoami", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=180s"];
    rome.kubectl(&done).await?.ok()?;
    let who = rome.kubectl(&["logs", "whoami"]).await?.ok()?;
    ensure!(who == "system:serviceaccount:default:default", "the pod is {who}");
    Ok(())
}

/// Where kubectl's streams are tried: a node beside the API server, in a cluster whose
/// ranges another has, and a second node.
const NODES: [(&str, &str); 2] = [("turin", "turin-1"), ("rome", "rome-2")];

pub(crate) async fn logs(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        User::new(stage.cluster(cluster), "default").on(node).follows_logs().await?;
    }
    Ok(())
}

pub(crate) async fn exec(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        User::new(stage.cluster(cluster), "default").on(node).executes().await?;
    }
    Ok(())
}

pub(crate) async fn attach(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        User::new(stage.cluster(cluster), "default").on(node).attaches().await?;
    }
    Ok(())
}

pub(crate) async fn copy(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        User::new(stage.cluster(cluster), "default").on(node).copies().await?;
    }
    Ok(())
}

pub(crate) async fn port_forward(stage: &Stage) -> Result<()> {
    for (cluster, node) in NODES {
        User::new(stage.cluster(cluster), "default").on(node).forwards_a_port().await?;
    }
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
    User::new(siena, "default").run("verified", "echo seen; sleep 3600").await?;
    let seen = siena.kubectl(&["logs", "verified"]).await?.ok()?;
    ensure!(seen == "seen\n", "{seen:?}");
    let signers = "jsonpath={.items[*].spec.signerName}";
    let asked = siena.kubectl(&["get", "csr", "-o", signers]).await?.ok()?;
    ensure!(asked.contains("kubernetes.io/kubelet-serving"), "requests: {asked:?}");
    Ok(())
}
