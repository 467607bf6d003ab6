//! What gossipsub would do with the same advertisements over the same lines: a model of its
//! mesh and its heartbeats with the defaults of libp2p, to compare with. It is no
//! implementation: control messages other than IHAVE and IWANT, and scores, cost it nothing.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::spread::{News, Spread};
use crate::engine::link::{Lines, Load};
use crate::engine::rng::Rng;
use crate::plan::{Plan, What};

/// Mesh neighbours that a node wants, and has at most: D and D_high.
const DEGREE: usize = 6;
const DEGREE_HIGH: usize = 12;
/// Others told at each heartbeat of what came since: D_lazy.
const LAZY: usize = 6;
/// Between two heartbeats, in ms; and for how many of them a message is told of.
const HEARTBEAT_MS: u64 = 1_000;
const HISTORY: u64 = 3;
/// An id by content as an entry of an IHAVE or IWANT, in bytes.
const ID_BYTES: u64 = 34;
/// Topic and framing of each message, in bytes.
const FRAME_BYTES: usize = 40;
/// Advertisements followed; of more, so many at even distances.
const FOLLOWED: usize = 400;

/// What the model came to.
#[derive(Debug, Default)]
pub struct Gossipsub {
    /// How the advertisements that were followed spread.
    pub spread: Spread,
    /// Bytes sent for each advertisement that was delivered.
    pub bytes_per_delivery: u64,
    /// Copies of an advertisement sent for each that was delivered, in thousandths.
    pub copies_per_mille: u64,
}

/// An advertisement to be spread: when, whose, bytes.
pub(crate) type Ad = (u64, usize, usize);

/// Spreads these, in order of time.
pub(crate) fn model(plan: &Plan, seed: u64, ads: &[Ad]) -> Gossipsub {
    let mut model = Model {
        plan,
        mesh: Vec::new(),
        lines: Lines::new(plan),
        rng: Rng::new(seed, "gossipsub"),
        spread: Spread::new(plan.clusters.len()),
        bytes: 0,
        copies: 0,
    };
    model.weave();
    let step = ads.len().div_ceil(FOLLOWED).max(1);
    for (nth, (at_ms, publisher, bytes)) in ads.iter().step_by(step).enumerate() {
        let up = plan.clusters.iter().filter(|one| one.joins_ms <= *at_ms).count();
        model.spread.settle(*at_ms, up);
        model.publish(nth as u64, *at_ms, *publisher, *bytes + FRAME_BYTES);
    }
    model.spread.settle(u64::MAX, 0);
    let delivered = model.spread.arrivals().max(1);
    Gossipsub {
        bytes_per_delivery: model.bytes / delivered,
        copies_per_mille: model.copies * 1_000 / delivered,
        spread: model.spread,
    }
}

struct Model<'a> {
    plan: &'a Plan,
    mesh: Vec<BTreeSet<usize>>,
    lines: Lines,
    rng: Rng,
    spread: Spread,
    bytes: u64,
    copies: u64,
}

/// One advertisement on its way.
struct Wave {
    number: u64,
    publisher: usize,
    signed_ms: u64,
    bytes: usize,
    has: Vec<bool>,
    /// Arrivals to come: when, where, from whom.
    coming: BinaryHeap<Reverse<(u64, usize, usize)>>,
}

