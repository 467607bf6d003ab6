//! A guest namespace as objects: made with everything that keeps a guest within its contract.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use ipnet::IpNet;
use mercato_protocol::contract::Contract;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::quantity;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::PodSecurity;
use mercato_protocol::text::GpuModel;
use serde_json::{Value, json};

use super::network;
use crate::forge::labels::{CONTRACT, FIELD_MANAGER, HOME_NAMESPACE, MANAGED_BY};
use crate::forge::registry::Login;
use crate::limits;
use crate::placement::terms::{DEFAULT_REQUESTS, gpus};

/// What a guest namespace is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestNamespace {
    /// Its name at the provider.
    pub name: String,
    /// The home namespace that it stands for.
    pub home: String,
    /// The contract of the lease.
    pub contract: ContractId,
    /// All that may be asked for in it.
    pub quantity: Resources,
    /// By model, the resource by which pods ask for GPUs.
    pub resources: BTreeMap<GpuModel, String>,
    /// The pod-security level of its guests.
    pub pod_security: PodSecurity,
    /// By addresses of these ranges its pods call those of home, and are called by them.
    pub ranges: Vec<IpNet>,
    /// The name servers that its pods use, besides the cluster's own.
    pub name_servers: Vec<IpAddr>,
    /// Whom its pods reach on the Internet.
    pub egress: Egress,
    /// Where nodes answer the gates of its pods, by TCP; none: they have no gates.
    pub gate_port: Option<NonZeroU16>,
    /// By which nodes pull the image of the gates; none: without.
    pub login: Option<Login>,
}

impl GuestNamespace {
    /// Called `name`, for the home namespace `home` of this contract's lease; without ranges and gates.
    pub fn of(contract: &Contract, home: &str, name: &str, name_servers: &[IpAddr]) -> Self {
        let terms = &contract.terms;
        Self {
            name: name.to_owned(),
            home: home.to_owned(),
            contract: contract.id,
            quantity: terms.quantity.clone(),
            resources: BTreeMap::new(),
            pod_security: terms.pod_security,
            ranges: Vec::new(),
            name_servers: name_servers.to_vec(),
            egress: terms.egress.clone(),
            gate_port: None,
            login: None,
        }
    }

    /// Whether a namespace of its name is this lease's, for that home namespace.
    ///
    /// # Errors
    /// It is another's, which is never touched: what home can do about it.
    pub fn check(&self, present: &Value) -> Result<(), String> {
        if is_guest_namespace(present, &self.contract, Some(&self.home)) {
            return Ok(());
        }
        Err(format!(
            "namespace {} exists and is not this contract's: \
            have it called otherwise with mercato offload {} --name NAME",
            self.name, self.home
        ))
    }

    /// The Namespace, for its creation.
    pub fn namespace(&self) -> Value {
        let mut labels = self.labels();
        labels[HOME_NAMESPACE] = self.home.as_str().into();
        labels["pod-security.kubernetes.io/enforce"] = match self.pod_security {
            PodSecurity::Privileged => "privileged",
            PodSecurity::Baseline => "baseline",
            PodSecurity::Restricted => "restricted",
        }
        .into();
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": self.name, "labels": labels },
        })
    }

    /// The ResourceQuota: what was bought, and no way to reach or burden the cluster beside it.
    pub fn quota(&self) -> Value {
        let (amount, own) = (&self.quantity, u64::from(self.login.is_some()));
        let claims = if amount.storage_bytes > 0 { limits::GUEST_NAMESPACE_CLAIMS } else { 0 };
        let mut hard = json!({
            "requests.cpu": quantity::from_millis(amount.cpu_millis),
            "requests.memory": amount.memory_bytes.to_string(),
            "pods": amount.pods.to_string(),
            "services.loadbalancers": "0",
            "services.nodeports": "0",
            "persistentvolumeclaims": claims.to_string(),
            "count/configmaps": limits::GUEST_NAMESPACE_OBJECTS.to_string(),
            "count/secrets": (limits::GUEST_NAMESPACE_OBJECTS + own).to_string(),
            "count/services": limits::GUEST_NAMESPACE_SERVICES.to_string(),
            "count/endpointslices.discovery.k8s.io":
                limits::GUEST_NAMESPACE_SERVICES.to_string(),
        });
        if amount.storage_bytes > 0 {
            hard["requests.storage"] = amount.storage_bytes.to_string().into();
        }
        for (resource, count) in gpus(amount, &self.resources) {
            hard[format!("requests.{resource}")] = count.to_string().into();
        }
        json!({ "metadata": { "labels": self.labels() }, "spec": { "hard": hard } })
    }

    /// The LimitRange: what a container asks for that does not say.
    pub fn limit_range(&self) -> Value {
        let requests: Value = DEFAULT_REQUESTS.into_iter().collect();
        let limit = json!({ "type": "Container", "defaultRequest": requests, "default": {} });
        json!({ "metadata": { "labels": self.labels() }, "spec": { "limits": [limit] } })
    }

    /// The NetworkPolicy: nothing in, nothing out, but among the guests of one contract, from and to
    /// the pods of home, to the name servers that guests use, and to whom the contract gives them of the
    /// Internet. Port 53 of any other address would
    /// be a way out for anything. Where pods have gates, these reach their node: a policy cannot name
    /// that, and so names its port alone; what a node has closed in reaches nobody else by it.
    pub fn network_policy(&self) -> Value {
        let Self { contract, ranges, name_servers, egress, .. } = self;
        let mut spec = network::policy(contract, ranges, name_servers, egress);
        if let (Some(port), Some(egress)) = (self.gate_port, spec["egress"].as_array_mut()) {
            egress.push(json!({ "ports": [{ "protocol": "TCP", "port": port }] }));
        }
        json!({ "metadata": { "labels": self.labels() }, "spec": spec })
    }

    /// The Secret of its pods' gates, [`SECRET`](crate::forge::registry::SECRET). It has no mark of the contract, by which
    /// objects of home's are known.
    pub fn secret(&self) -> Option<Value> {
        let mut secret = self.login.as_ref()?.secret();
        secret["metadata"] = json!({ "labels": { MANAGED_BY: FIELD_MANAGER } });
        Some(secret)
    }

    fn labels(&self) -> Value {
        json!({ MANAGED_BY: FIELD_MANAGER, CONTRACT: self.contract.to_string() })
    }
}

