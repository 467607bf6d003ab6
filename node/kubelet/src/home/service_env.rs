//! The variables that a kubelet gives every container for the services of its
//! namespace, and for the API server's: pure, from the services.

use std::collections::BTreeMap;

use serde_json::Value;

/// Variables by name, of services that have a cluster IP.
pub(super) fn service_env<'a>(
    services: impl IntoIterator<Item = &'a Value>,
) -> BTreeMap<String, String> {
    services.into_iter().flat_map(variables).collect()
}

fn variables(service: &Value) -> Vec<(String, String)> {
    let ip = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    let ports = service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = ports.first().filter(|_| !ip.is_empty() && ip != "None") else {
        return Vec::new();
    };
    let prefix = variable(name);
    let mut all = vec![
        (format!("{prefix}_SERVICE_HOST"), ip.to_owned()),
        (format!("{prefix}_SERVICE_PORT"), first["port"].to_string()),
    ];
    for port in ports {
        if let Some(named) = port["name"].as_str().filter(|name| !name.is_empty()) {
            let key = format!("{prefix}_SERVICE_PORT_{}", variable(named));
            all.push((key, port["port"].to_string()));
        }
    }
    // The form of Docker's links, which the kubelet still writes.
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    for (n, port) in ports.iter().enumerate() {
        let number = port["port"].to_string();
        let protocol = port["protocol"].as_str().unwrap_or("TCP").to_ascii_uppercase();
        let url = format!("{}://{host}:{number}", protocol.to_ascii_lowercase());
        if n == 0 {
            all.push((format!("{prefix}_PORT"), url.clone()));
        }
        let prefix = format!("{prefix}_PORT_{number}_{protocol}");
        all.push((prefix.clone(), url));
        all.push((format!("{prefix}_PROTO"), protocol.to_ascii_lowercase()));
        all.push((format!("{prefix}_PORT"), number));
        all.push((format!("{prefix}_ADDR"), ip.to_owned()));
    }
    all
}

fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_of_the_documentation() {
        let redis = json!({ "metadata": { "name": "redis-primary" },
            "spec": { "clusterIP": "10.0.0.11", "ports": [{ "port": 6379, "protocol": "TCP" }] } });
        let env = service_env([&redis]);
        for (name, value) in [
            ("REDIS_PRIMARY_SERVICE_HOST", "10.0.0.11"),
            ("REDIS_PRIMARY_SERVICE_PORT", "6379"),
            ("REDIS_PRIMARY_PORT", "tcp://10.0.0.11:6379"),
            ("REDIS_PRIMARY_PORT_6379_TCP", "tcp://10.0.0.11:6379"),
            ("REDIS_PRIMARY_PORT_6379_TCP_PROTO", "tcp"),
            ("REDIS_PRIMARY_PORT_6379_TCP_PORT", "6379"),
            ("REDIS_PRIMARY_PORT_6379_TCP_ADDR", "10.0.0.11"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(env.len(), 7);
    }

    #[test]
    fn a_headless_service_gives_none() {
        let headless = json!({ "metadata": { "name": "db" },
            "spec": { "clusterIP": "None", "ports": [{ "port": 1 }] } });
        let external = json!({ "metadata": { "name": "x" }, "spec": { "externalName": "y" } });
        assert!(service_env([&headless, &external]).is_empty());
    }

    #[test]
    fn named_ports() {
        let service = json!({ "metadata": { "name": "kubernetes" }, "spec": { "clusterIP": "10.96.0.1",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP" }] } });
        assert_eq!(service_env([&service])["KUBERNETES_SERVICE_PORT_HTTPS"], "443");
    }
}
