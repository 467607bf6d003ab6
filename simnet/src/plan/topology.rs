//! The named federations.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use mercato_protocol::resources::Resources;
use thiserror::Error;

use super::place::CITIES;
use super::{Access, Cluster, Incident, Plan, What, Wiring};
use crate::engine::rng::Rng;
use crate::hostile::Character;
use crate::limits::CLUSTERS;

const MINUTE_MS: u64 = 60_000;
const GI: u64 = 1 << 30;

/// A federation that has a name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// One that buys and one that sells.
    Pair,
    /// A few on one network.
    Lan,
    /// Each knows its neighbours in a circle.
    Ring,
    /// All meet at one hub.
    Star,
    /// All meet at a few hubs that know each other.
    Brokers,
    /// Regions with a hub each, and one above them.
    Hierarchy,
    /// Local networks whose hubs know each other.
    Hybrid,
    /// A circle of clusters with shortcuts across it.
    SmallWorld,
    /// Clusters of the cities of Italy, with the latencies between them.
    National,
    /// Small sites behind mobile lines, and a few data centres.
    Edge,
    /// Two parts that lose sight of each other for a while.
    Partition,
    /// A sudden rush on GPUs.
    FlashCrowd,
    /// Honest clusters among hostile ones.
    Hostile,
    /// One that has too little room for its pods, and a few that sell.
    Overflow,
}

/// There is no such topology.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no topology; there are {names}", names = names())]
pub struct UnknownTopology(String);

fn names() -> String {
    let names: Vec<String> = Topology::ALL.iter().map(ToString::to_string).collect();
    names.join(", ")
}

impl Topology {
    /// All topologies that there are.
    pub const ALL: [Self; 14] = [
        Self::Pair,
        Self::Lan,
        Self::Ring,
        Self::Star,
        Self::Brokers,
        Self::Hierarchy,
        Self::Hybrid,
        Self::SmallWorld,
        Self::National,
        Self::Edge,
        Self::Partition,
        Self::FlashCrowd,
        Self::Hostile,
        Self::Overflow,
    ];

    /// Name, size unless another is asked for, one sentence.
    fn facts(self) -> (&'static str, usize, &'static str) {
        match self {
            Self::Pair => ("pair", 2, "one cluster that buys and one that sells"),
            Self::Lan => ("lan", 5, "a few clusters that see each other on one network"),
            Self::Ring => ("ring", 24, "each cluster knows the next two in a circle"),
            Self::Star => ("star", 24, "all clusters meet at one hub, which goes down for a while"),
            Self::Brokers => ("brokers", 40, "clusters meet at four hubs that know each other"),
            Self::Hierarchy => ("hierarchy", 40, "regions with a hub each, and one above the hubs"),
            Self::Hybrid => ("hybrid", 40, "local networks whose hubs know each other"),
            Self::SmallWorld => ("small-world", 40, "a circle with a few shortcuts across it"),
            Self::National => ("national", 100, "clusters of Italian cities, at real distances"),
            Self::Edge => ("edge", 30, "small sites behind mobile lines, with a few data centres"),
            Self::Partition => {
                ("partition", 24, "two halves that lose sight of each other for ten minutes")
            }
            Self::FlashCrowd => ("flash-crowd", 30, "a sudden rush on the GPUs of a few clusters"),
            Self::Hostile => ("hostile", 20, "honest clusters among one of each kind of attacker"),
            Self::Overflow => (
                "overflow",
                4,
                "one cluster with too little room for its pods, and three that sell",
            ),
        }
    }

