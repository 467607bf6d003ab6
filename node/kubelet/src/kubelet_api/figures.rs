//! What the pods of a virtual node use, as home sees it: the provider's measurements
//! under home's own names. Asked for at most once in a while, however many ask here.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::codec::Message;
use mercato_protocol::kubelet_stream::{Ask, ContainerUsage, PodUsage, RefusedReason, Usage};
use mercato_protocol::limits::{CLOCK_SKEW_MS, USAGE_BYTES};
use mercato_protocol::workload::Uid;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::pass;
use super::virtual_kubelet::VirtualKubelet;
use crate::format::clock;
use crate::format::packed::Packed;
use crate::guest::stream::{Opened, Refused};
use crate::limits;

/// The last answer, and what must outlive it.
#[derive(Default)]
pub(super) struct Figures(Mutex<Last>);

#[derive(Default)]
struct Last {
    answer: Option<(Instant, Result<Arc<Snapshot>, Refused>)>,
    node: Total,
}

/// What all pods that there were have used; it never falls.
#[derive(Default)]
struct Total {
    nanos: u64,
    at_ms: u64,
    /// The total of each container of the pods at home.
    containers: BTreeMap<(Uid, String), u64>,
}

/// A virtual node and its pods at one time.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) pods: Vec<Pod>,
    pub(super) node: Node,
}

/// The sum of its pods: a virtual node has no system of its own.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) at_ms: u64,
    pub(super) cpu_nanos: u64,
    pub(super) cpu_nano_cores: u64,
    pub(super) memory_bytes: u64,
}

/// A pod by its names at home.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// When the pod started, as its status says.
    pub(super) started: Option<String>,
    pub(super) at_ms: u64,
    pub(super) containers: Vec<Container>,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) used: ContainerUsage,
    pub(super) started: Option<String>,
}

impl Figures {
    /// The figures, no older than [`limits::USAGE_TTL`].
    pub(super) async fn read(&self, node: &VirtualKubelet) -> Result<Arc<Snapshot>, Refused> {
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = &last.answer
            && at.elapsed() < limits::USAGE_TTL
        {
            return answer.clone();
        }
        let usage = tokio::time::timeout(limits::USAGE_TIMEOUT, ask(node)).await;
        let usage = usage.unwrap_or_else(|_| Err(unavailable("the figures did not come in time")));
        let answer = usage.map(|usage| Arc::new(last.node.snapshot(&node.pods.list(), usage)));
        last.answer = Some((Instant::now(), answer.clone()));
        answer
    }
}

fn unavailable(text: impl Into<String>) -> Refused {
    Refused::new(RefusedReason::Unavailable, text)
}

/// Asks the provider, page by page.
async fn ask(node: &VirtualKubelet) -> Result<BTreeMap<Uid, PodUsage>, Refused> {
    let (contract, mut pods) = (node.contract, BTreeMap::new());
    for _ in 0..limits::USAGE_PAGES {
        let after = pods.keys().next_back().cloned();
        let asked = Ask::Usage { contract, after: after.clone() };
        let Opened::Body(body) = pass::open(node.peer.as_ref(), asked).await? else {
            return Err(unavailable("the provider opened something else"));
        };
        let mut bytes = Vec::new();
        let most = u64::try_from(USAGE_BYTES + 1).unwrap_or(u64::MAX);
        let read = body.take(most).read_to_end(&mut bytes).await;
        read.map_err(|error| unavailable(error.to_string()))?;
        let page = Usage::from_bytes(&bytes).map_err(|error| unavailable(error.to_string()))?;
        let further = page.pods.first().is_none_or(|pod| after.is_none_or(|last| last < pod.uid));
        // No clock runs that far ahead: such a time would stay the latest for ever.
        let latest = clock::now_ms() + CLOCK_SKEW_MS;
        pods.extend(page.pods.into_iter().map(|mut pod| {
            pod.at_ms = pod.at_ms.min(latest);
            (pod.uid.clone(), pod)
        }));
        if !page.more || !further {
            break;
        }
    }
    Ok(pods)
}

