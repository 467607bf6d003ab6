//! The home pod's status, from the guest's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::resize::{self, PENDING};
use super::schema_status::POD_STATUS;
use crate::address::Reach;
use crate::message::{Outcome, Refusal};

/// What home knows besides the two pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusContext {
    /// The address of the virtual node.
    pub host_ip: Option<String>,
    /// Whether home reaches the guest, and by which address.
    pub reach: Reach,
    /// Why the provider refuses the resize that the pod asks for, if it does.
    pub resize: Option<Refusal>,
    /// When it is, in RFC 3339.
    pub now: String,
}

/// Conditions that a kubelet owns, and so the provider's word counts. `Ready` is made
/// here, since readiness gates are conditions of home's.
const KUBELET: [&str; 6] = [
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    DISRUPTION,
    PENDING,
    "PodResizeInProgress",
];

/// Why a pod is not ready whose provider is not reached.
pub const UNREACHABLE: &str = "PeerUnreachable";

/// Home's as well: who evicts a pod says so in it.
const DISRUPTION: &str = "DisruptionTarget";

/// Each list of statuses, and where its containers are.
const LISTS: [(&str, &str); 3] = [
    ("initContainerStatuses", "initContainers"),
    ("containerStatuses", "containers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// The whole status to write to `home` (the pod as it is), from the guest's `status` (null
/// if that is not known any more) and from how it ended in the provider's judgement. A
/// terminal phase never reverts, restart counts never shrink, the start time is set once.
pub fn home_status(
    guest: &Value,
    home: &Value,
    outcome: Option<&Outcome>,
    ctx: &StatusContext,
) -> Value {
    let old = &home["status"];
    let base = if guest.is_object() { guest } else { old };
    let mut status = POD_STATUS.select(base);
    for (list, containers) in LISTS {
        if let Some(statuses) = status.get_mut(list) {
            keep_counts(statuses, &old[list]);
            keep_asked(statuses, &home["spec"][containers]);
        }
    }
    settle_phase(&mut status, old, outcome);
    let resize = resize::pending(&status, guest, home, ctx.resize.as_ref(), &ctx.now);
    status["conditions"] = conditions(&status, base, home, ctx.reach, resize.as_ref());
    // As at home: who has taken the pod says where it is.
    let taken = !status["startTime"].is_null();
    let host_ip = ctx.host_ip.as_deref().filter(|_| taken);
    let pod_ips: Vec<IpAddr> = match ctx.reach {
        // The status that says that it is there is on its way: both are one write.
        Reach::At { .. } if old["podIP"].is_null() && has_no_network(&status) => Vec::new(),
        Reach::At { address, second } => [address].into_iter().chain(second).collect(),
        Reach::Lost { address, second } => address.into_iter().chain(second).collect(),
        Reach::Not | Reach::Awaited => Vec::new(),
    };
    let own = [
        ("qosClass", old["qosClass"].clone()),
        ("observedGeneration", generation(&status, old, home, resize.as_ref())),
        ("nominatedNodeName", old["nominatedNodeName"].clone()),
        ("hostIP", json!(host_ip)),
        ("hostIPs", ip_list(host_ip)),
        ("podIP", json!(pod_ips.first())),
        ("podIPs", ip_list(&pod_ips)),
    ];
    for (name, value) in own.into_iter().filter(|(_, value)| !value.is_null()) {
        status[name] = value;
    }
    if !old["startTime"].is_null() {
        status["startTime"] = old["startTime"].clone();
    }
    status
}

/// By the kubelet's word: where it does not say so, it may have one.
fn has_no_network(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut network = conditions.filter(|it| it["type"] == "PodReadyToStartContainers");
    network.any(|it| it["status"] == "False")
}

/// What the provider has seen of the pod, or refused: no more than there is, never less than before.
fn generation(status: &Value, old: &Value, home: &Value, resize: Option<&Value>) -> Value {
    let seen = status["observedGeneration"].as_u64().unwrap_or(0);
    let refused = resize.and_then(|refused| refused["observedGeneration"].as_u64());
    let seen = seen.max(refused.unwrap_or(0));
    let seen = seen.min(home["metadata"]["generation"].as_u64().unwrap_or(0));
    let seen = seen.max(old["observedGeneration"].as_u64().unwrap_or(0));
    if seen > 0 { json!(seen) } else { Value::Null }
}

/// As the API has it: the one that stands alone too comes first.
fn ip_list(all: impl IntoIterator<Item = impl Serialize>) -> Value {
    let all: Vec<Value> = all.into_iter().map(|ip| json!({ "ip": ip })).collect();
    if all.is_empty() { Value::Null } else { all.into() }
}

fn settle_phase(status: &mut Value, old: &Value, outcome: Option<&Outcome>) {
    if matches!(old["phase"].as_str(), Some("Succeeded" | "Failed")) {
        for name in ["phase", "reason", "message"] {
            set_or_remove(status, name, old[name].clone());
        }
        return;
    }
    match outcome {
        None => {}
        Some(Outcome::Succeeded) => status["phase"] = json!("Succeeded"),
        Some(Outcome::Failed { reason, message }) => {
            status["phase"] = json!("Failed");
            if !reason.is_empty() {
                set_or_remove(status, "reason", json!(reason));
                set_or_remove(status, "message", json!(message));
            }
        }
    }
}

fn set_or_remove(status: &mut Value, name: &str, value: Value) {
    if let Some(status) = status.as_object_mut() {
        if value.is_null() {
            status.remove(name);
        } else {
            status.insert(name.to_owned(), value);
        }
    }
}

/// Home's own conditions stay (scheduling, readiness gates), the kubelet's come from the
/// guest, and `Ready` is both; a resize that was refused is told of in `resize`.
fn conditions(
    status: &Value,
    guest: &Value,
    home: &Value,
    reach: Reach,
    resize: Option<&Value>,
) -> Value {
    let old = by_type(&home["status"]["conditions"]);
    let new = by_type(&status["conditions"]);
    let mut merged = old.clone();
    // An eviction at home is one, whatever the kubelet over there knows of it.
    let disrupted = |name: &str, one: &Value| name == DISRUPTION && one["status"] == "True";
    merged.retain(|name, one| !KUBELET.contains(&name.as_str()) || disrupted(name, one));
    for (name, one) in new.into_iter().filter(|(name, _)| KUBELET.contains(&name.as_str())) {
        merged.entry(name).or_insert(one);
    }
    merged.extend(resize.map(|refused| (PENDING.to_owned(), refused.clone())));
    let guest_ready = by_type(&guest["conditions"]).get("Ready").cloned();
    if let Some(mut ready) = guest_ready {
        if let Some(gate) = closed_gate(home, &old).filter(|_| ready["status"] == "True") {
            ready["status"] = json!("False");
            ready["reason"] = json!("ReadinessGatesNotReady");
            let message = format!("the condition of readiness gate {gate:?} is not True");
            ready["message"] = json!(message);
        }
        let was_ready = old.get("Ready").is_some_and(|old| old["status"] == "True");
        if reach == Reach::Awaited && !was_ready && ready["status"] == "True" {
            ready["status"] = json!("False");
            ready["reason"] = json!("TunnelNotReady");
            ready["message"] = json!("no packet can reach the pod yet: the tunnel is coming up");
        }
        if matches!(reach, Reach::Lost { .. }) {
            ready["status"] = json!("False");
            ready["reason"] = json!(UNREACHABLE);
            ready["message"] = json!("the cluster in which the pod runs is not reached");
        }
        if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
            ready["status"] = json!("False");
        }
        merged.insert("Ready".to_owned(), ready);
    }
    let generation = home["metadata"]["generation"].as_u64().unwrap_or(0);
    for (name, condition) in &mut merged {
        let seen = condition["observedGeneration"].as_u64();
        if seen.is_none_or(|seen| seen > generation) {
            set_or_remove(condition, "observedGeneration", Value::Null);
        }
        if let Some(before) = old.get(name)
            && before["status"] == condition["status"]
            && !before["lastTransitionTime"].is_null()
        {
            condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
        }
    }
    Value::Array(merged.into_values().collect())
}

fn closed_gate(home: &Value, conditions: &BTreeMap<String, Value>) -> Option<String> {
    gates(home).find(|name| !is_open(conditions, name)).map(str::to_owned)
}

/// Whether a home pod runs, and nobody has said of it yet that its provider is not reached.
pub fn is_reached(home: &Value) -> bool {
    let ready = by_type(&home["status"]["conditions"]).remove("Ready");
    home["status"]["phase"] == "Running"
        && ready.is_some_and(|ready| ready["reason"] != UNREACHABLE)
}

/// The readiness gates of a home pod whose conditions are true.
pub fn open_gates(home: &Value) -> Vec<String> {
    let conditions = by_type(&home["status"]["conditions"]);
    gates(home).filter(|name| is_open(&conditions, name)).map(str::to_owned).collect()
}

fn gates(home: &Value) -> impl Iterator<Item = &str> {
    let gates = home["spec"]["readinessGates"].as_array().into_iter().flatten();
    gates.filter_map(|gate| gate["conditionType"].as_str())
}

fn is_open(conditions: &BTreeMap<String, Value>, gate: &str) -> bool {
    conditions.get(gate).is_some_and(|own| own["status"] == "True")
}

fn by_type(conditions: &Value) -> BTreeMap<String, Value> {
    let list = conditions.as_array().into_iter().flatten();
    list.filter_map(|one| Some((one["type"].as_str()?.to_owned(), one.clone()))).collect()
}

/// Of a container's resources those that home asks for: the provider's LimitRange has
/// filled in the others, which are its own affair.
fn keep_asked(statuses: &mut Value, containers: &Value) {
    for status in statuses.as_array_mut().into_iter().flatten() {
        let same = |container: &&Value| container["name"] == status["name"];
        let container = containers.as_array().into_iter().flatten().find(same);
        let Some(asked) = container.map(|container| &container["resources"]) else { continue };
        keep_named(status, "allocatedResources", &asked["requests"]);
        if let Some(resources) = status.get_mut("resources") {
            keep_named(resources, "requests", &asked["requests"]);
            keep_named(resources, "limits", &asked["limits"]);
        }
    }
}

fn keep_named(of: &mut Value, field: &str, named: &Value) {
    let Some(amounts) = of.get_mut(field).and_then(Value::as_object_mut) else { return };
    amounts.retain(|name, _| named.get(name).is_some());
    if amounts.is_empty() {
        set_or_remove(of, field, Value::Null);
    }
}

fn keep_counts(statuses: &mut Value, old: &Value) {
    let count = |status: &Value| status["restartCount"].as_i64().unwrap_or(0);
    let Some(list) = statuses.as_array_mut() else { return };
    for status in list.iter_mut().filter_map(Value::as_object_mut) {
        let same = |before: &&Value| status.get("name") == before.get("name");
        let before = old.as_array().into_iter().flatten().find(same).map_or(0, count);
        let now = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
        status.insert("restartCount".to_owned(), json!(now.max(before)));
    }
}
