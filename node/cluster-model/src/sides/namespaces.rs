//! The namespaces whose pods may leave, as of a version of the cluster.

use std::collections::BTreeMap;

use mercato_offload::placement::export::{OptIn, Scope};

use crate::Cluster;

/// Those that are opted in, as they were looked at last.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    version: Option<u64>,
    pub(super) by_name: BTreeMap<String, OptIn>,
}

impl Namespaces {
    /// Whether what is said of them has changed.
    pub(super) fn look(&mut self, cluster: &Cluster, scope: Scope) -> bool {
        let touched = self.version.map(|version| cluster.touched_since("Namespace", version));
        self.version = Some(cluster.version());
        if let Some(Ok(mut touched)) = touched
            && touched.next().is_none()
        {
            return false;
        }
        let all = cluster.objects("Namespace");
        let all = all.filter_map(|(key, found)| Some((key.name.clone(), scope.read(found)?)));
        let before = std::mem::replace(&mut self.by_name, all.collect());
        self.by_name != before
    }
}
