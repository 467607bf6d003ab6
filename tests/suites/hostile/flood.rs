//! Both attacks at once and for long, in as many words as are taken: what they cost the
//! daemons' memory.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use mercato_kubelet::limits::BODIES;
use mercato_offload::forge;
use mercato_offload::limits::FRAME_STATEMENTS;
use mercato_protocol::workload::{
    Item, ObjectKind, PodId, Refusal, Report, Stage, ToGuest, ToHome, Uid,
};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::suite::{Level, level};
use mercato_tests::trend;
use serde_json::{Value, json};

use crate::Scene;
use crate::consumer::{Consumer, HOME, object, pod};
use crate::provider::{Provider, running};

/// How long it lasts, and how much of that is warm-up.
fn times() -> (Duration, Duration) {
    match level() {
        Level::Full => (Duration::from_secs(600), Duration::from_secs(120)),
        Level::Ci => (Duration::from_secs(14), Duration::from_secs(5)),
    }
}
/// What may be added after the warm-up, in hundredths of what there is. Less than minutes
/// tell nothing of that.
const GROWTH: f64 = 1.0;
/// What a daemon may have in memory at all, in MiB: bodies of two leases, each as many as
/// it keeps, and as much again for all else.
const MEMORY: f64 = ((4 * BODIES) >> 20) as f64;
const SAMPLE: Duration = Duration::from_secs(1);
/// Of one large object.
const CONTENT: usize = 50_000;
/// So many of them in a frame.
const AT_ONCE: usize = 20;
/// Pods that nobody has.
const STRANGERS: u64 = 2_000;

pub(crate) async fn goes_on(
    scene: &Scene<'_>,
    mut consumer: Consumer<'_>,
    mut provider: Provider<'_>,
) -> Result<()> {
    let (time, warm_up) = times();
    let full = futures::join!(fill_provider(&mut consumer), fill_home(&mut provider));
    full.0.and(full.1).context("as much as a lease may keep in memory")?;
    let end = Instant::now() + time;
    let says = async {
        let mut n = 0;
        while Instant::now() < end {
            n += 1;
            of_consumer(&mut consumer, n).await.context("the consumer")?;
        }
        anyhow::Ok(n)
    };
    let answers = async {
        let mut n = 0;
        while Instant::now() < end {
            n += 1;
            of_provider(&mut provider, n).await.context("the provider")?;
        }
        anyhow::Ok(n)
    };
    let victims = [&scene.siena, &scene.milan];
    let (said, answered, memory) = futures::join!(says, answers, samples(victims, end, warm_up));
    let (said, answered, memory) = (said?, answered?, memory?);
    println!("in {} s: {said} rounds of the consumer, {answered} of the provider", time.as_secs());
    for (victim, samples) in victims.iter().zip(&memory) {
        let (name, growth) = (victim.cluster.name(), trend::growth(samples));
        let (first, last) = (samples[0].1, samples[samples.len() - 1].1);
        println!("{name}: {first:.1} to {last:.1} MiB after warm-up, {growth:+.2} %");
    }
    for (victim, samples) in victims.iter().zip(&memory) {
        let (name, growth) = (victim.cluster.name(), trend::growth(samples));
        let flat = level() == Level::Ci || growth < GROWTH;
        ensure!(flat, "{name} grows by {growth:.2} %: {samples:?}");
        let within = samples.iter().all(|(_, mib)| *mib < MEMORY);
        ensure!(within, "{name} has more than {MEMORY} MiB: {samples:?}");
    }
    Ok(())
}

