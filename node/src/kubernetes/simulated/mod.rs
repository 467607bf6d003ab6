//! The boundary over the cluster model: objects and statuses as those of a real cluster,
//! pods that only seem to run, and logs that say that they are simulated.

mod guest;
mod home;

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use mercato_broker::{Inventory, PoolInventory, Side};
use mercato_cluster_model::sides::{self, Client, Outcome};
use mercato_cluster_model::{ApiError, Cluster, Script};
use mercato_kubelet::stream::{Opened, Refused};
use mercato_kubelet::{Bodies, BodyError};
use mercato_offload::forge::Refusal;
use mercato_offload::key::Item;
use mercato_offload::placement::allocatable;
use mercato_offload::placement::export::{OptIn, Scope};
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::resources::Resources;
use mercato_protocol::stream::{RefusedReason, Request, Usage, What};
use mercato_protocol::terms::Platform;
use mercato_protocol::time::Now;
use mercato_protocol::workload::Uid;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Kubernetes, LeaseTask};
use crate::admin::{Attention, Offload};
use crate::doctor::Finding;
use crate::driver::clock::Clock;

/// A simulated cluster of one node. Clones are the same.
#[derive(Clone)]
pub(crate) struct Simulated(Arc<Shared>);

struct Shared {
    name: String,
    clock: Clock,
    cluster: Mutex<Cluster>,
    /// Counts the changes.
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
        let room = allocatable(&size);
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

    /// Looks at the cluster.
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
    fn request<T>(&self, bodies: &Bodies, request: impl FnOnce(&mut Client<'_>) -> T) -> T {
        self.change(|cluster, now| {
            let bodies = &mut Kept(bodies);
            request(&mut Client { cluster, bodies, now, outcome: Outcome::Answered })
        })
    }
}

/// The bytes of a lease's objects and statuses.
struct Kept<'a>(&'a Bodies);

impl sides::Bodies for Kept<'_> {
    fn keep(&mut self, item: &Item, body: &Value) -> Result<Digest, Refusal> {
        let refused = |error: BodyError| Refusal { path: String::new(), reason: error.to_string() };
        self.0.keep(item, body).map_err(refused)
    }

    fn get(&self, digest: &Digest) -> Option<Value> {
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

/// Something may have become due earlier meanwhile.
const IDLE_MS: u64 = 50;

impl Simulated {
    /// Gives a namespace these marks, and no others.
    fn mark(&self, namespace: &str, marks: Value) -> BoxFuture<'static, Result<(), String>> {
        let mut object = json!({ "kind": "Namespace", "metadata": marks });
        object["metadata"]["name"] = namespace.into();
        let applied = self.change(|cluster, now| cluster.apply(now, object));
        async move { applied.map(drop).map_err(|error| error.to_string()) }.boxed()
    }
}

/// Of each simulated GPU, whatever its model: nothing is computed on it.
const GPU_MEMORY_MIB: u64 = 80 << 10;

impl Simulated {
    fn gpus(&self) -> Vec<GpuPool> {
        let all = self.0.size.gpus.iter().filter(|(_, count)| **count > 0);
        all.map(|(model, count)| GpuPool::whole(model.clone(), *count, GPU_MEMORY_MIB)).collect()
    }
}

impl Kubernetes for Simulated {
    fn describe(&self) -> String {
        format!("{}, simulated", self.0.name)
    }

    fn inventory(&self) -> BoxStream<'static, Inventory> {
        let word = |text: &str| text.parse().expect("a plain word is a slug");
        let pool = PoolInventory {
            platform: Platform { arch: word("amd64"), os: word("linux") },
            allocatable: self.0.size.clone(),
            requested: Resources::default(),
            largest_pod: self.0.size.clone(),
            gpus: self.gpus(),
        };
        stream::iter([Inventory { pools: vec![pool] }]).chain(stream::pending()).boxed()
    }

    /// There is no network in the model.
    fn isolates(&self) -> bool {
        true
    }

    fn follow(&self, task: LeaseTask) -> BoxFuture<'static, ()> {
        let side = task.desire.borrow().side;
        match side {
            Side::Consumer => home::follow(self.clone(), task).boxed(),
            Side::Provider => guest::follow(self.clone(), task).boxed(),
        }
    }

    fn offload(&self, offload: Offload) -> BoxFuture<'static, Result<(), String>> {
        self.mark(&offload.namespace, offload.how.marks())
    }

    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<(), String>> {
        self.mark(&namespace, OptIn::no_marks())
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn offloads_all(&self) -> bool {
        false
    }

    fn resources(&self) -> BoxFuture<'static, Option<mercato_kubelet::Cluster>> {
        ready(None).boxed()
    }

    fn examine(&self) -> BoxFuture<'static, Vec<Finding>> {
        let finding = Finding::ok("kubernetes", self.describe());
        ready(vec![finding]).boxed()
    }

    fn attention(&self) -> Vec<Attention> {
        Vec::new()
    }

    fn open(
        &self,
        namespace: String,
        pod: String,
        request: Request,
    ) -> BoxFuture<'static, Result<Opened, Refused>> {
        let logs = match &request.what {
            What::Logs(logs) => {
                let now = self.0.clock.now();
                let lines =
                    self.look(|cluster| cluster.logs(now, &namespace, &pod, &logs.container));
                lines.ok_or_else(|| Refused::new(RefusedReason::NotFound, "it has not started"))
            }
            What::Exec(_) | What::Attach(_) | What::PortForward { .. } => {
                let text = "a simulated pod runs nothing: only its logs can be read";
                Err(Refused::new(RefusedReason::BadRequest, text))
            }
        };
        async move {
            let text: String = logs?.into_iter().map(|line| line + "\n").collect();
            let (ours, mut end) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move {
                // The reader may have gone.
                let _ = end.write_all(text.as_bytes()).await;
            });
            Ok(Opened::Body(Box::new(ours)))
        }
        .boxed()
    }

    fn usage(
        &self,
        _: ContractId,
        _: Vec<String>,
        _: Option<Uid>,
    ) -> BoxFuture<'static, Result<Usage, Refused>> {
        let text = "a simulated pod uses nothing";
        ready(Err(Refused::new(RefusedReason::NotServed, text))).boxed()
    }
}
