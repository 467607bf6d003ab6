//! The virtual node of a lease as a Node object, from what its contract says.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_protocol::contract::Contract;
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::terms::Platform;
use serde_json::{Value, json};

use super::contains::contains;
use super::node_name::stem;
use super::{Leaving, Transitions, TunnelWord, absence, leaving, volumes_label};
use crate::forge::labels::{
    BOUGHT, CALLED, CONTRACT, FIELD_MANAGER, GROUP, JURISDICTION, MANAGED_BY, NOT_AFTER,
    PEER_REACHABLE, PRICE, PROVIDER, SUSPENDED,
};
use crate::placement::node_labels::{NodeLabels, REGION, ZONE};
use crate::placement::terms::allocatable;
use crate::time::rfc3339;

/// What a virtual node is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name, stable for the life of the lease.
    pub name: String,
    /// The lease that it stands for.
    pub contract: ContractId,
    /// The cluster that it stands for.
    pub provider: ClusterId,
    /// When the lease ends, by its term or taken back before, milliseconds since 1970.
    pub not_after_ms: u64,
    /// The true one of the provider's pool.
    pub platform: Platform,
    /// Where the provider's nodes are, and further labels of theirs, as far as they are shown.
    pub labels: NodeLabels,
    /// The country that certificates vouch for the provider, if they do for one.
    pub jurisdiction: Option<String>,
    /// What the contract costs, for people.
    pub price: String,
    /// What pods may ask for, extended resources included, as quantities.
    pub capacity: BTreeMap<String, String>,
    /// Where home's API server reaches the kubelet API.
    pub address: IpAddr,
    /// The port of its kubelet API.
    pub port: u16,
    /// What `kubectl get nodes` shows: the home API server's version, so that
    /// no version skew is seen where there is none.
    pub version: String,
    /// Keeps pods off that were not meant to leave home.
    pub taint: Taint,
    /// It has storage: volumes of its contract find it by a label.
    pub storage: bool,
    /// It ends soon: no new pods.
    pub leaving: Option<Leaving>,
    /// It is suspended: no new pods.
    pub suspended: bool,
    /// It was bought by itself for pods without room: room at home is taken first.
    pub bought: bool,
    /// The link to the provider is up.
    pub reachable: bool,
    /// How the tunnel to it is. The node is ready without one.
    pub tunnel: TunnelWord,
}

/// Whether pods need a toleration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taint {
    /// Only those of opted-in namespaces come, which the webhook lets tolerate it.
    #[default]
    Tainted,
    /// The whole cluster is opted in.
    Untainted,
}

impl NodeSpec {
    /// Of the node of this contract's lease, as it is at first: tainted, open to new pods, and
    /// reachable. Its port is the listener's to say.
    pub fn of(contract: &Contract, name: String, address: IpAddr, version: String) -> Self {
        Self {
            name,
            contract: contract.id,
            provider: contract.provider.cluster,
            not_after_ms: contract.not_after_ms,
            platform: contract.terms.platform.clone(),
            labels: NodeLabels::default(),
            jurisdiction: None,
            price: String::new(),
            capacity: allocatable(&contract.terms.quantity, &BTreeMap::new()),
            address,
            port: 0,
            version,
            taint: Taint::Tainted,
            storage: contract.terms.quantity.storage_bytes > 0,
            leaving: None,
            suspended: false,
            bought: false,
            reachable: true,
            tunnel: TunnelWord::Awaited,
        }
    }

    /// Whether a node of its name is this lease's: another's is never touched.
    pub fn owns(&self, present: &Value) -> bool {
        present["metadata"]["labels"][CONTRACT] == self.contract.to_string()
    }

    /// The fields of ours, for server-side apply. Taints are not among them: they are one list with
    /// those of the cluster's controllers. Nor is `spec.unschedulable`, which is the word of whoever
    /// cordons the node or drains it.
    pub fn applied(&self) -> Value {
        let mut labels: BTreeMap<String, String> = self.labels.others.clone();
        let mut label = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
        label("kubernetes.io/hostname", &self.name);
        label("kubernetes.io/os", self.platform.os.as_str());
        label("kubernetes.io/arch", self.platform.arch.as_str());
        // Many charts keep their daemons off nodes of this type.
        label("type", "virtual-kubelet");
        label("node.kubernetes.io/exclude-from-external-load-balancers", "true");
        label(MANAGED_BY, FIELD_MANAGER);
        label(CONTRACT, &self.contract.to_string());
        label(PROVIDER, &self.provider.short());
        label(CALLED, stem(&self.name, &self.contract));
        if self.storage {
            label(&volumes_label(&self.contract), "");
        }
        let said = [
            (REGION, &self.labels.region),
            (ZONE, &self.labels.zone),
            (JURISDICTION, &self.jurisdiction),
        ];
        for (key, value) in said {
            value.iter().for_each(|value| drop(label(key, value)));
        }
        // A scheme of our own: no cloud controller takes the node for its own.
        let id = format!("{FIELD_MANAGER}://{}/{}", self.provider, self.contract);
        // By it others know how long the node may be kept where no daemon does.
        let mut notes = json!({ NOT_AFTER: rfc3339(self.not_after_ms) });
        if !self.price.is_empty() {
            notes[PRICE] = self.price.as_str().into();
        }
        json!({ "metadata": { "labels": labels, "annotations": notes }, "spec": { "providerID": id } })
    }