/// What is kept of a lease's objects has a bound, which is reached before memory is
/// measured. None of it is written: each has a field that is refused,
async fn fill_provider(consumer: &mut Consumer<'_>) -> Result<()> {
    for n in 0..=BODIES / CONTENT / AT_ONCE {
        let map = |one| {
            let map = json!({ "kind": "ConfigMap", "more": content(&format!("{n}-{one}")) });
            object(ObjectKind::ConfigMap, &format!("fill-{one}"), map)
        };
        consumer.put(&(0..AT_ONCE).map(map).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// or is said of pods that nobody has.
async fn fill_home(provider: &mut Provider<'_>) -> Result<()> {
    for n in 0..=BODIES / CONTENT / AT_ONCE {
        let all: Vec<Value> =
            (0..AT_ONCE).map(|one| json!({ "message": content(&format!("{n}-{one}")) })).collect();
        let said = all.iter().map(|status| {
            let report = Report { status: Some(forge::digest(status)), stage: Stage::Live };
            ToHome::Status { pod: stranger(0), report }
        });
        let bodies: Vec<Bytes> = all.iter().map(|status| status.to_string().into()).collect();
        provider.line.say(said.collect(), &bodies).await?;
    }
    let all: Vec<u64> = (0..STRANGERS).collect();
    for some in all.chunks(FRAME_STATEMENTS) {
        let have =
            |n: &u64| ToHome::Have { item: Item::Pod(stranger(*n)), digest: None, report: None };
        provider.line.say(some.iter().map(have).collect(), &[]).await?;
    }
    Ok(())
}

fn stranger(n: u64) -> PodId {
    PodId {
        uid: Uid(format!("stranger-{}", n % STRANGERS)),
        namespace: "kube-system".to_owned(),
        name: "stranger".to_owned(),
    }
}

fn content(word: &str) -> String {
    format!("{word} {}", "x".repeat(CONTENT))
}

/// A large config map that changes, a pod that comes, is refused and goes, a pod that is
/// forgotten before it was.
async fn of_consumer(consumer: &mut Consumer<'_>, n: u64) -> Result<()> {
    let map = json!({ "kind": "ConfigMap", "data": { "a": content(&n.to_string()) } });
    let map = object(ObjectKind::ConfigMap, &format!("map-{}", n % 10), map);
    let mut refused = pod("refused", json!({ "hostNetwork": true }));
    let id = PodId {
        uid: Uid(format!("flood-{n}")),
        namespace: HOME.to_owned(),
        name: format!("flood-{}", n % 100),
    };
    refused.0 = Item::Pod(id.clone());
    consumer.put(&[map, refused]).await?;
    let delete = ToGuest::Delete { pod: id.clone(), grace_s: 0 };
    let end = vec![delete, ToGuest::Taken(id.clone()), ToGuest::Want(id.clone())];
    // A body that nobody named.
    consumer.line.say(end, &[Bytes::from(json!({ "n": n }).to_string())]).await?;
    consumer.line.say(vec![ToGuest::Forget(id)], &[]).await?;
    consumer.line.heard().await?;
    Ok(())
}

/// A status that is another each time, pods and objects that nobody has, refusals.
async fn of_provider(provider: &mut Provider<'_>, n: u64) -> Result<()> {
    let pod = provider.pod.clone();
    let mut status: Value = running(&content(&n.to_string()), 7);
    status["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-01-01T00:00:00Z");
    provider.says(&pod, &status, Stage::Live).await?;
    let refusal = Refusal { path: format!("spec.{n}"), reason: "x".repeat(1_000) };
    let item = Item::Pod(stranger(n));
    let lies = vec![
        ToHome::Have { item: item.clone(), digest: None, report: None },
        ToHome::Refused { item: Item::Pod(pod.clone()), refusal: refusal.clone() },
        ToHome::Refused { item: item.clone(), refusal },
        ToHome::Missing(item),
    ];
    provider.line.say(lies, &[]).await?;
    provider.line.heard().await?;
    Ok(())
}

/// What each has in memory, in MiB by seconds, from the end of the warm-up on.
async fn samples(
    victims: [&Daemon<'_>; 2],
    end: Instant,
    warm_up: Duration,
) -> Result<[Vec<(f64, f64)>; 2]> {
    let start = Instant::now();
    let mut all = [Vec::new(), Vec::new()];
    while Instant::now() < end {
        tokio::time::sleep(SAMPLE).await;
        if start.elapsed() < warm_up {
            continue;
        }
        for (victim, samples) in victims.iter().zip(&mut all) {
            let rss = victim.cluster.usage(PART)?.rss_kib as f64 / 1_024.0;
            samples.push((start.elapsed().as_secs_f64(), rss));
        }
    }
    Ok(all)
}
