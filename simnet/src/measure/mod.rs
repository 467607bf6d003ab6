//! What is counted in a run: samples once a minute, times, prices, refusals, the spread of
//! advertisements, what attacks gained.

mod gossipsub;
mod spread;

use std::collections::BTreeMap;

use mercato_agent::Notice;
use mercato_broker::Side;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use serde::Serialize;

pub use gossipsub::Gossipsub;
pub(crate) use gossipsub::{Ad, model as gossipsub};
pub use spread::Spread;

use crate::engine::network::Network;
use crate::engine::packet::Kind;
use crate::engine::sites::Sites;
use crate::hostile::{Gain, Scales};
use crate::plan::Plan;
use crate::workload::{Alone, Market};

/// Between two samples, in ms.
pub const SAMPLE_MS: u64 = 60_000;

/// All that is counted in a run.
#[derive(Debug, Default)]
pub struct Measures {
    /// The federation's state, once a minute.
    pub samples: Vec<Sample>,
    /// Bytes sent, by kind of message.
    pub bytes: Bytes,
    /// What became of the jobs of all clusters.
    pub jobs: Jobs,
    /// From a job's coming to its order, in ms; each that was ordered.
    pub find_ms: Vec<u64>,
    /// From the order to a contract in use, in ms.
    pub contract_ms: Vec<u64>,
    /// From a job's coming to all its pods running elsewhere, in ms.
    pub run_ms: Vec<u64>,
    /// Every contract that came into use.
    pub trades: Vec<Trade>,
    /// Why orders came to nothing, how often.
    pub refused: BTreeMap<&'static str, u64>,
    /// How fast advertisements spread over the clusters.
    pub spread: Spread,
    /// When a buyer's lease came into use, until that is looked at.
    pub(crate) active_ms: BTreeMap<NegotiationId, u64>,
    /// The most that each attack had, by place.
    pub gains: BTreeMap<usize, Gain>,
}

/// The federation at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When it was taken, in ms of virtual time.
    pub at_ms: u64,
    /// How many clusters' daemons run.
    pub up: u64,
    /// How many connections there are between them.
    pub connections: u64,
    /// Thousandths of a core in use by jobs at home.
    pub home_millis: u64,
    /// Thousandths of a core in use by jobs elsewhere.
    pub away_millis: u64,
    /// The same without a federation: filled in at the end.
    pub alone_millis: u64,
    /// How many jobs wait for capacity.
    pub waiting: u64,
    /// How many leases are in use.
    pub leases: u64,
}

/// Bytes by kind, in each minute.
#[derive(Debug, Default)]
pub struct Bytes {
    /// In the order of [`Kind::ALL`].
    pub minutes: Vec<[u64; Kind::ALL.len()]>,
    /// Messages, likewise, of the whole run.
    pub messages: [u64; Kind::ALL.len()],
}

/// What became of the jobs, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Jobs {
    /// How many jobs came in all.
    pub came: u64,
    /// How many ran in their own cluster.
    pub at_home: u64,
    /// How many ran in another cluster.
    pub away: u64,
    /// Found no room in time.
    pub given_up: u64,
    /// Lost their room while they ran; what became of them afterwards counts above.
    pub interrupted: u64,
}

impl Jobs {
    /// Still waiting at the end: those that came and are nowhere else.
    pub fn waiting(&self) -> u64 {
        let Self { came, at_home, away, given_up, .. } = self;
        came.checked_sub(at_home + away + given_up).expect("a job counts once")
    }
}

/// A contract that came into use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trade {
    /// When it came into use, in ms of virtual time.
    pub at_ms: u64,
    /// The buyer's number in the plan.
    pub buyer: usize,
    /// The seller's number in the plan.
    pub seller: usize,
    /// What was bought, in thousandths of a core.
    pub cpu_millis: u64,
    /// For a core and an hour, in micros.
    pub cpu_micros: u64,
    /// The model, and what one costs for an hour, in micros.
    pub gpu: Option<(String, u64)>,
}

