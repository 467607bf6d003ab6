//! The demo's clusters in the model.

use std::sync::Arc;

use futures::FutureExt as _;
use mercato_cluster_model::{Key, Script};
use mercato_config::FromText as _;
use mercato_kubelet::names;
use mercato_protocol::resources::Resources;
use serde_json::{Value, json};

use super::clusters::{Asked, Clusters, Place, pod};
use super::stage::POD;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::simulated::Simulated;

const NAMESPACE: &str = "shop";
const IMAGE: &str = "shop/web:1";

/// Two simulated clusters, home and away.
pub(super) struct Models {
    home: Simulated,
    away: Simulated,
}

impl Models {
    /// Must run within a tokio runtime.
    pub(super) fn start() -> anyhow::Result<Self> {
        let size = Resources::from_text("cpu=8,memory=16Gi,pods=110")?;
        let home = Simulated::start("rome", Resources::from_text("cpu=1,memory=2Gi,pods=20")?);
        let away = Simulated::start("turin", size);
        let lines =
            ["listening on :8080", "GET / 200", "GET /cart 200"].map(str::to_owned).to_vec();
        away.script(IMAGE, Script { lines, ..Script::default() });
        Ok(Self { home, away })
    }

    fn guests(&self) -> Vec<String> {
        let all = self.away.look(|cluster| cluster.list("Namespace").1);
        let ours = all.iter().filter(|one| !one["metadata"]["labels"][names::CONTRACT].is_null());
        ours.filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned())).collect()
    }
}

impl Clusters for Models {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn namespace(&self) -> &str {
        NAMESPACE
    }

    fn image(&self) -> &str {
        IMAGE
    }

    fn wanted(&self) -> &'static str {
        "cpu=2,memory=4Gi,pods=10"
    }

    fn kubernetes(&self, place: Place) -> Arc<dyn Kubernetes> {
        match place {
            Place::Home => Arc::new(self.home.clone()),
            Place::Away => Arc::new(self.away.clone()),
        }
    }

    fn prepare(&self) -> Asked<'_, ()> {
        async { Ok(()) }.boxed_local()
    }

    fn start_pod(&self) -> Asked<'_, ()> {
        let limits = json!({ "cpu": "500m", "memory": "256Mi" });
        let resources = json!({ "resources": { "requests": limits, "limits": limits } });
        let pod = pod(NAMESPACE, POD, IMAGE, &resources);
        let made = self.home.create_pod(pod);
        async move { Ok(made.map(drop)?) }.boxed_local()
    }

    fn pod(&self) -> Asked<'_, Option<Value>> {
        let key = Key::new("Pod", NAMESPACE, POD);
        let pod = self.home.look(|cluster| cluster.get(&key).cloned());
        async move { Ok(pod) }.boxed_local()
    }

    fn guest_namespaces(&self) -> Asked<'_, Vec<String>> {
        let guests = self.guests();
        async move { Ok(guests) }.boxed_local()
    }

    fn is_clean(&self) -> Asked<'_, bool> {
        let count = |cluster: &Simulated, kind| cluster.look(|cluster| cluster.list(kind).1.len());
        let clean = count(&self.home, "Node") == 1
            && count(&self.home, "Pod") == 0
            && count(&self.away, "Pod") == 0
            && self.guests().is_empty();
        async move { Ok(clean) }.boxed_local()
    }

    fn release(&self) -> Asked<'_, ()> {
        async { Ok(()) }.boxed_local()
    }

    /// They end with the program.
    fn clear(&self) -> Asked<'_, ()> {
        async { Ok(()) }.boxed_local()
    }
}
