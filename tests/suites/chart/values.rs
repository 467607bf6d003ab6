//! Each value of the chart's schema with one that is not the default.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// By path, in JSON: one row for each leaf of `values.schema.json`.
pub(crate) const VALUES: &[(&str, &str)] = &[
    ("image.repository", r#""registry.example/other""#),
    ("image.tag", r#""2""#),
    ("image.pullPolicy", r#""Always""#),
    ("image.credentials", r#""{\"auths\":{\"registry.example\":{\"auth\":\"YTpi\"}}}""#),
    ("imagePullSecrets", r#"[{"name":"registry"}]"#),
    ("config.name", r#""rome""#),
    ("config.listen", r#"["0.0.0.0:7000"]"#),
    ("config.publicAddresses", r#"["203.0.113.7"]"#),
    ("config.peers", r#"["hub.example:7474"]"#),
    ("config.lan", r#""off""#),
    ("config.health", r#""0.0.0.0:9000""#),
    ("config.dns", r#""192.0.2.53:53""#),
    ("config.gateway.enabled", "false"),
    ("config.gateway.port", "7000"),
    ("config.gateway.addresses", r#"["203.0.113.7:7475"]"#),
    ("config.gateway.nodes.port", "7001"),
    ("config.gateway.nodes.overlayPort", "7002"),
    ("config.gateway.nodes.gatePort", "7003"),
    ("config.kubernetes.adminPort", "7004"),
    ("config.kubernetes.webhook.port", "7005"),
    ("config.jurisdiction", r#""IT""#),
    ("config.region", r#""eu-south-1""#),
    ("config.carbon", "180"),
    ("config.meteringInterval", r#""5m""#),
    ("config.share", r#"{"cpu":"30%","memory":"30%"}"#),
    ("config.buy", r#"{"budget":"500 EUR/w"}"#),
    ("logLevel", r#""debug""#),
    ("persistence.size", r#""2Gi""#),
    ("persistence.storageClass", r#""-""#),
    ("persistence.existingClaim", r#""mine""#),
    ("resources", r#"{"requests":{"cpu":"1"}}"#),
    ("nodeSelector", r#"{"disk":"ssd"}"#),
    ("tolerations", r#"[{"operator":"Exists"}]"#),
    ("priorityClassName", r#""""#),
    ("nodes", "false"),
    ("heartbeat.enabled", "false"),
    ("heartbeat.keepAlive", r#""2h30m""#),
    ("offloadAll", "true"),
    ("privilegedGuests", "true"),
    ("tokenAudiences", "true"),
    ("approver", "true"),
    ("podDisruptionBudget", "true"),
    ("metrics.enabled", "true"),
    ("metrics.podMonitor", "true"),
    ("metrics.prometheusRule", "true"),
    ("metrics.dashboard", "true"),
];

/// What a value takes beside itself: its path, and another value with its path.
pub(crate) const COMPANIONS: &[(&str, &str, &str)] =
    &[("metrics.podMonitor", "metrics.enabled", "true")];

/// What Helm's own convention has beside the chart's values: charts above this one set it.
const GLOBAL: &str = "global";

/// The values without which nothing is rendered, and what all rows take beside themselves.
pub(crate) fn needed() -> Value {
    json!({
        "image": { "repository": "registry.example/mercato" },
        "config": { "kubernetes": { "tokenAudiences": ["vault"] } },
    })
}

/// Writes a value at its path.
pub(crate) fn set(values: &mut Value, path: &str, value: Value) {
    let mut at = values;
    for step in path.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[step];
    }
    *at = value;
}

/// The paths of all that has no parts of its own in a schema.
pub(crate) fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    match schema["properties"].as_object() {
        None if path != GLOBAL => drop(found.insert(path.to_owned())),
        None => {}
        Some(parts) => each(parts, path, &mut |part, path| leaves(part, path, found)),
    }
}

/// The paths of all that names a port.
pub(crate) fn ports(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let names = |schema: &Value| {
        let kind = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        kind.is_some_and(|kind| ["port", "address"].contains(&kind))
    };
    if names(schema) || names(&schema["items"]) || names(&schema["anyOf"][0]) {
        found.insert(path.to_owned());
    }
    if let Some(parts) = schema["properties"].as_object() {
        each(parts, path, &mut |part, path| ports(part, path, found));
    }
}

fn each(parts: &Map<String, Value>, path: &str, visit: &mut dyn FnMut(&Value, &str)) {
    for (name, part) in parts {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        visit(part, &path);
    }
}
