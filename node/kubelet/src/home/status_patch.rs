//! What has to be patched of a home pod's status for it to say something else: pure, and
//! nothing where it says so already, since each write costs the API server and all who
//! watch pods.

use mercato_offload::placement::export::REFUSED;
use serde_json::{Map, Value, json};

/// What can be taken back once it is not said any more; in a patch what is left out stays.
const TAKEN_BACK: [&str; 4] = ["reason", "message", "allocatedResources", "resources"];
/// And what a refusal said, once there is a guest: it may have nothing to say of containers yet.
const SAID_BY_REFUSAL: [&str; 2] = ["containerStatuses", "initContainerStatuses"];

/// The strategic merge patch that makes the status `known` say what `said` does; none if
/// it does.
pub(super) fn status_patch(said: &Value, known: &Value) -> Option<Value> {
    let fields = said.as_object().into_iter().flatten();
    let differs = |(name, value): &(&String, &Value)| !is_same(value, &known[name.as_str()]);
    let mut patch: Map<String, Value> =
        fields.filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect();
    let of_refusal = SAID_BY_REFUSAL.into_iter().filter(|_| known["reason"] == REFUSED);
    for field in TAKEN_BACK.into_iter().chain(of_refusal) {
        if said[field].is_null() && !known[field].is_null() {
            patch.insert(field.to_owned(), Value::Null);
        }
    }
    if let Some(conditions) = patch.remove("conditions") {
        let conditions = conditions_patch(&conditions, &known["conditions"]);
        if !conditions.is_empty() {
            patch.insert("conditions".to_owned(), conditions.into());
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Conditions are merged by type, and the fields of one are merged as well.
fn conditions_patch(said: &Value, known: &Value) -> Vec<Value> {
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let (said, known) = (list(said), list(known));
    let of_type = |list: &[Value], one: &Value| {
        list.iter().find(|other| other["type"] == one["type"]).cloned()
    };
    let mut patch = Vec::new();
    for mut one in said.iter().cloned() {
        let before = of_type(&known, &one).unwrap_or_default();
        if is_same(&one, &before) {
            continue;
        }
        for (name, _) in before.as_object().into_iter().flatten() {
            if let Some(fields) = one.as_object_mut().filter(|one| !one.contains_key(name)) {
                fields.insert(name.clone(), Value::Null);
            }
        }
        patch.push(one);
    }
    let gone = known.iter().filter(|one| of_type(&said, one).is_none());
    patch.extend(gone.map(|one| json!({ "$patch": "delete", "type": one["type"] })));
    patch
}

/// A field that is null is as good as none.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let within = |one: &Map<String, Value>, other: &Map<String, Value>| {
                one.iter()
                    .all(|(name, value)| is_same(value, other.get(name).unwrap_or(&Value::Null)))
            };
            within(one, other) && within(other, one)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same(a, b))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(name: &str, reason: Option<&str>) -> Value {
        json!({ "type": name, "status": "True", "reason": reason, "lastProbeTime": null })
    }

    #[test]
    fn what_is_said_already_is_not_written() {
        let known = json!({ "phase": "Running", "qosClass": "Burstable",
            "conditions": [condition("Ready", None), condition("PodScheduled", None)] });
        let said = json!({ "phase": "Running", "conditions": [
            { "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": "True" } ] });
        assert_eq!(status_patch(&said, &known), None);
    }

    #[test]
    fn only_what_differs_is_written() {
        let known = json!({ "phase": "Pending", "hostIP": "10.0.0.1",
            "conditions": [condition("Ready", Some("Wait")), condition("Initialized", None)] });
        let said = json!({ "phase": "Running", "hostIP": "10.0.0.1", "conditions": [
            { "type": "Ready", "status": "True" }, condition("Initialized", None) ] });
        let patch = json!({ "phase": "Running", "conditions": [
            { "type": "Ready", "status": "True", "reason": null, "lastProbeTime": null } ] });
        assert_eq!(status_patch(&said, &known), Some(patch));
    }

    #[test]
    fn what_is_not_said_any_more_is_taken_back() {
        let known = json!({ "message": "old", "allocatedResources": { "cpu": "1" },
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [condition("Ready", None), condition("PodResizePending", None)] });
        let said = json!({ "phase": "Running", "conditions": [condition("Ready", None)] });
        let patch = json!({ "phase": "Running", "message": null, "allocatedResources": null,
            "conditions": [{ "$patch": "delete", "type": "PodResizePending" }] });
        assert_eq!(status_patch(&said, &known), Some(patch));
    }

    #[test]
    fn containers_wait_for_a_refusal_until_there_is_a_guest() {
        let waits = json!([{ "name": "app", "state": { "waiting": { "reason": REFUSED } } }]);
        let said = json!({ "phase": "Pending" });
        let known = |reason: &str| json!({ "phase": "Pending", "reason": reason, "containerStatuses": waits });
        let patch = json!({ "reason": null, "containerStatuses": null });
        assert_eq!(status_patch(&said, &known(REFUSED)), Some(patch));
        let patch = json!({ "reason": null });
        assert_eq!(
            status_patch(&said, &known("Evicted")),
            Some(patch),
            "what the guest has said stays"
        );
    }
}
