//! Many pods at once: through the virtual node onto Turin's simulated nodes, against as
//! many in both clusters at the same time without Mercato; and their end, all at once. Each round
//! has clusters of its own; the two kinds take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::PART;

use crate::lease::{self, side};
use crate::stage::on_bed;
use crate::table::{self, median, short, spread};

/// What is still to be written once all are ready.
const SETTLE: Duration = Duration::from_secs(2);
/// Of a control plane with simulated nodes.
const PARTS: [&str; 5] =
    ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok"];
/// Pods that a simulated node takes.
const PODS_OF_NODE: usize = 110;

/// One burst.
struct Round {
    /// Until all pods are ready.
    start: Stretch,
    /// From the deletion of their owner until there is none.
    end: Stretch,
}

/// What some time of it took.
struct Stretch {
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
    let start = before.stretch(pods).await?;
    let before = Before::look(rome, turin, &PARTS)?;
    let here = |cluster| lease::delete(cluster, lease::NAMESPACE);
    futures::try_join!(here(rome), here(turin))?;
    Ok(Round { start, end: before.stretch(pods).await? })
}

async fn federated(rome: &Cluster, turin: &Cluster, pods: usize) -> Result<Round> {
    lease::start(rome, turin, pods).await?;
    let parts: Vec<_> = PARTS.into_iter().chain([PART]).collect();
    let before = Before::look(rome, turin, &parts)?;
    lease::deploy(rome, pods).await?;
    lease::ready(rome, pods).await?;
    let start = before.stretch(pods).await?;
    let before = Before::look(rome, turin, &parts)?;
    lease::delete(rome, lease::NAMESPACE).await?;
    lease::none(turin, lease::GUESTS).await?;
    Ok(Round { start, end: before.stretch(pods).await? })
}

/// How things were when it began.
struct Before<'a> {
    at: Instant,
    clusters: Vec<(&'a Cluster, mercato_tests::cluster::audit::Mark)>,
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

    async fn stretch(self, pods: usize) -> Result<Stretch> {
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
        Ok(Stretch { seconds, cpu, writes })
    }
}

fn print(pods: usize, without: &[Round], with: &[Round]) {
    let rounds = format!("{} rounds of each kind in turns", with.len());
    table::head(&format!("{pods} pods at once, {rounds}"));
    table_of("until all are ready", "1.3", without, with, |round| &round.start);
    table::head(&format!("The end of {pods} pods at once, {rounds}"));
    table_of("until there is none", "1.5", without, with, |round| &round.end);
}

/// The rows of what was done, and how many times as long it may take as without Mercato.
fn table_of(
    done: &str,
    goal: &str,
    without: &[Round],
    with: &[Round],
    stretch: fn(&Round) -> &Stretch,
) {
    let of = |rounds: &[Round], figure: &dyn Fn(&Stretch) -> f64| -> Vec<f64> {
        rounds.iter().map(|round| figure(stretch(round))).collect()
    };
    let times = |figure: &dyn Fn(&Stretch) -> f64| {
        let (ours, plain) = (of(with, figure), of(without, figure));
        spread(&ours.iter().zip(&plain).map(|(ours, plain)| ours / plain).collect::<Vec<_>>())
    };
    let both = |figure: &dyn Fn(&Stretch) -> f64, unit: &str| {
        let (ours, plain) = (spread(&of(with, figure)), spread(&of(without, figure)));
        format!("{ours} {unit}; {plain} without")
    };
    let seconds = |it: &Stretch| it.seconds;
    table::row("in times of as many in both clusters without", goal, &times(&seconds));
    table::row(done, "", &both(&seconds, "s"));
    for side in SIDES {
        let ours = |it: &Stretch| it.of_ours(side);
        let what = format!("writes of ours for each {done}, at the {side}");
        table::row(&what, "2", &spread(&of(with, &ours)));
    }
    let all = |it: &Stretch| it.cpu.values().sum::<f64>();
    table::row("processor time of all programs for each", "", &both(&all, "ms"));
    for side in SIDES {
        for part in PARTS.into_iter().chain([PART]) {
            let used = |it: &Stretch| it.cpu.get(&(side, part)).copied().unwrap_or_default();
            table::row(&format!("of {part} at the {side}"), "", &both(&used, "ms"));
        }
    }
    let rounds = with.iter().chain(without);
    let kinds = rounds.flat_map(|round| stretch(round).writes.keys()).cloned();
    for kind in kinds.collect::<BTreeSet<_>>() {
        let count = |it: &Stretch| it.writes.get(&kind).copied().unwrap_or_default();
        let (ours, plain) = (median(&of(with, &count)), median(&of(without, &count)));
        if plain.max(ours) >= WORTH_SAYING {
            let what = format!("writes for each at the {}: {}", kind.0, kind.1);
            table::row(&what, "", &format!("{}; {} without", short(ours), short(plain)));
        }
    }
}

impl Stretch {
    /// Writes of the daemon's to pods and what they need.
    fn of_ours(&self, side: &str) -> f64 {
        let ours = |(of, what): &(&str, String)| *of == side && what.starts_with(PART);
        self.writes.iter().filter(|(kind, _)| ours(kind)).map(|(_, count)| count).sum()
    }
}

/// The two sides, as [`side`] calls them.
const SIDES: [&str; 2] = ["home", "provider"];
/// Fewer writes a pod are those of nodes and Leases.
const WORTH_SAYING: f64 = 0.02;
