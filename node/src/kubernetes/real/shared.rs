//! What is known of a cluster since it first answered, and what its leases share: whose place
//! cannot be made, and which virtual nodes wait for their certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mercato_broker::Side;
use mercato_config::settings;
use mercato_kubelet::guest::stored::{ClusterStored, LeaseStored};
use mercato_kubelet::guest::usage::Meters;
use mercato_kubelet::home::node::{NodeNames, NodeNews};
use mercato_kubelet::home::{ClusterClaims, Leavers};
use mercato_kubelet::kubelet_api::certificate::Serving;
use mercato_kubelet::offload_namespace::{Freed, OptIns};
use mercato_kubelet::{Account, Cluster, Failure, Held, Upkeep};
use mercato_offload::forge::Gate;
use mercato_offload::key::ObjectKey;
use mercato_offload::placement::Binding;
use mercato_offload::placement::export::Scope;
use mercato_offload::put_back::PutBack;
use mercato_protocol::contract::Contract;
use mercato_protocol::id::ContractId;
use mercato_protocol::text::PoolId;
use tokio::sync::watch;

use super::certificates::Certificates;
use crate::admin::{Attention, AttentionKind};
use crate::limits;

/// A cluster that has answered.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    pub(super) account: Account,
    /// What stays as it was written in guest namespaces.
    pub(super) kept: Upkeep,
    /// Which virtual nodes have changed.
    pub(super) node_news: Arc<NodeNews>,
    /// What its virtual nodes are called.
    pub(super) node_names: NodeNames,
    /// What its virtual nodes that leave have in common.
    pub(super) leavers: Arc<Leavers>,
    /// The address of the API server.
    pub(super) server: String,
    /// The host and port in it.
    pub(super) host: (String, u16),
    pub(super) version: String,
    /// What no other cluster has; none: the account may not know.
    pub(super) uid: Option<String>,
    /// Where kubelet APIs and the webhook listen, and the API server finds them. It is the
    /// pods' hostIP.
    pub(super) address: IpAddr,
    /// How virtual nodes have their certificates.
    pub(super) certificates: Certificates,
    /// Whom tokens may be for that leave home with pods.
    pub(super) audiences: BTreeSet<String>,
    /// What this cluster calls itself.
    pub(super) domain: String,
    /// The name servers of guests.
    pub(super) name_servers: Vec<IpAddr>,
    /// Which guests have users of their own.
    pub(super) user_namespaces: settings::UserNamespaces,
    /// With what guests are held back whose contracts require isolation.
    pub(super) gate: Gate,
    /// Files of logins for its registry.
    pub(super) logins: Vec<PathBuf>,
    /// Virtual nodes are there for all pods.
    pub(super) scope: Scope,
    pub(super) opt_ins: OptIns,
    /// The claims of opted-in namespaces.
    pub(super) claims: Arc<ClusterClaims>,
    /// Namespaces that stay at home, and whose pods have been looked at for that.
    pub(super) freed: Freed,
    /// Contracts under which this cluster has guests.
    pub(super) sold: watch::Sender<BTreeSet<ContractId>>,
    /// By pool, how guests find its nodes; none: not looked at yet.
    pub(super) bindings: watch::Sender<Option<BTreeMap<PoolId, Binding>>>,
    /// In which zones nodes of the cluster are; none: not looked at yet.
    pub(super) zones: watch::Sender<Option<BTreeSet<String>>>,
    /// The names of nodes that are left out of tunnels; none: not looked at yet.
    pub(super) left_out: watch::Sender<Option<BTreeSet<String>>>,
    /// The class of storage that is shared, once it is known whether there is one.
    pub(super) storage_class: watch::Sender<Option<Option<String>>>,
    /// Contracts whose guests need the priority class of spot ones.
    pub(super) spot: tokio::sync::Mutex<BTreeSet<ContractId>>,
    /// The serving certificates, by virtual node.
    pub(super) serving: Mutex<BTreeMap<String, watch::Receiver<Serving>>>,
    /// Guest namespaces that cannot be made, with the reason, by lease and home namespace.
    pub(super) unmade: Mutex<BTreeMap<(ContractId, String), String>>,
    /// Claims that a provider holds, and of which nothing is left here, by contract.
    pub(super) strays: Mutex<BTreeMap<ContractId, Vec<ObjectKey>>>,
    pub(super) meters: Meters,
    /// What guests fill of its etcd.
    pub(super) stored: ClusterStored,
}

