//! The home pod's status, from the guest's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use super::resize::{self, PENDING};
use super::schema_status::POD_STATUS;
use crate::address::Reach;
use crate::limits;
use crate::message::{Outcome, Refusal};
use crate::placement::counted;

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
            keep_asked(statuses, &home["spec"][containers], &old[list]);
        }
    }
    keep_amounts(&mut status, &home["spec"]["resources"], old);
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

/// Of containers those that home's pod has, with what home asks for: the provider's LimitRange has
/// filled in other resources, and its webhooks other containers, which are its own affair.
fn keep_asked(statuses: &mut Value, containers: &Value, old: &Value) {
    let Some(list) = statuses.as_array_mut() else { return };
    let named = |list: &Value, name: &Value| {
        let mut all = list.as_array().into_iter().flatten();
        all.find(|one| one["name"] == *name).cloned()
    };
    list.retain_mut(|status| {
        let Some(container) = named(containers, &status["name"]) else { return false };
        let before = named(old, &status["name"]).unwrap_or_default();
        keep_amounts(status, &container["resources"], &before);
        true
    });
}

/// Of the amounts in the status of a pod or of a container those that home may believe: of resources
/// that it asks for, and no more than it asks for now, or was said to have before while it was asked
/// for. A quota of home's adds up what pods are said to have, and so does its scheduler.
fn keep_amounts(status: &mut Value, asked: &Value, before: &Value) {
    keep_believed(status, "allocatedResources", &asked["requests"], &before["allocatedResources"]);
    if let Some(resources) = status.get_mut("resources").filter(|it| it.is_object()) {
        for sort in ["requests", "limits"] {
            keep_believed(resources, sort, &asked[sort], &before["resources"][sort]);
        }
    }
}

fn keep_believed(of: &mut Value, field: &str, asked: &Value, before: &Value) {
    let Some(said) = of.get_mut(field) else { return };
    if let Some(said) = said.as_object_mut() {
        said.retain(|name, amount| {
            let of = |list: &Value| list.get(name).and_then(|it| counted(name, it));
            let most = of(asked).map(|asked| asked.max(of(before).unwrap_or(0)));
            most.zip(counted(name, amount)).is_some_and(|(most, said)| said <= most)
        });
    }
    if said.as_object().is_none_or(serde_json::Map::is_empty) {
        set_or_remove(of, field, Value::Null);
    }
}

/// A job of home's adds up how often its containers were started, in 32 bits.
fn keep_counts(statuses: &mut Value, old: &Value) {
    let count = |status: &Value| status["restartCount"].as_i64().unwrap_or(0);
    let Some(list) = statuses.as_array_mut() else { return };
    for status in list.iter_mut().filter_map(Value::as_object_mut) {
        let same = |before: &&Value| status.get("name") == before.get("name");
        let before = old.as_array().into_iter().flatten().find(same).map_or(0, count);
        let now = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
        let now = now.min(limits::RESTARTS).max(before);
        status.insert("restartCount".to_owned(), json!(now));
    }
}
