//! Both attacks at once and for long, in as many words as are taken: what they cost the
//! daemons' memory.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use mercato_protocol::workload::{Item, ObjectKind, PodId, Refusal, Stage, ToGuest, ToHome, Uid};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::suite::{Level, level};
use serde_json::{Value, json};

use crate::Scene;
use crate::consumer::{Consumer, HOME, object, pod};
use crate::provider::{Provider, running};

/// How long it lasts, how much of that is warm-up, and what may be added after it, in
/// hundredths of what there is: a minute is too short to tell less from chance.
fn bounds() -> (Duration, Duration, f64) {
    match level() {
        Level::Full => (Duration::from_secs(600), Duration::from_secs(120), 1.0),
        Level::Ci => (Duration::from_secs(60), Duration::from_secs(30), 5.0),
    }
}
const SAMPLE: Duration = Duration::from_secs(1);

pub(crate) async fn goes_on(
    scene: &Scene<'_>,
    mut consumer: Consumer<'_>,
    mut provider: Provider<'_>,
) -> Result<()> {
    let (time, warm_up, most) = bounds();
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
    for (victim, samples) in victims.iter().zip(memory) {
        let name = victim.cluster.name();
        let (first, last) = (samples[0].1, samples[samples.len() - 1].1);
        let slope = slope(&samples);
        println!("{name}: {first:.1} to {last:.1} MiB after warm-up, {slope:+.2} %");
        ensure!(slope < most, "{name} grows by {slope:.2} %: {samples:?}");
    }
    Ok(())
}

/// A large config map that changes, a pod that comes, is refused and goes, a pod that is
/// forgotten before it was.
async fn of_consumer(consumer: &mut Consumer<'_>, n: u64) -> Result<()> {
    let content = format!("{n} {}", "x".repeat(50_000));
    let map = json!({ "kind": "ConfigMap", "data": { "a": content } });
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
    consumer.line.say(vec![ToGuest::Forget(id)], &[]).await
}

/// A status that is another each time, pods and objects that nobody has, refusals.
async fn of_provider(provider: &mut Provider<'_>, n: u64) -> Result<()> {
    let pod = provider.pod.clone();
    let mut status: Value = running(&format!("word {n}"), 7);
    status["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-01-01T00:00:00Z");
    provider.says(&pod, &status, Stage::Live).await?;
    let stranger = PodId {
        uid: Uid(format!("stranger-{}", n % 2_000)),
        namespace: "kube-system".to_owned(),
        name: "stranger".to_owned(),
    };
    let refusal = Refusal { path: format!("spec.{n}"), reason: "x".repeat(1_000) };
    let item = Item::Pod(stranger);
    let lies = vec![
        ToHome::Have { item: item.clone(), digest: None, report: None },
        ToHome::Refused { item: Item::Pod(pod.clone()), refusal: refusal.clone() },
        ToHome::Refused { item: item.clone(), refusal },
        ToHome::Missing(item),
    ];
    provider.line.say(lies, &[]).await
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

/// By how many hundredths of the mean the straight line through the samples rises over
/// their whole time (least squares).
fn slope(samples: &[(f64, f64)]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (time, size) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let both: f64 = samples.iter().map(|(at, is)| (at - time) * (is - size)).sum();
    let square: f64 = samples.iter().map(|(at, _)| (at - time).powi(2)).sum();
    let span = samples[samples.len() - 1].0 - samples[0].0;
    100.0 * (both / square) * span / size
}