impl Shared {
    /// Something of a lease cannot be made for now; what is in it waits.
    pub(super) fn note_unmade(&self, contract: &ContractId, what: &str, failure: &Failure) {
        let place = (*contract, what.to_owned());
        let before = self.unmade().insert(place, failure.message.clone());
        if before.as_ref() != Some(&failure.message) {
            // Once for each reason.
            tracing::warn!(%failure, what, "a guest's place cannot be made");
        }
    }

    /// Counts what the guests of a contract fill of its etcd, from now on.
    pub(super) fn count(&self, contract: &Contract) -> LeaseStored {
        let (buyer, bought) = (contract.consumer.cluster, &contract.terms.quantity);
        self.stored.lease(contract.id, buyer, bought)
    }

    pub(super) fn unmade(&self) -> MutexGuard<'_, BTreeMap<(ContractId, String), String>> {
        self.unmade.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What providers keep of which nothing is left here.
    pub(super) fn volumes_left(&self) -> Vec<Attention> {
        let strays = self.strays();
        let keys = strays.iter().flat_map(|(id, keys)| keys.iter().map(move |key| (id, key)));
        let left = |(contract, key): (&ContractId, &ObjectKey)| Attention {
            side: Some(Side::Consumer),
            order: Some((*contract).into()),
            contract: Some(*contract),
            namespace: Some(key.namespace.clone()),
            ..Attention::of(
                AttentionKind::VolumeLeft,
                format!(
                    "contract {}: the provider keeps what claim {} of namespace {} has stored, and its \
                     volume here is gone: it ends with the contract, or see docs/volumes.md",
                    contract.short(),
                    key.name,
                    key.namespace
                ),
            )
        };
        keys.map(left).collect()
    }

    pub(super) fn strays(&self) -> MutexGuard<'_, BTreeMap<ContractId, Vec<ObjectKey>>> {
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn serving(&self) -> MutexGuard<'_, BTreeMap<String, watch::Receiver<Serving>>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of the certificate of a virtual node until the answer is dropped.
    pub(super) fn shows(
        self: &Arc<Self>,
        node: String,
        serving: watch::Receiver<Serving>,
    ) -> Shown {
        self.serving().insert(node.clone(), serving);
        Shown { shared: Arc::downgrade(self), node }
    }

    /// What a person has to do for the certificates of virtual nodes.
    pub(super) fn waiting(&self) -> Vec<Attention> {
        let serving = self.serving();
        let all = serving.iter();
        all.filter_map(|(node, serving)| waiting(node, &serving.borrow())).collect()
    }
}

/// What was put back in the last hour, if anything was: some of it in a line each.
pub(super) fn put_back(recent: &[PutBack]) -> Vec<String> {
    let more = recent.len().saturating_sub(limits::PUT_BACK_LINES);
    let named = recent.iter().take(limits::PUT_BACK_LINES).map(ToString::to_string);
    let more = (more > 0).then(|| format!("{more} more objects were put back in the last hour"));
    named.chain(more).collect()
}

/// That objects change too often, if any do, and what that means.
pub(super) fn held(objects: &[Held]) -> Option<String> {
    let Held { kind, namespace, name } = objects.first()?;
    let namespace = namespace.iter().map(|namespace| format!("{namespace}/"));
    let place: String = namespace.chain([name.clone()]).collect();
    let change = match objects.len() - 1 {
        0 => "changes without a rest: it is".to_owned(),
        more => format!("and {more} more change without a rest: they are"),
    };
    Some(format!("{kind} {place} {change} written at a pace, and may be some seconds behind"))
}

/// A virtual node that is shown: its certificate is told of until this is dropped.
pub(super) struct Shown {
    shared: Weak<Shared>,
    node: String,
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.serving().remove(&self.node);
        }
    }
}

/// What a person has to do for a virtual node's certificate.
fn waiting(node: &str, serving: &Serving) -> Option<Attention> {
    let Serving::Waiting { request } = serving else { return None };
    let approve = format!("kubectl certificate approve {request}");
    let text = format!("node {node} waits for its certificate");
    let waits = || Attention::of(AttentionKind::CertificateWaiting, text).command(approve);
    (!request.is_empty()).then(waits)
}
