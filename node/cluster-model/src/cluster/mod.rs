//! The cluster as one value: what its API server holds, and when its scheduler and kubelets next
//! have something to do. What each of the three does is in a file of its own.

mod addresses;
mod api;
mod kubelet;
mod scheduler;
mod volumes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mercato_protocol::time::Now;
use serde_json::Value;

use self::addresses::Addresses;
use crate::{ApiError, limits};

/// The class of what the model's own nodes store, as much as anybody likes. Of any other class a node has
/// room where a CSIStorageCapacity says so.
pub const LOCAL_CLASS: &str = "standard";

/// An object's place: kind, namespace (empty for what has none) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The kind of the object: `Pod`, `ConfigMap`, `Node`, ...
    pub kind: String,
    /// Empty for nodes, namespaces and volumes.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl Key {
    /// The key of the object of this kind and name.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// A change of an object, as a watch shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Made or changed: the object as it is now.
    Applied(Value),
    /// Gone: the object as it last was.
    Deleted(Value),
}

/// What the containers of an image do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// From being bound to running, in ms.
    pub start_ms: u64,
    /// If they end by themselves: after how many ms of running, with which exit code.
    pub ends: Option<(u64, i32)>,
    /// From being told to stop to having stopped, in ms (or the grace, if that is less).
    pub stop_ms: u64,
    /// The exit code of having been told to stop.
    pub stop_code: i32,
    /// What they write, a line a second, over and over.
    pub lines: Vec<String>,
}

impl Default for Script {
    fn default() -> Self {
        Self { start_ms: 300, ends: None, stop_ms: 100, stop_code: 0, lines: Vec::new() }
    }
}

/// A simulated cluster: its API server and its kubelets.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    objects: BTreeMap<Key, Value>,
    version: u64,
    made: u64,
    events: VecDeque<(u64, Key, Event)>,
    faults: VecDeque<ApiError>,
    /// Nodes whose kubelet is the model's.
    kubelets: BTreeSet<String>,
    /// When a kubelet next does something about a pod, in ms of the monotonic clock.
    due: BTreeMap<Key, u64>,
    /// What containers do, by their image.
    scripts: BTreeMap<String, Script>,
    /// Of the pods that its kubelets run.
    addresses: Addresses,
}

impl Cluster {
    /// An empty cluster. The name goes into uids, so that two clusters never share one.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            objects: BTreeMap::new(),
            version: 1,
            made: 0,
            events: VecDeque::new(),
            faults: VecDeque::new(),
            kubelets: BTreeSet::new(),
            due: BTreeMap::new(),
            scripts: BTreeMap::new(),
            addresses: Addresses::default(),
        }
    }

    /// What the containers of `image` do, from the next pod on.
    pub fn script(&mut self, image: &str, script: Script) {
        self.scripts.insert(image.to_owned(), script);
    }

    /// Makes the next write fail so, and not happen. Further ones queue up.
    pub fn fail_next(&mut self, error: ApiError) {
        if self.faults.len() < limits::FAULTS {
            self.faults.push_back(error);
        }
    }

    /// Forgets all events: every watch has to list again.
    pub fn forget_events(&mut self) {
        self.events.clear();
    }

    /// When the scheduler or a kubelet next has something to do.
    pub fn wakeup_ms(&self) -> Option<u64> {
        self.due.values().min().copied()
    }

    /// Schedules, starts, runs and stops what is due.
    pub fn advance(&mut self, now: Now) {
        self.keep_volumes(now);
        self.schedule(now);
        let due: Vec<Key> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now.mono_ms)
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.due.remove(&key);
            self.tend(now, &key);
        }
        self.keep_volumes(now);
        self.schedule(now);
    }

    /// What a container has written by now; each line says that it is simulated. None if
    /// it has not started.
    pub fn logs(
        &self,
        now: Now,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Option<Vec<String>> {
        self.simulated_logs(now, &Key::new("Pod", namespace, pod), container)
    }
}
