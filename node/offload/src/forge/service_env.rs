//! The variables that a kubelet gives every container for the Services of its namespace, and for the API
//! server's: pure, from the Services. They count less than all that a container says, also by a config
//! map: where that has to show, they cross as a config map of their own, which comes first.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::api_env;
use crate::message::Refusal;

/// What the API server's own Service is called, in the namespace `default`.
const API: &str = "kubernetes";

/// The variables of the Services of one namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceEnv {
    /// Of the API server's Service.
    api: BTreeMap<String, String>,
    /// Of the Services of the namespace.
    own: BTreeMap<String, String>,
    /// One of these is called as the API server's: it is in its place.
    hides_api: bool,
}

/// Which of a namespace's variables a container has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variables {
    /// Those of the namespace's own Services, besides the API server's (`enableServiceLinks`).
    pub links: bool,
    /// The API server is reached by its name, and not by the address that it has at home.
    pub named: bool,
}

impl Variables {
    const ALL: [Self; 4] = [
        Self { links: false, named: false },
        Self { links: false, named: true },
        Self { links: true, named: false },
        Self { links: true, named: true },
    ];

    /// What the config map with these is called, in the namespace of the pod.
    pub fn object_name(self) -> &'static str {
        match (self.links, self.named) {
            (false, false) => "mercato-env",
            (false, true) => "mercato-env-api",
            (true, false) => "mercato-env-links",
            (true, true) => "mercato-env-links-api",
        }
    }

    /// Those that a config map of this name has; none: it is one of home's.
    pub fn of_object(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variables| variables.object_name() == name)
    }
}

impl ServiceEnv {
    /// Those of these Services of a namespace, and of the API server's Service.
    pub fn of<'a>(services: impl IntoIterator<Item = &'a Value>, api: Option<&Value>) -> Self {
        let (mut own, mut hides_api) = (BTreeMap::new(), false);
        for service in services {
            let variables = variables(service);
            hides_api |= !variables.is_empty() && service["metadata"]["name"] == API;
            own.extend(variables);
        }
        Self { api: api.map(variables).into_iter().flatten().collect(), own, hides_api }
    }

    /// Whether nothing is known of any Service.
    pub fn is_empty(&self) -> bool {
        self.api.is_empty() && self.own.is_empty()
    }

    /// Those that a container has.
    pub fn given(&self, which: Variables) -> BTreeMap<String, String> {
        let api = || if which.named { api_env::named() } else { self.api.clone() };
        let mut all = if which.links && self.hides_api { BTreeMap::new() } else { api() };
        if which.links {
            all.extend(self.own.clone());
        }
        all
    }

    /// The config map with those, in the shape of one of home's.
    pub fn object(&self, namespace: &str, which: Variables) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "namespace": namespace, "name": which.object_name() },
            "data": self.given(which),
        })
    }
}

/// A refusal of a pod as home has sent it, by the path that the field has at home: where a container has our
/// config map, it stands before its own sources.
pub(super) fn as_at_home(pod: &Value, refusal: Refusal) -> Refusal {
    let path = || {
        let (container, rest) = refusal.path.split_once(".envFrom[")?;
        let (source, rest) = rest.split_once(']')?;
        let (list, place) = container.strip_prefix("spec.")?.strip_suffix(']')?.split_once('[')?;
        let of = &pod["spec"][list][place.parse::<usize>().ok()?]["envFrom"][0];
        Variables::of_object(of["configMapRef"]["name"].as_str()?)?;
        let source = source.parse::<usize>().ok()?.checked_sub(1)?;
        Some(format!("{container}.envFrom[{source}]{rest}"))
    };
    match path() {
        Some(path) => Refusal { path, ..refusal },
        None => refusal,
    }
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
    use super::*;

    fn of(services: &[&Value]) -> BTreeMap<String, String> {
        let env = ServiceEnv::of(services.iter().copied(), None);
        env.given(Variables { links: true, named: false })
    }

    #[test]
    fn the_example_of_the_documentation() {
        let redis = json!({ "metadata": { "name": "redis-primary" },
            "spec": { "clusterIP": "10.0.0.11", "ports": [{ "port": 6379, "protocol": "TCP" }] } });
        let env = of(&[&redis]);
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
        assert!(of(&[&headless, &external]).is_empty());
    }

    #[test]
    fn without_links_the_api_servers_alone() {
        let service = |name: &str, address: &str| {
            json!({ "metadata": { "name": name }, "spec": { "clusterIP": address,
                "ports": [{ "name": "https", "port": 443, "protocol": "TCP" }] } })
        };
        let api = service("kubernetes", "10.96.0.1");
        let board = service("kubernetes-dashboard", "10.96.0.2");
        let env = ServiceEnv::of([&board], Some(&api));
        let few = env.given(Variables { links: false, named: false });
        assert_eq!(few["KUBERNETES_SERVICE_PORT_HTTPS"], "443");
        assert!(!few.contains_key("KUBERNETES_DASHBOARD_SERVICE_HOST"));
        let all = env.given(Variables { links: true, named: false });
        assert_eq!(all["KUBERNETES_DASHBOARD_SERVICE_HOST"], "10.96.0.2");
        assert_eq!(all["KUBERNETES_SERVICE_HOST"], "10.96.0.1");

        // One of the namespace is in its place, as a kubelet has it.
        let own = service("kubernetes", "10.96.0.3");
        let env = ServiceEnv::of([&own], Some(&api));
        for (links, named, host) in [
            (true, false, "10.96.0.3"),
            (true, true, "10.96.0.3"),
            (false, false, "10.96.0.1"),
            (false, true, "kubernetes.default.svc"),
        ] {
            let which = Variables { links, named };
            assert_eq!(env.given(which)["KUBERNETES_SERVICE_HOST"], host, "{which:?}");
            assert_eq!(Variables::of_object(which.object_name()), Some(which));
        }
    }
}
