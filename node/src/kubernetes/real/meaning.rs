//! What a contract means in a cluster: pure, from its terms.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_agent::LeaseDesire;
use mercato_kubelet::guest_namespace::GuestNamespace;
use mercato_kubelet::node::{NodeSpec, Taint};
use mercato_offload::placement::{DEFAULT_REQUESTS, GPUS, allocatable, gpus};

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
        capacity: allocatable(&contract.terms.quantity),
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
        default_requests: DEFAULT_REQUESTS.map(|(name, n)| (name.to_owned(), n.to_owned())).into(),
        default_limits: BTreeMap::new(),
        name_servers: name_servers.to_vec(),
    }
}
