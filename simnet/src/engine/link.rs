//! What a link does to a message: it takes time, and may lose, double or delay it, so
//! that it comes after later ones. A run under faults by chance has one [`Quality`] for all
//! links; a federation that is tried has the [`Lines`] of its plan.

use std::ops::RangeInclusive;

use crate::engine::rng::Rng;
use crate::limits;
use crate::plan::Plan;

/// The quality of the links of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quality {
    /// From here to there, in ms.
    pub(crate) latency_ms: RangeInclusive<u64>,
    /// Messages in a thousand that never come.
    pub(crate) lost: u32,
    /// Messages in a thousand that come twice.
    pub(crate) doubled: u32,
    /// Messages in a thousand that come late.
    pub(crate) late: u32,
    /// How late those come, in ms.
    pub(crate) late_ms: RangeInclusive<u64>,
    /// Datagrams in a thousand of which one bit comes changed. What agents say goes over
    /// connections, which lose it then.
    pub(crate) damaged: u32,
}

impl Quality {
    /// A good link of that latency.
    pub(crate) fn clean(latency_ms: RangeInclusive<u64>) -> Self {
        Self { latency_ms, lost: 0, doubled: 0, late: 0, late_ms: 0..=0, damaged: 0 }
    }

    /// After how many ms each copy of a message arrives.
    pub(crate) fn arrivals(&self, rng: &mut Rng) -> Vec<u64> {
        if rng.chance(self.lost) {
            return Vec::new();
        }
        let copies = if rng.chance(self.doubled) { 2 } else { 1 };
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let late = rng.chance(self.late);
            let delay = if late { rng.within(self.late_ms.clone()) } else { 0 };
            arrivals.push(rng.within(self.latency_ms.clone()) + delay);
        }
        arrivals
    }

    /// The same of a datagram, with how each copy arrives.
    pub(crate) fn copies(&self, rng: &mut Rng, datagram: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut copies: Vec<_> =
            self.arrivals(rng).into_iter().map(|after_ms| (after_ms, datagram.to_vec())).collect();
        for (_, copy) in &mut copies {
            if rng.chance(self.damaged) {
                let bit = rng.within(0..=copy.len() as u64 * 8 - 1) as usize;
                copy[bit / 8] ^= 1 << (bit % 8);
            }
        }
        copies
    }
}

/// A message that is to go over a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) at_ms: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: usize,
}

/// The clusters' lines to the network, each with a queue.
#[derive(Debug)]
pub(crate) struct Lines {
    /// By place: when its uplink has sent all that waits, in microseconds.
    free_us: Vec<u64>,
}

impl Lines {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { free_us: vec![0; plan.clusters.len()] }
    }

    /// After how many ms a message of so many bytes arrives; none: it is lost, be it to a
    /// queue that is full.
    pub(crate) fn arrival(&mut self, plan: &Plan, load: Load, rng: &mut Rng) -> Option<u64> {
        let Load { at_ms, from, to, bytes } = load;
        let (sender, receiver) = (&plan.clusters[from].access, &plan.clusters[to].access);
        let lost = sender.lost_per_mille + receiver.lost_per_mille;
        if lost > 0 && rng.chance(lost) {
            return None;
        }
        let now_us = at_ms * 1_000;
        let free_us = self.free_us[from].max(now_us);
        if free_us > now_us + limits::LINE_QUEUE_MS * 1_000 {
            return None;
        }
        self.free_us[from] = free_us + bytes as u64 * 8_000 / sender.uplink_kbit.max(1);
        let queued_ms = (self.free_us[from] - now_us) / 1_000;
        let jitter_ms = rng.within(0..=sender.jitter_ms + receiver.jitter_ms);
        Some(queued_ms + plan.latency_ms(from, to) + jitter_ms)
    }
}

/// The key of a link: the lower place first.
pub(crate) fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_loses_doubles_and_delays_as_often_as_it_says() {
        let quality = Quality {
            latency_ms: 10..=20,
            lost: 100,
            doubled: 200,
            late: 50,
            late_ms: 1_000..=2_000,
            damaged: 150,
        };
        let mut rng = Rng::new(1, "links");
        let all: Vec<_> = (0..10_000).map(|_| quality.arrivals(&mut rng)).collect();
        let share = |is: &dyn Fn(&Vec<u64>) -> bool| all.iter().filter(|one| is(one)).count();
        assert!((800..1_200).contains(&share(&|one| one.is_empty())));
        assert!((1_600..2_000).contains(&share(&|one| one.len() == 2)));
        assert!((400..700).contains(&share(&|one| one.iter().any(|ms| *ms > 1_000))));
        assert!(all.iter().flatten().all(|ms| (10..=2_020).contains(ms)));
        let sent = [5; 20];
        let copies = (0..10_000).flat_map(|_| quality.copies(&mut rng, &sent));
        let changed = |copy: &[u8]| -> u32 {
            copy.iter().zip(sent).map(|(byte, sent)| (byte ^ sent).count_ones()).sum()
        };
        let changed: Vec<_> = copies.map(|(_, copy)| changed(&copy)).collect();
        assert!(changed.iter().all(|bits| *bits <= 1));
        let share = changed.iter().sum::<u32>() as usize * 1_000 / changed.len();
        assert!((130..170).contains(&share), "{share} in a thousand");
    }

    #[test]
    fn a_line_sends_one_message_after_another_and_drops_what_waits_too_long() {
        let mut plan = crate::plan::Topology::Pair.plan(None, 1);
        plan.clusters[0].access.uplink_kbit = 8;
        let (mut lines, mut rng) = (Lines::new(&plan), Rng::new(1, "links"));
        let load = Load { at_ms: 0, from: 0, to: 1, bytes: 1_000 };
        let mut arrival = || lines.arrival(&plan, load, &mut rng);
        // A kilobyte a second.
        let first = arrival().unwrap();
        assert!((1_002..1_010).contains(&first), "{first}");
        assert!((2_002..2_010).contains(&arrival().unwrap()));
        let all: Vec<_> = (0..30).map(|_| arrival()).collect();
        assert!(all.first().is_some_and(Option::is_some) && all.last() == Some(&None));
    }
}