    /// The object for its creation, to which [`NodeSpec::applied`] is applied: what is not applied
    /// could not be taken back by leaving it out.
    pub fn created(&self) -> Value {
        let lasting = Self {
            labels: NodeLabels::default(),
            jurisdiction: None,
            price: String::new(),
            ..self.clone()
        };
        let mut object = lasting.applied();
        object["apiVersion"] = "v1".into();
        object["kind"] = "Node".into();
        object["metadata"]["name"] = self.name.as_str().into();
        object["spec"]["taints"] = self.own_taints().into();
        object
    }

    /// The list of taints as it should be, if `present` is another: ours by our prefix, the
    /// others as they are.
    pub fn taints(&self, present: &Value) -> Option<Vec<Value>> {
        let present: Vec<_> = present.as_array().cloned().unwrap_or_default();
        let (mine, mut others): (Vec<_>, Vec<_>) = present.into_iter().partition(|taint| {
            let key = taint["key"].as_str().unwrap_or_default();
            key.starts_with(GROUP) && key[GROUP.len()..].starts_with('/')
        });
        let wanted = self.own_taints();
        let same = mine.len() == wanted.len()
            && wanted.iter().all(|want| {
                mine.iter().any(|is| is["key"] == want["key"] && is["effect"] == want["effect"])
            });
        others.extend(wanted);
        (!same).then_some(others)
    }

    fn own_taints(&self) -> Vec<Value> {
        let mut taints = Vec::new();
        if self.taint == Taint::Tainted {
            let value = self.provider.short();
            taints.push(json!({ "key": PROVIDER, "value": value, "effect": "NoSchedule" }));
        }
        // Nothing is evicted: a link that is down is not a node that is down.
        if !self.reachable {
            taints.push(json!({ "key": format!("{GROUP}/unreachable"), "effect": "NoSchedule" }));
        }
        if self.leaving.is_some() {
            taints.push(leaving::taint());
        }
        if self.bought {
            taints.push(json!({ "key": BOUGHT, "effect": "PreferNoSchedule" }));
        }
        if self.suspended {
            taints.push(json!({ "key": SUSPENDED, "effect": "NoSchedule" }));
        }
        taints
    }

    /// The status of ours, as a patch; `now` in RFC 3339.
    pub fn status(&self, transitions: &mut Transitions, now: &str) -> Value {
        let mut conditions = Vec::new();
        let reachable = if self.reachable {
            ("True", "LinkUp", "the provider can be reached")
        } else {
            ("False", "LinkDown", "the provider cannot be reached; what runs there runs on")
        };
        for (kind, (status, reason, message)) in [
            ("Ready", ("True", "LeaseActive", "the contract is in force")),
            ("MemoryPressure", NO_PRESSURE),
            ("DiskPressure", NO_PRESSURE),
            ("PIDPressure", NO_PRESSURE),
            ("NetworkUnavailable", ("False", "RouteCreated", "the provider's network is used")),
            (PEER_REACHABLE, reachable),
        ] {
            conditions.push(json!({ "type": kind, "status": status, "reason": reason,
                "message": message }));
        }
        let leaving = Leaving::condition(self.leaving.as_ref());
        conditions.extend([self.tunnel.condition(), absence::none(), leaving]);
        for condition in &mut conditions {
            condition["lastTransitionTime"] = transitions.of(condition, now).into();
            condition["lastHeartbeatTime"] = now.into();
        }
        json!({ "status": {
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "conditions": conditions,
            "addresses": [
                { "type": "InternalIP", "address": self.address },
                { "type": "Hostname", "address": self.name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": self.port } },
            "nodeInfo": {
                "architecture": self.platform.arch,
                "operatingSystem": self.platform.os,
                "kubeletVersion": self.version,
                "kubeProxyVersion": "",
                "containerRuntimeVersion": concat!("mercato://", env!("CARGO_PKG_VERSION")),
                "kernelVersion": "", "osImage": "Mercato virtual node",
                "bootID": self.contract.to_string(),
                "machineID": self.provider.to_string(),
                "systemUUID": self.contract.to_string(),
            },
        } })
    }

    /// Whether somebody has changed what this makes of a node, other than the status, which node controllers
    /// write as well.
    pub fn is_edited(&self, present: &Value) -> bool {
        !contains(present, &self.applied()) || self.taints(&present["spec"]["taints"]).is_some()
    }

    /// Whether the node in the cluster is still as this makes it, whatever others have added.
    pub fn holds(&self, transitions: &mut Transitions, present: &Value) -> bool {
        contains(present, &self.status(transitions, "")) && !self.is_edited(present)
    }
}

/// The status, reason and message of pressure that a kubelet would see on its own machine.
const NO_PRESSURE: (&str, &str, &str) = (
    "False",
    "NotMeasured",
    "not measured: what runs short at the provider is seen at the pods there",
);

#[cfg(test)]
mod tests;