    /// What it is, in a sentence for people.
    pub fn description(self) -> &'static str {
        self.facts().2
    }

    /// How many clusters it has unless another number is asked for.
    pub fn default_clusters(self) -> usize {
        self.facts().1
    }

    /// The federation of so many clusters. What differs from cluster to cluster comes of the
    /// seed.
    pub fn plan(self, clusters: Option<usize>, seed: u64) -> Plan {
        let (name, usual, about) = self.facts();
        let asked_clusters = clusters;
        let n = clusters.unwrap_or(usual).clamp(*CLUSTERS.start(), *CLUSTERS.end());
        let mut rng = Rng::new(seed, "clusters");
        let mut clusters: Vec<Cluster> = (0..n).map(|at| cluster(at, &mut rng)).collect();
        let wiring = self.shape(&mut clusters, &mut rng);
        if !clusters.iter().any(|cluster| cluster.shares_percent > 0) {
            clusters[1].shares_percent = 50;
        }
        wiring.apply(&mut clusters, seed);
        Plan {
            name: name.to_owned(),
            about: about.to_owned(),
            scenario: name.to_owned(),
            asked_clusters,
            clusters,
            crashes_per_mille: if self == Self::National { 50 } else { 0 },
            gpu_jobs_percent: 8,
            metering_s: if self == Self::Hostile { 60 } else { 300 },
            incidents: self.incidents(),
        }
    }

    /// What makes the clusters those of this topology; and whom they know.
    fn shape(self, clusters: &mut [Cluster], rng: &mut Rng) -> Wiring {
        let n = clusters.len();
        match self {
            Self::Pair | Self::Lan | Self::Overflow => {
                for (at, cluster) in clusters.iter_mut().enumerate() {
                    let sells = if self == Self::Overflow { at > 0 } else { at % 2 == 1 };
                    cluster.shares_percent = if sells { 60 } else { 0 };
                    cluster.load_percent = if sells { 40 } else { 150 };
                    cluster.place = CITIES[0].place;
                    cluster.region = "lan".to_owned();
                }
                Wiring::Everybody
            }
            Self::Ring => Wiring::Ring,
            Self::SmallWorld => Wiring::SmallWorld,
            Self::Star => {
                hub(&mut clusters[0]);
                Wiring::Hubs
            }
            Self::Brokers => {
                let step = (n / 4).max(1);
                clusters.iter_mut().step_by(step).take(4).for_each(hub);
                Wiring::Hubs
            }
            Self::Hierarchy => {
                let mut regions = std::collections::BTreeSet::new();
                for cluster in clusters.iter_mut().skip(1) {
                    if regions.insert(cluster.region.clone()) {
                        hub(cluster);
                    }
                }
                hub(&mut clusters[0]);
                clusters[0].region = "root".to_owned();
                Wiring::Hubs
            }
            Self::Hybrid | Self::National => {
                two_hubs_a_region(clusters);
                // A federation is not there at once: the last tenth joins later.
                for cluster in clusters.iter_mut().skip(n - n / 10) {
                    cluster.joins_ms = rng.within(5..=30) * MINUTE_MS;
                }
                if self == Self::National { Wiring::Hubs } else { Wiring::Regions }
            }
            Self::Edge => {
                clusters.iter_mut().enumerate().for_each(|(at, cluster)| edge(at, cluster));
                Wiring::Hubs
            }
            Self::Partition | Self::FlashCrowd => {
                a_hub_a_region(clusters);
                Wiring::Regions
            }
            Self::Hostile => {
                beset(clusters);
                Wiring::Everybody
            }
        }
    }

    fn incidents(self) -> Vec<Incident> {
        let incident = |at, minutes, what| Incident {
            at_ms: at * MINUTE_MS,
            for_ms: minutes * MINUTE_MS,
            what,
        };
        match self {
            Self::Star | Self::Brokers => vec![incident(30, 15, What::HubsDown)],
            Self::Hierarchy => vec![incident(30, 15, What::HubsDown)],
            Self::Partition => vec![incident(
                20,
                10,
                What::Partition(vec!["south".to_owned(), "islands".to_owned()]),
            )],
            Self::National => vec![
                incident(20, 10, What::GpuRush(6)),
                incident(40, 5, What::Partition(vec!["islands".to_owned()])),
            ],
            Self::FlashCrowd => vec![incident(15, 15, What::GpuRush(15))],
            Self::Edge => vec![incident(25, 5, What::DiskFull(0))],
            Self::Pair
            | Self::Lan
            | Self::Ring
            | Self::Hybrid
            | Self::SmallWorld
            | Self::Hostile
            | Self::Overflow => Vec::new(),
        }
    }
}

