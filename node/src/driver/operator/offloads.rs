//! Which namespaces may leave home, and what becomes of their pods.

use std::collections::BTreeSet;

use mercato_broker::{Known, Side};
use mercato_kubelet::offload_namespace::Waiting;
use mercato_offload::placement::export::{OptIn, Strategy, Targets};
use mercato_offload::placement::spec::{node_name, stem};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::negotiation::State;

use super::{OperatorService, known, view};
use crate::admin::{Answer, Leaving, Offload, Problem};
use crate::driver::Driver;
use crate::kubernetes::LeaseHandle;

impl OperatorService {
    pub(super) async fn offload(&self, offload: Offload) -> Result<Answer, Problem> {
        let (namespace, how) = (offload.namespace.clone(), offload.how.clone());
        let cluster = self.cluster()?;
        let done = cluster.offload(offload).await;
        done.map_err(|why| self.cluster_failed(format!("{namespace} stays at home: {why}")))?;
        let strategy = how.strategy;
        let leaving = self.driver.look(move |driver| leaving(driver, &how)).await?;
        let waits = !leaving.has_node && strategy == Strategy::Remote;
        // Without an answer nothing is said of them.
        let waiting = if waits { cluster.waiting(namespace).await.ok() } else { None };
        let Waiting { pods, more } = waiting.unwrap_or_default();
        Ok(Answer::Leaving(Leaving { waiting: pods, more, ..leaving }))
    }

    pub(super) async fn unoffload(&self, namespace: String) -> Result<Answer, Problem> {
        let done = self.cluster()?.unoffload(namespace.clone()).await;
        let left = done.map_err(|why| {
            self.cluster_failed(format!("{namespace} is not brought home: {why}"))
        })?;
        Ok(if left.is_empty() { Answer::Done } else { Answer::Stranded(left) })
    }
}

/// Whether a virtual node is there for pods that may leave so, and names in it that match nothing
/// known.
fn leaving(driver: &Driver, how: &OptIn) -> Leaving {
    let names = view::names(driver);
    let called = |peer: &ClusterId| node_name(names.get(peer).map(String::as_str), peer);
    let deals = driver.agent().broker().current_deals();
    let has_node = |state| matches!(state, State::Active | State::Suspended | State::Reclaiming);
    let bought = deals.filter(|deal| deal.side() == Side::Consumer && has_node(deal.state()));
    let there: Vec<(String, ContractId, ClusterId)> = bought
        .map(|deal| {
            let lease = driver.lease(&deal.id().into());
            // After a start its name is known a moment later.
            let node = lease.and_then(LeaseHandle::node).cloned();
            (node.unwrap_or_else(|| called(&deal.peer())), deal.id().into(), deal.peer())
        })
        .collect();
    let permits = |(node, contract, provider): &(String, ContractId, ClusterId)| {
        how.targets.permit(node, contract, provider)
    };
    let has_node = there.iter().any(permits);
    let unknown = match &how.targets {
        Targets::All => Vec::new(),
        Targets::These { nodes, providers } => {
            let of = |provider: &ClusterId| there.iter().any(|(_, _, of)| of == provider);
            let is = |named: &str| {
                there.iter().any(|(is, contract, _)| is == named || stem(is, contract) == named)
            };
            let nodes: Vec<_> = nodes.iter().map(String::as_str).filter(|it| !is(it)).collect();
            let providers: Vec<_> = providers.iter().filter(|it| !of(it)).collect();
            if nodes.is_empty() && providers.is_empty() {
                Vec::new()
            } else {
                let is_there = there.iter().map(|(node, ..)| node.clone());
                let nodes_known: BTreeSet<_> = names.keys().map(called).chain(is_there).collect();
                let known = Known { nodes: nodes_known, ..known::known(driver) };
                known.unknown_in_targets(nodes.into_iter(), providers.into_iter())
            }
        }
    };
    Leaving { has_node, unknown, ..Leaving::default() }
}
