//! What happens to the pods of an offloaded namespace: what would happen to them at home.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::sample_app;
use mercato_tests::user::User;
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(60);
const NODE: &str = "mercato-turin";
/// Of rome's `shop`, in turin.
const GUESTS: &str = "shop-rome";

pub(crate) async fn deployment(rome: &Cluster, turin: &Cluster) -> Result<()> {
    sample_app::opens(rome, NODE).await?;
    let there = "jsonpath={.items[*].status.phase}";
    let there = User::new(turin, GUESTS).kubectl(&["get", "pods", "-o", there]).await?;
    ensure!(there == "Running Running", "over there they are {there}");
    Ok(())
}

/// What the kubelet over there says of pods is read at home, as any kubelet's.
pub(crate) async fn told_of(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    let line = "{.reason} {.involvedObject.fieldPath} {.source.host}{\"\\n\"}";
    let fields = format!("jsonpath={{range .items[*]}}{line}{{end}}");
    let kubelet = ["get", "events", "--field-selector=source=kubelet", "-o", &fields];
    wait::until("home reads of both starts", PATIENCE, || async {
        let said = shop.kubectl(&kubelet).await?;
        let started = format!("Started spec.containers{{web}} {NODE}");
        ensure!(said.lines().filter(|line| *line == started).count() == 2, "{said}");
        Ok(true)
    })
    .await
}

pub(crate) async fn used(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    shop.follows_logs().await?;
    shop.executes().await?;
    shop.attaches().await?;
    shop.copies().await?;
    shop.forwards_a_port().await?;
    let all = ["talker", "shell", "listener", "files", "server"];
    let delete = [&["delete", "pod", "--grace-period=1"], &all[..]].concat();
    shop.kubectl(&delete).await.map(drop)
}

/// Up, to another image command, and down.
pub(crate) async fn rolled(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    let rollout = ["rollout", "status", "deploy/web", "--timeout=90s"];
    shop.kubectl(&["scale", "deploy/web", "--replicas=4"]).await?;
    shop.kubectl(&rollout).await?;
    shop.kubectl(&["set", "env", "deploy/web", "ROUND=2"]).await?;
    shop.kubectl(&rollout).await?;
    let env = shop.kubectl(&["exec", "deploy/web", "--", "sh", "-c", "echo $ROUND"]).await?;
    ensure!(env == "2\n", "the new pods say {env:?}");
    shop.kubectl(&["scale", "deploy/web", "--replicas=1"]).await?;
    wait::until("one pod is left", PATIENCE, || async {
        let pods = shop.kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).await?;
        ensure!(pods.lines().count() == 1, "{pods}");
        Ok(true)
    })
    .await
}

pub(crate) async fn config_map(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    shop.kubectl(&["patch", "configmap", "menu", "-p", r#"{"data":{"dish":"amatriciana"}}"#])
        .await?;
    wait::until("the pod sees the config map's new content", PATIENCE, || async {
        let dish = shop.kubectl(&["exec", "deploy/web", "--", "cat", "/menu/dish"]).await?;
        ensure!(dish == "amatriciana", "{dish}");
        Ok(true)
    })
    .await
}

pub(crate) async fn job(rome: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    rome.apply(
        "
apiVersion: batch/v1
kind: Job
metadata: {name: coded, namespace: shop}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: 'mercato.test/busybox:1', command: [sh, -c, exit 3]}
",
    )
    .await?;
    shop.kubectl(&["wait", "job/coded", "--for=condition=Failed", "--timeout=180s"]).await?;
    let code = "jsonpath={.items[*].status.containerStatuses[0].state.terminated.exitCode}";
    let pods = ["get", "pods", "-l", "job-name=coded", "-o", code];
    let code = shop.kubectl(&pods).await?;
    ensure!(code == "3", "the exit code is {code}");
    Ok(())
}

/// In peace, by force, and made again under the same name.
pub(crate) async fn deleted(rome: &Cluster, turin: &Cluster) -> Result<()> {
    let shop = User::new(rome, "shop");
    let waits = "trap \"sleep 1; echo bye; exit 0\" TERM; while :; do sleep 0.1; done";
    shop.run("polite", waits).await?;
    let follow = shop.kubectl(&["logs", "-f", "polite"]);
    let delete = shop.kubectl(&["delete", "pod/polite", "--grace-period=10", "--timeout=30s"]);
    let (logs, deleted) = futures::join!(follow, delete);
    deleted?;
    // A kubelet that follows a container asks its runtime whether it runs, and writes the answer of
    // one that has removed it meanwhile below the last line.
    let is_all = |rest: &str| rest.is_empty() || rest.starts_with("rpc error: code = NotFound");
    let all = logs.as_ref().ok().and_then(|logs| logs.strip_prefix("bye\n"));
    ensure!(all.is_some_and(is_all), "it said {logs:?}");
    gone(turin, "polite").await?;
    shop.run("again", "while :; do sleep 1; done").await?;
    let first = uid(shop, "again").await?;
    shop.kubectl(&["delete", "pod/again", "--force", "--grace-period=0"]).await?;
    shop.run("again", "while :; do sleep 1; done").await?;
    let second = uid(shop, "again").await?;
    let there = "jsonpath={.metadata.labels.mercato\\.dev/home-uid}";
    let there = User::new(turin, GUESTS).kubectl(&["get", "pod/again", "-o", there]).await?;
    ensure!(first != second && there == second, "over there runs {there}, not {second}");
    shop.kubectl(&["delete", "pod/again", "--force", "--grace-period=0"]).await?;
    gone(turin, "again").await
}

async fn uid(shop: User<'_>, pod: &str) -> Result<String> {
    shop.kubectl(&["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"]).await
}

async fn gone(turin: &Cluster, name: &str) -> Result<()> {
    wait::until(&format!("{name} is gone over there"), PATIENCE, || async {
        let get = ["get", "pod", name, "--ignore-not-found", "-o", "name"];
        let left = User::new(turin, GUESTS).kubectl(&get).await?;
        ensure!(left.is_empty(), "{left}");
        Ok(true)
    })
    .await
}

/// What the test itself has made in rome.
pub(crate) async fn clean_up(rome: &Cluster) -> Result<()> {
    sample_app::closes(rome).await?;
    let shop = User::new(rome, "shop");
    shop.kubectl(&["delete", "job/coded"]).await?;
    shop.kubectl(&["delete", "pods", "--all"]).await.map(drop)
}
