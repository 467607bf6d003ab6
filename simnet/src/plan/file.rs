//! Scenario files: a named topology with changes, or groups of clusters of one's own.

use mercato_config::{FromText, Seconds};
use mercato_protocol::resources::Resources;
use serde::{Deserialize, Deserializer, de};
use thiserror::Error;

use super::{Access, Cluster, Incident, Place, Plan, Topology, What, Wiring};
use crate::hostile::Character;
use crate::limits::CLUSTERS;

/// The file is not what it should be: where and why.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ScenarioError(String);

/// A scenario as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct File {
    name: Option<String>,
    about: Option<String>,
    /// Begins with this one; groups are added to it.
    #[serde(deserialize_with = "topology")]
    topology: Option<Topology>,
    /// How many clusters the topology has.
    clusters: Option<usize>,
    groups: Vec<Group>,
    wiring: Option<WiringName>,
    /// Sudden ends of a daemon in an hour, per thousand clusters.
    crashes: Option<u32>,
    /// Jobs in a hundred that need a GPU.
    gpu_jobs: Option<u32>,
    incidents: Vec<IncidentEntry>,
}

/// Clusters of one kind, as a plan's file has them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Group {
    name: String,
    #[serde(default = "one")]
    count: usize,
    region: Option<String>,
    /// In hundredths of a degree.
    place: Option<Place>,
    #[serde(deserialize_with = "text")]
    has: Resources,
    #[serde(default)]
    shares: u8,
    #[serde(default = "most")]
    load: u32,
    #[serde(default = "whole")]
    price: u32,
    #[serde(default)]
    hub: bool,
    #[serde(default)]
    line: Line,
    #[serde(default, deserialize_with = "some_text")]
    joins: Option<Seconds>,
    #[serde(default, deserialize_with = "character")]
    hostile: Option<Character>,
}

fn one() -> usize {
    1
}

fn most() -> u32 {
    70
}

fn whole() -> u32 {
    100
}

/// What kind of line joins a cluster to the others.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    #[default]
    Fibre,
    Mobile,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WiringName {
    Everybody,
    Ring,
    SmallWorld,
    Hubs,
    Regions,
}

/// One of its kinds, at a time.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IncidentEntry {
    #[serde(deserialize_with = "text")]
    at: Seconds,
    #[serde(rename = "for", deserialize_with = "text")]
    lasts: Seconds,
    partition: Option<Vec<String>>,
    hubs_down: Option<bool>,
    gpu_rush: Option<u32>,
    disk_full: Option<String>,
    clock_jump: Option<ClockJump>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockJump {
    cluster: String,
    seconds: i64,
}

impl Plan {
    /// Reads a scenario file's text. `name` is what it is called in errors, `clusters` and
    /// `seed` as for [`Topology::plan`].
    pub fn parse(
        name: &str,
        yaml: &str,
        clusters: Option<usize>,
        seed: u64,
    ) -> Result<Self, ScenarioError> {
        let wrong = |what: String| ScenarioError(format!("{name}: {what}"));
        let file: File = serde_saphyr::from_str(yaml).map_err(|error| wrong(error.to_string()))?;
        let plan = file.plan(clusters, seed).map_err(wrong)?;
        Ok(Self { scenario: name.to_owned(), asked_clusters: clusters, ..plan })
    }
}

