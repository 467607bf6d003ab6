//! What the guests of a lease use, read at the provider for the consumer: from the
//! metrics API of the provider's cluster, namespace by namespace, so that no other
//! tenant's figures and no node's are ever seen here. What home makes of it is `api`'s.
//!
//! That API gives rates; what reads kubelets wants totals. A total is the sum of the
//! rates, each over the time since the measurement before it, and so gives the same rate
//! again to whoever divides the difference of two totals by that time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::forge::{self, gate};
use mercato_protocol::id::ContractId;
use mercato_protocol::kubelet_stream::{ContainerUsage, PodUsage, RefusedReason, Usage};
use mercato_protocol::limits::{USAGE_BYTES, USAGE_PODS};
use mercato_protocol::quantity;
use mercato_protocol::workload::Uid;
use serde_json::Value;
use tokio::time::Instant;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::POD_METRICS;
use crate::format::clock;
use crate::guest::stream::Refused;
use crate::limits;
use crate::names::CONTRACT;

/// The meters of a provider's leases.
pub struct Meters {
    cluster: Cluster,
    /// With the time of the last look; bounded by the leases.
    leases: Mutex<BTreeMap<ContractId, (Instant, Shared)>>,
}

type Shared = Arc<tokio::sync::Mutex<Meter>>;

impl Meters {
    /// Meters that read the metrics API of `cluster`.
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, leases: Mutex::default() }
    }

    /// What the guests of a lease in these guest namespaces use, a page of it. That the
    /// one who asks is the lease's consumer is the caller's to check. However often it is
    /// asked, the cluster is asked only now and then.
    pub fn page(
        &self,
        contract: ContractId,
        namespaces: Vec<String>,
        after: Option<Uid>,
    ) -> BoxFuture<'static, Result<Usage, Refused>> {
        let (cluster, meter) = (self.cluster.clone(), self.meter(contract));
        async move {
            let mut meter = meter.lock().await;
            if meter.read_at.is_none_or(|at| at.elapsed() > limits::USAGE_TTL) {
                let read = read(&cluster, contract, &namespaces).await;
                meter.outcome = read.map(|pods| meter.take(pods));
                meter.read_at = Some(Instant::now());
            }
            meter.outcome.clone().map(|()| page(&meter.pods, after.as_ref()))
        }
        .boxed()
    }

    fn meter(&self, contract: ContractId) -> Shared {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.retain(|_, (asked, _)| asked.elapsed() < limits::USAGE_IDLE);
        let (asked, meter) =
            leases.entry(contract).or_insert_with(|| (Instant::now(), Shared::default()));
        *asked = Instant::now();
        meter.clone()
    }
}

/// What one lease's guests were last seen to use.
struct Meter {
    read_at: Option<Instant>,
    outcome: Result<(), Refused>,
    pods: BTreeMap<Uid, PodUsage>,
}

impl Default for Meter {
    fn default() -> Self {
        Self { read_at: None, outcome: Ok(()), pods: BTreeMap::new() }
    }
}

impl Meter {
    /// Takes in new measurements, whose totals are none yet.
    fn take(&mut self, measured: BTreeMap<Uid, PodUsage>) {
        let mut before = std::mem::replace(&mut self.pods, measured);
        for (uid, pod) in &mut self.pods {
            let Some(old) = before.remove(uid) else { continue };
            // An older measurement, out of another replica's memory, adds nothing.
            let past_ms = pod.at_ms.saturating_sub(old.at_ms);
            pod.at_ms = pod.at_ms.max(old.at_ms);
            for container in &mut pod.containers {
                let Some(old) = old.containers.iter().find(|old| old.name == container.name) else {
                    continue;
                };
                let used = u128::from(container.cpu_nano_cores) * u128::from(past_ms) / 1_000;
                let used = u64::try_from(used).unwrap_or(u64::MAX);
                container.cpu_nanos = old.cpu_nanos.saturating_add(used);
            }
        }
    }
}

