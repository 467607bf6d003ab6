//! Home object to guest object, guest status to home status: pure functions over the
//! raw JSON. At home [`export_pod`] prepares what is sent; the provider trusts nothing
//! of it: [`forge`] is an allow-list, and a field that it does not know is refused with
//! its path. Which fields those are is one table, `schema`, and a test holds it
//! against the current Kubernetes schema.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::egress::EgressKind;
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::terms::PodSecurity;
use serde_json::Value;

use crate::address::MappedRange;
use crate::key::{GuestKey, ObjectKey, ObjectKind};
pub use crate::message::Refusal;
use crate::message::Route;
use crate::placement::Binding;
pub use claim::{claims_of, export_claim, refused_claim};
pub use counted::{is_counted, is_unkept};
pub use digest::{digest, digest_of_text};
pub use export::{export_object, export_pod, export_token};
pub use fields_page::tables_of_fields;
pub use gate::{Gate, Passage, event_message, passage, without_gate};
pub use grace::longest_grace_s;
pub use guest_status::guest_status;
pub use kept::{lost, unbounded};
pub use keys::is_homes;
pub use labels::claim_name;
pub use labels::{FINALIZER, SERVICE_NAME};
pub use made::is_mark;
pub use marks::{KnownGuest, KnownGuests, Marks, came, home_uid, known_as};
pub(crate) use metadata::kind_name;
pub use names::{home_address, home_ranges};
pub use object::{forge, forge_config_map, forge_secret};
pub use observe::{classify, observe};
pub use pod::{forge_pod, refused_by_all};
pub use refs::{
    TokenRequest, needs, pod_id, token_name, token_pod, token_requests, token_requests_of,
};
pub use service::{Slice, export_service, export_slice};
pub use service_env::{ServiceEnv, Variables};
pub use status::{StatusContext, UNREACHABLE, home_status, is_reached, open_gates};
pub use tokens::Tokens;
pub use words::{Called, Place};

mod api_env;
mod check;
mod claim;
mod counted;
#[cfg(test)]
mod coverage;
mod device_env;
mod digest;
mod export;
mod fields;
mod fields_page;
pub mod gate;
mod grace;
mod guest_status;
mod hosts;
mod kept;
mod keys;
pub mod labels;
mod made;
mod marks;
mod metadata;
mod names;
mod object;
mod observe;
mod pod;
mod refs;
pub mod registry;
pub mod resize;
mod rule;
mod scheduling;
mod schema;
mod schema_claim;
mod schema_container;
mod schema_service;
mod schema_status;
mod service;
mod service_env;
mod status;
#[cfg(test)]
mod tests;
mod tokens;
pub mod told;
mod words;

/// What an object is made of over there, besides what the provider says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// SHA-256 of the object's body, as home has said it and as it was compared.
    pub digest: Digest,
    /// Which clusters the body came through; it is written on the guest.
    pub route: Route,
    /// By which address everybody knows a pod, which its own device is to have; none: it is the
    /// provider's own affair.
    pub called: Option<IpAddr>,
}

/// What home adds to a pod before it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeContext {
    /// The service variables of the pod's namespace (`REDIS_SERVICE_HOST`,
    /// `KUBERNETES_SERVICE_PORT`, ...), as home's kubelet would give them.
    pub service_env: ServiceEnv,
    /// Which tokens leave with it.
    pub tokens: Tokens,
    /// The address of the virtual node: what a pod reads as its host's.
    pub host_ip: Option<String>,
    /// What home calls its cluster, where guests may find its names; none: they do not.
    pub domain: Option<String>,
    /// At which address inside the tunnel home's API server is reached, where the pod's namespace has
    /// access to it; none: nowhere.
    pub api: Option<IpAddr>,
    /// What its claims are called at the provider, by what they are called at home.
    pub claims: BTreeMap<String, String>,
}