/// Whether a guest namespace is that contract's, and `home`'s where that is said: no other is
/// removed.
pub fn is_guest_namespace(present: &Value, contract: &ContractId, home: Option<&str>) -> bool {
    let labels = &present["metadata"]["labels"];
    labels[CONTRACT] == contract.to_string()
        && home.is_none_or(|home| labels[HOME_NAMESPACE] == home)
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;

    fn wanted() -> GuestNamespace {
        GuestNamespace {
            resources: BTreeMap::new(),
            name: "shop-rome".into(),
            home: "shop".into(),
            contract: ContractId([5; 16]),
            quantity: Resources {
                cpu_millis: 8500,
                memory_bytes: 1 << 30,
                pods: 20,
                storage_bytes: 50 << 30,
                gpus: [("h100".parse().unwrap(), 2)].into(),
            },
            pod_security: PodSecurity::Baseline,
            ranges: Vec::new(),
            name_servers: Vec::new(),
            egress: Egress::None,
            gate_port: None,
            login: None,
        }
    }

    #[test]
    fn a_login_is_a_secret_beside_those_of_home() {
        let count =
            |wanted: &GuestNamespace| wanted.quota()["spec"]["hard"]["count/secrets"].clone();
        assert_eq!((wanted().secret(), count(&wanted())), (None, json!("4096")));
        let config = r#"{"auths":{"hub.example":{"auth":"x"}}}"#;
        let login = Some(Login::of(config, "hub.example/mercato:1").unwrap());
        let with = GuestNamespace { login, ..wanted() };
        let secret = with.secret().unwrap();
        assert_eq!(count(&with), "4097");
        assert_eq!(secret["type"], "kubernetes.io/dockerconfigjson");
        assert_eq!(secret["metadata"]["labels"][CONTRACT], Value::Null);
    }

    #[test]
    fn the_quota_is_what_was_bought() {
        let hard = &wanted().quota()["spec"]["hard"];
        assert_eq!(hard["requests.cpu"], "8500m");
        assert_eq!(hard["pods"], "20");
        assert_eq!(hard["requests.nvidia.com/gpu"], "2");
        assert_eq!(hard["services.loadbalancers"], "0");
        assert_eq!(hard["requests.storage"], (50u64 << 30).to_string());
        assert_eq!(hard["persistentvolumeclaims"], "256");
        let mut without = wanted();
        without.quantity.storage_bytes = 0;
        let hard = &without.quota()["spec"]["hard"];
        assert_eq!(
            (&hard["persistentvolumeclaims"], hard.get("requests.storage")),
            (&json!("0"), None)
        );
    }

    #[test]
    fn a_gate_reaches_its_node() {
        let rules = |wanted: GuestNamespace| wanted.network_policy()["spec"]["egress"].clone();
        let without = rules(wanted());
        let with = rules(GuestNamespace { gate_port: NonZeroU16::new(7479), ..wanted() });
        let mut expected = without.as_array().unwrap().clone();
        expected.push(json!({ "ports": [{ "protocol": "TCP", "port": 7479 }] }));
        assert_eq!(with, json!(expected));
    }

    #[test]
    fn only_the_leases_own_namespace_is_taken_and_removed() {
        let (wanted, other) = (wanted(), ContractId([6; 16]));
        let present = wanted.namespace();
        assert_eq!(wanted.check(&present), Ok(()));
        for (key, value) in [(CONTRACT, "other"), (HOME_NAMESPACE, "other")] {
            let mut present = present.clone();
            present["metadata"]["labels"][key] = value.into();
            let said = wanted.check(&present).unwrap_err();
            assert!(said.contains("mercato offload shop --name"), "{said}");
        }
        assert!(wanted.check(&json!({ "metadata": { "name": "shop-rome" } })).is_err());
        for (contract, home, is_ours) in [
            (wanted.contract, None, true),
            (wanted.contract, Some("shop"), true),
            (wanted.contract, Some("bank"), false),
            (other, None, false),
        ] {
            assert_eq!(is_guest_namespace(&present, &contract, home), is_ours, "{home:?}");
        }
    }
}
