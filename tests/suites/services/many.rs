//! A namespace with more Services than a provider takes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::shop::NODE;

const NAMESPACE: &str = "many";
const GUESTS: &str = "many-rome";
const SERVICES: usize = 900;
/// What a provider takes of a namespace.
const TAKEN: usize = 512;
/// How long so many take to cross, in a test build.
const PATIENCE: Duration = Duration::from_secs(180);
const MINUTE: Duration = Duration::from_secs(60);
/// Of so many a provider says no in a minute.
const REFUSED: usize = 10;

/// The first by name are there, the same ones once either daemon has been killed; people are told once, and
/// nobody asks again and again.
pub(crate) async fn have_the_first(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    home.cluster.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    home.offload(NAMESPACE, "Both").await?;
    let user = User::new(home.cluster, NAMESPACE);
    user.on(NODE).start("opener", "sleep 36000", &[]).await?;
    let names: Vec<String> = (0..SERVICES).map(|n| format!("s-{n:03}")).collect();
    let all: Vec<_> = names.iter().map(|name| service(name)).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": all });
    home.cluster.apply(&list.to_string()).await?;
    let first: BTreeSet<String> = names.into_iter().take(TAKEN).collect();
    are(provider, &first).await.context("as they were made")?;
    told(home).await?;
    let mark = provider.cluster.audit_mark()?;
    tokio::time::sleep(MINUTE).await;
    let written = provider.cluster.writes_since(mark)?;
    let refused = written.iter().filter(|(write, _)| write.by == PART && !write.ok);
    let refused: usize = refused.map(|(_, count)| count).sum();
    ensure!(refused < REFUSED, "{refused} requests were refused in a minute: {written:?}");
    for daemon in [home, provider] {
        daemon.kill().await?;
        tokio::time::sleep(MINUTE / 6).await;
        are(provider, &first).await.context("once a daemon was killed")?;
    }
    told(home).await?;
    home.cluster.kubectl(&["delete", "namespace", NAMESPACE]).await?.ok().map(drop)
}

fn service(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "selector": { "app": name }, "ports": [{ "port": 80 }] } })
}

/// These are there, and no others.
async fn are(provider: &Daemon<'_>, first: &BTreeSet<String>) -> Result<()> {
    wait::until("the first Services are over there", PATIENCE, || async {
        let names = "jsonpath={.items[*].metadata.name}";
        let get = ["-n", GUESTS, "get", "services", "-l", "mercato.dev/contract", "-o", names];
        let there = provider.cluster.kubectl(&get).await?.ok()?;
        let there: BTreeSet<String> = there.split_whitespace().map(str::to_owned).collect();
        let (more, less) = (there.difference(first).count(), first.difference(&there).count());
        ensure!(more == 0 && less == 0, "{more} too many, and {less} are missing");
        Ok(true)
    })
    .await
}

/// One event of the namespace, and lines of `status` and `doctor` with how many are left out.
async fn told(home: &Daemon<'_>) -> Result<()> {
    let events = home.cluster.kubectl(&["get", "events", "-A", "-o", "json"]).await?.ok()?;
    let events: Value = serde_json::from_str(&events)?;
    let of_namespace = events["items"].as_array().context("a list")?.iter().filter(|event| {
        let about = &event["involvedObject"];
        event["reason"] == "OffloadRefused"
            && about["kind"] == "Namespace"
            && about["name"] == NAMESPACE
    });
    let told: Vec<_> = of_namespace.map(|event| &event["message"]).collect();
    ensure!(told.len() == 1, "of {events}: {told:?}");
    let left_out = (SERVICES - TAKEN).to_string();
    for command in ["status", "doctor"] {
        // Home's daemon hears of one Service after the other.
        wait::until(&format!("{command} says how many are left out"), PATIENCE, || async {
            let said = home.mercato(&[command]).await?.stdout;
            let line = said.lines().any(|line| line.contains(NAMESPACE) && line.contains("512"));
            ensure!(line && said.contains(&left_out), "{command} does not say so: {said}");
            Ok(true)
        })
        .await?;
    }
    Ok(())
}
