//! Contracts that come to the end of their terms: one ends, another is extended while its pods move. What
//! people say of a virtual node stands before, during and after; it is drained as any other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::seen::Seen;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use tokio::time::sleep;

use super::pods::{self, ENDS, budget, deployment, spec};
use super::stand::{Lease, SOON, Stand};

const NAMESPACE: &str = "terms";
const PATIENCE: Duration = Duration::from_secs(60);
const TERM: Duration = Duration::from_mins(6);
/// A quarter of it before its end the node says so.
const LEAD: Duration = Duration::from_secs(90);
/// How late that is seen, and how long after the order's answer a contract began at most.
const APART: Duration = Duration::from_secs(6);
/// Longer than the daemon takes to write its node anew.
const RENEWAL: Duration = Duration::from_secs(15);

pub(crate) async fn ends_and_extended(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let stand = Stand::open(stage).await?;
    stand.namespace(NAMESPACE, "move").await?;
    let before = Instant::now();
    let ends = stand.buys(6, "6m").await?;
    let goes_on = stand.buys(6, "6m").await?;
    placed(&stand, &ends, "ends").await?;
    let seen = Seen::start(stand.rome(), NAMESPACE).await?;
    placed(&stand, &goes_on, "kept").await?;
    timer.step("pods are on two virtual nodes");
    drained(&stand, &goes_on, &seen).await.context("kubectl drain")?;
    timer.step("drained as any node");
    ensure!(before.elapsed() < TERM - LEAD, "all of that took too long");
    stand.rome().kubectl(&["cordon", &goes_on.node]).await?.ok()?;

    let lead = TERM - LEAD;
    wait::until("both say that they leave", lead + APART, || async {
        Ok(stand.leaves(&ends.node).await? && stand.leaves(&goes_on.node).await?)
    })
    .await?;
    let after = before.elapsed();
    println!("both say so {after:.1?} after the first was ordered");
    ensure!(after > lead && after < lead + 2 * APART, "after {after:.1?}");
    extended(&stand, &goes_on, &seen).await.context("an extension")?;
    timer.step("one was extended while its pods moved");

    let mut moved = BTreeMap::new();
    wait::until("all have moved", LEAD / 2, || async {
        let there = seen.there("ends")?;
        ensure!(there.len() == 3 && there.values().all(|node| *node == "rome-1"), "{there:?}");
        Ok(true)
    })
    .await?;
    moved.extend(seen.asked_to_end("ends")?);
    ensure!(moved.len() == 3, "{moved:?}");
    let rollout = ["-n", NAMESPACE, "rollout", "status", "deployment/ends", "--timeout=30s"];
    stand.rome().kubectl(&rollout).await?.ok()?;
    let fewest = seen.fewest("ends", 3)?;
    ensure!(fewest == 2, "{fewest} pods of three were ready, where a budget is for two");
    stand.is_gone(&ends.node, PATIENCE + LEAD).await?;
    let after = before.elapsed();
    println!("the node is gone after {after:.0?}");
    ensure!(after >= TERM, "the node was gone after {after:.0?}");
    timer.step("the other has ended");
    outlived(&stand, &goes_on, &seen).await.context("after the term as it was")?;
    timer.step("that which was extended goes on");
    stand.home.mercato(&["contracts", "cancel", &goes_on.id, "--yes"]).await?.ok()?;
    stand.is_gone(&goes_on.node, PATIENCE).await?;
    stand.rome().kubectl(&["delete", "namespace", NAMESPACE, "--timeout=90s"]).await?.ok()?;
    stand.home.kept_to_its_rights().context("in rome")
}

/// Three pods on a lease's node, of which two are always to be there.
async fn placed(stand: &Stand<'_>, lease: &Lease, name: &str) -> Result<()> {
    let all = [deployment(NAMESPACE, name, 3, spec(ENDS, 5)), budget(NAMESPACE, name, 2)];
    let what = format!("deployment/{name}");
    let rollout = ["rollout", "status", &what];
    stand.places(&lease.node, &pods::list(&all), &[(NAMESPACE, &rollout)]).await
}

