//! What guests may reach: each other, the pods of home that the tunnel leads to, and a name
//! server. A cluster whose network does not enforce policies enforces none of this.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::outside::NEVER;
use serde_json::{Value, json};

use crate::forge::labels::CONTRACT;

/// The `spec` of the NetworkPolicy of a guest namespace of this contract, whose pods call and are
/// called by addresses of these ranges, use these name servers besides the cluster's own, and reach so much of
/// the Internet.
pub(super) fn policy(
    contract: &ContractId,
    ranges: &[IpNet],
    name_servers: &[IpAddr],
    egress: &Egress,
) -> Value {
    let contract = json!({ CONTRACT: contract.to_string() });
    let guests = json!({ "namespaceSelector": { "matchLabels": contract } });
    let ranges = ranges.iter().map(|range| json!({ "ipBlock": { "cidr": range.trunc() } }));
    let among: Vec<Value> = std::iter::once(guests).chain(ranges).collect();
    let servers =
        name_servers.iter().map(|address| json!({ "ipBlock": { "cidr": one(*address) } }));
    let servers: Vec<Value> = std::iter::once(cluster_dns()).chain(servers).collect();
    let mut spec = json!({
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "from": among }],
        "egress": [
            { "to": among },
            { "to": servers,
              "ports": [{ "protocol": "UDP", "port": 53 }, { "protocol": "TCP", "port": 53 }] },
        ],
    });
    let outside = outside(egress);
    if let (false, Some(egress)) = (outside.is_empty(), spec["egress"].as_array_mut()) {
        egress.push(json!({ "to": outside }));
    }
    spec
}

/// Whom guests reach on the Internet, as blocks of addresses without those that are nobody's there. What of
/// the Internet is this cluster's own is not in it: the rules of nodes know that.
fn outside(egress: &Egress) -> Vec<Value> {
    let block = |all: IpNet| {
        let within = NEVER.iter().filter(|never| all.contains(*never));
        let except: Vec<String> = within.map(ToString::to_string).collect();
        json!({ "ipBlock": { "cidr": all, "except": except } })
    };
    match egress {
        Egress::None => Vec::new(),
        Egress::Named(named) => {
            named.ranges().iter().map(|range| json!({ "ipBlock": { "cidr": range } })).collect()
        }
        Egress::Internet => {
            let all = [Ipv4Net::default().into(), Ipv6Net::new_assert(UNICAST, 3).into()];
            all.map(block).into()
        }
    }
}

/// Of IPv6, where all is that is anybody's (RFC 4291, section 2.4).
const UNICAST: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);

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
    use mercato_protocol::egress::Outside;
    use mercato_protocol::id::ContractId;

    use super::*;

    #[test]
    fn port_53_is_open_to_name_servers_alone() {
        let servers = ["192.0.2.53", "2001:db8::53"].map(|at| at.parse().unwrap());
        let spec = policy(&ContractId([5; 16]), &[], &servers, &Egress::None);
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
    fn the_internet_is_open_as_far_as_the_contract_says() {
        let blocks = |egress: &Egress| {
            let spec = policy(&ContractId([5; 16]), &[], &[], egress);
            let to = spec["egress"].get(2).map(|rule| rule["to"].as_array().unwrap().clone());
            to.unwrap_or_default().into_iter().map(|it| it["ipBlock"].clone()).collect::<Vec<_>>()
        };
        assert!(blocks(&Egress::None).is_empty());
        let ranges = ["203.0.114.0/24", "2a00:1450::/32"];
        let named = Outside::of(ranges.map(|range| range.parse().unwrap())).unwrap();
        assert_eq!(blocks(&Egress::Named(named)), ranges.map(|range| json!({ "cidr": range })));
        let [v4, v6] = &blocks(&Egress::Internet)[..] else { panic!() };
        assert_eq!((&v4["cidr"], &v6["cidr"]), (&json!("0.0.0.0/0"), &json!("2000::/3")));
        for (block, never) in [(v4, "10.0.0.0/8"), (v4, "169.254.0.0/16"), (v6, "2002::/16")] {
            assert!(block["except"].as_array().unwrap().contains(&never.into()), "{never}");
        }
        assert!(!v6["except"].to_string().contains("4000::"), "it is not within");
    }

    #[test]
    fn what_the_tunnel_leads_to_is_open_both_ways_and_nothing_else() {
        let contract = ContractId([5; 16]);
        let ranges = ["10.200.4.7/26", "fd00:1::/64"].map(|range| range.parse().unwrap());
        let none = Egress::None;
        let with = policy(&contract, &ranges, &[], &none);
        let without = policy(&contract, &[], &[], &none);
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
