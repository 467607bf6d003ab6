//! Where the pods of the cluster are: on which node, at which address. What is made of it, as the
//! addresses by which other clusters call them, is the tunnel's to say.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::cluster::Cluster;
use crate::kind::POD;
use crate::watch::{Change, Selection, changes};

use super::TAKES;

/// Changes that come together are told together, so much later than the first at most.
const SETTLE: Duration = Duration::from_millis(100);

/// Where a pod is that is bound to a node, not over, and on the pod network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPlace {
    /// In which namespace it is.
    pub namespace: String,
    /// The name of the node where it runs.
    pub node: String,
    /// Its address on the pod network, once it has one.
    pub address: Option<IpAddr>,
}

impl PodPlace {
    /// None for a pod that has no place of its own: not bound yet, over, or on the host network.
    pub fn read(pod: &Value) -> Option<Self> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        if spec["hostNetwork"] == true
            || matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
        {
            return None;
        }
        Some(Self {
            namespace: pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            node: spec["nodeName"].as_str().filter(|node| !node.is_empty())?.to_owned(),
            address: status["podIP"].as_str().and_then(|address| address.parse().ok()),
        })
    }
}

/// All places of pods, first when all pods are known, then whenever one differs. Ends never; an
/// API server out of reach yields nothing.
pub fn places(cluster: &Cluster) -> BoxStream<'static, Vec<PodPlace>> {
    let pods = Selection::default().fields(TAKES.to_owned());
    told(changes(cluster, POD, pods, |pod| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        Seen { uid, place: PodPlace::read(&pod) }
    }))
}

/// A pod, and its place if it has one.
struct Seen {
    uid: String,
    place: Option<PodPlace>,
}

fn told(seen: BoxStream<'static, Change<Seen>>) -> BoxStream<'static, Vec<PodPlace>> {
    let state = (seen, Places::default());
    stream::unfold(state, |(mut seen, mut places)| async move {
        loop {
            places.take(seen.next().await?);
            let end = Instant::now() + SETTLE;
            // A timeout alone has no say while there is always more.
            while Instant::now() < end
                && let Ok(Some(more)) = timeout_at(end, seen.next()).await
            {
                places.take(more);
            }
            if let Some(all) = places.changed() {
                return Some((all, (seen, places)));
            }
        }
    })
    .boxed()
}

/// The places that are known, by the uids of the pods.
#[derive(Default)]
struct Places {
    /// None until all have been listed.
    known: Option<BTreeMap<String, PodPlace>>,
    is_told: bool,
}

impl Places {
    fn take(&mut self, change: Change<Seen>) {
        let before = match (&mut self.known, change) {
            (known, Change::Synced(all)) => {
                let placed = all.into_iter().filter_map(|seen| Some((seen.uid, seen.place?)));
                let placed = Some(placed.collect());
                self.is_told &= *known == placed;
                *known = placed;
                return;
            }
            // It is in the list that is still to come, if it stays.
            (None, Change::Changed(_) | Change::Deleted(_)) => return,
            (Some(known), Change::Changed(Seen { uid, place: Some(place) })) => {
                let same = known.get(&uid) == Some(&place);
                known.insert(uid, place);
                same
            }
            (Some(known), Change::Changed(seen) | Change::Deleted(seen)) => {
                known.remove(&seen.uid).is_none()
            }
        };
        self.is_told &= before;
    }

    /// All of them, if that was not told yet.
    fn changed(&mut self) -> Option<Vec<PodPlace>> {
        let known = self.known.as_ref().filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(known.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
            "spec": { "nodeName": "n1", "hostNetwork": false },
            "status": { "phase": "Running", "podIP": "10.42.0.7" } })
    }

    fn place(node: &str, address: &str) -> PodPlace {
        let address = address.parse().ok();
        PodPlace { namespace: "shop".into(), node: node.into(), address }
    }

    fn seen(uid: &str, place: Option<PodPlace>) -> Seen {
        Seen { uid: uid.into(), place }
    }

    #[test]
    fn only_who_has_an_address_of_its_own_is_told() {
        assert_eq!(PodPlace::read(&pod()), Some(place("n1", "10.42.0.7")));
        let with = |pointer: &str, value: Value| {
            let mut pod = pod();
            *pod.pointer_mut(pointer).unwrap() = value;
            PodPlace::read(&pod)
        };
        assert_eq!(with("/status/podIP", Value::Null), Some(place("n1", "")));
        assert_eq!(with("/status/podIP", json!("fd00::7")), Some(place("n1", "fd00::7")));
        assert_eq!(with("/status/podIP", json!("forged")), Some(place("n1", "")));
        assert_eq!(with("/status/phase", json!("Pending")), Some(place("n1", "10.42.0.7")));
        for (pointer, value) in [
            ("/status/phase", json!("Succeeded")),
            ("/status/phase", json!("Failed")),
            ("/spec/hostNetwork", json!(true)),
            ("/spec/nodeName", json!("")),
            ("/spec/nodeName", Value::Null),
        ] {
            assert_eq!(with(pointer, value.clone()), None, "{pointer}: {value}");
        }
    }

    #[test]
    fn they_are_told_once_all_are_known_and_when_one_differs() {
        let mut places = Places::default();
        let (first, moved) = (place("n1", ""), place("n1", "10.42.0.7"));
        places.take(Change::Changed(seen("u0", Some(first.clone()))));
        assert_eq!(places.changed(), None, "not all are known");
        places.take(Change::Synced(vec![seen("u1", Some(first.clone())), seen("u2", None)]));
        assert_eq!(places.changed(), Some(vec![first.clone()]));
        assert_eq!(places.changed(), None);
        places.take(Change::Changed(seen("u1", Some(first.clone()))));
        places.take(Change::Changed(seen("u2", None)));
        places.take(Change::Synced(vec![seen("u1", Some(first))]));
        assert_eq!(places.changed(), None, "nothing is another");
        places.take(Change::Changed(seen("u1", Some(moved.clone()))));
        assert_eq!(places.changed(), Some(vec![moved.clone()]));
        places.take(Change::Changed(seen("u1", None)));
        assert_eq!(places.changed(), Some(vec![]), "it is over");
        places.take(Change::Deleted(seen("u1", Some(moved.clone()))));
        assert_eq!(places.changed(), None);
        places.take(Change::Changed(seen("u3", Some(moved.clone()))));
        places.take(Change::Synced(Vec::new()));
        assert_eq!(places.changed(), Some(vec![]), "whatever is not listed is gone");
    }

    #[tokio::test]
    async fn changes_that_come_together_are_told_together() {
        let (mut tell, changes) = futures::channel::mpsc::channel(8);
        let mut told = told(changes.boxed());
        tell.try_send(Change::Synced(Vec::new())).unwrap();
        for uid in ["u1", "u2"] {
            tell.try_send(Change::Changed(seen(uid, Some(place("n1", ""))))).unwrap();
        }
        assert_eq!(told.next().await, Some(vec![place("n1", ""), place("n1", "")]));
        assert_eq!(told.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn who_changes_without_an_end_keeps_nobody_waiting() {
        let all = stream::iter([Change::Synced(Vec::new())]);
        let busy = (0_u64..).map(|n| seen("u1", Some(place(&n.to_string(), ""))));
        let mut told = told(all.chain(stream::iter(busy).map(Change::Changed)).boxed());
        assert_eq!(told.next().await.unwrap().len(), 1);
        assert_eq!(told.next().await.unwrap().len(), 1);
    }
}