impl Measures {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { spread: Spread::new(plan.clusters.len()), ..Self::default() }
    }

    pub(crate) fn on_notice(&mut self, at_ms: u64, notice: &Notice) {
        if let Notice::Deal { id, side: Side::Consumer, state: State::Active, .. } = notice {
            self.active_ms.insert(*id, at_ms);
        }
    }

    /// Once a second: takes a sample if a minute is over.
    pub(crate) fn sample(
        &mut self,
        at_ms: u64,
        plan: &Plan,
        sites: &Sites,
        network: &Network,
        market: &Market,
    ) {
        let up = sites.iter().zip(&plan.clusters);
        let up = up.filter(|(site, plan)| site.agent.is_some() && plan.character.is_none());
        self.spread.settle(at_ms, up.count());
        if !at_ms.is_multiple_of(SAMPLE_MS) {
            return;
        }
        let agents = || sites.iter().filter_map(|site| site.agent.as_ref());
        let leases = agents().flat_map(|agent| agent.broker().deals());
        let leases = leases.filter(|deal| deal.is_active());
        let (home_millis, away_millis) = market.used_millis();
        self.samples.push(Sample {
            at_ms,
            up: agents().count() as u64,
            connections: network.connections() as u64,
            home_millis,
            away_millis,
            alone_millis: 0,
            waiting: market.waiting(),
            // Both sides have it.
            leases: leases.count() as u64 / 2,
        });
        self.weigh(at_ms, plan, sites);
    }

    /// Judges what attacks have gained by now.
    pub(crate) fn weigh(&mut self, at_ms: u64, plan: &Plan, sites: &Sites) {
        let (spread, before) = (&self.spread, &self.gains);
        self.gains = Scales { at_ms, plan, sites, spread, before }.weigh_all();
    }

    pub(crate) fn refuse(&mut self, why: &'static str) {
        *self.refused.entry(why).or_default() += 1;
    }

    /// Puts what would have been without a federation beside what was.
    pub(crate) fn compare(&mut self, alone: &Alone) {
        for (sample, used) in self.samples.iter_mut().zip(&alone.used_millis) {
            sample.alone_millis = *used;
        }
    }

    /// In thousandths: how much of what all clusters have was in use on average, with and
    /// without the federation, once it had come together.
    pub fn utilisation(&self, plan: &Plan) -> (u64, u64) {
        let has: u64 = plan.clusters.iter().map(|cluster| cluster.has.cpu_millis).sum();
        let later = &self.samples[self.samples.len() / 3..];
        let mean = |used: &dyn Fn(&Sample) -> u64| {
            let sum: u64 = later.iter().map(used).sum();
            sum * 1_000 / (has * later.len() as u64).max(1)
        };
        (mean(&|one| one.home_millis + one.away_millis), mean(&|one| one.alone_millis))
    }
}

impl Bytes {
    /// A message of some kind; so many of its bytes are bodies.
    pub(crate) fn add(&mut self, at_ms: u64, kind: Kind, bytes: usize, bodies: usize) {
        let minute = (at_ms / SAMPLE_MS) as usize;
        if self.minutes.len() <= minute {
            self.minutes.resize(minute + 1, Default::default());
        }
        self.minutes[minute][kind as usize] += bytes.saturating_sub(bodies) as u64;
        self.minutes[minute][Kind::Body as usize] += bodies as u64;
        self.messages[kind as usize] += 1;
    }

    /// Of the whole run, in the order of [`Kind::ALL`].
    pub fn totals(&self) -> [u64; Kind::ALL.len()] {
        let mut sum = [0; Kind::ALL.len()];
        for minute in &self.minutes {
            sum.iter_mut().zip(minute).for_each(|(sum, bytes)| *sum += bytes);
        }
        sum
    }
}

/// The value at so many percent of the way through; none of nothing.
pub fn quantile(values: &[u64], percent: usize) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * percent / 100).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sorted_values() {
        assert_eq!(quantile(&[], 50), None);
        assert_eq!(quantile(&[9, 1, 5], 50), Some(5));
        assert_eq!(quantile(&(0..=100).rev().collect::<Vec<_>>(), 99), Some(99));
    }

    #[test]
    fn bytes_are_counted_in_their_minute() {
        let mut bytes = Bytes::default();
        bytes.add(10, Kind::Announce, 7, 0);
        bytes.add(SAMPLE_MS, Kind::Publication, 8, 5);
        bytes.add(SAMPLE_MS + 1, Kind::Publication, 7, 5);
        assert_eq!(bytes.minutes.len(), 2);
        assert_eq!(bytes.totals()[Kind::Body as usize], 10);
        assert_eq!(bytes.totals()[Kind::Publication as usize], 5);
        assert_eq!(bytes.messages[Kind::Publication as usize], 2);
    }
}