/// A virtual node is drained as any other: by budgets, and it is cordoned until somebody says otherwise.
async fn drained(stand: &Stand<'_>, lease: &Lease, seen: &Seen) -> Result<()> {
    let rome = stand.rome();
    let drain = ["drain", &lease.node, "--ignore-daemonsets", "--timeout=90s"];
    rome.kubectl(&drain).await?.ok()?;
    let there = seen.there("kept")?;
    let is_left = there.values().any(|node| *node == lease.node);
    ensure!(!is_left && seen.asked_to_end("kept")?.len() == 3, "{there:?}");
    let rollout = ["-n", NAMESPACE, "rollout", "status", "deployment/kept", "--timeout=60s"];
    rome.kubectl(&rollout).await?.ok()?;
    let fewest = seen.fewest("kept", 3)?;
    ensure!(fewest == 2, "{fewest} pods of three were ready, where a budget is for two");
    sleep(RENEWAL).await;
    stand.is_cordoned(&lease.node, true).await?;
    rome.kubectl(&["uncordon", &lease.node]).await?.ok()?;
    sleep(RENEWAL).await;
    stand.is_cordoned(&lease.node, false).await?;
    // Back onto the node, all at once.
    let again = ["-n", NAMESPACE, "delete", "deployment/kept", "--timeout=60s"];
    rome.kubectl(&again).await?.ok()?;
    wait::until("its pods are gone", PATIENCE, || async { Ok(seen.there("kept")?.is_empty()) })
        .await?;
    placed(stand, lease, "kept").await
}

/// Once the first pod moves the term is extended: the node says no more that it leaves, no further pod is
/// evicted, and who has cordoned it has.
async fn extended(stand: &Stand<'_>, lease: &Lease, seen: &Seen) -> Result<()> {
    let pods = seen.there("kept")?;
    let evicted = || -> Result<Vec<Instant>> {
        let asked = seen.asked_to_end("kept")?;
        Ok(asked.into_iter().filter(|(pod, _)| pods.contains_key(pod)).map(|(_, at)| at).collect())
    };
    wait::until("a pod moves", PATIENCE, || async { Ok(!evicted()?.is_empty()) }).await?;
    stand.home.mercato(&["contracts", "extend", &lease.id, "--for", "1h"]).await?.ok()?;
    let at = Instant::now();
    let stays = || async { Ok(!stand.leaves(&lease.node).await?) };
    wait::until("the node says no more that it leaves", SOON, stays).await?;
    println!("taint and condition are gone {:.1?} after the extension", at.elapsed());
    stand.is_cordoned(&lease.node, true).await.context("cordoned before")?;
    stand.was_told("default", &lease.node, "Stays", "the contract goes on").await?;
    sleep(RENEWAL).await;
    let evicted = evicted()?;
    let late = evicted.iter().filter(|asked| **asked > at + SOON).count();
    ensure!(late == 0, "{late} pods were evicted after the extension");
    ensure!(evicted.len() < pods.len(), "all had moved before");
    Ok(())
}

/// The pods that had not moved run on, and others come as before.
async fn outlived(stand: &Stand<'_>, lease: &Lease, seen: &Seen) -> Result<()> {
    let there = seen.there("kept")?;
    let stayed = there.values().filter(|node| **node == lease.node).count();
    ensure!(there.len() == 3 && stayed >= 1, "{there:?}");
    let shown = stand.home.json(&["contracts", "show", &lease.id]).await?;
    ensure!(shown["left"] == serde_json::json!({}), "{}", shown["left"]);
    stand.is_cordoned(&lease.node, true).await?;
    stand.rome().kubectl(&["uncordon", &lease.node]).await?.ok()?;
    let late = [pods::pod(NAMESPACE, "late", spec(ENDS, 5))];
    let ready = ["wait", "pod/late", "--for=condition=Ready"];
    stand.places(&lease.node, &pods::list(&late), &[(NAMESPACE, &ready)]).await
}
