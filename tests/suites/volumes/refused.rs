//! Claims that no provider serves, and those for which there is no room.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::shop::{AWAY, Shop, mounting, of_ours};

/// How long what is refused is looked at.
const LOOK: Duration = Duration::from_secs(20);
/// Fewer than these about one pod within that time, though the scheduler chooses the same node again.
const MOST: usize = 5;

const FAILED: &str = "ProvisioningFailed";

/// Each with its claim, and the words of its event.
fn cases() -> [(&'static str, Value, &'static str); 3] {
    let with = |field: &str, value: Value| {
        let mut claim = of_ours("1Gi");
        claim[field] = value;
        claim
    };
    [
        ("many", with("accessModes", json!(["ReadWriteMany"])), "ask for ReadWriteOnce"),
        ("block", with("volumeMode", json!("Block")), "ask for Filesystem"),
        (
            "copy",
            with("dataSource", json!({ "kind": "PersistentVolumeClaim", "name": "together" })),
            "dataSource",
        ),
    ]
}

/// Refused with the field, and seldom; what is too large never selects the node; two claims of one pod that do
/// not fit together are told so.
pub(crate) async fn all(shop: &Shop<'_>) -> Result<()> {
    let user = shop.user(AWAY);
    let before = shop.held().await?.len();
    for (name, claim, _) in cases() {
        shop.claims(AWAY, name, &claim).await?;
        user.makes(name, &mounting(&[name])).await?;
    }
    shop.claims(AWAY, "huge", &of_ours("900Gi")).await?;
    user.makes("huge", &mounting(&["huge"])).await?;
    // 4 of 8 GiB are claimed: each of them fits, and both do not.
    for name in ["half", "other"] {
        shop.claims(AWAY, name, &of_ours("3Gi")).await?;
    }
    user.makes("halves", &mounting(&["half", "other"])).await?;
    for (name, _, words) in cases() {
        shop.hears(AWAY, name, FAILED, words).await?;
    }
    let either = async {
        let first = shop.hears(AWAY, "half", FAILED, "contracts resize");
        let second = shop.hears(AWAY, "other", FAILED, "contracts resize");
        tokio::select! { heard = first => heard, heard = second => heard }
    };
    either.await.context("two claims of one pod")?;
    tokio::time::sleep(LOOK).await;
    let chosen = "jsonpath={.metadata.annotations.volume\\.kubernetes\\.io/selected-node}";
    let chosen = user.kubectl(&["get", "pvc", "huge", "-o", chosen]).await?;
    ensure!(chosen.is_empty(), "the scheduler chose {chosen} for what no node has room for");
    for (name, _, _) in cases() {
        let count = async |which: &str| {
            let about = format!("involvedObject.name={name},{which}");
            let ask = ["get", "events", "--field-selector", &about, "-o"];
            let counts = "jsonpath={range .items[*]}{.count} {.series.count}{\"\\n\"}{end}";
            let counts = user.kubectl(&[&ask[..], &[counts]].concat()).await?;
            let most = |line: &str| {
                line.split_whitespace().filter_map(|word| word.parse().ok()).max().unwrap_or(1)
            };
            anyhow::Ok(counts.lines().map(most).sum::<usize>())
        };
        let ours = format!("reason={FAILED},reportingComponent=mercato");
        let (pod, claim) = (count("reason=FailedScheduling").await?, count(&ours).await?);
        ensure!(claim == 1 && pod < MOST, "{name}: {claim} of {FAILED}, {pod} of FailedScheduling");
    }
    let names = ["many", "block", "copy", "huge", "halves"];
    user.kubectl(&[&["delete", "pod", "--timeout=60s"][..], &names].concat()).await?;
    let names = ["many", "block", "copy", "huge", "half", "other"];
    user.kubectl(&[&["delete", "pvc", "--timeout=60s"][..], &names].concat()).await?;
    mercato_tests::wait::until("nothing of them is held", LOOK, || async {
        let held = shop.held().await?;
        ensure!(held.len() == before, "held are {held:?}");
        Ok(true)
    })
    .await
}
