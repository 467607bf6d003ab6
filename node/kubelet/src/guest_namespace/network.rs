//! What guests may reach: each other, and a name server. A cluster whose network does not
//! enforce policies enforces none of this.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{GuestNamespace, labels};
use crate::names::CONTRACT;

/// Nothing in, nothing out, but among the guests of one contract, and to the name servers
/// that guests use. Port 53 of any other address would be a way out for anything.
pub(super) fn policy(wanted: &GuestNamespace) -> Value {
    let contract = json!({ CONTRACT: wanted.contract.to_string() });
    let among = json!([{ "namespaceSelector": { "matchLabels": contract } }]);
    let servers =
        wanted.name_servers.iter().map(|address| json!({ "ipBlock": { "cidr": one(*address) } }));
    let servers: Vec<Value> = std::iter::once(cluster_dns()).chain(servers).collect();
    json!({
        "metadata": { "labels": labels(wanted) },
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{ "from": among }],
            "egress": [
                { "to": among },
                { "to": servers,
                  "ports": [{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }] },
            ],
        },
    })
}

/// The pods behind the cluster's DNS service, by the labels that all installers give them:
/// most networks judge a packet once its service address is gone.
fn cluster_dns() -> Value {
    json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kube-system" } },
        "podSelector": { "matchLabels": { "k8s-app": "kube-dns" } },
    })
}

fn one(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

#[cfg(test)]
mod tests {
    use super::super::tests::wanted;
    use super::*;

    #[test]
    fn port_53_is_open_to_name_servers_alone() {
        let mut wanted = wanted();
        wanted.name_servers = ["192.0.2.53", "2001:db8::53"].map(|at| at.parse().unwrap()).into();
        let spec = &policy(&wanted)["spec"];
        assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
        let egress = spec["egress"].as_array().unwrap();
        assert!(egress.iter().all(|rule| rule["to"].as_array().is_some_and(|to| !to.is_empty())));
        let open: Vec<_> = egress.iter().filter(|rule| !rule["ports"].is_null()).collect();
        let to = open[0]["to"].as_array().unwrap();
        assert_eq!((open.len(), to.len()), (1, 3));
        assert_eq!(to[0]["podSelector"]["matchLabels"], json!({ "k8s-app": "kube-dns" }));
        assert!(to[0]["namespaceSelector"]["matchLabels"].is_object(), "of no other namespace");
        assert_eq!(to[1]["ipBlock"]["cidr"], "192.0.2.53/32");
        assert_eq!(to[2]["ipBlock"]["cidr"], "2001:db8::53/128");
    }
}
