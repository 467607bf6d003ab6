//! How the guests of a contract stand to each other on the provider's nodes: what home asks
//! of its pods among themselves goes over as a wish, with selectors over the guests' keys.
//!
//! A wish only: home's scheduler has already chosen the virtual node, whose one name stands
//! for all of the provider's nodes, and what cannot be had over there must not keep a pod
//! from running. Nothing here reaches beyond the guest namespaces of the contract, so that
//! no pod of the provider's is moved by it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::GuestContext;
use super::keys::guest_key;
use super::labels::{CONTRACT, GATEWAY, GATEWAY_OFF, PROVIDER};
use crate::limits;
use crate::placement::{NodeOperator, NodeRequirement, Taint, requests, taints_of_device};

/// What sets nodes apart in any cluster. Other labels of home's nodes mean nothing there.
const TOPOLOGY: [&str; 3] =
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The weight of what home demands and what is a wish over there.
const DEMANDED: u64 = 100;

/// What becomes of the home pod's affinity to other pods, as `spec.affinity` of the guest,
/// which is kept off virtual nodes unless it may be passed on. It is on the node of the other guests that mount
/// one of these claims: a claim is one node's.
pub(super) fn affinity(
    home: &Value,
    passes_on: bool,
    claims: &BTreeSet<String>,
    ctx: &GuestContext,
) -> Option<Value> {
    let mut affinity = Map::new();
    let requirements = node_requirements(passes_on, ctx);
    if !requirements.is_empty() {
        affinity.insert("nodeAffinity".into(), only_nodes(&requirements));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let wishes = wishes(&home["spec"]["affinity"][kind], home, ctx);
        if !wishes.is_empty() {
            let wishes = json!({ "preferredDuringSchedulingIgnoredDuringExecution": wishes });
            affinity.insert(kind.into(), wishes);
        }
    }
    if !claims.is_empty() {
        let beside = affinity.entry("podAffinity").or_insert_with(|| json!({}));
        beside["requiredDuringSchedulingIgnoredDuringExecution"] =
            claims.iter().map(|claim| beside_guests_of(claim)).collect();
    }
    (!affinity.is_empty()).then_some(Value::Object(affinity))
}

/// What a guest tolerates: taints of its pool that the owner names, and those of the devices that
/// were bought and that it asks for.
pub(super) fn tolerations(devices: &BTreeSet<String>, ctx: &GuestContext) -> Option<Value> {
    let bought = devices.iter().filter(|name| ctx.allocatable.contains_key(*name));
    let keys: BTreeSet<_> = bought.flat_map(|name| taints_of_device(name)).collect();
    let tolerate = |key| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
    let named = ctx.binding.taints.iter().map(Taint::toleration);
    let all: Vec<_> = named.chain(keys.into_iter().map(tolerate)).collect();
    (!all.is_empty()).then(|| json!(all))
}

/// What becomes of its topology spread constraints. Guests that ask for nothing make no node fuller: a
/// scheduler would choose the same one each time, so that those without a wish are spread.
pub(super) fn spread(home: &Value, ctx: &GuestContext) -> Option<Value> {
    let mut spread: Vec<Value> = Vec::new();
    for asked in list(&home["spec"]["topologySpreadConstraints"]) {
        // Two wishes over one key are none that an API server takes.
        let is_new = spread.iter().all(|known| known["topologyKey"] != asked["topologyKey"]);
        let (Some(key), Some(selector), true) = (topology(asked), selector(asked, home), is_new)
        else {
            continue;
        };
        spread.push(json!({
            "topologyKey": key,
            "labelSelector": selector,
            "maxSkew": asked["maxSkew"].as_i64().unwrap_or(1).clamp(1, i64::from(i32::MAX)),
            "whenUnsatisfiable": "ScheduleAnyway",
        }));
    }
    if spread.is_empty() && asks_for_nothing(&home["spec"]) {
        spread.push(json!({
            "topologyKey": TOPOLOGY[0],
            "labelSelector": { "matchLabels": { CONTRACT: ctx.contract.to_string() } },
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
        }));
    }
    (!spread.is_empty()).then_some(Value::Array(spread))
}

fn asks_for_nothing(spec: &Value) -> bool {
    let asked = requests(spec);
    ["cpu", "memory"].iter().all(|name| asked.get(*name).is_none_or(|amount| *amount == 0))
}

