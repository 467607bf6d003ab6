//! The pods of one virtual node, kept as home's API server last told of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mercato_offload::forge;
use mercato_offload::key::{PodId, Uid};
use mercato_offload::placement::export::stands_in_for;
use serde_json::Value;

use crate::apiserver::failure::Failure;
use crate::apiserver::watch::trim;
use crate::format::packed::Packed;
use crate::kubelet_api::NodePods;
use crate::repeated::Repeated;

/// The pods that are bound to the node, by uid.
#[derive(Default)]
pub(super) struct Pods {
    by_uid: Mutex<BTreeMap<Uid, Kept>>,
    /// The whole list has come at least once.
    listed: AtomicBool,
}

/// A state of a pod, and what is often asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: PodId,
    /// Versions of one resource are ordered numbers, by the API's own conventions.
    version: u64,
    /// What its condition of that name says.
    ready: Option<String>,
    /// Its end was asked for.
    pub(super) deleting: bool,
    /// All that it waits for are finalizers of others: a kubelet is done with it.
    pub(super) is_over: bool,
    /// A DaemonSet's: another comes in its place.
    pub(super) of_daemon_set: bool,
    pub(super) object: Packed,
}

/// What is kept of one pod.
struct Kept {
    seen: Seen,
    /// Whether it was ready as of the last status that we wrote, and that state's version.
    written: Option<(u64, Option<String>)>,
    /// Why nothing could be written to it.
    failing: Repeated,
    /// Its end is being asked for, or was.
    asked_to_end: bool,
}

impl Seen {
    /// None of what is no pod of an API server's.
    pub(super) fn read(pod: &Value) -> Option<Self> {
        let metadata = &pod["metadata"];
        let version = metadata["resourceVersion"].as_str();
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        let owners = metadata["ownerReferences"].as_array();
        Some(Self {
            id: forge::pod_id(pod)?,
            version: version.and_then(|version| version.parse().ok()).unwrap_or(0),
            ready: ready.next().and_then(|ready| ready["status"].as_str().map(str::to_owned)),
            deleting: !metadata["deletionTimestamp"].is_null(),
            is_over: metadata["deletionGracePeriodSeconds"] == 0,
            of_daemon_set: owners
                .is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "DaemonSet")),
            object: Packed::new(pod),
        })
    }
}

impl Pods {
    pub(super) fn get(&self, uid: &Uid) -> Option<Packed> {
        self.lock().get(uid).map(|kept| kept.seen.object.clone())
    }

    pub(super) fn all(&self) -> Vec<Seen> {
        self.lock().values().map(|kept| kept.seen.clone()).collect()
    }

    /// Whether any of them is in this namespace.
    pub(super) fn has_any_in(&self, namespace: &str) -> bool {
        self.lock().values().any(|kept| kept.seen.id.namespace == namespace)
    }

    /// All of them; none before the list has come.
    pub(super) fn listed(&self) -> Option<Vec<Seen>> {
        self.listed.load(Ordering::Acquire).then(|| self.all())
    }

    /// What is known of a pod that was asked for by name: the answer may be older than what the watch
    /// has told. None where that has told that it is gone, or is about to tell of it.
    pub(super) fn newest(&self, asked: Seen) -> Option<Seen> {
        match self.lock().get(&asked.id.uid) {
            Some(kept) if kept.seen.version > asked.version => Some(kept.seen.clone()),
            None if self.listed.load(Ordering::Acquire) => None,
            Some(_) | None => Some(asked),
        }
    }

    /// Takes a pod in, unless a newer state of it is known.
    pub(super) fn insert(&self, seen: Seen) {
        match self.lock().entry(seen.id.uid.clone()) {
            Entry::Occupied(mut kept) => kept.get_mut().take(seen),
            Entry::Vacant(place) => {
                place.insert(Kept::new(seen));
            }
        }
    }

    /// Its status is being written: until that is answered, a change may be our own.
    pub(super) fn begin_write(&self, uid: &Uid) {
        if let Some(kept) = self.lock().get_mut(uid) {
            kept.written = None;
        }
    }

    /// Takes in what a write of its status answered, if the pod is still one of the node's.
    pub(super) fn refresh(&self, mut pod: Value) {
        trim(&mut pod);
        let Some(seen) = Seen::read(&pod) else { return };
        if let Some(kept) = self.lock().get_mut(&seen.id.uid) {
            kept.written = Some((seen.version, seen.ready.clone()));
            kept.take(seen);
        }
    }

    /// Whether somebody has made it ready or not since we wrote its status: a node
    /// controller that took the node for dead, say.
    pub(super) fn overwritten(&self, seen: &Seen) -> bool {
        let pods = self.lock();
        let written = pods.get(&seen.id.uid).and_then(|kept| kept.written.as_ref());
        written.is_some_and(|(at, ready)| seen.version > *at && seen.ready != *ready)
    }

