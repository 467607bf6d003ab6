//! What runs on nodes that leave.

use serde_json::{Value, json};

/// Ends at once when it is asked to.
pub(crate) const ENDS: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";
/// The same with an exit code of its own.
pub(crate) const FAILS: &str = "trap 'exit 7' TERM; while :; do sleep 0.2; done";
/// Is not to be asked.
pub(crate) const STAYS: &str = "trap '' TERM; while :; do sleep 0.2; done";

/// A container that runs a script, in a pod that has so many seconds to end.
pub(crate) fn spec(script: &str, grace_s: u32) -> Value {
    json!({ "terminationGracePeriodSeconds": grace_s, "containers": [{
        "name": "app", "image": "mercato.test/busybox:1", "command": ["sh", "-c", script],
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } } }] })
}

/// The same, which may run on a virtual node alone: home has no room for it.
pub(crate) fn away(mut spec: Value) -> Value {
    spec["nodeSelector"] = json!({ "type": "virtual-kubelet" });
    spec
}

pub(crate) fn pod(namespace: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": { "name": name, "namespace": namespace } })
}

pub(crate) fn deployment(namespace: &str, name: &str, replicas: u32, spec: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec } } })
}

/// So many of a Deployment's pods are to be there.
pub(crate) fn budget(namespace: &str, name: &str, least: u32) -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": name } } } })
}

/// A Job that fails with its first pod, unless that was disrupted.
pub(crate) fn job(namespace: &str, name: &str, mut spec: Value) -> Value {
    spec["restartPolicy"] = json!("Never");
    let ignore = json!({ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] });
    json!({ "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "backoffLimit": 0, "podFailurePolicy": { "rules": [ignore] },
            "template": { "spec": spec } } })
}

/// Many objects as one manifest.
pub(crate) fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}
