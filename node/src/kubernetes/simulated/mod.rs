//! The boundary over the cluster model: objects and statuses as those of a real cluster,
//! pods that only seem to run, and logs that say that they are simulated.

mod guest;
mod home;
mod model;

use std::future::ready;
use std::net::SocketAddr;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use mercato_agent::demand;
use mercato_broker::{
    BurstNews, BurstPolicy, DevicePolicy, Inventory, PodDemand, PoolInventory, Side, StorageClass,
    StoragePolicy,
};
use mercato_cluster_model::sides::PendingSide;
use mercato_kubelet::guest::stream::{Opened, Refused};
use mercato_kubelet::offload_namespace::Waiting;
use mercato_offload::placement::export::{Consent, OptIn, Scope};
use mercato_offload::placement::{GPUS, StoredBy};
use mercato_protocol::contract::Terms;
use mercato_protocol::id::ContractId;
use mercato_protocol::kubelet_stream::{NodeFacts, RefusedReason, Request, Usage, What};
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;
use mercato_protocol::workload::Uid;
use tokio::io::AsyncWriteExt as _;

use super::{ClusterNetwork, Kubernetes, LeaseTask, NodeMachine, PodPlace, ToldOfNode};
use crate::admin::{Attention, Offload};
use crate::doctor::Finding;

pub(crate) use model::Simulated;

impl Kubernetes for Simulated {
    fn describe(&self) -> String {
        format!("{}, simulated", self.name())
    }

    fn inventory(&self) -> BoxStream<'static, Inventory> {
        let word = |text: &str| text.parse().expect("a plain word is a slug");
        let gpus = self.gpus();
        let name = gpus.first().map_or("amd64".to_owned(), |gpu| format!("amd64-{}", gpu.model));
        let pool = PoolInventory {
            id: name.parse().unwrap_or_else(|_| word("amd64-gpus")),
            platform: Platform { arch: word("amd64"), os: word("linux") },
            allocatable: self.size().clone(),
            requested: Resources::default(),
            largest_pod: self.size().clone(),
            gpus,
        };
        let storage = StorageClass::There { told: Vec::new() };
        stream::iter([Inventory { pools: vec![pool], storage, ..Inventory::default() }])
            .chain(stream::pending())
            .boxed()
    }

    /// The model's devices are as it says.
    fn tell_devices(&self, _: &DevicePolicy) {}

    fn pending(&self) -> BoxStream<'static, PodDemand> {
        let start = (self.clone(), self.changes(), PendingSide::default());
        stream::unfold(start, |(this, mut changes, mut side)| async move {
            loop {
                changes.borrow_and_update();
                if let Some(pods) = this.look(|cluster| side.news(cluster, Scope::Labelled)) {
                    return Some((demand(pods), (this, changes, side)));
                }
                changes.changed().await.ok()?;
            }
        })
        .boxed()
    }

    /// Whether anything is bought for its pods is the market's to know.
    fn tell_bursts(&self, _: Option<&BurstPolicy>) {}

    /// The model has no events.
    fn tell_pods(&self, _: &BurstNews) {}

    /// The model has every class.
    fn tell_storage(&self, _: Option<&StoragePolicy>) {}

    /// The model has no etcd.
    fn tell_stored(&self, _: Option<u64>, _: Option<Resources>) {}

    /// The model has no etcd.
    fn stored(&self) -> Option<StoredBy> {
        None
    }

    /// They have no addresses that anybody could call.
    fn pods(&self) -> BoxStream<'static, Vec<PodPlace>> {
        stream::iter([Vec::new()]).chain(stream::pending()).boxed()
    }

    /// No machine is behind the model's nodes.
    fn machines(&self) -> BoxStream<'static, Vec<NodeMachine>> {
        stream::iter([Vec::new()]).chain(stream::pending()).boxed()
    }

    fn tell_nodes(&self, _: SocketAddr, _: String) -> BoxFuture<'static, Result<(), String>> {
        ready(Ok(())).boxed()
    }

    fn tell_of_node(&self, _: ToldOfNode) -> BoxFuture<'static, Result<(), String>> {
        ready(Ok(())).boxed()
    }

    fn node_of(&self, _: String) -> BoxFuture<'static, Result<String, String>> {
        ready(Err("the cluster is simulated, and has no nodes".to_owned())).boxed()
    }

    fn network(&self) -> BoxFuture<'static, Result<ClusterNetwork, String>> {
        ready(Ok(ClusterNetwork::default())).boxed()
    }

    /// The model is asked by calls.
    fn api_servers(&self) -> BoxFuture<'static, Vec<(String, u16)>> {
        ready(Vec::new()).boxed()
    }

    /// Nobody is asked where nobody can be called.
    fn consent(&self) -> BoxStream<'static, Consent> {
        stream::pending().boxed()
    }

    /// There is no network in the model.
    fn isolates(&self) -> bool {
        true
    }

    /// Its guests reach nobody on the Internet whom their contract does not name.
    fn enforces_egress(&self) -> bool {
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

    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<Vec<String>, String>> {
        let marked = self.mark(&namespace, OptIn::no_marks());
        async move { marked.await.map(|()| Vec::new()) }.boxed()
    }

    fn waiting(&self, _: String) -> BoxFuture<'static, Result<Waiting, String>> {
        ready(Ok(Waiting::default())).boxed()
    }

    /// No real one has it.
    fn uid(&self) -> Option<String> {
        Some("simulated".to_owned())
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

    fn held(&self) -> usize {
        0
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
                let now = self.now();
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

    /// All devices of the model have one name.
    fn node_facts(&self, terms: &Terms) -> Result<NodeFacts, Refused> {
        let models = terms.quantity.gpus.keys();
        let resources = models.map(|model| (model.clone(), GPUS.to_owned())).collect();
        Ok(NodeFacts { resources, ..NodeFacts::default() })
    }
}

#[cfg(test)]
mod tests {
    use mercato_cluster_model::Key;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn pods_without_room_are_told_of_whenever_they_are_others() {
        let size = Resources { cpu_millis: 1_000, pods: 10, ..Resources::default() };
        let rome = Simulated::start("rome", size);
        let how = OptIn { burst: true, ..OptIn::default() };
        rome.mark("shop", how.marks()).await.unwrap();
        let mut pending = rome.pending();
        assert_eq!(pending.next().await.unwrap(), PodDemand::default());
        let pod = json!({ "kind": "Pod", "metadata": { "namespace": "shop", "name": "web" },
            "spec": { "containers": [{ "name": "web", "image": "web:1",
                "resources": { "requests": { "cpu": "2" } } }] } });
        rome.create_pod(pod).unwrap();
        let told = pending.next().await.unwrap();
        let [shape] = &told.shapes[..] else { panic!("{told:?}") };
        assert_eq!((shape.key.namespace.as_str(), shape.per_pod.cpu_millis), ("shop", 2_000));
        rome.change(|cluster, now| {
            cluster.delete(now, &Key::new("Pod", "shop", "web"), None, None)
        })
        .unwrap();
        assert_eq!(pending.next().await.unwrap(), PodDemand::default());
    }
}