    /// A write to it failed; whether that is news.
    pub(super) fn failed(&self, uid: &Uid, why: &Failure) -> bool {
        self.lock().get_mut(uid).is_none_or(|kept| kept.failing.is_news(why))
    }

    /// A write to it went well.
    pub(super) fn succeeded(&self, uid: &Uid) {
        if let Some(kept) = self.lock().get_mut(uid) {
            kept.failing = Repeated::default();
        }
    }

    /// Its end is about to be asked for; false where that was begun before, or is not needed.
    pub(super) fn begin_end(&self, uid: &Uid) -> bool {
        let mut pods = self.lock();
        let Some(kept) = pods.get_mut(uid).filter(|kept| !kept.seen.deleting) else { return false };
        !std::mem::replace(&mut kept.asked_to_end, true)
    }

    /// Whether it is gone, or to end as the API server has it.
    pub(super) fn ends(&self, uid: &Uid) -> bool {
        self.lock().get(uid).is_none_or(|kept| kept.seen.deleting)
    }

    pub(super) fn remove(&self, uid: &Uid) {
        self.lock().remove(uid);
    }

    /// These are all of them; those that were known and are not among them.
    pub(super) fn replace(&self, pods: &[Seen]) -> Vec<PodId> {
        let mut known = self.lock();
        let mut before = std::mem::take(&mut *known);
        for seen in pods {
            let kept = match before.remove(&seen.id.uid) {
                Some(kept) => Kept { seen: seen.clone(), ..kept },
                None => Kept::new(seen.clone()),
            };
            known.insert(seen.id.uid.clone(), kept);
        }
        self.listed.store(true, Ordering::Release);
        before.into_values().map(|kept| kept.seen.id).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uid, Kept>> {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn new(seen: Seen) -> Self {
        Self { seen, written: None, failing: Repeated::default(), asked_to_end: false }
    }

    fn take(&mut self, seen: Seen) {
        if self.seen.version <= seen.version {
            self.seen = seen;
        }
    }
}

impl NodePods for Pods {
    fn uid(&self, namespace: &str, name: &str) -> Option<String> {
        let pods = self.lock();
        let named = |id: &PodId| id.name == name && id.namespace == namespace;
        pods.values().map(|kept| &kept.seen.id).find(|id| named(id)).map(|id| id.uid.0.clone())
    }

    fn not_offloaded(&self, namespace: &str, name: &str) -> Option<String> {
        let pods = self.lock();
        let named = |kept: &&Kept| kept.seen.id.name == name && kept.seen.id.namespace == namespace;
        let object = pods.values().find(named)?.seen.object.clone();
        drop(pods);
        stands_in_for(&object.open()).map(str::to_owned)
    }

    fn list(&self) -> Vec<Packed> {
        self.lock().values().map(|kept| kept.seen.object.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_write_over_a_status_is_seen_and_our_own_is_not() {
        let at = |version: &str, ready: &str| {
            let metadata = json!({ "uid": "u", "namespace": "shop", "name": "web",
                "resourceVersion": version });
            let ready = json!([{ "type": "Ready", "status": ready }]);
            json!({ "metadata": metadata, "status": { "conditions": ready } })
        };
        let seen = |version: &str, ready: &str| Seen::read(&at(version, ready)).unwrap();
        let (pods, uid) = (Pods::default(), Uid("u".into()));
        pods.insert(seen("5", "False"));
        assert!(!pods.overwritten(&seen("5", "False")), "nothing was written yet");
        pods.begin_write(&uid);
        assert!(!pods.overwritten(&seen("6", "True")), "it may be our own write");
        pods.refresh(at("6", "True"));
        assert!(!pods.overwritten(&seen("5", "False")), "it is older than ours");
        assert!(!pods.overwritten(&seen("7", "True")), "it is as we wrote it");
        assert!(pods.overwritten(&seen("7", "False")));
        assert!(pods.replace(&[seen("8", "False")]).is_empty());
        assert!(pods.overwritten(&seen("8", "False")), "a list is no write");
        assert_eq!(pods.replace(&[]), [seen("8", "False").id]);
    }

    #[test]
    fn an_answer_is_not_taken_for_more_than_the_watch_has_told() {
        let seen = |version: &str| {
            let metadata = json!({ "uid": "u", "namespace": "shop", "name": "web",
                "resourceVersion": version });
            Seen::read(&json!({ "metadata": metadata })).unwrap()
        };
        let pods = Pods::default();
        assert_eq!(pods.newest(seen("5")), Some(seen("5")), "nobody else tells of it yet");
        pods.replace(&[seen("7")]);
        assert_eq!(pods.newest(seen("5")), Some(seen("7")), "what was told is later");
        assert_eq!(pods.newest(seen("8")), Some(seen("8")));
        pods.remove(&Uid("u".into()));
        assert_eq!(pods.newest(seen("8")), None, "its watch has told that it is gone");
    }
}
