//! What the webhook changes of a pod: pure, as a JSON patch.

use serde_json::{Value, json};

use super::Strategy;
use crate::names::PROVIDER;

/// The operations of a JSON patch (RFC 6902) on a pod that is being made; none
/// for one whose node is decided, by a DaemonSet or by name.
pub(super) fn patch(strategy: Strategy, pod: &Value) -> Vec<Value> {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let placed = owners.is_some_and(|owners| owners.iter().any(|o| o["kind"] == "DaemonSet"));
    if placed || !pod["spec"]["nodeName"].is_null() {
        return Vec::new();
    }
    match strategy {
        Strategy::Both => tolerate(pod).into_iter().collect(),
        Strategy::Remote => tolerate(pod).into_iter().chain(require(pod, "Exists")).collect(),
        Strategy::Local => require(pod, "DoesNotExist").into_iter().collect(),
    }
}

fn tolerate(pod: &Value) -> Option<Value> {
    let toleration = json!({ "key": PROVIDER, "operator": "Exists", "effect": "NoSchedule" });
    let present = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    if present.contains(&toleration) {
        return None;
    }
    let tolerations = [present, vec![toleration]].concat();
    Some(json!({ "op": "add", "path": "/spec/tolerations", "value": tolerations }))
}

/// Terms are alternatives, so the requirement goes into each; a term without
/// any expression matches nothing and is left so.
fn require(pod: &Value, operator: &str) -> Option<Value> {
    const TERMS: &str =
        "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let requirement = json!({ "key": PROVIDER, "operator": operator });
    let mut affinity = pod["spec"]["affinity"].clone();
    let terms = affinity.pointer(TERMS).and_then(Value::as_array).cloned().unwrap_or_default();
    let terms: Vec<Value> = if terms.is_empty() {
        vec![json!({ "matchExpressions": [requirement] })]
    } else {
        terms.into_iter().map(|term| with(term, &requirement)).collect()
    };
    let required = json!({ "nodeSelectorTerms": terms });
    if affinity.is_null() {
        affinity = json!({});
    }
    if affinity["nodeAffinity"].is_null() {
        affinity["nodeAffinity"] = json!({});
    }
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    let same = affinity == pod["spec"]["affinity"];
    (!same).then(|| json!({ "op": "add", "path": "/spec/affinity", "value": affinity }))
}

fn with(mut term: Value, requirement: &Value) -> Value {
    let expressions = term["matchExpressions"].as_array().cloned().unwrap_or_default();
    let fields = term["matchFields"].as_array().is_some_and(|fields| !fields.is_empty());
    if (expressions.is_empty() && !fields) || expressions.contains(requirement) {
        return term;
    }
    term["matchExpressions"] = [expressions, vec![requirement.clone()]].concat().into();
    term
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(strategy: Strategy, pod: &Value) -> Value {
        let mut pod = pod.clone();
        for operation in patch(strategy, &pod.clone()) {
            let field = operation["path"].as_str().unwrap().strip_prefix("/spec/").unwrap();
            pod["spec"][field] = operation["value"].clone();
        }
        pod
    }

    const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

    #[test]
    fn both_may_leave_and_may_stay() {
        let others = json!({ "key": "gpu", "operator": "Exists" });
        let pod = applied(Strategy::Both, &json!({ "spec": { "tolerations": [others] } }));
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
        assert!(pod["spec"]["affinity"].is_null());
    }

    #[test]
    fn remote_must_leave_by_every_alternative() {
        let zone = |z: &str| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [z] }] });
        let mut pod = json!({ "spec": { "affinity": { "podAffinity": { "kept": true } } } });
        pod["spec"]["affinity"]["nodeAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [zone("a"), {}, zone("b")] } });
        let pod = applied(Strategy::Remote, &pod);
        let terms = pod.pointer(REQUIRED).unwrap();
        assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 2);
        assert_eq!(terms[1], json!({}), "a term that matches nothing must not begin to match");
        assert_eq!(terms[2]["matchExpressions"][1]["operator"], "Exists");
        assert_eq!(pod["spec"]["affinity"]["podAffinity"]["kept"], true);
    }

    #[test]
    fn a_bare_pod() {
        let pod = applied(Strategy::Remote, &json!({ "spec": {} }));
        assert_eq!(pod.pointer(REQUIRED).unwrap()[0]["matchExpressions"][0]["operator"], "Exists");
        let pod = applied(Strategy::Local, &json!({ "spec": {} }));
        assert_eq!(
            pod.pointer(REQUIRED).unwrap()[0]["matchExpressions"][0]["operator"],
            "DoesNotExist"
        );
        assert!(pod["spec"]["tolerations"].is_null());
    }

    #[test]
    fn a_second_review_changes_nothing() {
        for strategy in [Strategy::Both, Strategy::Remote, Strategy::Local] {
            let once = applied(strategy, &json!({ "spec": {} }));
            assert!(patch(strategy, &once).is_empty(), "{strategy:?}");
        }
    }

    #[test]
    fn what_is_placed_stays() {
        let daemon =
            json!({ "metadata": { "ownerReferences": [{ "kind": "DaemonSet" }] }, "spec": {} });
        assert!(patch(Strategy::Remote, &daemon).is_empty());
        assert!(patch(Strategy::Remote, &json!({ "spec": { "nodeName": "n" } })).is_empty());
    }
}