/// The measurements of a lease's guests, by uid at home.
async fn read(
    cluster: &Cluster,
    contract: ContractId,
    namespaces: &[String],
) -> Result<BTreeMap<Uid, PodUsage>, Refused> {
    let mut pods = BTreeMap::new();
    for namespace in namespaces {
        let selector = format!("labelSelector={CONTRACT}%3D{contract}");
        let found = cluster.list(POD_METRICS, Some(namespace), &selector).await;
        for measured in found.map_err(refused)? {
            // A metrics API may not know of selectors.
            if pods.len() < mercato_offload::limits::PODS
                && let Some(pod) = measurement(contract, &measured)
            {
                pods.insert(pod.uid.clone(), pod);
            }
        }
    }
    Ok(pods)
}

fn refused(failure: Failure) -> Refused {
    match failure.class {
        Class::Missing => {
            Refused::new(RefusedReason::NotServed, "the provider's cluster has no metrics API")
        }
        Class::Refused => Refused::new(
            RefusedReason::NotServed,
            "the provider's daemon may not read the metrics API",
        ),
        Class::Transient | Class::Conflict => {
            let text = format!("the provider's metrics API does not answer: {failure}");
            Refused::new(RefusedReason::Unavailable, text)
        }
    }
}

fn measurement(contract: ContractId, measured: &Value) -> Option<PodUsage> {
    let uid = forge::home_uid(contract, &measured["metadata"]["labels"])?;
    let at_ms = clock::parse_ms(measured["timestamp"].as_str()?)?;
    let containers = measured["containers"].as_array()?.iter().take(limits::USAGE_CONTAINERS);
    let homes = containers.filter(|container| container["name"] != gate::CONTAINER);
    let containers = homes.filter_map(|container| {
        Some(ContainerUsage {
            name: container["name"].as_str()?.to_owned(),
            cpu_nanos: FIRST_TOTAL,
            cpu_nano_cores: quantity::nanos(container["usage"]["cpu"].as_str()?)?,
            memory_bytes: quantity::units(container["usage"]["memory"].as_str()?)?,
        })
    });
    Some(PodUsage { uid, at_ms, containers: containers.collect() })
}

fn page(pods: &BTreeMap<Uid, PodUsage>, after: Option<&Uid>) -> Usage {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = pods.range::<Uid, _>((from, Bound::Unbounded)).map(|(_, pod)| pod).peekable();
    let (mut page, mut room) = (Vec::new(), USAGE_BYTES);
    while let Some(pod) = rest.next_if(|pod| page.len() < USAGE_PODS && size(pod) < room) {
        room -= size(pod);
        page.push(pod.clone());
    }
    Usage { pods: page, more: rest.peek().is_some() }
}

/// At least what it takes on the wire.
fn size(pod: &PodUsage) -> usize {
    let containers = pod.containers.iter().map(|container| container.name.len() + 40);
    pod.uid.0.len() + 40 + containers.sum::<usize>()
}

