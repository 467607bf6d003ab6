//! What a contract's terms are in a provider's cluster: quantities of resources, and what is
//! imposed on guests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::contract::Contract;
use mercato_protocol::quantity;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::{Isolation, NetworkIsolation};
use mercato_protocol::text::GpuModel;
use serde_json::json;

use crate::address::MappedRange;
use crate::forge::{Gate, GuestContext, longest_grace_s};
use crate::limits;

use super::binding::{Binding, GPUS};
use super::requests::{CLAIMS, STORAGE};

/// Nobody sells it, and every pod may use it.
pub(super) const UNSOLD: &str = "ephemeral-storage";

/// What a container asks for that does not say: nothing, as home's scheduler counts it. With a quota it
/// has to be said.
pub const DEFAULT_REQUESTS: [(&str, &str); 2] = [("cpu", "0"), ("memory", "0")];

/// What a provider's cluster has for guests, whatever their contract.
#[derive(Clone, Debug, Default)]
pub struct ProviderTerms<'a> {
    /// The priority class of the contract's class of guests, if it has one.
    pub priority_class: Option<String>,
    /// The name servers of guests; empty: those of the node.
    pub name_servers: &'a [IpAddr],
    /// Whether the API server keeps [how a host is called](keeps_host_names).
    pub keeps_host_names: bool,
    /// Guests have users of their own, also where they do not ask for it.
    pub user_namespaces: bool,
    /// With what guests are held back whose contract requires isolation.
    pub gate: Gate,
    /// By which addresses guests of the lease know home's pods and each other.
    pub ranges: Vec<MappedRange>,
    /// Where guests find home's names; none: nowhere.
    pub name_server: Option<IpAddr>,
    /// How guests find the nodes of what was bought.
    pub binding: Binding,
    /// The names of nodes that take no part in tunnels.
    pub left_out: BTreeSet<String>,
    /// The class that storage is made of; none: storage is not had here.
    pub storage_class: Option<String>,
}

/// What is imposed on the guests of a lease, in these of its namespaces: guest namespaces by home
/// namespace.
pub fn guest_context(
    contract: &Contract,
    namespaces: BTreeMap<String, String>,
    provider: ProviderTerms<'_>,
) -> GuestContext {
    let ProviderTerms { priority_class, name_servers, user_namespaces, gate, .. } = provider;
    let ProviderTerms { ranges, name_server, binding, keeps_host_names, left_out, .. } = provider;
    let ProviderTerms { storage_class, .. } = provider;
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
        keeps_host_names,
        user_namespaces,
        longest_grace_s: longest_grace_s(terms.class, terms.reclaim_notice_s),
        gate: (terms.network_isolation == NetworkIsolation::Required).then_some(gate),
        ranges,
        egress: terms.egress.kind(),
        transit: terms.transit_hops > 0,
        default_requests: DEFAULT_REQUESTS.map(|(name, n)| (name.to_owned(), n.to_owned())).into(),
        default_limits: [("memory".to_owned(), terms.quantity.memory_bytes.to_string())].into(),
        allocatable: with_storage(
            &terms.quantity,
            allocatable(&terms.quantity, &binding.resources),
        ),
        binding,
        left_out,
        storage_class,
    }
}

/// Whether an API server of this version (`v1.35.4`) keeps `hostnameOverride` of a pod, unless its feature
/// HostnameOverride is off: by default since 1.35.
pub fn keeps_host_names(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.');
    let mut number = || {
        let part = parts.next()?;
        part.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok()
    };
    number().zip(number()).is_some_and(|version| version >= (1, 35))
}

/// What a virtual node has to give, as Kubernetes quantities by resource. Local disk is not among
/// what is sold; a nominal figure lets pods come that request some, and the provider's own scheduler
/// finds them a node that has it. `resources` says by which one pods ask for a model of GPU.
pub fn allocatable(
    quantity: &Resources,
    resources: &BTreeMap<GpuModel, String>,
) -> BTreeMap<String, String> {
    let disk = quantity.pods.saturating_mul(limits::POD_DISK_BYTES);
    let plain = [
        ("cpu", quantity::from_millis(quantity.cpu_millis)),
        ("memory", quantity.memory_bytes.to_string()),
        ("pods", quantity.pods.to_string()),
        (UNSOLD, disk.to_string()),
    ];
    let gpus = gpus(quantity, resources).into_iter().map(|(name, n)| (name, n.to_string()));
    plain.into_iter().map(|(name, amount)| (name.to_owned(), amount)).chain(gpus).collect()
}

/// The same with the room for volumes and how many claims may share it, as a quota names both. A node
/// has no such thing.
fn with_storage(
    quantity: &Resources,
    mut amounts: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    if quantity.storage_bytes > 0 {
        amounts.insert(STORAGE.to_owned(), quantity.storage_bytes.to_string());
        amounts.insert(CLAIMS.to_owned(), limits::GUEST_NAMESPACE_CLAIMS.to_string());
    }
    amounts
}