impl File {
    fn plan(self, clusters: Option<usize>, seed: u64) -> Result<Plan, String> {
        let (least, most) = (CLUSTERS.start(), CLUSTERS.end());
        let asked = clusters.or(self.clusters);
        let groups = self.groups.iter().map(|group| group.count);
        let count = asked.into_iter().chain(groups).fold(0, usize::saturating_add);
        if count > *most || asked.is_some_and(|asked| asked < *least) {
            return Err(format!("{count} clusters: a federation has {least} to {most}"));
        }
        let mut plan = match self.topology {
            Some(topology) => topology.plan(clusters.or(self.clusters), seed),
            None if clusters.or(self.clusters).is_some() => {
                return Err("`clusters` is of a topology; groups have a `count`".to_owned());
            }
            None => Plan {
                name: "scenario".to_owned(),
                about: String::new(),
                scenario: String::new(),
                asked_clusters: None,
                clusters: Vec::new(),
                crashes_per_mille: 0,
                gpu_jobs_percent: 0,
                metering_s: 300,
                incidents: Vec::new(),
            },
        };
        plan.name = self.name.unwrap_or(plan.name);
        plan.about = self.about.unwrap_or(plan.about);
        plan.crashes_per_mille = self.crashes.unwrap_or(plan.crashes_per_mille);
        plan.gpu_jobs_percent = self.gpu_jobs.unwrap_or(plan.gpu_jobs_percent);
        let grouped = !self.groups.is_empty();
        for group in self.groups {
            group.check()?;
            plan.clusters.extend((0..group.count).map(|nth| group.cluster(nth)));
        }
        if plan.clusters.len() < 2 {
            return Err("a federation has at least two clusters: `topology` or `groups`".to_owned());
        }
        let names = plan.clusters.iter().map(|cluster| &cluster.name);
        let mut sorted: Vec<&String> = names.collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two clusters are called {:?}", twice[0]));
        }
        if grouped || self.wiring.is_some() {
            let wiring = match self.wiring.unwrap_or(WiringName::Everybody) {
                WiringName::Everybody => Wiring::Everybody,
                WiringName::Ring => Wiring::Ring,
                WiringName::SmallWorld => Wiring::SmallWorld,
                WiringName::Hubs => Wiring::Hubs,
                WiringName::Regions => Wiring::Regions,
            };
            if wiring == Wiring::Hubs && plan.clusters.iter().all(|cluster| !cluster.hub) {
                return Err("`wiring: hubs`, but no group says `hub: true`".to_owned());
            }
            if let Some(region) = lonely(wiring, &plan) {
                return Err(format!(
                    "`wiring: regions`, but no group of region {region:?} says `hub: true`: \
                     nobody there would know of the other regions"
                ));
            }
            wiring.apply(&mut plan.clusters, seed);
        }
        if !self.incidents.is_empty() {
            plan.incidents.clear();
        }
        for entry in self.incidents {
            let incident = entry.incident(&plan)?;
            plan.incidents.push(incident);
        }
        plan.incidents.sort_by_key(|incident| incident.at_ms);
        Ok(plan)
    }
}

/// A region that is an island: no cluster of it is told of another region's.
fn lonely(wiring: Wiring, plan: &Plan) -> Option<String> {
    let regions = plan.regions();
    if wiring != Wiring::Regions || regions.len() < 2 {
        return None;
    }
    let hub = |region: &String| plan.clusters.iter().any(|it| it.hub && it.region == *region);
    regions.into_iter().find(|region| !hub(region))
}

impl Group {
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        match () {
            () if self.count == 0 => Err(format!("group {name:?} has a count of 0")),
            () if self.shares > 90 => {
                Err(format!("group {name:?} shares {} %; at most 90 % can be", self.shares))
            }
            () if self.has.cpu_millis == 0 || self.has.memory_bytes == 0 || self.has.pods == 0 => {
                Err(format!("group {name:?} `has` no cpu, no memory or no pods"))
            }
            () => Ok(()),
        }
    }

    fn cluster(&self, nth: usize) -> Cluster {
        let name =
            if self.count == 1 { self.name.clone() } else { format!("{}-{}", self.name, nth + 1) };
        Cluster {
            name,
            region: self.region.clone().unwrap_or_else(|| self.name.clone()),
            place: self.place.unwrap_or(Place { lat: 4190, lon: 1250 }),
            has: self.has.clone(),
            shares_percent: self.shares,
            load_percent: self.load,
            price_percent: self.price,
            hub: self.hub,
            access: match self.line {
                Line::Fibre => Access::FIBRE,
                Line::Mobile => Access::MOBILE,
            },
            knows: Vec::new(),
            joins_ms: self.joins.map_or(0, |joins| joins.0 * 1_000),
            character: self.hostile,
        }
    }
}

impl IncidentEntry {
    fn incident(self, plan: &Plan) -> Result<Incident, String> {
        let place = |name: &str| {
            let found = plan.clusters.iter().position(|cluster| cluster.name == name);
            found.ok_or_else(|| format!("an incident at {name:?}, which is no cluster"))
        };
        let mut whats = Vec::new();
        if let Some(regions) = self.partition {
            let known = plan.regions();
            if let Some(odd) = regions.iter().find(|region| !known.contains(region)) {
                return Err(format!("{odd:?} is no region; there are {}", known.join(", ")));
            }
            whats.push(What::Partition(regions));
        }
        whats.extend(self.hubs_down.unwrap_or(false).then_some(What::HubsDown));
        whats.extend(self.gpu_rush.map(What::GpuRush));
        if let Some(name) = &self.disk_full {
            whats.push(What::DiskFull(place(name)?));
        }
        if let Some(ClockJump { cluster, seconds }) = &self.clock_jump {
            whats.push(What::ClockJump(place(cluster)?, seconds.saturating_mul(1_000)));
        }
        let one = "an incident is one of partition, hubsDown, gpuRush, diskFull and clockJump";
        let [what] = <[What; 1]>::try_from(whats).map_err(|_| one.to_owned())?;
        Ok(Incident { at_ms: self.at.0 * 1_000, for_ms: self.lasts.0 * 1_000, what })
    }
}

