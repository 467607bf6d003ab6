//! The guest pod.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::quantity;
use mercato_protocol::terms::PodSecurity;
use serde_json::{Map, Value, json};

use super::labels::{CLUSTER_DOMAIN, GATE, HOME_ADDRESS, HOME_API, LEFT_OUT};
use super::refs::{each, token_name, visit_names, visit_tokens};
use super::rule::{LEVEL, refusal};
use super::schema::POD;
use super::schema_container::EPHEMERAL;
use super::{
    Content, Gate, GuestContext, HomeContext, Refusal, claim, device_env, export_pod, fields, gate,
    grace, guest_name, hosts, metadata, names, registry, scheduling, service_env, tokens,
};
use crate::key::{Item, PodId};
use crate::message::Route;
use crate::placement::{devices, is_device};

/// The guest pod of an exported home pod.
///
/// # Errors
///
/// The field that the lease does not allow.
pub fn forge_pod(
    id: &PodId,
    home: &Value,
    content: &Content,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    let Content { digest, route, .. } = content;
    // Whoever is not held back has begun before its device has another address.
    let called = content.called.filter(|called| ctx.gate.is_some() && called.is_ipv4());
    let (mut home, left_out) = allowed(home, ctx);
    let (domain, api) = (names::take_domain(&mut home), names::take_api(&mut home));
    let home = &home;
    let pod = POD.filter(home, ctx.pod_security);
    let mut pod = pod.map_err(|refusal| helped(service_env::as_at_home(home, refusal)))?;
    let spec = pod.get_mut("spec").filter(|spec| spec.is_object());
    let spec = spec.ok_or_else(|| refusal("spec", "is missing"))?;
    check_names(spec)?;
    check_whole(spec)?;
    check_images(spec, ctx.gate.as_ref().and_then(Gate::with_login))?;
    let devices = devices(spec);
    let runtime_class = runtime_class(spec, &devices, ctx)?;
    visit_names(spec, &mut |kind, name| {
        if let Some(text) = name.as_str() {
            *name = json!(guest_name(kind, text));
        }
    });
    mount_tokens(spec, id);
    let whole = spec["resources"]["limits"].clone();
    for sort in ["initContainers", "containers"] {
        each(spec, sort, &mut |container| fill_resources(container, &whole, ctx));
    }
    let fields = fields::turn(spec, home, called, ctx);
    let mut further: Map<_, _> = fields.into_iter().map(|(name, f)| (name, json!(f))).collect();
    if let Some(called) = called {
        let hosts = hosts::mount(spec, home, domain.as_deref(), called);
        if ctx.keeps_host_names {
            hosts::call_in_full(spec, home, domain.as_deref());
        }
        further.extend(hosts.map(|(name, file)| (name, json!(file))));
        further.insert(HOME_ADDRESS.to_owned(), json!(called));
    }
    further.extend(left_out.map(|list| (LEFT_OUT.to_owned(), json!(list))));
    further.extend(domain.iter().map(|domain| (CLUSTER_DOMAIN.to_owned(), json!(domain))));
    further.extend(api.map(|address| (HOME_API.to_owned(), json!(address))));
    grace::shorten(spec, ctx.longest_grace_s);
    impose(spec, home, ctx);
    device_env::bind(spec)?;
    set_some(spec, [("runtimeClassName", runtime_class.map(|name| json!(name)))]);
    if let (Some(domain), Some(server)) = (domain, ctx.name_server) {
        spec["dnsPolicy"] = json!("None");
        spec["dnsConfig"] = match names::asks_the_internet(home) {
            true => home["spec"]["dnsConfig"].clone(),
            false => names::dns_config(home, &id.namespace, &domain, server),
        };
    }
    if let Some(gate) = &ctx.gate {
        further.insert(GATE.to_owned(), json!(gate::put_first(spec, gate)?));
    }
    let item = Item::Pod(id.clone());
    // Whoever it was passed on to might not isolate it.
    let hops = if ctx.gate.is_some() { 0 } else { route.hops };
    let route = &Route { hops, ..route.clone() };
    let mut marks = metadata::metadata(&item, home, *digest, route, further, ctx)?;
    let claims = claim::mounted(spec);
    for label in &claims {
        marks["labels"][label] = json!("");
    }
    // What it mounts is here, and nowhere further on.
    let passes_on = ctx.transit && route.hops > 0 && claims.is_empty();
    let placed = [
        ("affinity", scheduling::affinity(home, passes_on, &claims, ctx)),
        ("topologySpreadConstraints", scheduling::spread(home, ctx)),
        ("tolerations", scheduling::tolerations(&devices, ctx)),
    ];
    set_some(spec, placed);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"] = Value::Object(marks);
    Ok(pod)
}

