//! What guests may reach: each other, the pods of home that the tunnel leads to, and a name
//! server. A cluster whose network does not enforce policies enforces none of this.

use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::id::ContractId;
use serde_json::{Value, json};

use crate::forge::labels::CONTRACT;

/// The `spec` of the NetworkPolicy of a guest namespace of this contract, whose pods call and are
/// called by addresses of these ranges, and use these name servers besides the cluster's own.
pub(super) fn policy(contract: &ContractId, ranges: &[IpNet], name_servers: &[IpAddr]) -> Value {
    let contract = json!({ CONTRACT: contract.to_string() });
    let guests = json!({ "namespaceSelector": { "matchLabels": contract } });
    let ranges = ranges.iter().map(|range| json!({ "ipBlock": { "cidr": range.trunc() } }));
    let among: Vec<Value> = std::iter::once(guests).chain(ranges).collect();
    let servers =
        name_servers.iter().map(|address| json!({ "ipBlock": { "cidr": one(*address) } }));
    let servers: Vec<Value> = std::iter::once(cluster_dns()).chain(servers).collect();
    json!({
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "from": among }],
        "egress": [
            { "to": among },
            { "to": servers,
              "ports": [{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }] },
        ],
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
    use mercato_protocol::id::ContractId;

    use super::*;

    #[test]
    fn port_53_is_open_to_name_servers_alone() {
        let servers = ["192.0.2.53", "2001:db8::53"].map(|at| at.parse().unwrap());
        let spec = policy(&ContractId([5; 16]), &[], &servers);
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

    #[test]
    fn what_the_tunnel_leads_to_is_open_both_ways_and_nothing_else() {
        let contract = ContractId([5; 16]);
        let ranges = ["10.200.4.7/26", "fd00:1::/64"].map(|range| range.parse().unwrap());
        let (with, without) = (policy(&contract, &ranges, &[]), policy(&contract, &[], &[]));
        let among = |spec: &Value| {
            [&spec["ingress"][0]["from"], &spec["egress"][0]["to"]].map(Value::clone)
        };
        for (with, without) in among(&with).into_iter().zip(among(&without)) {
            let guests = without.as_array().unwrap();
            assert!(guests.iter().all(|peer| peer.get("ipBlock").is_none()), "{without}");
            let mut open = guests.clone();
            open.push(json!({ "ipBlock": { "cidr": "10.200.4.0/26" } }));
            open.push(json!({ "ipBlock": { "cidr": "fd00:1::/64" } }));
            assert_eq!(with, json!(open));
        }
        assert_eq!(with["egress"][1], without["egress"][1], "name servers are as they were");
        assert_eq!(with["ingress"].as_array().unwrap().len(), 1);
        assert_eq!(with["egress"].as_array().unwrap().len(), 2);
    }
}
