//! The same jobs without a federation: each cluster runs what fits, and the rest waits until
//! its people give up. It is arithmetic, without agents.

use std::collections::BTreeMap;

use mercato_protocol::resources::Resources;

use super::job::Job;
use crate::plan::Plan;

/// What would have become of the jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alone {
    /// Thousandths of a core in use, at each sample.
    pub used_millis: Vec<u64>,
    /// How many jobs ran without a federation.
    pub ran: u64,
    /// Jobs that were given up.
    pub given_up: u64,
}

/// The jobs of each cluster, by place, in the order in which they came.
pub(crate) fn alone(plan: &Plan, jobs: &[Vec<Job>], samples_ms: &[u64]) -> Alone {
    let mut sum = Alone { used_millis: vec![0; samples_ms.len()], ..Alone::default() };
    for (cluster, jobs) in plan.clusters.iter().zip(jobs) {
        one(&cluster.has, jobs, samples_ms, &mut sum);
    }
    sum
}

fn one(has: &Resources, jobs: &[Job], samples_ms: &[u64], sum: &mut Alone) {
    let mut free = has.clone();
    let mut waiting: Vec<&Job> = Vec::new();
    // By end, with what is free again then.
    let mut running: BTreeMap<(u64, u64), Resources> = BTreeMap::new();
    let mut arrivals = jobs.iter().peekable();
    for (nth, sample_ms) in samples_ms.iter().enumerate() {
        while let Some(job) = arrivals.next_if(|job| job.arrived_ms <= *sample_ms) {
            waiting.push(job);
        }
        while let Some(end) = running.first_entry().filter(|end| end.key().0 <= *sample_ms) {
            let back = end.remove();
            free = free.checked_add(&back).unwrap_or(free);
        }
        waiting.retain(|job| {
            let needs = job.total();
            if needs.fits(&free) {
                free = free.saturating_sub(&needs);
                running.insert((sample_ms + job.minutes * 60_000, job.number), needs);
                sum.ran += 1;
                return false;
            }
            let patient = job.arrived_ms + job.patience_ms() > *sample_ms;
            sum.given_up += u64::from(!patient);
            patient
        });
        sum.used_millis[nth] += has.cpu_millis - free.cpu_millis;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::rng::Rng;
    use crate::plan::Topology;

    #[test]
    fn what_does_not_fit_waits_and_is_given_up() {
        let mut plan = Topology::Pair.plan(None, 1);
        plan.clusters[0].has.cpu_millis = 8_000;
        let mut job = Job::new(0, 0, None, &mut Rng::new(1, "job"));
        (job.pods, job.needs.cpu_millis, job.minutes) = (1, 8_000, 10);
        let jobs = [0, 1, 2].map(|number| Job { number, ..job.clone() }).to_vec();
        let samples: Vec<u64> = (0..30).map(|minute| minute * 60_000).collect();
        let found = alone(&plan, &[jobs, Vec::new()], &samples);
        assert_eq!((found.ran, found.given_up), (1, 2));
        assert_eq!(found.used_millis[..11], [[8_000; 10].as_slice(), &[0]].concat());
    }
}