/// The same of a virtual node, of whose devices the other side says by which resources pods ask for
/// them: others than those of the known vendors are not believed, and a model of which nothing is said
/// is not there.
pub fn shown(quantity: &Resources, said: &BTreeMap<GpuModel, String>) -> BTreeMap<String, String> {
    let is_known = |name: &String| VENDORS.iter().any(|vendor| name.starts_with(vendor));
    let is_there = |model: &GpuModel| said.get(model).is_some_and(is_known);
    let gpus = quantity.gpus.iter().filter(|(model, _)| is_there(model));
    let gpus = gpus.map(|(model, count)| (model.clone(), *count)).collect();
    allocatable(&Resources { gpus, ..quantity.clone() }, said)
}

/// Whose devices are bought and sold, by the beginning of their resources.
const VENDORS: [&str; 3] = ["nvidia.com/", "amd.com/", "gpu.intel.com/"];

/// How many GPUs there are in it, if any, by the resource that pods ask for.
pub fn gpus(quantity: &Resources, resources: &BTreeMap<GpuModel, String>) -> BTreeMap<String, u64> {
    let mut gpus = BTreeMap::new();
    for (model, count) in quantity.gpus.iter().filter(|(_, count)| **count > 0) {
        let name = resources.get(model).map_or(GPUS, String::as_str);
        let sum: &mut u64 = gpus.entry(name.to_owned()).or_default();
        *sum = sum.saturating_add(*count);
    }
    gpus
}

#[cfg(test)]
pub(super) mod tests {
    use mercato_protocol::id::ContractId;
    use mercato_protocol::terms::PodSecurity;

    use mercato_protocol::egress::EgressKind;

    use super::*;

    /// What a test's provider imposes.
    pub(crate) fn context() -> GuestContext {
        GuestContext {
            contract: ContractId([5; 16]),
            namespaces: BTreeMap::from([("shop".into(), "shop-rome".into())]),
            pod_security: PodSecurity::default(),
            priority_class: None,
            storage_class: None,
            runtime_class: None,
            node_selector: BTreeMap::new(),
            dns_policy: "Default".into(),
            dns_config: None,
            name_server: None,
            keeps_host_names: false,
            user_namespaces: false,
            longest_grace_s: 30,
            gate: None,
            ranges: Vec::new(),
            egress: EgressKind::None,
            transit: false,
            default_requests: BTreeMap::new(),
            default_limits: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            binding: Binding::default(),
            left_out: BTreeSet::new(),
        }
    }

    #[test]
    fn host_names_are_kept_since_a_version() {
        for kept in ["v1.35.0", "1.35.4+k3s1", "v1.36", "v2.0.0-alpha.1", "v1.35+"] {
            assert!(keeps_host_names(kept), "{kept}");
        }
        for dropped in ["v1.34.9", "1.30", "", "v1", "main"] {
            assert!(!keeps_host_names(dropped), "{dropped}");
        }
    }

    #[test]
    fn gpus_are_the_resources_that_pods_ask_for() {
        let mut quantity = Resources { cpu_millis: 1_500, pods: 3, ..Resources::default() };
        assert_eq!(allocatable(&quantity, &BTreeMap::new()).get(GPUS), None);
        let disk = 3 * limits::POD_DISK_BYTES;
        assert_eq!(allocatable(&quantity, &BTreeMap::new())["ephemeral-storage"], disk.to_string());
        let gpus = [("h100", 2), ("h100.1g.10gb", 3), ("l4", 0)];
        quantity.gpus = gpus.map(|(m, n)| (m.parse().unwrap(), n)).into();
        let part = ("h100.1g.10gb".parse().unwrap(), "nvidia.com/mig-1g.10gb".to_owned());
        let allocatable = allocatable(&quantity, &[part].into());
        assert_eq!((allocatable["cpu"].as_str(), allocatable[GPUS].as_str()), ("1500m", "2"));
        assert_eq!(allocatable["nvidia.com/mig-1g.10gb"], "3");
        assert_eq!(allocatable.len(), 6);

        // At home: what nobody has named is not there, nor what is no device.
        let said = |name: &str| [("h100".parse().unwrap(), name.to_owned())].into();
        let whole = shown(&quantity, &said("amd.com/gpu"));
        assert_eq!((whole["amd.com/gpu"].as_str(), whole.len()), ("2", 5));
        for name in ["cpu", "ephemeral-storage", "example.com/gpu", "nvidia.community/gpu"] {
            assert_eq!(shown(&quantity, &said(name)).len(), 4, "{name}");
            assert_eq!(shown(&quantity, &said(name))["cpu"], "1500m");
        }
    }
}
