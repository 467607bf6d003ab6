//! The invariants, judged from outside: by what is on the wire, on disk and in the
//! clusters, never by what an agent says of itself.

mod bound;
mod bursts;
mod disk;
mod egress;
mod goal;
mod leaving;
mod pods;
mod prompt;
mod reach;
mod services;
pub(crate) mod settled;
mod streams;
mod violation;
mod volumes;
mod wire;

use mercato_agent::{Change, Effect};
use mercato_cluster_model::{Cluster, Key};
use mercato_offload::forge::labels;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::resources::Resources;

pub(crate) use goal::Goal;
pub(crate) use pods::Pods;
pub use violation::Violation;
pub(crate) use violation::ensure;
pub(crate) use wire::Actor;

use crate::engine::gateway::Gateway;
use crate::engine::lease::Lease;
use crate::engine::signature_cache::SignatureCache;
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::plan::Plan;
use crate::workload::MESH;

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) pods: Pods,
    wire: wire::Wire,
    pub(crate) streams: streams::Streams,
    pub(crate) prompt: prompt::Prompt,
    pub(crate) leaving: leaving::Leaving,
    pub(crate) bursts: bursts::Bursts,
    volumes: volumes::Volumes,
    egress: egress::Offered,
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

    fn expects_tunnel(&self, at: usize, node: &str) -> bool {
        let site = &self[at];
        let node = site.kube.get(&Key::new("Node", "", node));
        let contract = node.and_then(|node| node["metadata"]["labels"][labels::CONTRACT].as_str());
        let lease = contract.and_then(|id| site.leases.get(&id.parse().ok()?));
        lease.map(Lease::desire).is_some_and(|desire| {
            let expects = |gateway: &Gateway| gateway.expects(desire.contract.id);
            !desire.ranges.is_empty() && site.gateway.as_ref().is_some_and(expects)
        })
    }
}

impl Checks {
    /// Right after an agent was told something: what cannot be kept is not asked for, for that would
    /// fail, lead back to the records, and from them to the same again.
    pub(crate) fn on_answer(&self, site: &Site, answer: &[Effect]) -> Result<(), Violation> {
        let persists = |effect: &&Effect| matches!(effect, Effect::Persist(_));
        let wanted = answer.iter().find(persists).filter(|_| site.rests);
        ensure(wanted.is_none(), || {
            format!("{} cannot keep anything, and is to: {wanted:?}", site.name)
        })
    }

    /// Right before an effect of an honest cluster is performed.
    pub(crate) fn on_effect(
        &mut self,
        sites: &Sites,
        actor: Actor<'_>,
        signature_cache: &mut SignatureCache,
        effect: &Effect,
    ) -> Result<(), Violation> {
        self.volumes.on_effect(&actor, effect)?;
        self.bursts.on_effect(&actor, effect);
        self.egress.on_effect(sites, &actor, effect)?;
        self.wire.check(actor, signature_cache, effect)
    }

    /// Right after this was written to disk: what the write has touched.
    pub(crate) fn on_written(
        &mut self,
        at: usize,
        site: &Site,
        plan: &Plan,
        at_ms: u64,
        changes: &[Change],
    ) -> Result<(), Violation> {
        self.wire.on_written(at, changes);
        self.pods.reach.on_written(at, changes)?;
        let touched = disk::touched(changes);
        self.bursts.on_written(at, site, at_ms, &touched)?;
        self.look_at_deals(at, site, plan, &touched)
    }

    fn look_at_deals(
        &mut self,
        at: usize,
        site: &Site,
        plan: &Plan,
        which: &[NegotiationId],
    ) -> Result<(), Violation> {
        if site.attack.is_some() || which.is_empty() {
            return Ok(());
        }
        self.disk.check(at, site, &plan.shared(at), which)
    }

    /// Right after something changed in a cluster.
    pub(crate) fn on_kube(&mut self, at: usize, sites: &Sites) -> Result<(), Violation> {
        let site = &sites[at];
        if site.attack.is_some() {
            return Ok(());
        }
        self.pods.look(sites, at)?;
        self.volumes.look(sites, at)?;
        let mut maps = site.kube.objects("ConfigMap").filter(|(key, _)| key.name == MESH);
        let lost = maps.find(|(_, map)| map["data"]["of"] != *site.name);
        ensure(lost.is_none(), || {
            let namespace = lost.map(|(key, _)| key.namespace.as_str()).unwrap_or_default();
            format!("{MESH} of {}'s own people in {namespace} is overwritten", site.name)
        })
    }

    /// Checks all promises at all clusters, which is dear.
    pub(crate) fn all(&mut self, sites: &Sites, plan: &Plan) -> Result<(), Violation> {
        for (at, site) in sites.iter().enumerate() {
            let all: Vec<_> = disk::deals(site.gate.records()).map(|deal| deal.id()).collect();
            self.look_at_deals(at, site, plan, &all)?;
            self.on_kube(at, sites)?;
        }
        self.disk.compare()
    }
}
