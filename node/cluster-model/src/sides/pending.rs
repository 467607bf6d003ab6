//! The pods of a cluster that find no room and could run elsewhere, told whenever they are others.

use std::collections::BTreeMap;

use mercato_offload::home::leaving::Node;
use mercato_offload::home::pending::{PendingPods, RoamingPod, find};
use mercato_offload::key::Uid;
use mercato_offload::placement::export::{Leave, Scope};

use super::namespaces::Namespaces;
use crate::Cluster;

/// What was told last of pods without room.
#[derive(Debug, Default)]
pub struct PendingSide {
    /// Up to which version the cluster was looked at.
    version: Option<u64>,
    namespaces: Namespaces,
    told: Option<PendingPods>,
}

impl PendingSide {
    /// The pods and virtual nodes of now, where they are not those that were told last; nothing where no
    /// namespace of `scope` ever wanted that something is bought for its pods.
    pub fn news(&mut self, cluster: &Cluster, scope: Scope) -> Option<PendingPods> {
        let version = Some(cluster.version());
        if std::mem::replace(&mut self.version, version) == version {
            return None;
        }
        self.namespaces.look(cluster, scope);
        let namespaces = &self.namespaces.by_name;
        let now = match namespaces.values().any(|how| how.burst) {
            true => pending(cluster, |name| match namespaces.get(name) {
                Some(how) => Leave::Now(how.clone()),
                None => scope.unknown(name),
            }),
            false if self.told.is_none() => return None,
            false => PendingPods::default(),
        };
        let is_news = self.told.as_ref() != Some(&now);
        is_news.then(|| self.told.insert(now).clone())
    }
}

fn pending(cluster: &Cluster, leave: impl Fn(&str) -> Leave) -> PendingPods {
    let nodes = cluster.objects("Node").filter_map(|(_, node)| Node::read(node));
    let nodes: BTreeMap<String, Node> = nodes.map(|node| (node.name().to_owned(), node)).collect();
    let pods = cluster.objects("Pod").filter_map(|(_, pod)| {
        let uid = pod["metadata"]["uid"].as_str()?.to_owned();
        Some((Uid(uid), RoamingPod::read(pod)?))
    });
    find(&nodes, &pods.collect(), leave).pending
}
