//! The market agents of a run: jobs come to their clusters at a rate that rises and falls, and
//! from time to time each seller looks at its price.

use std::collections::BTreeMap;

use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;

use super::alone::{Alone, alone};
use super::job::{Job, MEAN_MILLI_SECONDS, State};
use crate::engine::rng::Rng;
use crate::plan::{Plan, What};

/// The market agents of all clusters.
#[derive(Debug)]
pub(crate) struct Market {
    pub(super) agents: Vec<MarketAgent>,
    /// Orders that wait for the agent's answer: whose, and for which job.
    pub(super) asked: BTreeMap<u64, (usize, u64)>,
    pub(super) commands: u64,
    /// Models of GPU that somebody has.
    models: Vec<GpuModel>,
    /// Jobs come no more after that, in ms.
    pub(crate) until_ms: u64,
    /// Every job that came, by place, for the comparison with none.
    came: Vec<Vec<Job>>,
}

/// Who buys and sells for one cluster.
#[derive(Debug)]
pub(crate) struct MarketAgent {
    rng: Rng,
    pub(super) jobs: BTreeMap<u64, Job>,
    next_number: u64,
    /// What jobs at home ask for.
    pub(super) at_home: Resources,
    /// Its price, in percent of the usual one.
    pub(super) price_percent: u32,
    pub(super) next_price_ms: u64,
    /// Where in its day the cluster is at the start, in ms.
    phase_ms: u64,
}

/// Work rises and falls once in such a time.
const WAVE_MS: u64 = 3_600_000;

impl Market {
    pub(crate) fn new(plan: &Plan, seed: u64, until_ms: u64) -> Self {
        let market_agent = |(at, cluster): (usize, &crate::plan::Cluster)| {
            let mut rng = Rng::new(seed, &format!("jobs {at}"));
            let phase_ms = rng.within(0..=WAVE_MS);
            MarketAgent {
                jobs: BTreeMap::new(),
                next_number: 0,
                at_home: Resources::default(),
                price_percent: cluster.price_percent,
                next_price_ms: 0,
                phase_ms,
                rng,
            }
        };
        let mut models: Vec<GpuModel> =
            plan.clusters.iter().flat_map(|cluster| cluster.has.gpus.keys().cloned()).collect();
        models.sort();
        models.dedup();
        Self {
            agents: plan.clusters.iter().enumerate().map(market_agent).collect(),
            asked: BTreeMap::new(),
            commands: 0,
            models,
            until_ms,
            came: vec![Vec::new(); plan.clusters.len()],
        }
    }

    /// What home's own pods ask for at a place.
    pub(crate) fn at_home(&self, at: usize) -> Resources {
        self.agents[at].at_home.clone()
    }

    /// Home's part of what a cluster has.
    pub(super) fn own(plan: &Plan, at: usize) -> Resources {
        plan.clusters[at].has.saturating_sub(&plan.shared(at))
    }

    /// New jobs of this second.
    pub(super) fn arrive(&mut self, plan: &Plan, at: usize, at_ms: u64) -> usize {
        if at_ms > self.until_ms {
            return 0;
        }
        let market_agent = &mut self.agents[at];
        let wave = wave_percent(at_ms + market_agent.phase_ms);
        let own = Self::own(plan, at).cpu_millis;
        let load = u64::from(plan.clusters[at].load_percent);
        // In a billion, each second; the percentages make a million of a hundred squared.
        let chance = own * load * wave * 100_000 / MEAN_MILLI_SECONDS;
        let rush = plan.incidents.iter().find_map(|incident| match incident.what {
            What::GpuRush(times)
                if (incident.at_ms..incident.at_ms + incident.for_ms).contains(&at_ms) =>
            {
                Some(u64::from(times))
            }
            What::GpuRush(_)
            | What::Partition(_)
            | What::HubsDown
            | What::DiskFull(_)
            | What::ClockJump(..) => None,
        });
        let of_gpus = if self.models.is_empty() { 0 } else { u64::from(plan.gpu_jobs_percent) };
        let with_gpu = chance * of_gpus * rush.unwrap_or(1) / 100;
        let plain = chance * (100 - of_gpus.min(100)) / 100;
        let mut came = 0;
        for (chance, gpu) in [(plain, false), (with_gpu, true)] {
            if market_agent.rng.within(0..=999_999_999) >= chance {
                continue;
            }
            let model = gpu.then(|| {
                let last = self.models.len() as u64 - 1;
                self.models[market_agent.rng.within(0..=last) as usize].clone()
            });
            let job = Job::new(market_agent.next_number, at_ms, model, &mut market_agent.rng);
            market_agent.next_number += 1;
            self.came[at].push(job.clone());
            market_agent.jobs.insert(job.number, job);
            came += 1;
        }
        came
    }

    /// Jobs that wait for room, now.
    pub(crate) fn waiting(&self) -> u64 {
        let jobs = self.agents.iter().flat_map(|market_agent| market_agent.jobs.values());
        jobs.filter(|job| !job.is_running).count() as u64
    }

    /// Thousandths of a core in use by jobs: at home, away.
    pub(crate) fn used_millis(&self) -> (u64, u64) {
        let jobs = self.agents.iter().flat_map(|market_agent| market_agent.jobs.values());
        let running = jobs.filter(|job| job.is_running);
        running.fold((0, 0), |(home, away), job| {
            let millis = job.total().cpu_millis;
            if job.state == State::AtHome { (home + millis, away) } else { (home, away + millis) }
        })
    }

    /// The same jobs without a federation.
    pub(crate) fn alone(&self, plan: &Plan, samples_ms: &[u64]) -> Alone {
        alone(plan, &self.came, samples_ms)
    }
}

/// A triangle between 50 and 150.
fn wave_percent(at_ms: u64) -> u64 {
    let percent = at_ms % WAVE_MS * 200 / WAVE_MS;
    50 + if percent < 100 { percent } else { 200 - percent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Topology;

    #[test]
    fn as_much_is_asked_for_as_the_plan_says() {
        let mut plan = Topology::Pair.plan(None, 1);
        plan.gpu_jobs_percent = 0;
        plan.clusters[0].load_percent = 100;
        let hour_ms = 3_600_000;
        let mut market = Market::new(&plan, 1, 20 * hour_ms);
        for second in 0..20 * 3_600 {
            market.arrive(&plan, 0, second * 1_000);
        }
        let asked: u64 =
            market.came[0].iter().map(|job| job.total().cpu_millis * job.minutes * 60).sum();
        let offered = Market::own(&plan, 0).cpu_millis * 20 * 3_600;
        assert!(asked.abs_diff(offered) * 5 < offered, "{asked} for {offered}");
    }

    #[test]
    fn the_wave_is_even() {
        let mean = (0..3_600).map(|second| wave_percent(second * 1_000)).sum::<u64>() / 3_600;
        assert!((98..=101).contains(&mean), "{mean}");
    }
}
