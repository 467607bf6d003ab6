//! How fast gossip spreads, and what that costs, for whole federations in virtual time:
//! `cargo bench -p mercato-simnet --bench spread -- [one|urgent|heal|hour|some|many]`. Each figure is
//! printed with the numbers that it rests on. Links are given; who dials whom is the
//! directory's.
#![allow(clippy::unwrap_used, clippy::disallowed_types, reason = "a benchmark, not the program")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod ads;
mod directories;
mod meeting;
mod network;

use std::time::Instant;

use ads::Ads;
use mercato_gossip::limits::UNSETTLED_MS;
use mimalloc::MiMalloc;
use network::{Count, Network};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|want| want == name);
    if runs("one") {
        (1..=5).for_each(|seed| one(seed, false));
    }
    if runs("urgent") {
        (1..=5).for_each(|seed| one(seed, true));
    }
    if runs("heal") {
        (1..=5).for_each(heal);
    }
    if runs("hour") {
        hour();
    }
    if runs("many") {
        many(10_000);
    }
    if runs("some") {
        many(2_000);
    }
}

/// One way, on links that are all the same: so that time is counted in round trips.
const ONE_WAY_MS: u64 = 50;
/// One way, on links as between near and far data centres.
const MIXED_MS: std::ops::RangeInclusive<u64> = 1..=57;

/// One publication in a federation of 1,000 that is at rest.
fn one(seed: u64, urgent: bool) {
    let mut network = Network::new(1_000, seed, ONE_WAY_MS..=ONE_WAY_MS, 1, 2);
    let mut ads = Ads::new(1_000);
    network.publish(0, ads.ad(0, 1, 0));
    network.run(60_000);
    let (since_ms, bodies, before) =
        (network.at_ms(), network.count().bodies, network.count().learned);
    let news = if urgent { ads.end(0, 2, since_ms) } else { ads.ad(1, 1, since_ms) };
    network.publish(usize::from(!urgent), news);
    network.run_until(20_000, |learned| learned - before >= 989);
    let round_trips = (network.at_ms() - since_ms) as f64 / (2 * ONE_WAY_MS) as f64;
    network.run(20_000);
    let reached = network.count().learned - before;
    println!(
        "{}: seed {seed}: 99 % of 1,000 clusters in {round_trips:.1} round trips; {reached} \
         reached in the end; {:.3} copies of the body",
        if urgent { "urgent" } else { "one" },
        (network.count().bodies - bodies) as f64 / reached as f64,
    );
}

/// Two halves of 1,000, apart for a minute in which everybody renews at the usual pace.
fn heal(seed: u64) {
    let mut network = Network::new(1_000, seed, MIXED_MS, 1, 2);
    let mut ads = Ads::new(1_000);
    (0..1_000).for_each(|node| network.publish(node, ads.ad(node, 1, 0)));
    network.run(60_000);
    let cut = network.part(500);
    for step in 0..200 {
        let node = (step * 7 + usize::try_from(seed).unwrap()) % 1_000;
        let at_ms = network.at_ms();
        network.publish(node, ads.ad(node, 2, at_ms));
        network.run(300);
    }
    let missing = network.missing(&ads);
    let since_ms = network.at_ms();
    network.join(&cut);
    network.run_until(60_000, |learned| learned == ads.said * 999);
    println!(
        "heal: seed {seed}: {missing} ads missing after 60 s apart; 100 % within {} ms of the \
         heal; {} missing",
        network.at_ms() - since_ms,
        network.missing(&ads),
    );
}

/// An hour of 1,000 clusters, of which each renews its ad every five minutes.
fn hour() {
    const CLUSTERS: usize = 1_000;
    let mut network = Network::new(CLUSTERS, 1, MIXED_MS, 1, 2);
    let mut ads = Ads::new(CLUSTERS);
    let (cpu_before, start) = (cpu_s(), Instant::now());
    (0..CLUSTERS).for_each(|node| network.publish(node, ads.ad(node, 1, 0)));
    for seq in 2..14 {
        for node in 0..CLUSTERS {
            network.run(300);
            let at_ms = network.at_ms();
            network.publish(node, ads.renew(node, seq, at_ms));
        }
    }
    let (took_s, virtual_s) = (start.elapsed().as_secs_f64(), network.at_ms() as f64 / 1e3);
    let Count { learned, messages, marks, .. } = network.count();
    println!(
        "hour: {CLUSTERS} clusters for {virtual_s:.0} virtual s on two threads: {took_s:.1} s, {:.0} \
         times as fast; {:.1} CPU-s; {learned} deliveries, {messages} messages, {marks} marks; \
         {} missing",
        virtual_s / took_s,
        cpu_s() - cpu_before,
        network.missing(&ads),
    );
}

/// Many clusters with their directories, all neighbours for a while, on links as in [`one`].
fn many(size: usize) {
    /// Ads that begin together in each step.
    const BEGIN: usize = 70;
    let mut network = Network::new(size, 1, ONE_WAY_MS..=ONE_WAY_MS, ONE_WAY_MS, 1);
    network.direct();
    let mut ads = Ads::new(size);
    let cpu_before = cpu_s();
    network.run(UNSETTLED_MS + ONE_WAY_MS);
    for node in 0..size {
        let at_ms = network.at_ms();
        network.publish(node, ads.ad(node, 1, at_ms));
        if (node + 1).is_multiple_of(BEGIN) {
            network.run(ONE_WAY_MS);
        }
    }
    let all = size * (size - 1);
    network.run_until(60_000, |learned| learned == all);
    let (cpu_s, peak_gib) = (cpu_s() - cpu_before, peak_gib());
    let Count { learned, messages, marks, bodies } = network.count();
    let (known, dials) = network.directories().map_or((0.0, 0), |of| (of.known(), of.dials));
    println!(
        "many: {size} clusters x {size} ads: {learned} of {all} deliveries after {:.1} virtual s; \
         {cpu_s:.1} CPU-s; peak memory {peak_gib:.2} GiB; {messages} messages, {marks} marks, \
         {:.3} copies of a body; each directory knows {known:.0} others; {dials} dials",
        network.at_ms() as f64 / 1e3,
        bodies as f64 / learned as f64,
    );
}

/// What this process has computed, in seconds, of both kinds.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit(')').next().unwrap();
    let ticks: u64 =
        after.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

fn peak_gib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0 / 1024.0
}
