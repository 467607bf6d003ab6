//! One job: some pods that need room for some minutes.

use std::collections::BTreeMap;

use mercato_cluster_model::Key;
use mercato_offload::forge::labels::CONTRACT;
use mercato_offload::placement::GPUS;
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use serde_json::{Value, json};

use crate::engine::rng::Rng;

/// What comes to a cluster's people to be done.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Counts the jobs of its cluster.
    pub(crate) number: u64,
    pub(crate) arrived_ms: u64,
    pub(crate) pods: u64,
    /// What each of its pods asks for.
    pub(crate) needs: Resources,
    pub(crate) minutes: u64,
    pub(crate) state: State,
    /// When it is looked at next.
    pub(crate) look_ms: u64,
    /// How often no offer was found.
    pub(crate) in_vain: u32,
    /// It was found an offer, ordered, running: when.
    pub(crate) ordered_ms: Option<u64>,
    pub(crate) is_running: bool,
    /// Its lease was lost before.
    pub(crate) was_interrupted: bool,
}

/// Where a job is, or waits to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It runs nowhere, and nothing is ordered.
    Waiting,
    /// The agent was asked to order.
    Asked,
    /// An order for it is under way.
    Ordered(NegotiationId),
    /// On nodes of its own cluster.
    AtHome,
    /// On the virtual node of a contract.
    Away(ContractId),
}

const GI: u64 = 1 << 30;
/// Pods of one job, processors of one pod, minutes.
const PODS: [u64; 3] = [1, 2, 4];
const CORES: [u64; 3] = [2, 4, 8];
const MINUTES: std::ops::RangeInclusive<u64> = 5..=25;
/// What a job asks for on average, in thousandths of a core and seconds.
pub(crate) const MEAN_MILLI_SECONDS: u64 = 7 * 14 * 15 * 60 * 1_000 / 9;

impl Job {
    /// One by chance, with a GPU of this model or without.
    pub(crate) fn new(number: u64, at_ms: u64, gpu: Option<GpuModel>, rng: &mut Rng) -> Self {
        let pick = |rng: &mut Rng, list: [u64; 3]| list[rng.within(0..=2) as usize];
        let (pods, cores) = (pick(rng, PODS), pick(rng, CORES));
        let (pods, gpus) = match gpu {
            Some(model) => (1, BTreeMap::from([(model, rng.within(1..=2))])),
            None => (pods, BTreeMap::new()),
        };
        let needs = Resources {
            cpu_millis: cores * 1_000,
            memory_bytes: cores * 3 * GI,
            pods: 1,
            storage_bytes: 0,
            gpus,
        };
        Self {
            number,
            arrived_ms: at_ms,
            pods,
            needs,
            minutes: rng.within(MINUTES),
            state: State::Waiting,
            look_ms: at_ms,
            in_vain: 0,
            ordered_ms: None,
            is_running: false,
            was_interrupted: false,
        }
    }

    /// What all its pods ask for together.
    pub(crate) fn total(&self) -> Resources {
        let times = |n: u64| n * self.pods;
        let gpus = self.needs.gpus.iter().map(|(model, n)| (model.clone(), times(*n)));
        Resources {
            cpu_millis: times(self.needs.cpu_millis),
            memory_bytes: times(self.needs.memory_bytes),
            pods: self.pods,
            storage_bytes: 0,
            gpus: gpus.collect(),
        }
    }

    /// Those with a GPU are waited for longer.
    pub(crate) fn patience_ms(&self) -> u64 {
        if self.needs.gpus.is_empty() { 300_000 } else { 600_000 }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        let number = self.number;
        (0..self.pods).map(move |nth| Key::new("Pod", "shop", &format!("job-{number}-{nth}")))
    }

    /// The pods, for home's own nodes or for the virtual node of a contract.
    pub(crate) fn objects(&self, contract: Option<ContractId>) -> Vec<Value> {
        let selector = match contract {
            Some(contract) => json!({ CONTRACT: contract.to_string() }),
            None => json!({ "type": "home" }),
        };
        let mut requests = json!({
            "cpu": format!("{}m", self.needs.cpu_millis),
            "memory": self.needs.memory_bytes.to_string(),
        });
        let gpus: u64 = self.needs.gpus.values().sum();
        if gpus > 0 {
            requests[GPUS] = json!(gpus.to_string());
        }
        let pod = |key: Key| {
            json!({
                "kind": "Pod",
                "metadata": { "namespace": key.namespace, "name": key.name },
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": selector,
                    "containers": [{
                        "name": "job", "image": image(self.minutes),
                        "resources": { "requests": requests, "limits": requests },
                    }],
                },
            })
        };
        self.keys().map(pod).collect()
    }
}

fn image(minutes: u64) -> String {
    format!("batch:{minutes}m")
}

/// What images there are: each runs so many ms and succeeds.
pub(crate) fn images() -> impl Iterator<Item = (String, u64)> {
    MINUTES.map(|minutes| (image(minutes), minutes * 60_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_ask_for_as_much_as_is_said_on_average() {
        let mut rng = Rng::new(1, "jobs");
        let jobs: Vec<Job> = (0..20_000).map(|n| Job::new(n, 0, None, &mut rng)).collect();
        let sum: u64 = jobs.iter().map(|job| job.total().cpu_millis * job.minutes * 60).sum();
        let mean = sum / jobs.len() as u64;
        assert!(mean.abs_diff(MEAN_MILLI_SECONDS) * 50 < MEAN_MILLI_SECONDS, "{mean}");
    }
}
