//! A federation to be tried, as a value: which clusters there are and what they have, how
//! they are linked, whom each knows at first, and what befalls them. Chance is not in it:
//! that comes of a run's seed.

mod file;
mod place;
mod topology;
mod wiring;

use mercato_protocol::resources::Resources;

pub use file::ScenarioError;
pub use place::Place;
pub use topology::{Topology, UnknownTopology};
pub(crate) use wiring::Wiring;

use crate::hostile::Character;

/// A federation to be tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The name that reports call it by.
    pub name: String,
    /// What it is, in a sentence for people.
    pub about: String,
    /// What it is read from: a scenario file, or the name of a topology.
    pub scenario: String,
    /// The number of clusters that was asked for; none: that of the scenario.
    pub asked_clusters: Option<usize>,
    /// A cluster's place is its index here.
    pub clusters: Vec<Cluster>,
    /// Sudden ends of a cluster's daemon in an hour, per thousand clusters.
    pub crashes_per_mille: u32,
    /// Jobs in a hundred that need a GPU.
    pub gpu_jobs_percent: u32,
    /// Between two usage reports, in s.
    pub metering_s: u32,
    /// What befalls it, in order of time.
    pub incidents: Vec<Incident>,
}

/// One cluster of a plan, and what it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name, which is unique in its plan.
    pub name: String,
    /// The part of the federation that it belongs to.
    pub region: String,
    /// Where on the globe it stands.
    pub place: Place,
    /// All that its nodes have.
    pub has: Resources,
    /// How much of that it offers to others, in percent; home's own pods get the rest.
    /// Zero: it only buys.
    pub shares_percent: u8,
    /// What its own jobs ask for on average, in percent of home's part.
    pub load_percent: u32,
    /// What it asks for its capacity, in percent of the usual price.
    pub price_percent: u32,
    /// A well-known cluster that others are told of.
    pub hub: bool,
    /// Its line to the network.
    pub access: Access,
    /// Whom it is told of at its start.
    pub knows: Vec<usize>,
    /// When its daemon first starts, in ms.
    pub joins_ms: u64,
    /// What it does against the others, if anything.
    pub character: Option<Character>,
}

/// A cluster's line to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// From here to the backbone, one way, in ms.
    pub latency_ms: u64,
    /// Up to so much more, in ms.
    pub jitter_ms: u64,
    /// Messages in a thousand that are lost on it. Streams repair losses, so this is what
    /// is lost for good, as when a connection breaks.
    pub lost_per_mille: u32,
    /// What it sends in a second, in kilobits.
    pub uplink_kbit: u64,
    /// Whether others can dial it.
    pub reachable: bool,
    /// In an hour the line is cut so often, per thousand.
    pub cuts_per_mille: u32,
}

impl Access {
    /// The line of a data centre.
    pub const FIBRE: Self = Self {
        latency_ms: 1,
        jitter_ms: 1,
        lost_per_mille: 0,
        uplink_kbit: 1_000_000,
        reachable: true,
        cuts_per_mille: 0,
    };
    /// That of a site behind a mobile router: 4G as measured by national regulators has 30
    /// to 60 ms to the next exchange and 10 to 20 Mbit/s up.
    pub const MOBILE: Self = Self {
        latency_ms: 25,
        jitter_ms: 40,
        lost_per_mille: 5,
        uplink_kbit: 15_000,
        reachable: false,
        cuts_per_mille: 2_000,
    };
}

/// Something that befalls the federation at a set time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When it begins, in ms of virtual time.
    pub at_ms: u64,
    /// For how long, in ms.
    pub for_ms: u64,
    /// What happens to the federation then.
    pub what: What,
}

/// What can befall a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// These regions and the others lose sight of each other.
    Partition(Vec<String>),
    /// The daemons of all hubs are down.
    HubsDown,
    /// Jobs that need GPUs come so many times as often.
    GpuRush(u32),
    /// A cluster cannot write its records.
    DiskFull(usize),
    /// A cluster's wall clock jumps by so many ms, and back at the end.
    ClockJump(usize, i64),
}

impl Incident {
    /// What happens, in words for people.
    pub fn describe(&self, plan: &Plan) -> String {
        let name = |at: &usize| plan.clusters[*at].name.clone();
        match &self.what {
            What::Partition(regions) => format!("{} cut off from the rest", regions.join(", ")),
            What::HubsDown => "all hubs down".to_owned(),
            What::GpuRush(times) => format!("rush on GPUs: {times} times the jobs"),
            What::DiskFull(at) => format!("disk full at {}", name(at)),
            What::ClockJump(at, by_ms) => format!("clock of {} off by {by_ms} ms", name(at)),
        }
    }
}

impl Plan {
    /// Whether the cluster at a place sells.
    pub(crate) fn sells(&self, at: usize) -> bool {
        self.clusters[at].shares_percent > 0
    }

    /// How long a message is under way between two places at least, in ms.
    pub fn latency_ms(&self, a: usize, b: usize) -> u64 {
        let (a, b) = (&self.clusters[a], &self.clusters[b]);
        a.access.latency_ms + b.access.latency_ms + a.place.latency_ms(b.place)
    }

    /// What a cluster offers to others.
    pub(crate) fn shared(&self, at: usize) -> Resources {
        let Cluster { has, shares_percent, .. } = &self.clusters[at];
        let part = |n: u64| n * u64::from(*shares_percent) / 100;
        Resources {
            cpu_millis: part(has.cpu_millis),
            memory_bytes: part(has.memory_bytes),
            pods: part(has.pods),
            storage_bytes: part(has.storage_bytes),
            // A cluster that shares gives all of its GPUs to the market.
            gpus: if *shares_percent > 0 { has.gpus.clone() } else { Default::default() },
        }
    }

    /// Links between these regions and the others, each with the lower place first.
    pub(crate) fn across(&self, regions: &[String]) -> Vec<[usize; 2]> {
        let inside = |at: &usize| regions.contains(&self.clusters[*at].region);
        let (inner, outer): (Vec<usize>, Vec<usize>) = (0..self.clusters.len()).partition(inside);
        let link = |a: usize, b: usize| [a.min(b), a.max(b)];
        inner.iter().flat_map(|a| outer.iter().map(move |b| link(*a, *b))).collect()
    }

    /// The parts of the federation, in order of their names.
    pub fn regions(&self) -> Vec<String> {
        let mut regions: Vec<String> =
            self.clusters.iter().map(|cluster| cluster.region.clone()).collect();
        regions.sort();
        regions.dedup();
        regions
    }
}
