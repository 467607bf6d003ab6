//! Where the API servers of a cluster are, as these say of themselves.

use std::net::{IpAddr, SocketAddr};

use futures::FutureExt as _;
use serde_json::Value;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::ENDPOINT_SLICE;
use crate::limits;

/// Where they take requests, by TLS: the endpoints of the Service `kubernetes`, which API servers keep
/// themselves. None, where they say nothing of it.
pub fn api_servers(cluster: &Cluster) -> Answer<Vec<SocketAddr>> {
    let slice = cluster.get(ENDPOINT_SLICE, Some("default"), "kubernetes");
    async move { Ok(slice.await?.map(|slice| endpoints(&slice)).unwrap_or_default()) }.boxed()
}

fn endpoints(slice: &Value) -> Vec<SocketAddr> {
    let ports = slice["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let https = ports.iter().find(|port| port["name"] == "https").or(ports.first());
    let number = https.and_then(|port| u16::try_from(port["port"].as_u64()?).ok());
    let Some(port) = number.filter(|port| *port > 0) else { return Vec::new() };
    let all = slice["endpoints"].as_array().into_iter().flatten();
    let ready = all.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|endpoint| endpoint["addresses"].as_array()).flatten();
    let addresses = addresses.filter_map(|address| address.as_str()?.parse::<IpAddr>().ok());
    addresses.take(limits::API_SERVERS).map(|address| SocketAddr::new(address, port)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_that_are_ready_are_found_at_their_port() {
        let slice = json!({ "addressType": "IPv4",
            "ports": [{ "name": "other", "port": 9 }, { "name": "https", "port": 6443 }],
            "endpoints": [
                { "addresses": ["192.0.2.1"], "conditions": { "ready": true } },
                { "addresses": ["192.0.2.2"], "conditions": { "ready": false } },
                { "addresses": ["192.0.2.3", "forged"] },
                7,
            ] });
        let found: Vec<_> = endpoints(&slice).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:6443", "192.0.2.3:6443"]);
        let many = json!({ "ports": [{ "port": 443 }],
            "endpoints": vec![json!({ "addresses": ["fd00::1"] }); 99] });
        assert_eq!(endpoints(&many).len(), limits::API_SERVERS);
        for none in [
            json!({}),
            json!({ "ports": [{ "port": 0 }], "endpoints": [{ "addresses": ["192.0.2.1"] }] }),
        ] {
            assert!(endpoints(&none).is_empty(), "{none}");
        }
    }
}