/// Has a pod mount secrets in the place of its tokens: they are made at home, and cross as such.
fn mount_tokens(spec: &mut Value, id: &PodId) {
    let mode = tokens::mode(spec);
    visit_tokens(spec, &mut |n, source| {
        let token = &source["serviceAccountToken"];
        let mut file = json!({ "key": "token", "path": token["path"] });
        if let Some(mode) = mode {
            file["mode"] = json!(mode);
        }
        if !token["user"].is_null() {
            file["user"] = token["user"].clone();
        }
        *source = json!({ "secret": { "name": token_name(&id.uid, n), "items": [file] } });
    });
}

/// Why whoever it goes to refuses this pod of home, whatever was agreed; none: that depends on the contract.
#[must_use]
pub fn refused_by_all(home: &Value) -> Option<Refusal> {
    let sent = export_pod(home, &HomeContext::default());
    POD.filter(&sent, PodSecurity::Privileged).err()
}

/// What of a pod no contract allows, with what its owner does.
fn helped(mut refusal: Refusal) -> Refusal {
    if !refusal.reason.ends_with(LEVEL) {
        refusal.reason += "; leave it out, or keep such pods at home by a nodeAffinity: \
                           mercato.dev/provider DoesNotExist";
    }
    refusal
}

/// The pod without the ephemeral containers that the lease does not allow, and a list of
/// those: at home they cannot be taken back, and must not hold up the rest for ever.
fn allowed(home: &Value, ctx: &GuestContext) -> (Value, Option<String>) {
    let (mut home, mut left_out) = (home.clone(), Vec::new());
    let ours = ctx.gate.as_ref().and_then(Gate::with_login);
    let spec = home.get_mut("spec").and_then(Value::as_object_mut);
    let list = spec.and_then(|spec| spec.get_mut("ephemeralContainers"));
    if let Some(list) = list.and_then(Value::as_array_mut) {
        let judged = |container: &Value| {
            gate::check_name(container, "")?;
            registry::check(&container["image"], "image", ours)?;
            device_env::check(container, "")?;
            EPHEMERAL.filter(container, ctx.pod_security)
        };
        list.retain(|container| match judged(container) {
            Ok(_) => true,
            Err(Refusal { path, reason }) => {
                let name = container["name"].as_str().unwrap_or_default();
                left_out.push([name.to_owned(), format!("{path}: {reason}")]);
                false
            }
        });
    }
    let list = (!left_out.is_empty()).then(|| json!(left_out).to_string());
    (home, list)
}

/// The runtime class of a guest: the contract's, or that of the provider's devices where it asks for
/// any. At home it may say what its own cluster needs for that.
fn runtime_class(
    spec: &Value,
    devices: &BTreeSet<String>,
    ctx: &GuestContext,
) -> Result<Option<String>, Refusal> {
    let said = spec["runtimeClassName"].as_str().filter(|name| !name.is_empty());
    let of_devices = ctx.binding.runtime_class.as_ref().filter(|_| !devices.is_empty());
    let imposed = ctx.runtime_class.as_ref().or(of_devices);
    let is_right = match said {
        None => true,
        Some(DEVICE_RUNTIME) if !devices.is_empty() => imposed.is_some(),
        Some(said) => imposed.is_some_and(|name| name == said),
    };
    match said {
        _ if is_right => Ok(imposed.cloned()),
        Some(DEVICE_RUNTIME) if !devices.is_empty() => {
            let help = "the provider names no runtime class for GPUs (share.gpuRuntimeClass, which \
                        its owner sets): leave it out where its usual runtime has them";
            Err(refusal("spec.runtimeClassName", help))
        }
        Some(DEVICE_RUNTIME) => Err(refusal(
            "spec.runtimeClassName",
            "is for pods that ask for GPUs, which this does not",
        )),
        _ => Err(refusal(
            "spec.runtimeClassName",
            "is not what the contract says; leave it out, and the guest has the contract's",
        )),
    }
}