/// What runs has used something: a total of zero is taken for none by metrics-server.
const FIRST_TOTAL: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use mercato_protocol::codec::Message;
    use mercato_protocol::id::ContractId;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::names::HOME_UID;
    use crate::testing::{scripted, status};

    const LEASE: ContractId = ContractId([5; 16]);

    fn measured(contract: &str, uid: &str, second: u64, cpu: &str) -> Value {
        json!({ "metadata": { "name": "web", "labels": { CONTRACT: contract, HOME_UID: uid } },
            "timestamp": format!("2026-01-01T00:00:{second:02}Z"), "window": "15s",
            "containers": [{ "name": "app", "usage": { "cpu": cpu, "memory": "12Mi" } }] })
    }

    fn answering(items: Vec<Value>) -> Meters {
        Meters::new(scripted(move |_, path, _| {
            let place = "/apis/metrics.k8s.io/v1beta1/namespaces/shop-rome/pods?labelSelector=";
            assert!(path.starts_with(place), "{path}");
            (200, json!({ "items": items, "metadata": {} }))
        }))
    }

    async fn all(meters: &Meters) -> Result<Usage, Refused> {
        meters.page(LEASE, vec!["shop-rome".into()], None).await
    }

    #[tokio::test]
    async fn only_the_leases_own_guests_are_told() {
        let ours = LEASE.to_string();
        let mut nameless = measured(&ours, "u3", 1, "1m");
        nameless["metadata"]["labels"] = json!({ CONTRACT: ours });
        let items =
            vec![measured(&ours, "u1", 1, "250m"), measured("other", "u2", 1, "1"), nameless];
        let usage = all(&answering(items)).await.unwrap();
        assert_eq!((usage.pods.len(), usage.more), (1, false));
        let pod = &usage.pods[0];
        assert_eq!((pod.uid.0.as_str(), pod.at_ms), ("u1", 1_767_225_601_000));
        let app = &pod.containers[0];
        assert_eq!((app.cpu_nano_cores, app.memory_bytes), (250_000_000, 12 << 20));
    }

    #[test]
    fn what_the_gate_uses_is_not_told() {
        let mut pod = measured(&LEASE.to_string(), "u1", 1, "1m");
        let mut gate = pod["containers"][0].clone();
        gate["name"] = gate::CONTAINER.into();
        pod["containers"].as_array_mut().unwrap().insert(0, gate);
        let names = |pod: &Value| -> Vec<String> {
            let containers = measurement(LEASE, pod).unwrap().containers.into_iter();
            containers.map(|container| container.name).collect()
        };
        assert_eq!(names(&pod), ["app"]);
        pod["containers"].as_array_mut().unwrap().pop();
        assert!(names(&pod).is_empty(), "nothing of home's runs yet");
    }

    #[tokio::test]
    async fn the_cluster_is_not_asked_each_time() {
        let asked = Arc::new(Mutex::new(0));
        let count = asked.clone();
        let meters = Meters::new(scripted(move |_, _, _| {
            *count.lock().unwrap() += 1;
            (200, json!({ "items": [measured(&LEASE.to_string(), "u1", 1, "1")], "metadata": {} }))
        }));
        let first = all(&meters).await;
        assert_eq!(all(&meters).await, first);
        assert_eq!(*asked.lock().unwrap(), 1);
    }

    #[test]
    fn a_total_grows_with_the_rate_and_the_time_of_measurement() {
        let mut meter = Meter::default();
        let mut total = |second, cpu| {
            let pod = measurement(LEASE, &measured(&LEASE.to_string(), "u1", second, cpu)).unwrap();
            meter.take(BTreeMap::from([(pod.uid.clone(), pod)]));
            meter.pods.values().next().unwrap().containers[0].cpu_nanos - FIRST_TOTAL
        };
        assert_eq!(total(10, "500m"), 0);
        assert_eq!(total(20, "500m"), 5_000_000_000);
        assert_eq!(total(20, "500m"), 5_000_000_000, "the same measurement again");
        assert_eq!(total(12, "1"), 5_000_000_000, "an older one");
        assert_eq!(total(24, "1"), 9_000_000_000);
    }

    #[tokio::test]
    async fn what_cannot_be_had_is_told_apart() {
        for (code, reason) in [
            (404, RefusedReason::NotServed),
            (403, RefusedReason::NotServed),
            (503, RefusedReason::Unavailable),
        ] {
            let meters = Meters::new(scripted(move |_, _, _| status(code, "why")));
            assert_eq!(all(&meters).await.unwrap_err().reason, reason, "{code}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn pages_are_messages_and_hold_everything_once(
            sizes in proptest::collection::btree_map("[a-f0-9]{1,36}", 0..60_usize, 0..100)
        ) {
            let container = |n: usize| ContainerUsage {
                name: format!("{n:063}"),
                cpu_nanos: u64::MAX,
                cpu_nano_cores: u64::MAX,
                memory_bytes: u64::MAX,
            };
            let pods = sizes.into_iter().map(|(uid, containers)| {
                let containers = (0..containers * 4).map(container).collect();
                (Uid(uid.clone()), PodUsage { uid: Uid(uid), at_ms: u64::MAX, containers })
            });
            let pods: BTreeMap<_, _> = pods.collect();
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = page(&pods, after.as_ref());
                prop_assert!(page.to_bytes().is_ok());
                seen.extend(page.pods);
                after = seen.last().map(|pod| pod.uid.clone());
                if !page.more {
                    break;
                }
            }
            prop_assert_eq!(seen, pods.into_values().collect::<Vec<_>>());
        }
    }
}
