//! A provider takes its capacity back with notice.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::seen::Seen;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::json;
use tokio::time::sleep;

use super::pods;
use super::stand::{Lease, NOTICE, SOON, Stand, condition};

const MOVES: &str = "moves";
/// A namespace whose pods stay to the end.
const STAYS: &str = "stays";
const PATIENCE: Duration = Duration::from_secs(60);
/// Clocks may differ by 30 s, and last words take 10 s: so long before the end, and before that its own
/// grace, a pod is deleted.
const LAST: Duration = Duration::from_secs(40);
/// By how much a moment that is seen may differ: looks are a second apart.
const APART: Duration = Duration::from_secs(6);
/// The grace of most pods.
const GRACE: Duration = Duration::from_secs(5);

/// What is seen of the pods of both namespaces.
struct Both {
    moves: Seen,
    stays: Seen,
}

/// Pods of each kind leave within three minutes; nobody is asked earlier, or goes later, than is said.
pub(crate) async fn pods_move(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let stand = Stand::open(stage).await?;
    let lease = stand.buys(20, "4h").await?;
    stand.namespace(MOVES, "move").await?;
    stand.namespace(STAYS, "stay").await?;
    places(&stand, &lease).await.context("before")?;
    let seen = Both {
        moves: Seen::start(stand.rome(), MOVES).await?,
        stays: Seen::start(stand.rome(), STAYS).await?,
    };
    let all = seen.moves.there("")?;
    ensure!(all.len() == 12 && all.values().all(|node| *node == lease.node), "{all:?}");
    timer.step("pods of each kind are over there");

    stand.rome().kubectl(&["cordon", &lease.node]).await?.ok()?;
    let (id, before) = (&lease.id, Instant::now());
    let notice = format!("{}s", NOTICE.as_secs());
    let reclaim = ["reclaim", id, "--notice", &notice, "--reason", "a trial", "--yes"];
    stand.provider.mercato(&reclaim).await?.ok()?;
    says_so(&stand, &lease).await?;
    println!("the node says so {:.1?} after the notice was asked for", before.elapsed());
    at_once(&stand, &lease, &seen).await.context("at once")?;
    timer.step("what may move has moved");
    ensure!(before.elapsed() < NOTICE / 3, "too late to see who is deleted after a third");
    after_a_third(&stand, &lease, &seen, before).await.context("after a third of the time")?;
    timer.step("a third of the time is over");
    in_the_last_step(&stand, &seen, before).await.context("in the last step")?;
    timer.step("the last step");
    stand.is_cordoned(&lease.node, true).await.context("to the end")?;
    afterwards(&stand, &seen).await.context("afterwards")?;
    // Who does not end has the notice to do so, and it was asked after a third of it.
    stand.is_gone(&lease.node, NOTICE + PATIENCE).await?;
    println!("the node is gone after {:.0?}", before.elapsed());
    timer.step("the node is gone");
    // Nor does it wait for the pod that somebody's finalizer holds.
    let held = ["-n", MOVES, "patch", "pod/final", "--type=merge", "-p"];
    let held = [&held[..], &[r#"{"metadata":{"finalizers":null}}"#]].concat();
    stand.rome().kubectl(&held).await?.ok().context("the pod is there yet")?;
    for namespace in [MOVES, STAYS] {
        let delete = ["delete", "namespace", namespace, "--timeout=120s"];
        stand.rome().kubectl(&delete).await?.ok()?;
    }
    stand.home.kept_to_its_rights().context("in rome")
}

/// Makes twelve pods in the namespace that moves, and one in that which stays.
async fn places(stand: &Stand<'_>, lease: &Lease) -> Result<()> {
    use pods::{ENDS, FAILS, away, budget, deployment, job, pod, spec};
    let mut finalized = pod(MOVES, "final", spec(FAILS, 5));
    finalized["metadata"]["finalizers"] = json!(["example.com/held"]);
    let all = [
        // Three may move, never two at a time; one has an hour to end, and needs none of it.
        deployment(MOVES, "web", 3, spec(ENDS, 5)),
        budget(MOVES, "web", 2),
        deployment(MOVES, "slow", 1, spec(ENDS, 3_600)),
        // One may not move, for another home has no room.
        deployment(MOVES, "held", 1, spec(ENDS, 5)),
        budget(MOVES, "held", 1),
        deployment(MOVES, "far", 1, away(spec(ENDS, 5))),
        job(MOVES, "early", spec(FAILS, 5)),
        job(MOVES, "last", away(spec(FAILS, 5))),
        // Nobody replaces these.
        pod(MOVES, "bare", spec(FAILS, 5)),
        pod(MOVES, "zero", spec(FAILS, 0)),
        pod(MOVES, "hour", spec(pods::STAYS, 3_600)),
        finalized,
        deployment(STAYS, "batch", 1, spec(ENDS, 5)),
    ];
    let rollout = |what| ["rollout", "status", what];
    let [web, slow, held] = ["deployment/web", "deployment/slow", "deployment/held"].map(rollout);
    let [far, batch] = ["deployment/far", "deployment/batch"].map(rollout);
    let ready = ["wait", "pod", "--all", "--for=condition=Ready"];
    let deployments: [(&str, &[&str]); 6] = [
        (STAYS, &batch),
        (MOVES, &web),
        (MOVES, &slow),
        (MOVES, &held),
        (MOVES, &far),
        (MOVES, &ready),
    ];
    stand.places(&lease.node, &pods::list(&all), &deployments).await
}

/// Taint, condition and annotation are there at once, and an event.
async fn says_so(stand: &Stand<'_>, lease: &Lease) -> Result<()> {
    wait::until("the node says so", SOON, || stand.leaves(&lease.node)).await?;
    let node = stand.node(&lease.node).await?;
    let said = condition(&node, "mercato.dev/Leaving");
    let message = said["message"].as_str().unwrap_or_default();
    ensure!(said["reason"] == "Reclaimed" && message.contains("a trial"), "{said}");
    let until = node["metadata"]["annotations"]["mercato.dev/not-after"].as_str().context("end")?;
    ensure!(message.contains(until), "{until}: {message}");
    wait::until("there is an event", SOON, || async {
        stand.was_told("default", &lease.node, "Leaving", until).await.map(|()| true)
    })
    .await
}

/// Pods with a controller move where budget and room let them; nobody else is asked to end. What
/// somebody says of the node stands.
async fn at_once(stand: &Stand<'_>, lease: &Lease, seen: &Both) -> Result<()> {
    stand.is_cordoned(&lease.node, true).await.context("cordoned before")?;
    stand.rome().kubectl(&["uncordon", &lease.node]).await?.ok()?;
    let movers = [("web", 3), ("slow", 1), ("early", 1)];
    wait::until("what may move has moved", NOTICE / 3, || async {
        for (name, count) in movers {
            let there = seen.moves.there(name)?;
            let moved = there.values().filter(|node| *node == "rome-1").count();
            ensure!(moved == count && there.len() == count, "{name}: {there:?}");
        }
        Ok(true)
    })
    .await?;
    let rollout = ["-n", MOVES, "rollout", "status", "deployment/web", "--timeout=30s"];
    stand.rome().kubectl(&rollout).await?.ok()?;
    let fewest = seen.moves.fewest("web", 3)?;
    ensure!(fewest == 2, "{fewest} pods of three were ready, where a budget is for two");
    let asked: Vec<String> = seen.moves.asked_to_end("")?.into_keys().collect();
    let is_mover = |pod: &String| movers.iter().any(|(name, _)| pod.starts_with(name));
    ensure!(asked.len() == 5 && asked.iter().all(is_mover), "{asked:?}");
    stand.is_cordoned(&lease.node, false).await.context("uncordoned since")?;
    stand.rome().kubectl(&["cordon", &lease.node]).await?.ok()?;
    for (pod, reason, words) in [
        ("web", "Leaving", "a trial"),
        ("bare", "Leaving", "no controller"),
        ("held", "LeavingHeld", "PodDisruptionBudget"),
        ("far", "LeavingNoRoom", "no other node"),
        ("last", "LeavingNoRoom", "no other node"),
    ] {
        stand.was_told(MOVES, pod, reason, words).await?;
    }
    stand.was_told(STAYS, "batch", "Leaving", "leaving: stay").await?;
    let early = stand.json(MOVES, "job/early").await?;
    ensure!(early["status"]["failed"].is_null() && early["status"]["active"] == 1, "{early}");
    let why = seen.moves.disrupted("early")?;
    ensure!(why.contains("EvictionByEvictionAPI") && why.len() == 1, "{why:?}");
    let code = seen.moves.exit_code("early")?;
    ensure!(code == Some(7), "the exit code of an evicted pod is {code:?}");
    Ok(())
}

/// Whose grace is too long is deleted once a third of the time is over; nobody else is.
async fn after_a_third(
    stand: &Stand<'_>,
    lease: &Lease,
    seen: &Both,
    before: Instant,
) -> Result<()> {
    was_asked(&seen.moves, "hour", before, NOTICE / 3).await?;
    let left = json!({ "ends": 1, "budget": 1, "noRoom": 2, "alone": 3, "stays": 1 });
    wait::until("the contract says who has still to go", PATIENCE / 4, || async {
        let shown = stand.home.json(&["contracts", "show", &lease.id]).await?;
        ensure!(shown["left"] == left, "{}", shown["left"]);
        Ok(true)
    })
    .await?;
    let asked = seen.moves.asked_to_end("")?;
    ensure!(asked.len() == 6, "{asked:?}");
    let asked = seen.stays.asked_to_end("")?;
    ensure!(asked.is_empty(), "{asked:?}");
    Ok(())
}

/// The rest is deleted, each pod so long before the end as it may need, and says why.
async fn in_the_last_step(stand: &Stand<'_>, seen: &Both, before: Instant) -> Result<()> {
    for pod in ["held", "far", "last", "bare", "final"] {
        was_asked(&seen.moves, pod, before, NOTICE - LAST - GRACE).await?;
    }
    was_asked(&seen.stays, "batch", before, NOTICE - LAST - GRACE).await?;
    was_asked(&seen.moves, "zero", before, NOTICE - LAST).await?;
    for (pod, words) in [
        ("held", "PodDisruptionBudget"),
        ("far", "no other node has room"),
        ("last", "no other node has room"),
        ("bare", "the pod is deleted before that"),
        ("zero", "the pod is deleted before that"),
        ("hour", "the pod is deleted before that"),
    ] {
        wait::until("it is told", SOON, || async {
            stand.was_told(MOVES, pod, "LeavingEnded", words).await.map(|()| true)
        })
        .await?;
    }
    // Until the provider ends all there is time for that.
    wait::until("what has ended says so at home", Duration::from_secs(15), || async {
        for pod in ["bare", "last", "final"] {
            let code = seen.moves.exit_code(pod)?;
            ensure!(code == Some(7), "the exit code of {pod} is {code:?}");
        }
        Ok(true)
    })
    .await?;
    ensure!(before.elapsed() < NOTICE, "the end was before that");
    let why = seen.moves.disrupted("last")?;
    ensure!(why.contains("DeletionByMercato") && why.len() == 1, "{why:?}");
    Ok(())
}

/// No Job has failed, and whoever was held is at home.
async fn afterwards(stand: &Stand<'_>, seen: &Both) -> Result<()> {
    wait::until("the job has another pod, which waits", PATIENCE, || async {
        let there = seen.moves.there("last")?;
        let waits = there.values().filter(|node| node.is_empty()).count();
        ensure!(waits == 1, "{there:?}");
        Ok(true)
    })
    .await?;
    for name in ["early", "last"] {
        let job = stand.json(MOVES, &format!("job/{name}")).await?;
        let failed = condition(&job, "Failed");
        ensure!(job["status"]["failed"].is_null() && failed.is_null(), "{}", job["status"]);
    }
    for (namespace, deployment) in [(MOVES, "deployment/held"), (STAYS, "deployment/batch")] {
        let rollout = ["-n", namespace, "rollout", "status", deployment, "--timeout=60s"];
        stand.rome().kubectl(&rollout).await?.ok()?;
    }
    Ok(())
}

/// A pod was asked to end so long after the notice, and no earlier.
async fn was_asked(seen: &Seen, pod: &str, before: Instant, after: Duration) -> Result<()> {
    let asked = loop {
        if let Some(at) = seen.asked_to_end(pod)?.into_values().next() {
            break at.duration_since(before);
        }
        ensure!(before.elapsed() < after + APART, "{pod} is not asked to end after {after:?}");
        sleep(Duration::from_millis(100)).await;
    };
    println!("{pod} was asked to end {asked:.1?} after the notice");
    // The notice was given a moment later than it was asked for.
    ensure!(asked >= after, "{pod} was asked to end after {asked:.1?} already, not {after:?}");
    Ok(())
}
