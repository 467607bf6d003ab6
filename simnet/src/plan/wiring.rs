//! Whom each cluster is told of at its start. Whom it meets later is discovery's work.

use crate::engine::rng::Rng;
use crate::plan::Cluster;

/// Whom each cluster is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wiring {
    /// Each cluster is told of all others.
    Everybody,
    /// The next two in a circle.
    Ring,
    /// The next two in a circle, and for one in four a third one far away.
    SmallWorld,
    /// The hubs of its region; where there are none, all. Hubs of each other, unless one hub
    /// stands alone in its region: then of that one.
    Hubs,
    /// Everybody of its region; hubs also of each other.
    Regions,
}

impl Wiring {
    /// Tells each cluster of its first contacts.
    pub(crate) fn apply(self, clusters: &mut [Cluster], seed: u64) {
        let mut rng = Rng::new(seed, "wiring");
        let n = clusters.len();
        let all: Vec<(String, bool)> =
            clusters.iter().map(|cluster| (cluster.region.clone(), cluster.hub)).collect();
        for (at, cluster) in clusters.iter_mut().enumerate() {
            let next = |by: usize| (at + by) % n;
            let mut knows: Vec<usize> = match self {
                Self::Everybody => (0..n).collect(),
                Self::Ring => vec![next(1), next(2)],
                Self::SmallWorld => {
                    let far = rng.chance(250).then(|| next(rng.within(0..=n as u64 - 1) as usize));
                    [next(1), next(2)].into_iter().chain(far).collect()
                }
                Self::Hubs => hubs(&all, at),
                Self::Regions => (0..n)
                    .filter(|other| {
                        let both_hubs = all[at].1 && all[*other].1;
                        all[at].0 == all[*other].0 || both_hubs
                    })
                    .collect(),
            };
            knows.retain(|other| *other != at);
            knows.sort_unstable();
            knows.dedup();
            cluster.knows = knows;
        }
    }
}

/// The hubs that the cluster at a place is told of.
fn hubs(all: &[(String, bool)], at: usize) -> Vec<usize> {
    let hubs: Vec<usize> = (0..all.len()).filter(|other| all[*other].1).collect();
    let alone =
        |hub: &&usize| all.iter().filter(|(region, _)| *region == all[**hub].0).count() == 1;
    if all[at].1 {
        let root: Vec<usize> = hubs.iter().filter(alone).copied().collect();
        return if root.is_empty() { hubs } else { root };
    }
    let near: Vec<usize> = hubs.iter().filter(|hub| all[**hub].0 == all[at].0).copied().collect();
    if near.is_empty() { hubs } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Topology;

    /// Whether every cluster can come to know every other.
    fn is_connected(clusters: &[Cluster]) -> bool {
        let mut seen = vec![false; clusters.len()];
        let mut next = vec![0];
        while let Some(at) = next.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            next.extend(clusters[at].knows.iter().copied());
            next.extend((0..clusters.len()).filter(|other| clusters[*other].knows.contains(&at)));
        }
        seen.into_iter().all(|seen| seen)
    }

    #[test]
    fn every_topology_of_every_size_is_in_one_piece() {
        for topology in Topology::ALL {
            for n in [3, 5, 12, 40, 200] {
                let plan = topology.plan(Some(n), 7);
                assert!(is_connected(&plan.clusters), "{topology} of {n}");
                assert!(plan.clusters.iter().any(|cluster| cluster.shares_percent > 0));
            }
        }
    }

    #[test]
    fn a_star_knows_its_hub_and_nobody_else() {
        let plan = Topology::Star.plan(Some(9), 1);
        let hub = plan.clusters.iter().position(|cluster| cluster.hub).unwrap();
        for (at, cluster) in plan.clusters.iter().enumerate().filter(|(at, _)| *at != hub) {
            assert_eq!(cluster.knows, [hub], "{at}");
        }
    }
}
