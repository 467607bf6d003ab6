//! How guests end: those whose end home counts, with the provider's daemon away; and those whose end
//! nobody counts, whatever is in the way of what makes and removes them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::PART;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::agreement;
use crate::churn::{apply, clean_up, deployment, runs};
use crate::pair::{HOME, PATIENCE, Pair, items};
use crate::provider::guest_names;

/// With what bare pods end.
const CODES: [u8; 3] = [0, 3, 137];
/// Ends as it is told to by a file with its exit code.
const TOLD: &str = "until [ -e /tmp/end ]; do sleep 0.1; done; exit $(cat /tmp/end)";
const WEB: [&str; 3] = ["pods", "-l", "app=web"];

/// Bare pods and a Job end while the provider's daemon is away: home has their exit codes, and the Job has
/// counted each pod once.
pub(crate) async fn are_counted(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let mut once = runs(TOLD);
    once["restartPolicy"] = "Never".into();
    for code in CODES {
        let metadata = json!({ "name": format!("code-{code}"), "namespace": HOME });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": once });
        apply(&pair, &pod).await?;
    }
    let spec = json!({
        "completions": 2, "parallelism": 2, "backoffLimit": 0, "template": { "spec": once },
    });
    let metadata = json!({ "name": "both", "namespace": HOME });
    let job =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec });
    apply(&pair, &job).await?;
    let all = || async { items(&pair.guests(), "pods").await };
    let phase_of = |guest: &Value| guest["status"]["phase"].as_str().unwrap_or_default().to_owned();
    wait::until("five guests run", PATIENCE, || async {
        let guests = all().await?;
        Ok(guests.len() == 5 && guests.iter().all(|guest| phase_of(guest) == "Running"))
    })
    .await?;

    pair.turin().kill(PART)?;
    for guest in guest_names(&pair).await? {
        let code = guest.strip_prefix("code-").unwrap_or("0");
        let tell = format!("echo {code} > /tmp/told; mv /tmp/told /tmp/end");
        pair.guests().kubectl(&["exec", &guest, "--", "sh", "-c", &tell]).await?;
    }
    wait::until("all guests have ended", PATIENCE, || async {
        Ok(all().await?.iter().all(|guest| ["Succeeded", "Failed"].contains(&&*phase_of(guest))))
    })
    .await?;
    pair.turin().restart(PART)?;
    pair.provider.answers().await?;

    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    for wanted in CODES {
        let pod = format!("code-{wanted}");
        wait::until("home has the exit code", PATIENCE, || async {
            let code = pair.shop().kubectl(&["get", "pod", &pod, "-o", code]).await?;
            ensure!(code == wanted.to_string(), "{pod} has ended with {code:?}");
            Ok(true)
        })
        .await?;
    }
    agreement::reached(&pair).await.context("after all have ended")?;
    clean_up(&pair).await
}

/// Pods of a Deployment go while the daemon that removes them is away, lose the mark by which they are
/// followed, are refused for want of quota, and are held by somebody's finalizer at home: none runs
/// twice, and none stays.
pub(crate) async fn are_not_missed(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &deployment(3)).await?;
    agreement::reached(&pair).await.context("before")?;

    pair.shop().kubectl(&[&["delete"], &WEB[..], &["--wait=false"]].concat()).await?;
    // They have been asked to end by then, or have not.
    sleep(Duration::from_millis(300)).await;
    pair.provider.kill().await?;
    agreement::reached(&pair).await.context("after they went unseen")?;

    let guest = guest_names(&pair).await?.pop().context("a guest")?;
    pair.guests().kubectl(&["label", "pod", &guest, "mercato.dev/contract-"]).await?;
    agreement::reached(&pair).await.context("after a mark was taken off")?;
    ensure!(guest_names(&pair).await?.contains(&guest), "{guest} was taken for gone");

    is_refused_by_quota(&pair).await.context("by a quota")?;
    is_held(&pair).await.context("by a finalizer of somebody at home")?;
    clean_up(&pair).await
}

/// The provider's people allow no pod more, and the daemon starts anew meanwhile: what waits for room is not
/// over.
async fn is_refused_by_quota(pair: &Pair<'_>) -> Result<()> {
    let many = guest_names(pair).await?.len();
    let hard = format!("--hard=pods={many}");
    pair.guests().kubectl(&["create", "quota", "people", &hard]).await?;
    pair.shop().kubectl(&["scale", "deploy/web", "--replicas=4"]).await?;
    let before = evicted(pair).await?;
    wait::until("one pod waits", PATIENCE, || async {
        let waits = |pod: &Value| pod["status"]["phase"] == "Pending";
        Ok(items(&pair.shop(), "pods").await?.iter().any(waits))
    })
    .await?;
    sleep(Duration::from_secs(1)).await;
    pair.provider.kill().await?;
    pair.provider.answers().await?;
    ensure!(guest_names(pair).await?.len() == many, "the quota lets it in");
    pair.guests().kubectl(&["delete", "quota", "people"]).await?;
    agreement::reached(pair).await.context("after it is gone")?;
    ensure!(evicted(pair).await? == before, "a pod that waited was taken for evicted");
    Ok(())
}

/// How many pods home shows as evicted: one that was on record, and not made when the daemon died, is.
async fn evicted(pair: &Pair<'_>) -> Result<usize> {
    let is = |pod: &&Value| pod["status"]["reason"] == "Evicted";
    Ok(items(&pair.shop(), "pods").await?.iter().filter(is).count())
}

/// Its guest is gone, and it goes as soon as it may.
async fn is_held(pair: &Pair<'_>) -> Result<()> {
    let pod = guest_names(pair).await?.pop().context("a guest")?;
    let hold = r#"{"metadata": {"finalizers": ["mercato.test/held"]}}"#;
    pair.shop().kubectl(&["patch", "pod", &pod, "--type=merge", "-p", hold]).await?;
    pair.shop().kubectl(&["delete", "pod", &pod, "--wait=false"]).await?;
    wait::until("its guest is gone", PATIENCE, || async {
        Ok(!guest_names(pair).await?.contains(&pod))
    })
    .await?;
    pair.shop().kubectl(&["get", "pod", &pod]).await?;
    let free = r#"{"metadata": {"finalizers": null}}"#;
    pair.shop().kubectl(&["patch", "pod", &pod, "--type=merge", "-p", free]).await?;
    agreement::reached(pair).await.map(drop)
}
