//! `mercato demo` on two real clusters, with an administrator's rights: the whole story,
//! one that is interrupted, and nothing of either stays.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// For the story to come so far, and to end: a guess, far above both.
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) async fn leaves_nothing(
    rome: &Cluster,
    turin: &Cluster,
    program: &std::path::Path,
) -> Result<()> {
    let before = (rome.objects().await?, turin.objects().await?);
    let files = [rome, turin].map(|cluster| cluster.data_outside().join("admin.kubeconfig"));
    let files = files.map(|file| file.display().to_string());
    let [home, away] = &files;
    let real = ["demo", "--image", "mercato.test/busybox:1", "--kubeconfig", home];

    let twice = rome.run(program, &[&real[..], &["--kubeconfig", home]].concat(), "").await?;
    ensure!(twice.code == Some(2) && twice.stderr.contains("the same cluster"), "{twice:?}");

    let whole = [&real[..], &["--kubeconfig", away, "-o", "json"]].concat();
    let story = rome.run(program, &whole, "").await?.ok()?;
    let story: Value = serde_json::from_str(&story)?;
    ensure!(story["clusters"] == "real", "{story}");
    let logs = story["steps"].as_array().context("steps")?.iter();
    let logs: Vec<_> = logs.filter(|step| step["step"] == "its logs come home").collect();
    ensure!(logs[0]["details"][0] == "listening on :8080", "{logs:?}");
    nothing(rome, turin, &before).await.context("after the whole story")?;

    interrupted(rome, program, &[&real[..], &["--kubeconfig", away]].concat()).await?;
    nothing(rome, turin, &before).await.context("after one that was interrupted")
}

async fn nothing(
    rome: &Cluster,
    turin: &Cluster,
    before: &(std::collections::BTreeSet<String>, std::collections::BTreeSet<String>),
) -> Result<()> {
    rome.is_as_before(&before.0).await.context("in rome")?;
    turin.is_as_before(&before.1).await.context("in turin")?;
    let requests = ["get", "csr", "-l", "app.kubernetes.io/managed-by=mercato", "-o", "name"];
    let requests = rome.kubectl(&requests).await?.ok()?;
    ensure!(requests.is_empty(), "{requests}");
    Ok(())
}

/// Ctrl-C while a contract runs and a pod is about to come.
async fn interrupted(rome: &Cluster, program: &std::path::Path, args: &[&str]) -> Result<()> {
    let mut command = rome.command(program)?;
    let mut child = command.args(args).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
    let pid = Pid::from_raw(i32::try_from(child.id().context("it runs")?)?);
    let told = async {
        while let Some(line) = lines.next_line().await? {
            if line.contains("a virtual node is ready") {
                kill(pid, Signal::SIGINT)?;
            }
        }
        Ok(child.wait().await?)
    };
    let ended: Result<_> = tokio::time::timeout(PATIENCE, told).await.context("it does not end")?;
    ensure!(ended?.code() == Some(130), "it was not interrupted");
    Ok(())
}