/// Only nodes of what was bought that the owner has not left out; and real ones: a guest that was bound
/// to a virtual node, ours or another's, would wait there for ever.
fn node_requirements(passes_on: bool, ctx: &GuestContext) -> Vec<NodeRequirement> {
    let real = [
        NodeRequirement {
            key: "type".to_owned(),
            operator: NodeOperator::NotIn,
            values: vec!["virtual-kubelet".to_owned()],
        },
        NodeRequirement {
            key: PROVIDER.to_owned(),
            operator: NodeOperator::DoesNotExist,
            values: Vec::new(),
        },
        NodeRequirement {
            key: GATEWAY.to_owned(),
            operator: NodeOperator::NotIn,
            values: vec![GATEWAY_OFF.to_owned()],
        },
    ];
    // On its way to a cluster further on it is on a virtual node of this one.
    if passes_on { Vec::new() } else { real.into_iter().chain(ctx.binding.nodes.clone()).collect() }
}

/// Kubernetes lets the first one match itself.
fn beside_guests_of(label: &str) -> Value {
    let mounts = [json!({ "key": label, "operator": "Exists" })];
    json!({ "topologyKey": TOPOLOGY[0], "labelSelector": { "matchExpressions": mounts } })
}

fn only_nodes(requirements: &[NodeRequirement]) -> Value {
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
        { "matchExpressions": requirements },
    ] } })
}

fn wishes(affinity: &Value, home: &Value, ctx: &GuestContext) -> Vec<Value> {
    let demanded = list(&affinity["requiredDuringSchedulingIgnoredDuringExecution"]);
    let demanded = demanded.map(|asked| (DEMANDED, asked));
    let wished = list(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]);
    let wished = wished.map(|asked| {
        (asked["weight"].as_u64().unwrap_or(1).clamp(1, DEMANDED), &asked["podAffinityTerm"])
    });
    let wish = |(weight, asked)| {
        Some(json!({ "weight": weight, "podAffinityTerm": term(asked, home, ctx)? }))
    };
    demanded.chain(wished).filter_map(wish).take(limits::TERMS).collect()
}

fn term(asked: &Value, home: &Value, ctx: &GuestContext) -> Option<Value> {
    Some(json!({
        "topologyKey": topology(asked)?,
        "labelSelector": selector(asked, home)?,
        "namespaces": namespaces(asked, home, ctx)?,
    }))
}

fn topology(asked: &Value) -> Option<&str> {
    asked["topologyKey"].as_str().filter(|key| TOPOLOGY.contains(key))
}

/// The guest namespaces that are meant. None where there is none, and where home chooses by
/// labels of namespaces, which are not known here.
fn namespaces(asked: &Value, home: &Value, ctx: &GuestContext) -> Option<Vec<String>> {
    let named: Vec<&str> = list(&asked["namespaces"]).filter_map(Value::as_str).collect();
    let chosen = asked["namespaceSelector"].as_object();
    if chosen.is_some_and(|selector| !selector.values().all(is_empty)) {
        return None;
    }
    let own = home["metadata"]["namespace"].as_str();
    let is_meant = |namespace: &str| {
        chosen.is_some() || named.contains(&namespace) || named.is_empty() && own == Some(namespace)
    };
    let meant = ctx.namespaces.iter().filter(|(home, _)| is_meant(home));
    let meant: Vec<String> = meant.map(|(_, guest)| guest.clone()).collect();
    (!meant.is_empty()).then_some(meant)
}

/// A label selector over guests that selects those of the home pods that the one in `asked`
/// selects. `matchLabelKeys` and their opposite are resolved with the labels of `home`.
/// None if there is none, and if it is not one that Kubernetes knows.
pub(super) fn selector(asked: &Value, home: &Value) -> Option<Value> {
    let selector = asked.get("labelSelector").filter(|selector| selector.is_object())?;
    let mut all = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        all.push(requirement(key, "In", &[value])?);
    }
    for one in list(&selector["matchExpressions"]) {
        let operator = one["operator"].as_str()?;
        let known = ["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator);
        let values: Vec<_> = list(&one["values"]).collect();
        all.push(requirement(one["key"].as_str().filter(|_| known)?, operator, &values)?);
    }
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in list(&asked[keys]).filter_map(Value::as_str) {
            let value = &home["metadata"]["labels"][key];
            if value.is_string() {
                all.push(requirement(key, operator, &[value])?);
            }
        }
    }
    (all.len() <= limits::TERMS).then(|| json!({ "matchExpressions": all }))
}

fn requirement(key: &str, operator: &str, values: &[&Value]) -> Option<Value> {
    let mut requirement = json!({ "key": guest_key(key)?, "operator": operator });
    if !values.is_empty() {
        let texts: Option<Vec<&str>> = values.iter().map(|value| value.as_str()).collect();
        requirement["values"] = json!(texts?);
    }
    Some(requirement)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