/// The runtime class that pods with GPUs name where the usual runtime of a cluster has none.
const DEVICE_RUNTIME: &str = "nvidia";

fn check_names(spec: &Value) -> Result<(), Refusal> {
    let of_list = |list: &'static str| {
        let all = spec[list].as_array().into_iter().flatten().enumerate();
        all.map(move |(n, container)| (format!("spec.{list}[{n}]."), container))
    };
    let mut all = of_list("containers").chain(of_list("initContainers"));
    all.try_for_each(|(path, container)| gate::check_name(container, &path))
}

/// What a pod asks for as a whole is of resources that Kubernetes knows there: a device that no container
/// names is nobody's, and would be counted.
fn check_whole(spec: &Value) -> Result<(), Refusal> {
    for sort in ["limits", "requests"] {
        let mut names = spec["resources"][sort].as_object().into_iter().flat_map(Map::keys);
        if let Some(name) = names.find(|name| is_device(name)) {
            let reason = "is asked for by the pod as a whole: a container has to ask for devices";
            return Err(refusal(&format!("spec.resources.{sort}[{name}]"), reason));
        }
    }
    Ok(())
}

/// Images of containers, and those that are volumes.
fn check_images(spec: &Value, ours: Option<&str>) -> Result<(), Refusal> {
    for (list, field) in
        [("containers", "/image"), ("initContainers", "/image"), ("volumes", "/image/reference")]
    {
        for (n, one) in spec[list].as_array().into_iter().flatten().enumerate() {
            let path = format!("spec.{list}[{n}]{}", field.replace('/', "."));
            registry::check(one.pointer(field).unwrap_or(&Value::Null), &path, ours)?;
        }
    }
    Ok(())
}

/// What the provider says, whatever the pod says.
fn impose(spec: &mut Value, home: &Value, ctx: &GuestContext) {
    spec["automountServiceAccountToken"] = json!(false);
    spec["enableServiceLinks"] = json!(false);
    spec["dnsPolicy"] = json!(ctx.dns_policy);
    // A pod that shares the node's processes cannot have users of its own.
    let shares = ["hostPID", "hostIPC"].iter().any(|name| spec[*name] == true);
    let apart = home["spec"]["hostUsers"] == false || ctx.user_namespaces && !shares;
    let options = [
        ("dnsConfig", ctx.dns_config.clone()),
        ("priorityClassName", ctx.priority_class.as_ref().map(|name| json!(name))),
        ("nodeSelector", (!ctx.node_selector.is_empty()).then(|| json!(ctx.node_selector))),
        ("hostUsers", apart.then_some(json!(false))),
    ];
    set_some(spec, options);
}

fn set_some<const N: usize>(spec: &mut Value, options: [(&str, Option<Value>); N]) {
    for (name, value) in options.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        spec[name] = value;
    }
}

/// What the container does not say is the contract's; but a limit of its own without a request is the
/// request, as in Kubernetes' own defaults, and no limit is added where its `whole` pod has one.
fn fill_resources(container: &mut Value, whole: &Value, ctx: &GuestContext) {
    let own = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    let own = own.iter().filter_map(|(name, amount)| Some((name, amount.as_str()?)));
    let own = own.map(|(name, amount)| (name.clone(), amount.to_owned())).collect();
    fill(container, "requests", &own);
    fill(container, "requests", &ctx.default_requests);
    let limits = ctx.default_limits.clone().into_iter();
    let limits = limits.filter(|(resource, _)| whole[resource].is_null()).collect();
    fill(container, "limits", &limits);
}

fn fill(container: &mut Value, sort: &str, defaults: &BTreeMap<String, String>) {
    for (resource, amount) in defaults {
        if container["resources"][sort][resource].is_null() {
            let amount = quantity::canonical(amount).unwrap_or_else(|| amount.clone());
            container["resources"][sort][resource] = json!(amount);
        }
    }
}