/// What the provider imposes on the guests of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestContext {
    /// The contract of the lease.
    pub contract: ContractId,
    /// Guest namespaces by home namespace. A namespace that is not here is refused.
    pub namespaces: BTreeMap<String, String>,
    /// The pod-security level of the guest namespaces.
    pub pod_security: PodSecurity,
    /// The priority class of the contract's class.
    pub priority_class: Option<String>,
    /// The runtime class that the contract names.
    pub runtime_class: Option<String>,
    /// The labels of the pool's nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Written to `spec.dnsPolicy`.
    pub dns_policy: String,
    /// Written to `spec.dnsConfig`, in place of home's.
    pub dns_config: Option<Value>,
    /// Where guests find home's names, whose home says what it calls its cluster: in place of these
    /// two. None: nowhere.
    pub name_server: Option<IpAddr>,
    /// The API server keeps how a host is called, and its kubelets call it so.
    pub keeps_host_names: bool,
    /// Whether `hostUsers: false` is set also where a pod does not ask for it: where the
    /// provider's nodes can.
    pub user_namespaces: bool,
    /// Seconds that a guest may take to end, at most: see [`longest_grace_s`].
    pub longest_grace_s: u64,
    /// With what guests are held back until they are isolated, where the contract requires that.
    pub gate: Option<Gate>,
    /// By which addresses guests know home's pods and each other: endpoints are of these alone.
    pub ranges: Vec<MappedRange>,
    /// How far they reach on the Internet.
    pub egress: EgressKind,
    /// Whether the contract lets guests pass on to further clusters.
    pub transit: bool,
    /// Requests of a container that names none, by resource (`cpu`: `0`): the contract's LimitRange.
    pub default_requests: BTreeMap<String, String>,
    /// Limits of a container that names none, and whose pod names none: as all pods of a node have no
    /// more than the node gives them, no container has more than was bought.
    pub default_limits: BTreeMap<String, String>,
    /// What the virtual node has to give: what `resourceFieldRef` shows of a limit that
    /// is not set.
    pub allocatable: BTreeMap<String, String>,
    /// How guests find the nodes of what was bought.
    pub binding: Binding,
    /// The names of the provider's nodes that take no part in tunnels.
    pub left_out: BTreeSet<String>,
    /// The class that storage is of; none: it is not had here now.
    pub storage_class: Option<String>,
}

/// Home's `kube-root-ca.crt` is reflected under another name, since a controller of the
/// provider's restores its own.
const ROOT_CA: &str = "kube-root-ca.crt";
const HOME_ROOT_CA: &str = "mercato-home-root-ca.crt";

impl GuestContext {
    /// Whether guests end that are on this node: its gateway reaches them there no more, and nobody closes
    /// them. One whose contract asks for no isolation has nothing of either.
    pub fn leaves_out(&self, node: &str) -> bool {
        self.gate.is_some() && self.left_out.contains(node)
    }

    /// Whether the contract has storage, and so claims.
    pub fn has_storage(&self) -> bool {
        self.allocatable.contains_key(crate::placement::STORAGE)
    }

    /// What a home object is called over there; none if its namespace is not mapped.
    pub fn guest_key(&self, key: &ObjectKey) -> Option<GuestKey> {
        let namespace = self.namespaces.get(&key.namespace)?.clone();
        let is_token = key.kind == ObjectKind::ServiceAccountToken;
        let kind = if is_token { ObjectKind::Secret } else { key.kind };
        let name = guest_name(key.kind, &key.name).into_owned();
        Some(GuestKey { kind, namespace, name })
    }
}

fn guest_name(kind: ObjectKind, name: &str) -> Cow<'_, str> {
    match (kind, name) {
        (ObjectKind::ConfigMap, ROOT_CA) => HOME_ROOT_CA.into(),
        (ObjectKind::Secret, registry::SECRET) => registry::HOME_SECRET.into(),
        (ObjectKind::Claim, uid) => claim_name(uid).into(),
        _ => name.into(),
    }
}
