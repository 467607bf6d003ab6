//! What a contract means in a cluster: pure, from its terms.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_agent::LeaseDesire;
use mercato_kubelet::guest_namespace::GuestNamespace;
use mercato_kubelet::node::{NodeSpec, Taint};
use mercato_offload::forge::{self, GuestContext};
use mercato_protocol::terms::Isolation;
use serde_json::json;

use crate::kubernetes::{GPUS, gpus, room};
use crate::limits;

/// The virtual node of a lease. Its port is the listener's to say.
pub(super) fn node(
    desire: &LeaseDesire,
    name: String,
    address: IpAddr,
    version: String,
    taint: Taint,
) -> NodeSpec {
    let contract = &desire.contract;
    NodeSpec {
        name,
        contract: contract.id,
        provider: contract.provider.cluster,
        platform: contract.terms.platform.clone(),
        region: None,
        zone: None,
        labels: BTreeMap::new(),
        capacity: room(&contract.terms.quantity),
        address,
        port: 0,
        version,
        taint,
        unschedulable: false,
        reachable: desire.reachable,
    }
}

/// A guest namespace of a lease.
pub(super) fn namespace(
    desire: &LeaseDesire,
    home: &str,
    name: &str,
    name_servers: &[IpAddr],
) -> GuestNamespace {
    let terms = &desire.contract.terms;
    GuestNamespace {
        name: name.to_owned(),
        home: home.to_owned(),
        contract: desire.contract.id,
        quantity: terms.quantity.clone(),
        extended: gpus(&terms.quantity).map(|count| (GPUS.to_owned(), count)).into_iter().collect(),
        pod_security: terms.pod_security,
        default_requests: default_requests(),
        default_limits: BTreeMap::new(),
        name_servers: name_servers.to_vec(),
    }
}

/// What the provider's cluster has for guests of whatever contract.
pub(super) struct Provided<'a> {
    pub(super) priority_class: Option<String>,
    pub(super) name_servers: &'a [IpAddr],
    pub(super) user_namespaces: bool,
}

/// What is imposed on the guests of a lease, in these of its namespaces.
pub(super) fn context(
    desire: &LeaseDesire,
    namespaces: BTreeMap<String, String>,
    provided: Provided<'_>,
) -> GuestContext {
    let Provided { priority_class, name_servers, user_namespaces } = provided;
    let terms = &desire.contract.terms;
    let platform =
        [("kubernetes.io/arch", &terms.platform.arch), ("kubernetes.io/os", &terms.platform.os)];
    GuestContext {
        contract: desire.contract.id,
        namespaces,
        pod_security: terms.pod_security,
        priority_class,
        runtime_class: match terms.isolation {
            Isolation::Runc => None,
            Isolation::Gvisor => Some("gvisor".to_owned()),
            Isolation::Kata | Isolation::Confidential => Some("kata".to_owned()),
        },
        node_selector: platform.map(|(label, slug)| (label.to_owned(), slug.to_string())).into(),
        // The cluster's own search domains would answer home's names with its own services.
        dns_policy: if name_servers.is_empty() { "Default" } else { "None" }.to_owned(),
        dns_config: (!name_servers.is_empty()).then(|| json!({ "nameservers": name_servers })),
        user_namespaces,
        longest_grace_s: forge::longest_grace_s(terms.class, terms.reclaim_notice_s),
        transit: terms.transit_hops > 0,
        default_requests: default_requests(),
        default_limits: BTreeMap::new(),
        allocatable: room(&terms.quantity),
    }
}

fn default_requests() -> BTreeMap<String, String> {
    limits::DEFAULT_REQUESTS.map(|(name, amount)| (name.to_owned(), amount.to_owned())).into()
}
