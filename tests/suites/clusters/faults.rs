//! Parts that are paused, killed, restarted; and what is told of a failure.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::wait;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn parts(stage: &Stage) -> Result<()> {
    let pisa = stage.cluster("pisa");
    pisa.kubectl(&["create", "configmap", "kept", "--from-literal=a=1"]).await?.ok()?;

    pisa.pause("kube-apiserver")?;
    let get = ["--request-timeout=2s", "get", "configmap", "kept"];
    let silent = pisa.kubectl(&get).await?;
    pisa.resume("kube-apiserver")?;
    ensure!(silent.code != Some(0), "a paused API server answered");

    pisa.kill("etcd")?;
    pisa.kill("kube-apiserver")?;
    let dead = pisa.kubectl(&get).await?;
    ensure!(dead.code != Some(0), "a killed API server answered");
    pisa.restart("etcd")?;
    pisa.restart("kube-apiserver")?;
    wait::until("what etcd kept is read", PATIENCE, || async {
        Ok(pisa.kubectl(&get).await?.ok()?.contains("kept"))
    })
    .await?;

    let log = pisa.data_outside().join("logs/kube-scheduler");
    let starts = || anyhow::Ok(fs::read_to_string(&log)?.matches("Starting Kubernetes").count());
    let before = starts()?;
    pisa.crash("kube-scheduler")?;
    let again = || async { Ok(starts()? > before) };
    wait::until("the scheduler is started again", PATIENCE, again).await?;

    ensure!(pisa.restart("etcd").is_err(), "a part that runs was started again");
    ensure!(pisa.pause("no-such-part").is_err(), "an unknown part was paused");
    Ok(())
}

pub(crate) async fn exit_code(stage: &Stage) -> Result<()> {
    let missing = stage.cluster("turin").kubectl(&["get", "pod", "nobody"]).await?;
    ensure!(missing.code == Some(1), "{missing:?}");
    ensure!(missing.stderr.contains("NotFound"), "{missing:?}");
    ensure!(missing.ok().is_err(), "a failure was taken for success");
    Ok(())
}

pub(crate) async fn dump(stage: &Stage) -> Result<()> {
    let dir = tempfile::tempdir()?;
    stage.cluster("rome").dump(dir.path()).await?;
    let read = |name: &str| fs::read_to_string(dir.path().join("rome").join(name));
    ensure!(read("kubelet-2.log")?.contains("rome-2"), "no log of the second kubelet");
    ensure!(read("objects.txt")?.contains("node/rome-1"), "no nodes among the objects");
    ensure!(read("events.txt")?.contains("NodeReady"), "no events");
    Ok(())
}