impl Model<'_> {
    /// Each finds neighbours by chance among those that it can dial, or that can dial it.
    fn weave(&mut self) {
        let n = self.plan.clusters.len();
        self.mesh = vec![BTreeSet::new(); n];
        let reachable = |at: usize| self.plan.clusters[at].access.reachable;
        for at in 0..n {
            for _ in 0..20 * DEGREE {
                if self.mesh[at].len() >= DEGREE.min(n - 1) {
                    break;
                }
                let other = self.rng.within(0..=n as u64 - 1) as usize;
                let fits = other != at
                    && (reachable(at) || reachable(other))
                    && self.mesh[other].len() < DEGREE_HIGH;
                if fits {
                    self.mesh[at].insert(other);
                    self.mesh[other].insert(at);
                }
            }
        }
    }

    fn publish(&mut self, number: u64, at_ms: u64, publisher: usize, bytes: usize) {
        let n = self.plan.clusters.len();
        let (has, coming) = (vec![false; n], BinaryHeap::new());
        let mut wave = Wave { number, publisher, signed_ms: at_ms, bytes, has, coming };
        self.arrive(&mut wave, at_ms, publisher, publisher);
        self.flood(&mut wave);
        for beat in 1..=HISTORY {
            self.heartbeat(&mut wave, at_ms + beat * HEARTBEAT_MS);
            self.flood(&mut wave);
        }
    }

    fn flood(&mut self, wave: &mut Wave) {
        while let Some(Reverse((at_ms, to, from))) = wave.coming.pop() {
            self.arrive(wave, at_ms, to, from);
        }
    }

    /// Who has it for the first time passes it on to its mesh.
    fn arrive(&mut self, wave: &mut Wave, at_ms: u64, at: usize, from: usize) {
        if std::mem::replace(&mut wave.has[at], true) {
            return;
        }
        let Wave { publisher, number: seq, signed_ms, .. } = *wave;
        self.spread.arrived(at_ms, at, News { publisher, epoch: 0, seq, signed_ms });
        for peer in self.mesh[at].clone() {
            if peer != from && peer != wave.publisher {
                self.send(wave, at_ms, at, peer);
            }
        }
    }

    fn send(&mut self, wave: &mut Wave, at_ms: u64, from: usize, to: usize) {
        if !self.connects(from, to, at_ms) {
            return;
        }
        self.bytes += wave.bytes as u64;
        self.copies += 1;
        let load = Load { at_ms, from, to, bytes: wave.bytes };
        if let Some(after_ms) = self.lines.arrival(self.plan, load, &mut self.rng) {
            wave.coming.push(Reverse((at_ms + after_ms, to, from)));
        }
    }

    /// Those that have it tell some others, and who lacks it asks for it.
    fn heartbeat(&mut self, wave: &mut Wave, at_ms: u64) {
        let n = self.plan.clusters.len() as u64;
        let holders: Vec<usize> = (0..wave.has.len()).filter(|at| wave.has[*at]).collect();
        let mut asking = BTreeSet::new();
        for from in holders {
            for _ in 0..LAZY {
                let to = self.rng.within(0..=n - 1) as usize;
                if to == from || !self.connects(from, to, at_ms) {
                    continue;
                }
                self.bytes += ID_BYTES;
                if !wave.has[to] && asking.insert(to) {
                    self.bytes += ID_BYTES;
                    let there_ms = 2 * self.plan.latency_ms(from, to);
                    self.send(wave, at_ms + there_ms, from, to);
                }
            }
        }
    }

    /// Whether two can hear each other.
    fn connects(&self, a: usize, b: usize, at_ms: u64) -> bool {
        let is_there = |at: usize| self.plan.clusters[at].joins_ms <= at_ms;
        let cut = self.plan.incidents.iter().any(|incident| match &incident.what {
            What::Partition(regions) => {
                let inside = |at: usize| regions.contains(&self.plan.clusters[at].region);
                (incident.at_ms..incident.at_ms + incident.for_ms).contains(&at_ms)
                    && inside(a) != inside(b)
            }
            What::HubsDown | What::GpuRush(_) | What::DiskFull(_) | What::ClockJump(..) => false,
        });
        is_there(a) && is_there(b) && !cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Topology;

    #[test]
    fn a_mesh_of_six_sends_five_copies_of_each() {
        let plan = Topology::SmallWorld.plan(Some(200), 1);
        let ads: Vec<Ad> = (0..50).map(|nth| (nth * 2_000, nth as usize, 1_000)).collect();
        let found = model(&plan, 1, &ads);
        // As measured with libp2p: 5.1 to 6.2 copies, 5.4 to 6.4 kB for 1 kB.
        assert!((4_500..8_000).contains(&found.copies_per_mille), "{found:?}");
        assert!((4_800..8_500).contains(&found.bytes_per_delivery), "{found:?}");
        assert_eq!(found.spread.most_ms.len(), 50);
    }

    #[test]
    fn what_is_said_in_a_partition_never_crosses_it() {
        let plan = Topology::Partition.plan(Some(40), 1);
        let cut = plan.incidents[0].at_ms + 1_000;
        let found = model(&plan, 1, &[(0, 0, 1_000), (cut, 0, 1_000)]);
        assert_eq!((found.spread.most_ms.len(), found.spread.overtaken), (1, 1));
    }
}
