//! What the nodes of leases are called, each otherwise: a node is written some time after it was named, and
//! leases of one provider may begin in the same moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use mercato_offload::placement::spec::second_node_name;
use mercato_protocol::id::ContractId;

use super::existing;
use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::NODE;

/// A name for the node of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// The lease's node is there, and is called so.
    Taken(String),
    /// There is no node of the lease; this name it can have.
    Free(String),
}

/// The names of all leases that a daemon shows: one for each contract in force at most.
#[derive(Debug, Clone, Default)]
pub struct NodeNames(Arc<Mutex<BTreeMap<String, ContractId>>>);

impl NodeNames {
    /// What the node of a lease is called: as it is already, or else `stem`, with the contract's short id
    /// where another node has that name, or another lease's is to have it.
    pub fn name(&self, cluster: &Cluster, contract: &ContractId, stem: &str) -> Answer<Name> {
        let (this, cluster, contract) = (self.clone(), cluster.clone(), *contract);
        let stem = stem.to_owned();
        async move {
            if let Some(name) = existing(&cluster).await?.remove(&contract.to_string()) {
                this.has(&name, contract);
                return Ok(Name::Taken(name));
            }
            let is_free = cluster.get(NODE, None, &stem).await?.is_none();
            let is_own = is_free && this.has(&stem, contract);
            Ok(Name::Free(if is_own { stem } else { second_node_name(&stem, &contract) }))
        }
        .boxed()
    }

    /// The lease is over, and its node gone.
    pub fn forget(&self, contract: &ContractId) {
        self.lock().retain(|_, of| of != contract);
    }

    /// Whether this lease has the name from now on, since no other has it.
    fn has(&self, name: &str, contract: ContractId) -> bool {
        *self.lock().entry(name.to_owned()).or_insert(contract) == contract
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, ContractId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::CONTRACT;
    use crate::testing::{scripted, status};

    const STEM: &str = "mercato-turin";

    fn contract(n: u8) -> ContractId {
        ContractId([n; 16])
    }

    /// A cluster without nodes.
    fn empty() -> Cluster {
        scripted(|_, path, _| match path.contains(STEM) {
            true => status(404, "not found"),
            false => (200, json!({ "items": [] })),
        })
    }

    #[tokio::test]
    async fn leases_that_begin_together_have_names_of_their_own() {
        let (names, cluster) = (NodeNames::default(), empty());
        let of = |n: u8| {
            let (names, cluster) = (names.clone(), cluster.clone());
            async move { names.name(&cluster, &contract(n), STEM).await.unwrap() }
        };
        let (first, second) = tokio::join!(of(1), of(2));
        assert_eq!(first, Name::Free(STEM.to_owned()));
        assert_eq!(second, Name::Free(second_node_name(STEM, &contract(2))));
        assert_eq!(of(1).await, first, "it is asked again");
        names.forget(&contract(1));
        assert_eq!(of(3).await, Name::Free(STEM.to_owned()));
    }

    #[tokio::test]
    async fn a_node_that_is_there_keeps_its_name() {
        let node = json!({ "metadata": {
            "name": STEM, "labels": { CONTRACT: contract(1).to_string() } } });
        let all = json!({ "items": [node] });
        let cluster = scripted(move |_, path, _| match path.contains(STEM) {
            true => (200, node.clone()),
            false => (200, all.clone()),
        });
        let names = NodeNames::default();
        let of = |n: u8| names.name(&cluster, &contract(n), STEM);
        let other = second_node_name(STEM, &contract(2));
        assert_eq!(of(2).await.unwrap(), Name::Free(other));
        assert_eq!(of(1).await.unwrap(), Name::Taken(STEM.to_owned()));
    }
}
