//! What a contract's terms are in a provider's cluster: quantities of resources, and what is
//! imposed on guests.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_protocol::contract::Contract;
use mercato_protocol::quantity;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::{Isolation, NetworkIsolation};
use serde_json::json;

use crate::address::MappedRange;
use crate::forge::{Gate, GuestContext, longest_grace_s};
use crate::limits;

/// The resource by which pods ask for whole GPUs; others are not sold yet.
pub const GPUS: &str = "nvidia.com/gpu";

/// Nobody sells it, and every pod may use it.
pub(super) const UNSOLD: &str = "ephemeral-storage";

/// What a container asks for that does not say: with a quota it must.
pub const DEFAULT_REQUESTS: [(&str, &str); 2] = [("cpu", "50m"), ("memory", "64Mi")];

/// What a provider's cluster has for guests, whatever their contract.
#[derive(Clone, Debug, Default)]
pub struct ProviderTerms<'a> {
    /// The priority class of the contract's class of guests, if it has one.
    pub priority_class: Option<String>,
    /// The name servers of guests; empty: those of the node.
    pub name_servers: &'a [IpAddr],
    /// Guests have users of their own, also where they do not ask for it.
    pub user_namespaces: bool,
    /// With what guests are held back whose contract requires isolation.
    pub gate: Gate,
    /// By which addresses guests of the lease know home's pods and each other.
    pub ranges: Vec<MappedRange>,
    /// Where guests find home's names; none: nowhere.
    pub name_server: Option<IpAddr>,
}

/// What is imposed on the guests of a lease, in these of its namespaces: guest namespaces by home
/// namespace.
pub fn guest_context(
    contract: &Contract,
    namespaces: BTreeMap<String, String>,
    provider: ProviderTerms<'_>,
) -> GuestContext {
    let ProviderTerms { priority_class, name_servers, user_namespaces, gate, .. } = provider;
    let ProviderTerms { ranges, name_server, .. } = provider;
    let terms = &contract.terms;
    let platform =
        [("kubernetes.io/arch", &terms.platform.arch), ("kubernetes.io/os", &terms.platform.os)];
    GuestContext {
        contract: contract.id,
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
        name_server,
        user_namespaces,
        longest_grace_s: longest_grace_s(terms.class, terms.reclaim_notice_s),
        gate: (terms.network_isolation == NetworkIsolation::Required).then_some(gate),
        ranges,
        transit: terms.transit_hops > 0,
        default_requests: DEFAULT_REQUESTS.map(|(name, n)| (name.to_owned(), n.to_owned())).into(),
        default_limits: BTreeMap::new(),
        allocatable: allocatable(&terms.quantity),
    }
}

/// What a virtual node has to give, as Kubernetes quantities by resource. Local disk is not among
/// what is sold; a nominal figure lets pods come that request some, and the provider's own scheduler
/// finds them a node that has it.
pub fn allocatable(quantity: &Resources) -> BTreeMap<String, String> {
    let disk = quantity.pods.saturating_mul(limits::POD_DISK_BYTES);
    let plain = [
        ("cpu", quantity::from_millis(quantity.cpu_millis)),
        ("memory", quantity.memory_bytes.to_string()),
        ("pods", quantity.pods.to_string()),
        (UNSOLD, disk.to_string()),
    ];
    let gpus = gpus(quantity).map(|count| (GPUS, count.to_string()));
    plain.into_iter().chain(gpus).map(|(name, amount)| (name.to_owned(), amount)).collect()
}

/// How many GPUs there are in it, if any.
pub fn gpus(quantity: &Resources) -> Option<u64> {
    Some(quantity.gpus.values().sum()).filter(|count| *count > 0)
}

#[cfg(test)]
pub(super) mod tests {
    use mercato_protocol::id::ContractId;
    use mercato_protocol::terms::PodSecurity;

    use super::*;

    /// What a test's provider imposes.
    pub(crate) fn context() -> GuestContext {
        GuestContext {
            contract: ContractId([5; 16]),
            namespaces: BTreeMap::from([("shop".into(), "shop-rome".into())]),
            pod_security: PodSecurity::default(),
            priority_class: None,
            runtime_class: None,
            node_selector: BTreeMap::new(),
            dns_policy: "Default".into(),
            dns_config: None,
            name_server: None,
            user_namespaces: false,
            longest_grace_s: 30,
            gate: None,
            ranges: Vec::new(),
            transit: false,
            default_requests: BTreeMap::new(),
            default_limits: BTreeMap::new(),
            allocatable: BTreeMap::new(),
        }
    }

    #[test]
    fn gpus_of_every_model_are_one_resource() {
        let mut quantity = Resources { cpu_millis: 1_500, pods: 3, ..Resources::default() };
        assert_eq!(allocatable(&quantity).get(GPUS), None);
        let disk = 3 * limits::POD_DISK_BYTES;
        assert_eq!(allocatable(&quantity)["ephemeral-storage"], disk.to_string());
        quantity.gpus = [("h100", 2), ("a100", 1)].map(|(m, n)| (m.parse().unwrap(), n)).into();
        let allocatable = allocatable(&quantity);
        assert_eq!((allocatable["cpu"].as_str(), allocatable[GPUS].as_str()), ("1500m", "3"));
    }
}