fn text<'de, D: Deserializer<'de>, T: FromText>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    T::from_text(&text).map_err(|error| de::Error::custom(error.line()))
}

fn some_text<'de, D: Deserializer<'de>, T: FromText>(from: D) -> Result<Option<T>, D::Error> {
    text(from).map(Some)
}

fn topology<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Topology>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(de::Error::custom)
}

fn character<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Character>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(yaml: &str) -> String {
        Plan::parse("lab.yaml", yaml, None, 1).unwrap_err().to_string()
    }

    #[test]
    fn the_example_is_read() {
        let example = include_str!("../../scenarios/campus.yaml");
        let plan = Plan::parse("campus.yaml", example, None, 1).unwrap();
        assert_eq!(plan.name, "campus");
        assert_eq!(plan.clusters.len(), 12);
        assert_eq!(plan.clusters[11].character, Some(Character::Flooder));
        assert_eq!(plan.incidents.len(), 3);
        assert!(plan.incidents.is_sorted_by_key(|incident| incident.at_ms));
        assert_eq!(plan.scenario, "campus.yaml");
        let of = |region: &str| plan.clusters.iter().position(|it| it.region == region).unwrap();
        let knows = |from: usize, to: usize| plan.clusters[from].knows.contains(&to);
        assert!(knows(of("campus"), of("city")) && knows(of("field"), of("city")));
    }

    #[test]
    fn a_topology_can_be_changed() {
        let yaml =
            "topology: star\nclusters: 9\nincidents:\n- {at: 5m, for: 30s, hubsDown: true}\n";
        let plan = Plan::parse("x", yaml, None, 1).unwrap();
        assert_eq!((plan.clusters.len(), plan.incidents.len()), (9, 1));
        assert_eq!(plan.incidents[0].for_ms, 30_000);
        assert_eq!(Plan::parse("x", yaml, Some(12), 1).unwrap().clusters.len(), 12);
    }

    const LARGE: &str =
        "groups:\n- {name: a, count: 99999999, has: 'cpu=4,memory=1Gi,pods=9', shares: 9}\n";

    const ISLANDS: &str = "wiring: regions\ngroups:\n\
        - {name: a, has: 'cpu=4,memory=1Gi,pods=9', hub: true}\n\
        - {name: b, has: 'cpu=4,memory=1Gi,pods=9'}\n";

    #[test]
    fn an_error_says_where_and_what_would_be_right() {
        for (yaml, says) in [
            ("topology: stra\n", "there are pair, lan, ring"),
            ("topolgy: star\n", "topolgy"),
            ("groups:\n- {name: a, has: cpu=4x}\n", "at character 6"),
            ("groups:\n- {name: a, has: cpu=4}\n", "no memory"),
            ("groups:\n- {name: a, has: 'cpu=4,memory=1Gi,pods=9', shares: 95}\n", "at most 90 %"),
            ("groups: []\n", "at least two clusters"),
            ("clusters: 4\n", "groups have a `count`"),
            ("topology: star\nclusters: 99999999\n", "a federation has 2 to 2000"),
            ("topology: star\nclusters: 1\n", "a federation has 2 to 2000"),
            (ISLANDS, "no group of region \"b\" says `hub: true`"),
            (LARGE, "a federation has 2 to 2000"),
            ("topology: pair\nincidents:\n- {at: 1m, for: 1m}\n", "one of partition"),
            ("topology: pair\nincidents:\n- {at: 1m, for: 1m, diskFull: x}\n", "is no cluster"),
            ("topology: pair\nincidents:\n- {at: 1m, for: 1m, partition: [x]}\n", "there are lan"),
        ] {
            let said = refused(yaml);
            assert!(said.starts_with("lab.yaml: ") && said.contains(says), "{yaml}: {said}");
        }
    }
}
