//! A cluster of the model that runs in this process, in real time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_cluster_model::sides::{self, Client, Outcome};
use mercato_cluster_model::{ApiError, Cluster, Script};
use mercato_kubelet::Bodies;
use mercato_offload::body::{Found, Way};
use mercato_offload::forge::Refusal;
use mercato_offload::key::Item;
use mercato_offload::placement::allocatable;
use mercato_offload::placement::export::Scope;
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::id::Digest;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use mercato_protocol::time::Now;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::driver::clock::Clock;

/// Something may have become due earlier meanwhile.
const IDLE_MS: u64 = 50;
/// Of each simulated GPU, whatever its model: nothing is computed on it.
const GPU_MEMORY_MIB: u64 = 80 << 10;

/// A simulated cluster of one node. Clones are the same.
#[derive(Clone)]
pub(crate) struct Simulated(Arc<Shared>);

struct Shared {
    name: String,
    clock: Clock,
    cluster: Mutex<Cluster>,
    /// Counts the changes of the cluster.
    changes: watch::Sender<u64>,
    size: Resources,
    ticking: Mutex<Option<AbortHandle>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Ok(Some(ticking)) = self.ticking.lock().map(|mut ticking| ticking.take()) {
            ticking.abort();
        }
    }
}

impl Simulated {
    /// A cluster with one node of that size. Must run within a tokio runtime.
    pub(crate) fn start(name: &str, size: Resources) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            clock: Clock::start(),
            cluster: Mutex::new(Cluster::new(name)),
            changes: watch::channel(0).0,
            size: size.clone(),
            ticking: Mutex::default(),
        });
        let simulated = Self(shared.clone());
        let node = format!("{name}-1");
        let room = allocatable(&size, &BTreeMap::new());
        let resources: Vec<(&str, &str)> =
            room.iter().map(|(name, amount)| (name.as_str(), amount.as_str())).collect();
        simulated.change(|cluster, now| cluster.add_node(now, &node, &resources, &json!({})));
        let ticking = tokio::spawn(tick(Arc::downgrade(&shared))).abort_handle();
        *shared.ticking.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticking);
        simulated
    }

    /// What the containers of an image do.
    pub(crate) fn script(&self, image: &str, script: Script) {
        self.change(|cluster, _| cluster.script(image, script));
    }

    /// Does something to the cluster, as through its API server.
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut Cluster, Now) -> T) -> T {
        let (mut cluster, now) = (self.lock(), self.0.clock.now());
        let before = cluster.version();
        let done = act(&mut cluster, now);
        cluster.advance(now);
        if cluster.version() != before {
            self.0.changes.send_modify(|changes| *changes += 1);
        }
        done
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.lock())
    }

    /// Told whenever something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.0.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a pod, as the webhook lets it be made.
    pub(crate) fn create_pod(&self, pod: Value) -> Result<Value, ApiError> {
        self.change(|cluster, now| {
            let pod = sides::admit(cluster, Scope::Labelled, pod);
            cluster.create(now, pod)
        })
    }

    /// Asks the API server for something, as the daemon does for a lease.
    pub(super) fn request<T>(
        &self,
        bodies: &Bodies,
        request: impl FnOnce(&mut Client<'_>) -> T,
    ) -> T {
        self.change(|cluster, now| {
            let bodies = &mut Kept(bodies);
            request(&mut Client { cluster, bodies, now, outcome: Outcome::Answered })
        })
    }

    /// Gives a namespace these marks, and no others.
    pub(super) fn mark(
        &self,
        namespace: &str,
        marks: Value,
    ) -> BoxFuture<'static, Result<(), String>> {
        let mut object = json!({ "kind": "Namespace", "metadata": marks });
        object["metadata"]["name"] = namespace.into();
        let applied = self.change(|cluster, now| cluster.apply(now, object));
        async move { applied.map(drop).map_err(|error| error.to_string()) }.boxed()
    }

    /// The devices of its node, each with its share of the rest.
    pub(super) fn gpus(&self) -> Vec<GpuPool> {
        let Resources { cpu_millis, memory_bytes, gpus, .. } = &self.0.size;
        let units = gpus.values().copied().fold(0, u64::saturating_add);
        let part = |of: u64| of.checked_div(units).unwrap_or(0);
        let all = gpus.iter().filter(|(_, count)| **count > 0);
        let unit = |(model, count): (&GpuModel, &u64)| GpuPool {
            cpu_millis_per_unit: part(*cpu_millis),
            memory_bytes_per_unit: part(*memory_bytes),
            ..GpuPool::whole(model.clone(), *count, GPU_MEMORY_MIB)
        };
        all.map(unit).collect()
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// The resources that its node has.
    pub(super) fn size(&self) -> &Resources {
        &self.0.size
    }

    /// The present, as the model has it.
    pub(super) fn now(&self) -> Now {
        self.0.clock.now()
    }
}

/// The bytes of a lease's objects and statuses.
struct Kept<'a>(&'a Bodies);

impl sides::Bodies for Kept<'_> {
    fn keep(&mut self, way: Way, item: &Item, body: &Value) -> Result<Digest, Refusal> {
        self.0.keep(way, item, body)
    }

    fn get(&self, digest: &Digest) -> Found<Value> {
        self.0.object(digest)
    }
}

/// Lets time pass in the model.
async fn tick(shared: std::sync::Weak<Shared>) {
    loop {
        let wait_ms = {
            let Some(shared) = shared.upgrade() else { return };
            let simulated = Simulated(shared);
            let due = simulated.look(Cluster::wakeup_ms);
            let now_ms = simulated.0.clock.now().mono_ms;
            if due.is_some_and(|due| due <= now_ms) {
                simulated.change(|_, _| ());
                0
            } else {
                due.map_or(IDLE_MS, |due| (due - now_ms).min(IDLE_MS))
            }
        };
        tokio::time::sleep(Duration::from_millis(wait_ms.max(1))).await;
    }
}
