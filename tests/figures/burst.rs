//! Many pods at once: through the virtual node onto Turin's simulated nodes, against as
//! many in both clusters at the same time without Mercato. Each round has clusters of its
//! own; the two kinds take turns.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::PART;

use crate::lease;
use crate::stage::on_bed;
use crate::table::{median, short, spread};

/// What is still to be written once all are ready.
const SETTLE: Duration = Duration::from_secs(2);
/// Of a control plane with simulated nodes.
const PARTS: [&str; 5] =
    ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok"];
/// Pods that a simulated node takes.
const PODS_OF_NODE: usize = 110;

/// One burst.
struct Round {
    seconds: f64,
    /// Processor time for each pod in ms, by cluster and part.
    cpu: BTreeMap<(&'static str, &'static str), f64>,
    /// Writes for each pod, by cluster and what was written.
    writes: BTreeMap<(&'static str, String), f64>,
}

pub(crate) fn measure(pods: usize, rounds: usize) -> Result<()> {
    let nodes = u32::try_from(pods.div_ceil(PODS_OF_NODE) + 2)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        without.push(on_bed(nodes, async |rome, turin| plain(rome, turin, pods).await)?);
        with.push(on_bed(nodes, async |rome, turin| federated(rome, turin, pods).await)?);
    }
    print(pods, &without, &with);
    Ok(())
}

async fn plain(rome: &Cluster, turin: &Cluster, pods: usize) -> Result<Round> {
    futures::try_join!(lease::namespace(rome), lease::namespace(turin))?;
    let before = Before::look(rome, turin, &PARTS)?;
    futures::try_join!(lease::deploy(rome, pods), lease::deploy(turin, pods))?;
    futures::try_join!(lease::ready(rome, pods), lease::ready(turin, pods))?;
    before.round(pods).await
}

async fn federated(rome: &Cluster, turin: &Cluster, pods: usize) -> Result<Round> {
    lease::start(rome, turin, pods).await?;
    let parts: Vec<_> = PARTS.into_iter().chain([PART]).collect();
    let before = Before::look(rome, turin, &parts)?;
    lease::deploy(rome, pods).await?;
    lease::ready(rome, pods).await?;
    before.round(pods).await
}

/// How things were when the burst began.
struct Before<'a> {
    at: Instant,
    clusters: Vec<(&'a Cluster, mercato_tests::audit::Mark)>,
    used: BTreeMap<(&'a str, &'static str), u64>,
}

impl<'a> Before<'a> {
    fn look(rome: &'a Cluster, turin: &'a Cluster, parts: &[&'static str]) -> Result<Self> {
        let mut used = BTreeMap::new();
        let mut clusters = Vec::new();
        for cluster in [rome, turin] {
            clusters.push((cluster, cluster.audit_mark()?));
            for part in parts {
                used.insert((cluster.name(), *part), cluster.usage(part)?.cpu_ms);
            }
        }
        Ok(Self { at: Instant::now(), clusters, used })
    }

    async fn round(self, pods: usize) -> Result<Round> {
        let seconds = self.at.elapsed().as_secs_f64();
        tokio::time::sleep(SETTLE).await;
        let each = |count: u64| count as f64 / pods as f64;
        let (mut cpu, mut writes) = (BTreeMap::new(), BTreeMap::new());
        for (cluster, (side, mark)) in self.clusters.into_iter().map(|(c, m)| (c, (side(c), m))) {
            let parts = self.used.iter().filter(|((name, _), _)| *name == cluster.name());
            for ((_, part), before) in parts {
                let used = cluster.usage(part)?.cpu_ms - before;
                cpu.insert((side, *part), each(used));
            }
            for (write, count) in cluster.writes_since(mark)? {
                let refused = if write.ok { "" } else { ", refused" };
                let what = format!("{} {} {}{refused}", write.by, write.verb, write.resource);
                writes.insert((side, what), each(count as u64));
            }
        }
        Ok(Round { seconds, cpu, writes })
    }
}

fn side(cluster: &Cluster) -> &'static str {
    if cluster.name() == "rome" { "home" } else { "provider" }
}

fn print(pods: usize, without: &[Round], with: &[Round]) {
    let seconds = |rounds: &[Round]| rounds.iter().map(|round| round.seconds).collect::<Vec<_>>();
    let (plain, ours) = (seconds(without), seconds(with));
    let ratios: Vec<_> = ours.iter().zip(&plain).map(|(ours, plain)| ours / plain).collect();
    println!("\n### {pods} pods at once, {} rounds\n", with.len());
    println!(
        "| | without Mercato, in both | through the virtual node | ratio |\n|---|---|---|---|"
    );
    println!("| all ready, s | {} | {} | {} |", spread(&plain), spread(&ours), spread(&ratios));
    let total = |round: &Round| round.cpu.values().sum::<f64>();
    let all = |rounds: &[Round]| rounds.iter().map(total).collect::<Vec<_>>();
    let (plain, ours) = (all(without), all(with));
    let ratio = median(&ours) / median(&plain);
    println!(
        "| processor, all programs, ms a pod | {} | {} | {} |",
        spread(&plain),
        spread(&ours),
        short(ratio)
    );
    let keys = with.iter().flat_map(|round| round.cpu.keys()).copied();
    for key @ (side, part) in keys.collect::<std::collections::BTreeSet<_>>() {
        let of = |rounds: &[Round]| {
            let each: Vec<_> =
                rounds.iter().filter_map(|round| round.cpu.get(&key).copied()).collect();
            spread(&each)
        };
        println!("| {part} at the {side}, ms a pod | {} | {} | |", of(without), of(with));
    }
    println!("\n| side | write | a pod, without | a pod, with |\n|---|---|---|---|");
    let keys = with.iter().chain(without).flat_map(|round| round.writes.keys()).cloned();
    for key in keys.collect::<std::collections::BTreeSet<_>>() {
        let of = |rounds: &[Round]| {
            let of = |round: &Round| round.writes.get(&key).copied().unwrap_or_default();
            median(&rounds.iter().map(of).collect::<Vec<_>>())
        };
        let (plain, ours) = (of(without), of(with));
        if plain.max(ours) >= WORTH_SAYING {
            println!("| {} | {} | {} | {} |", key.0, key.1, short(plain), short(ours));
        }
    }
}

/// Fewer writes a pod are those of nodes and Leases.
const WORTH_SAYING: f64 = 0.02;
