//! What the provider's people do to the objects by which guests are kept within their contract.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::PART;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::agreement;
use crate::churn::{apply, clean_up, pod};
use crate::pair::{GUEST, HOME, NODE, PATIENCE, Pair, items};

/// Each object, and how somebody would change what it says.
const OBJECTS: [(&str, &str); 4] = [
    ("networkpolicy/mercato", r#"{"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}"#),
    ("resourcequota/mercato", r#"{"spec": {"hard": {"pods": "0"}}}"#),
    ("limitrange/mercato", r#"{"spec": {"limits": []}}"#),
    ("rolebinding/mercato-namespace", r#"{"subjects": []}"#),
];
/// The same at home, of what lets pods leave.
const HOME_OBJECTS: [(&str, &str); 2] = [
    (
        "rolebinding/mercato-namespace",
        r#"{"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}]}"#,
    ),
    ("mutatingwebhookconfiguration/offload.mercato.dev", r#"{"webhooks": []}"#),
];
/// Within so long each is as it was.
const SOON: Duration = Duration::from_secs(5);
const MANAGER: &str = "a-program";

/// Each is deleted, changed, and given a label: it is as it was within five seconds, with one event, and
/// the label stays. The same while the daemon is away.
pub(crate) async fn is_put_back(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &pod("opener")).await?;
    agreement::reached(&pair).await.context("before")?;
    let before = all(&pair).await?;
    pair.guests().kubectl(&["label", OBJECTS[0].0, "team=a"]).await?;
    for (object, edit) in OBJECTS {
        pair.guests().kubectl(&["delete", object]).await?;
        returns(&pair, object, &before).await.context("deleted")?;
        change(&pair, object, edit).await?;
        returns(&pair, object, &before).await.context("changed")?;
    }
    let labelled = ["label", OBJECTS[0].0, "team=b"];
    pair.guests().kubectl(&labelled).await?;
    told(&pair).await?;

    node_returns(&pair).await.context("at home")?;
    home_returns(&pair).await.context("at home")?;

    pair.turin().kill(PART)?;
    pair.guests().kubectl(&["delete", OBJECTS[0].0]).await?;
    change(&pair, OBJECTS[1].0, OBJECTS[1].1).await?;
    pair.guests().kubectl(&["delete", OBJECTS[3].0]).await?;
    pair.turin().restart(PART)?;
    pair.provider.answers().await?;
    let back = Instant::now();
    for (object, _) in OBJECTS {
        returns(&pair, object, &before).await.context("while the daemon was away")?;
    }
    println!("all is as it was {:.1?} after the daemon answers", back.elapsed());
    agreement::reached(&pair).await.context("afterwards")?;
    clean_up(&pair).await
}

/// A program that writes against ours for a minute, all the time.
pub(crate) async fn is_fought_over(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    apply(&pair, &pod("opener")).await?;
    agreement::reached(&pair).await.context("before")?;
    let (object, edit) = OBJECTS[0];
    let (mark, start) = (pair.turin().audit_mark()?, Instant::now());
    while start.elapsed() < Duration::from_secs(60) {
        change(&pair, object, edit).await?;
    }
    let written = pair.turin().writes_since(mark)?;
    let ours =
        written.iter().filter(|(write, _)| write.by == PART && write.resource == "networkpolicies");
    let ours: usize = ours.map(|(_, count)| count).sum();
    println!("{ours} writes of ours in a minute");
    ensure!((1..20).contains(&ours), "{written:?}");
    clean_up(&pair).await
}

async fn change(pair: &Pair<'_>, object: &str, edit: &str) -> Result<()> {
    let manager = format!("--field-manager={MANAGER}");
    let patch = ["patch", object, "--type", "merge", "-p", edit, &manager];
    pair.guests().kubectl(&patch).await.map(drop)
}

/// What each object says, in their order.
async fn all(pair: &Pair<'_>) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (object, _) in OBJECTS {
        all.push(says(pair, object).await?);
    }
    Ok(all)
}

async fn says(pair: &Pair<'_>, object: &str) -> Result<Value> {
    let found = pair.guests().kubectl(&["get", object, "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&found)?;
    ensure!(found["metadata"]["deletionTimestamp"].is_null(), "{object} goes");
    Ok(json!([found["spec"], found["subjects"], found["roleRef"]]))
}

async fn returns(pair: &Pair<'_>, object: &str, before: &[Value]) -> Result<()> {
    let place = OBJECTS.iter().position(|(one, _)| *one == object).context("an object")?;
    wait::until(&format!("{object} is as it was"), SOON, || async {
        let now = says(pair, object).await?;
        ensure!(now == before[place], "{now}");
        Ok(true)
    })
    .await
}

/// The virtual node at home, with the taint that keeps other pods away.
async fn node_returns(pair: &Pair<'_>) -> Result<()> {
    let effect = "jsonpath={.spec.taints[?(@.key==\"mercato.dev/provider\")].effect}";
    let taint = ["get", "node", NODE, "-o", effect];
    for change in [
        &["taint", "node", NODE, "mercato.dev/provider-"][..],
        &["delete", "node", NODE, "--wait=false"],
    ] {
        pair.rome().kubectl(change).await?.ok()?;
        wait::until(&format!("the node after {change:?}"), SOON, || async {
            let now = pair.rome().kubectl(&taint).await?.ok()?;
            ensure!(now == "NoSchedule", "its taint: {now:?}");
            Ok(true)
        })
        .await?;
    }
    pair.peer_is(true).await
}

/// By what pods leave home: the right in their namespace, and the webhook.
async fn home_returns(pair: &Pair<'_>) -> Result<()> {
    for (object, edit) in HOME_OBJECTS {
        let named = ["-n", HOME, "get", object, "-o", "json"];
        let says = async || -> Result<Value> {
            let found: Value = serde_json::from_str(&pair.rome().kubectl(&named).await?.ok()?)?;
            Ok(json!([found["subjects"], found["roleRef"], found["webhooks"]]))
        };
        let before = says().await?;
        let manager = format!("--field-manager={MANAGER}");
        let change = ["-n", HOME, "patch", object, "--type", "merge", "-p", edit, &manager];
        for change in [&["-n", HOME, "delete", object][..], &change] {
            pair.rome().kubectl(change).await?.ok()?;
            wait::until(&format!("{object} after {change:?}"), SOON, || async {
                let now = says().await?;
                ensure!(now == before, "{now}");
                Ok(true)
            })
            .await?;
        }
    }
    let status = pair.home.mercato(&["status"]).await?.ok()?;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    let twice = "was put back 2 times in the last hour: it was";
    for line in [
        format!("Node {NODE} {twice} deleted"),
        format!("RoleBinding {HOME}/mercato-namespace {twice} changed by {MANAGER}"),
        // Who leaves nothing owns nothing.
        format!("MutatingWebhookConfiguration offload.mercato.dev {twice} changed"),
    ] {
        ensure!(status.contains(&line), "{line}: {status}");
    }
    Ok(())
}

/// One event for each object, and a line of `status` with how often and by whom.
async fn told(pair: &Pair<'_>) -> Result<()> {
    let mut told = Vec::new();
    wait::until("people are told", PATIENCE, || {
        let guests = pair.guests();
        async move {
            let events = items(&guests, "events").await?;
            let ours = events.iter().filter(|event| event["reason"] == "PutBack");
            let counts: Vec<_> = ours.map(|event| event["count"].clone()).collect();
            ensure!(counts == [1, 1, 1, 1], "{counts:?}");
            Ok(true)
        }
    })
    .await?;
    let status = pair.provider.mercato(&["status"]).await?.ok()?;
    told.extend(status.split_whitespace());
    let status = told.join(" ");
    for (kind, name) in
        [("NetworkPolicy", "mercato"), ("ResourceQuota", "mercato"), ("LimitRange", "mercato")]
    {
        let line = format!(
            "{kind} {GUEST}/{name} was put back 2 times in the last hour: it was changed by {MANAGER}"
        );
        ensure!(status.contains(&line), "{line}: {status}");
    }
    let doctor = pair.provider.mercato(&["doctor"]).await?;
    ensure!(doctor.stdout.contains("put back"), "{}", doctor.stdout);
    let labels = ["get", OBJECTS[0].0, "-o", "jsonpath={.metadata.labels.team}"];
    ensure!(pair.guests().kubectl(&labels).await? == "b", "a label of others is gone");
    Ok(())
}
