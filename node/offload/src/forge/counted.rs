//! Whether somebody may count how a pod has ended.

use serde_json::Value;

use super::FINALIZER;
use crate::key::Item;

/// Whether how the pod ends has to be at its API server before it is removed: a Job counts the pods that
/// have failed, and whoever has made a pod by hand asks for its exit code. Nobody counts one that always
/// restarts its containers and has a controller, which makes another in its place: its end says
/// nothing. One with a finalizer is somebody's who waits for its end.
///
/// `pod` is a pod of an API server's, or the body that home sends of one.
pub fn is_counted(pod: &Value) -> bool {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let is_controlled =
        list(&metadata["ownerReferences"]).iter().any(|it| it["controller"] == true);
    let is_held = !list(&metadata["finalizers"]).is_empty();
    let restarts = |policy: &Value| policy.is_null() || policy == "Always";
    // A policy of its own that restarts a container for ever is that of a sidecar.
    let ends = |container: &Value| {
        !restarts(&container["restartPolicy"]) || !list(&container["restartPolicyRules"]).is_empty()
    };
    let mut containers =
        ["containers", "initContainers"].into_iter().flat_map(|of| list(&spec[of]));
    !is_controlled || is_held || !restarts(&spec["restartPolicy"]) || containers.any(|it| ends(&it))
}

/// Whether nothing of ours keeps what was forged: a pod whose end nobody counts.
pub fn is_unkept(item: &Item, forged: &Value) -> bool {
    let finalizers = forged["metadata"]["finalizers"].as_array();
    let is_kept = finalizers.is_some_and(|all| all.iter().any(|name| name == FINALIZER));
    matches!(item, Item::Pod(_)) && !is_kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_is_made_again_by_a_controller_and_never_ends_by_itself_is_not_counted() {
        let deployed = json!({
            "metadata": { "ownerReferences": [{ "kind": "ReplicaSet", "controller": true }] },
            "spec": {
                "restartPolicy": "Always",
                "containers": [{ "name": "web" }],
                "initContainers": [{ "name": "first" }, { "name": "proxy", "restartPolicy": "Always" }],
            },
        });
        assert!(!is_counted(&deployed));
        let with = |pointer: &str, value: Value| {
            let mut pod = deployed.clone();
            *pod.pointer_mut(pointer).unwrap() = value;
            pod
        };
        assert!(!is_counted(&with("/spec/restartPolicy", Value::Null)), "it is the default");
        let owner = json!([{ "kind": "ReplicaSet" }]);
        let rules = json!([{ "action": "Restart" }]);
        for (pointer, value) in [
            ("/spec/restartPolicy", json!("Never")),
            ("/spec/restartPolicy", json!("OnFailure")),
            ("/spec/restartPolicy", json!("of a later release")),
            ("/metadata", json!({})),
            ("/metadata/ownerReferences", owner),
            ("/spec/containers/0", json!({ "restartPolicy": "Never" })),
            ("/spec/containers/0", json!({ "restartPolicyRules": rules })),
            ("/spec/initContainers/0", json!({ "restartPolicy": "OnFailure" })),
        ] {
            assert!(is_counted(&with(pointer, value.clone())), "{pointer} {value}");
        }
        let mut held = deployed.clone();
        held["metadata"]["finalizers"] = json!(["example.com/counts"]);
        assert!(is_counted(&held));
        assert!(is_counted(&json!({})), "a pod that nobody controls");
    }
}
