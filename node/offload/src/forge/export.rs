//! What home prepares of its own objects before they are sent: only home knows its
//! services, and whether its API may be used from elsewhere.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::refs::{each, retain_tokens, visit_containers};
use super::service_env::Variables;
use super::{HomeContext, claim, device_env, names};

/// A pod as it is sent: without status and book-keeping, with home's service variables and
/// the address of its virtual node, and without the tokens that stay at home.
///
/// A variable of the container wins over one of a service, as at home. A container with `envFrom` has those of
/// services by a config map of ours, which comes before its own: an explicit variable would win over one of a
/// config map, which is not so at home. Where the API server is reached from elsewhere, they have its
/// name: its certificate knows no address of a tunnel.
pub fn export_pod(pod: &Value, ctx: &HomeContext) -> Value {
    let mut pod = strip(pod);
    let links = pod["spec"]["enableServiceLinks"] != json!(false);
    let which = Variables { links, named: ctx.api.is_some() };
    // That of the API server is known wherever others are.
    let given =
        if ctx.service_env.is_empty() { BTreeMap::new() } else { ctx.service_env.given(which) };
    let spec = &mut pod["spec"];
    visit_containers(spec, &mut |container| {
        device_env::take_empty(container);
        each(container, "env", &mut |env| name_the_host(env, ctx));
        add_service_env(container, &given, which);
    });
    retain_tokens(spec, &ctx.tokens);
    claim::call(&mut pod, &ctx.claims);
    if let Some(domain) = &ctx.domain {
        names::say_domain(&mut pod, domain);
    }
    // Whatever its owner has written there.
    names::take_api(&mut pod);
    if let Some(address) = ctx.api {
        names::say_api(&mut pod, address);
    }
    pod
}

/// A config map or secret as it is sent: without book-keeping.
pub fn export_object(object: &Value) -> Value {
    strip(object)
}

/// A token as it is sent, in the shape of a secret. `token` is what `TokenRequest` gave.
pub fn export_token(namespace: &str, name: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": namespace, "name": name },
        "type": "Opaque",
        "data": { "token": BASE64.encode(token) },
    })
}

fn strip(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in ["managedFields", "resourceVersion", "selfLink"] {
            metadata.remove(name);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    object
}

/// The host of a pod is its virtual node. Its address is known at home alone, and does not
/// change while the pod lives; volumes cannot show it.
fn name_the_host(env: &mut Value, ctx: &HomeContext) {
    let path = env["valueFrom"]["fieldRef"]["fieldPath"].as_str();
    if matches!(path, Some("status.hostIP" | "status.hostIPs"))
        && let (Some(address), Some(env)) = (&ctx.host_ip, env.as_object_mut())
    {
        env.remove("valueFrom");
        env.insert("value".into(), json!(address));
    }
}

fn add_service_env(container: &mut Value, given: &BTreeMap<String, String>, which: Variables) {
    if given.is_empty() {
        return;
    }
    let is_beside_others = container["envFrom"].as_array().is_some_and(|list| !list.is_empty());
    if is_beside_others || !given.keys().all(|name| is_plain(name)) {
        let first = json!({ "configMapRef": { "name": which.object_name() } });
        match container["envFrom"].as_array_mut() {
            Some(list) => list.insert(0, first),
            None => container["envFrom"] = json!([first]),
        }
        return;
    }
    let own = container["env"].as_array().cloned().unwrap_or_default();
    let is_free =
        |(name, _): &(&String, &String)| !own.iter().any(|env| env["name"] == json!(name));
    let given = given.iter().filter(is_free);
    let given = given.map(|(name, value)| json!({ "name": name, "value": value }));
    container["env"] = given.chain(own.iter().cloned()).collect();
}

/// Whether every API server takes a variable of this name: that of a Service may begin with a digit.
fn is_plain(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
}
