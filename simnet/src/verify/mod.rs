//! The invariants, judged from outside: by what is on the wire, on disk and in the
//! clusters, never by what an agent says of itself.

mod disk;
mod goal;
mod pods;
mod prompt;
mod streams;
mod violation;
mod wire;

use mercato_agent::Effect;
use mercato_cluster_model::Cluster;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::resources::Resources;

pub(crate) use goal::Goal;
pub use violation::Violation;
pub(crate) use violation::ensure;

use crate::engine::sites::Sites;
use crate::engine::world::World;
use crate::people::MESH;

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) pods: pods::Pods,
    wire: wire::Wire,
    pub(crate) streams: streams::Streams,
    pub(crate) prompt: prompt::Prompt,
    disk: disk::Disk,
}

impl pods::Clusters for Sites {
    fn cluster(&self, at: usize) -> &Cluster {
        &self[at].kube
    }

    fn place_of(&self, cluster: ClusterId) -> Option<usize> {
        Sites::place_of(self, cluster)
    }

    fn bought(&self, at: usize, contract: &str) -> Option<Resources> {
        disk::bought(self[at].gate.records(), contract)
    }

    fn is_over(&self, at: usize, contract: &str) -> bool {
        disk::is_over(self[at].gate.records(), contract)
    }
}

impl World {
    /// Right before an effect is performed.
    pub(crate) fn check_effect(&mut self, at: usize, effect: &Effect) -> Result<(), Violation> {
        let site = &self.sites[at];
        let now = site.now(self.agenda.at_ms());
        self.checks.wire.check((at, site, now), &mut self.openings, effect)
    }

    /// Right after something was written to disk: what the write has touched.
    pub(crate) fn check_written(&mut self, at: usize) -> Result<(), Violation> {
        let changes = std::mem::take(&mut self.sites[at].writing);
        self.checks.wire.on_written(at, &changes);
        self.check_deals(at, &disk::touched(&changes))
    }

    fn check_deals(&mut self, at: usize, which: &[NegotiationId]) -> Result<(), Violation> {
        let site = &self.sites[at];
        if site.attack.is_some() || which.is_empty() {
            return Ok(());
        }
        self.checks.disk.check(at, site, &self.plan.shared(at), which)
    }

    /// Right after something changed in a cluster.
    pub(crate) fn check_pods(&mut self, at: usize) -> Result<(), Violation> {
        if self.sites[at].attack.is_some() {
            return Ok(());
        }
        self.checks.pods.look(&self.sites, at)?;
        let site = &self.sites[at];
        let mut maps = site.kube.objects("ConfigMap").filter(|(key, _)| key.name == MESH);
        let lost = maps.find(|(_, map)| map["data"]["of"] != *site.name);
        ensure(lost.is_none(), || {
            let namespace = lost.map(|(key, _)| key.namespace.as_str()).unwrap_or_default();
            format!("{MESH} of {}'s own people in {namespace} is overwritten", site.name)
        })
    }

    /// Checks all promises at all clusters, which is dear.
    pub(crate) fn check_all(&mut self) -> Result<(), Violation> {
        for at in 0..self.sites.len() {
            let all: Vec<_> =
                disk::deals(self.sites[at].gate.records()).map(|deal| deal.id()).collect();
            self.check_deals(at, &all)?;
            self.check_pods(at)?;
        }
        self.checks.disk.compare()
    }
}