impl Total {
    /// Only what home knows of counts: its pods, and the containers that they have.
    fn snapshot(&mut self, home: &[Packed], mut usage: BTreeMap<Uid, PodUsage>) -> Snapshot {
        let mut pods = Vec::new();
        let mut before = std::mem::take(&mut self.containers);
        for pod in home.iter().map(Packed::open) {
            let metadata = &pod["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let uid = Uid(text("uid"));
            // One without a measurement, this time, keeps its totals.
            let kept = before.range((uid.clone(), String::new())..);
            let kept: Vec<_> =
                kept.take_while(|((of, _), _)| *of == uid).map(|(key, _)| key.clone()).collect();
            self.containers.extend(kept.into_iter().filter_map(|key| before.remove_entry(&key)));
            let Some(used) = usage.remove(&uid) else { continue };
            let containers = used.containers.into_iter();
            let containers = containers.filter_map(|used| {
                let started = started(&pod, &used.name)?;
                Some(Container { used, started })
            });
            let pod = Pod {
                namespace: text("namespace"),
                name: text("name"),
                uid: uid.0.clone(),
                started: pod["status"]["startTime"].as_str().map(str::to_owned),
                at_ms: used.at_ms,
                containers: containers.collect(),
            };
            for Container { used, .. } in &pod.containers {
                let known =
                    self.containers.insert((uid.clone(), used.name.clone()), used.cpu_nanos);
                let more = used.cpu_nanos.checked_sub(known.unwrap_or(0));
                self.nanos = self.nanos.saturating_add(more.unwrap_or(used.cpu_nanos));
            }
            pods.push(pod);
        }
        let latest = pods.iter().map(|pod| pod.at_ms).max();
        self.at_ms = self.at_ms.max(latest.unwrap_or_else(clock::now_ms));
        let all = || pods.iter().flat_map(|pod| &pod.containers).map(|container| &container.used);
        let sum = |of: fn(&ContainerUsage) -> u64| all().map(of).fold(0, u64::saturating_add);
        let node = Node {
            at_ms: self.at_ms,
            cpu_nanos: self.nanos,
            cpu_nano_cores: sum(|used| used.cpu_nano_cores),
            memory_bytes: sum(|used| used.memory_bytes),
        };
        Snapshot { pods, node }
    }
}

/// Since when a container of the pod runs, if its status says; none if the pod has no such
/// container.
fn started(pod: &Value, name: &str) -> Option<Option<String>> {
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    lists.iter().find_map(|list| named(&pod["spec"][list], name))?;
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let status = lists.iter().find_map(|list| named(&pod["status"][list], name));
    Some(status.and_then(|one| one["state"]["running"]["startedAt"].as_str().map(str::to_owned)))
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str) -> Packed {
        Packed::new(&json!({
            "metadata": { "name": uid, "namespace": "shop", "uid": uid },
            "spec": { "containers": [{ "name": "app" }] },
            "status": { "containerStatuses": [{ "name": "app",
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } }] },
        }))
    }

    fn usage(pods: &[(&str, &[(&str, u64)])]) -> BTreeMap<Uid, PodUsage> {
        let container = |(name, nanos): &(&str, u64)| ContainerUsage {
            name: (*name).into(),
            cpu_nanos: *nanos,
            cpu_nano_cores: 10,
            memory_bytes: 100,
        };
        let pod = |(uid, containers): &(&str, &[(&str, u64)])| {
            let uid = Uid((*uid).into());
            let containers = containers.iter().map(container).collect();
            (uid.clone(), PodUsage { uid, at_ms: 1_000, containers })
        };
        pods.iter().map(pod).collect()
    }

    #[test]
    fn only_what_home_knows_of_counts() {
        let told = usage(&[("u1", &[("app", 5), ("invented", 7)]), ("u9", &[("app", 9)])]);
        let seen = Total::default().snapshot(&[pod("u1"), pod("u2")], told);
        assert_eq!((seen.pods.len(), seen.pods[0].containers.len()), (1, 1));
        assert_eq!((seen.node.cpu_nanos, seen.node.memory_bytes), (5, 100));
        let since = seen.pods[0].containers[0].started.as_deref();
        assert_eq!(since, Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn the_total_of_a_node_never_falls() {
        let mut total = Total::default();
        let (one, two) = (pod("u1"), pod("u2"));
        let both = [one.clone(), two.clone()];
        let nanos = |total: &mut Total, home: &[Packed], told| total.snapshot(home, told).node;
        let first =
            nanos(&mut total, &both, usage(&[("u1", &[("app", 50)]), ("u2", &[("app", 7)])]));
        assert_eq!(first.cpu_nanos, 57);
        // One is not measured, the other has begun anew.
        let second = nanos(&mut total, &both, usage(&[("u1", &[("app", 3)])]));
        assert_eq!(second.cpu_nanos, 60);
        let third =
            nanos(&mut total, &both, usage(&[("u1", &[("app", 4)]), ("u2", &[("app", 9)])]));
        assert_eq!(third.cpu_nanos, 63, "what was known of the second is not counted twice");
        let last = nanos(&mut total, &[], usage(&[]));
        assert_eq!((last.cpu_nanos, last.memory_bytes), (63, 0));
        assert!(total.containers.is_empty());
    }
}