/// The first cluster of each region is its hub.
fn a_hub_a_region(clusters: &mut [Cluster]) {
    let mut regions = std::collections::BTreeSet::new();
    for cluster in clusters {
        cluster.hub = regions.insert(cluster.region.clone());
    }
}

/// Two in each region, so that one can fail.
fn two_hubs_a_region(clusters: &mut [Cluster]) {
    let mut regions = BTreeMap::new();
    for cluster in clusters {
        let hubs = regions.entry(cluster.region.clone()).or_insert(0);
        if *hubs < 2 {
            *hubs += 1;
            cluster.hub = true;
        }
    }
}

/// One in six is a data centre that sells; the others are small and mobile.
fn edge(at: usize, cluster: &mut Cluster) {
    if at.is_multiple_of(6) {
        cluster.hub = true;
        cluster.shares_percent = 70;
        cluster.has.cpu_millis = 512_000;
        cluster.has.memory_bytes = 2_048 * GI;
    } else {
        cluster.access = Access::MOBILE;
        cluster.shares_percent = 0;
        cluster.has = hardware(32);
        cluster.load_percent = 110;
    }
}

/// The last ones are hostile, one of each kind as far as at least four stay honest.
fn beset(clusters: &mut [Cluster]) {
    let room = clusters.len().saturating_sub(4).min(Character::ALL.len());
    for (cluster, character) in clusters.iter_mut().rev().zip(Character::ALL).take(room) {
        let buys = matches!(character, Character::HoldHoarder | Character::NonSigningBuyer);
        cluster.character = Some(character);
        cluster.name = character.to_string();
        cluster.shares_percent = if buys { 0 } else { 60 };
        cluster.load_percent = if buys { 250 } else { 30 };
        cluster.price_percent = character.price_percent();
    }
}

/// A meeting point: it neither sells nor has much to do.
fn hub(cluster: &mut Cluster) {
    cluster.hub = true;
    cluster.shares_percent = 0;
    cluster.load_percent = 20;
}

/// An ordinary cluster: small ones are many; one in three sells, one in five of those has
/// GPUs; some have more to do than they can.
fn cluster(at: usize, rng: &mut Rng) -> Cluster {
    let city = &CITIES[at % CITIES.len()];
    let nth = at / CITIES.len();
    let name = if nth == 0 { city.name.to_owned() } else { format!("{}-{}", city.name, nth + 1) };
    let cores = [64, 64, 64, 128, 128, 256][rng.within(0..=5) as usize];
    let sells = rng.chance(450);
    let mut has = hardware(cores);
    if sells && rng.chance(400) {
        let (model, count) = [("h100", 4), ("l40s", 8)][rng.within(0..=1) as usize];
        has.gpus.insert(model.parse().expect("it is a model"), count);
    }
    // Not two in one spot.
    let aside = |rng: &mut Rng| rng.within(0..=70) as i32 - 35;
    let (lat, lon) = if nth == 0 { (0, 0) } else { (aside(rng), aside(rng)) };
    let mut place = city.place;
    place.lat += lat;
    place.lon += lon;
    Cluster {
        name,
        region: city.region.to_owned(),
        place,
        has,
        shares_percent: if sells { rng.within(4..=7) as u8 * 10 } else { 0 },
        load_percent: rng.within(if sells { 50..=120 } else { 80..=190 }) as u32,
        price_percent: rng.within(70..=140) as u32,
        hub: false,
        access: Access::FIBRE,
        knows: Vec::new(),
        joins_ms: 0,
        character: None,
    }
}

/// So many cores, with four gibibytes each.
fn hardware(cores: u64) -> Resources {
    Resources {
        cpu_millis: cores * 1_000,
        memory_bytes: cores * 4 * GI,
        pods: cores * 4,
        storage_bytes: 0,
        gpus: BTreeMap::new(),
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.facts().0)
    }
}

impl FromStr for Topology {
    type Err = UnknownTopology;

    fn from_str(text: &str) -> Result<Self, UnknownTopology> {
        let found = Self::ALL.into_iter().find(|topology| topology.to_string() == text);
        found.ok_or_else(|| UnknownTopology(text.to_owned()))
    }
}
