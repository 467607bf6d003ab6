//! Where home pods come to: none that a scheduler placed is new on a node that leaves.

use std::collections::BTreeSet;

use mercato_cluster_model::{Cluster, Key};
use mercato_offload::forge::labels::LEAVING;
use serde_json::Value;

use super::{Violation, ensure};
use crate::workload::STAYS;

/// Home pods that were seen on a virtual node, by cluster and uid.
#[derive(Debug, Default)]
pub(super) struct Bound(BTreeSet<(usize, String)>);

impl Bound {
    /// Right after a pod of a cluster was seen on a virtual node.
    pub(super) fn on_shown(
        &mut self,
        at: usize,
        cluster: &Cluster,
        pod: &Value,
        node: &str,
    ) -> Result<(), Violation> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, uid) = (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]));
        let is_new = self.0.insert((at, uid));
        let found = cluster.get(&Key::new("Node", "", node)).filter(|_| is_new);
        // Those that are bound by hand pass by the scheduler.
        let leaves = !name.starts_with(STAYS) && found.is_some_and(is_tainted);
        ensure(!leaves, || format!("{name} comes to {node}, which leaves"))
    }

    /// A pod of a cluster has gone.
    pub(super) fn on_gone(&mut self, at: usize, uid: &str) {
        self.0.remove(&(at, uid.to_owned()));
    }
}

/// Whether a node has the taint of one whose lease ends soon.
pub(super) fn is_tainted(node: &Value) -> bool {
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.any(|taint| taint["key"] == LEAVING && taint["effect"] == "NoSchedule")
}
