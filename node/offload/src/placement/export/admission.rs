//! What the webhook changes of a pod that is being made, as a JSON patch.

use serde_json::{Value, json};

use super::pod::kept_secret;
use super::toleration::toleration;
use super::{OptIn, Secrets, Strategy, Targets};
use crate::forge::labels::{PLACED, PROVIDER};
use crate::forge::{needs, refused_by_all};

/// The operations of a JSON patch (RFC 6902) on a pod that is being made; none
/// for one whose node is decided, by a DaemonSet or by name. `secrets`: those of its namespace that may
/// leave. The pod has no volumes any more that cross: see [`crate::placement::claims::without_ours`].
pub fn admission(
    strategy: Strategy,
    targets: &Targets,
    secrets: &Secrets,
    pod: &Value,
) -> Vec<Value> {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let placed = owners.is_some_and(|owners| owners.iter().any(|o| o["kind"] == "DaemonSet"));
    if placed || !pod["spec"]["nodeName"].is_null() {
        return Vec::new();
    }
    let mut operations = placement(strategy, targets, secrets, pod);
    operations.extend(mark(strategy, targets, pod));
    operations
}

/// What it changes of where the pod may run.
fn placement(strategy: Strategy, targets: &Targets, secrets: &Secrets, pod: &Value) -> Vec<Value> {
    let at_home = vec![json!({ "key": PROVIDER, "operator": "DoesNotExist" })];
    let (tolerated, required) = match (strategy, targets) {
        (Strategy::Both, _) if must_stay(secrets, pod) => (None, require(pod, &[at_home])),
        (Strategy::Both, Targets::All) => (tolerate(pod), None),
        (Strategy::Both, Targets::These { .. }) => {
            let mut all = targets.alternatives();
            all.push(at_home);
            (tolerate(pod), require(pod, &all))
        }
        // The scheduler would have a volume made for a node on which nothing can mount it.
        (Strategy::Remote, _) if has_claims(pod) => (None, require(pod, &targets.alternatives())),
        (Strategy::Remote, _) => (tolerate(pod), require(pod, &targets.alternatives())),
        (Strategy::Local, _) => (None, require(pod, &[at_home])),
    };
    tolerated.into_iter().chain(required).collect()
}

/// Whether a pod that may run anywhere could run at home alone: it has a volume of this cluster, another
/// field that no provider takes, or a secret that may not leave. One that says itself that it is to leave
/// is refused over there, with the reason.
fn must_stay(secrets: &Secrets, pod: &Value) -> bool {
    let leaves = must_leave(pod) || !pod["spec"]["nodeSelector"][PROVIDER].is_null();
    !leaves && (refused_by_all(pod).is_some() || kept_secret(secrets, &needs(pod)).is_some())
}

/// Whether it mounts claims of this cluster's classes.
fn has_claims(pod: &Value) -> bool {
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.any(|volume| {
        volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object()
    })
}

/// By which word of its namespace the webhook places a pod, as the pod says from then on: what its
/// template requires of its node is told from what the webhook did.
fn mark(strategy: Strategy, targets: &Targets, pod: &Value) -> Option<Value> {
    let requires = match (strategy, targets) {
        (Strategy::Remote, _) | (Strategy::Both, Targets::These { .. }) => true,
        (Strategy::Both, Targets::All) | (Strategy::Local, _) => false,
    };
    let word = word(strategy, targets);
    let annotations = &pod["metadata"]["annotations"];
    match annotations[PLACED].as_str() {
        Some(said) if said == word => return None,
        None if !requires => return None,
        // A copy of another pod says what is so now.
        Some(_) | None => {}
    }
    Some(if annotations.is_object() {
        let key = PLACED.replace('/', "~1");
        json!({ "op": "add", "path": format!("/metadata/annotations/{key}"), "value": word })
    } else {
        json!({ "op": "add", "path": "/metadata/annotations", "value": { PLACED: word } })
    })
}

/// The word of a namespace, as [`PLACED`] says it: `remote:mercato-turin`.
fn word(strategy: Strategy, targets: &Targets) -> String {
    let strategy = strategy.as_str();
    match targets.mark().as_str() {
        Some(to) => format!("{strategy}:{to}"),
        None => strategy.to_owned(),
    }
}

/// The pod as it is made where that is changed of it.
pub fn admitted(how: &OptIn, mut pod: Value) -> Value {
    for mut operation in admission(how.strategy, &how.targets, &how.secrets, &pod) {
        let path = operation["path"].as_str().unwrap_or_default().to_owned();
        let mut at = &mut pod;
        for step in path.split('/').skip(1) {
            at = &mut at[step.replace("~1", "/")];
        }
        *at = operation["value"].take();
    }
    pod
}

/// Whether a pod can be bound to virtual nodes alone, as [`admission`] has it where its namespace says
/// so: each alternative of what it requires of its node names a provider. What is bound already is not
/// meant.
pub fn must_leave(pod: &Value) -> bool {
    let names = |term: &Value| {
        let named = |one: &Value| {
            one["key"] == PROVIDER && (one["operator"] == "Exists" || one["operator"] == "In")
        };
        expressions(term).iter().any(named)
    };
    let required = pod["spec"]["affinity"].pointer(TERMS).and_then(Value::as_array);
    let is_bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    !is_bound && required.is_some_and(|terms| !terms.is_empty() && terms.iter().all(names))
}

/// Whether a pod waits for virtual nodes that it would not require if it were made now: its namespace said
/// something else then. Of one that an earlier release placed that is told by what it requires.
pub fn is_outdated(strategy: Strategy, targets: &Targets, pod: &Value) -> bool {
    must_leave(pod)
        && match placed_by(pod) {
            Some(then) => then != word(strategy, targets),
            None => !placement(strategy, targets, &Secrets::All, pod).is_empty(),
        }
}

/// By which word of its namespace the webhook placed a pod; none: it did not, or an earlier release's.
pub fn placed_by(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][PLACED].as_str()
}

/// What a pod requires of its node, within its affinity.
const TERMS: &str =
    "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

fn tolerate(pod: &Value) -> Option<Value> {
    let toleration = toleration();
    let present = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    if present.contains(&toleration) {
        return None;
    }
    let tolerations = [present, vec![toleration]].concat();
    Some(json!({ "op": "add", "path": "/spec/tolerations", "value": tolerations }))
}

/// Terms are alternatives, so each goes with each of ours; a term without
/// any expression matches nothing and is left so.
fn require(pod: &Value, alternatives: &[Vec<Value>]) -> Option<Value> {
    let mut affinity = pod["spec"]["affinity"].clone();
    let terms = affinity.pointer(TERMS).and_then(Value::as_array).cloned().unwrap_or_default();
    let holds = |term: &Value| {
        matches_nothing(term) || alternatives.iter().any(|all| all.iter().all(|one| has(term, one)))
    };
    if !terms.is_empty() && terms.iter().all(holds) {
        return None;
    }
    let terms: Vec<Value> = if terms.is_empty() {
        alternatives.iter().map(|all| json!({ "matchExpressions": all })).collect()
    } else {
        let each = |term: Value| match matches_nothing(&term) {
            true => vec![term],
            false => alternatives.iter().map(|all| with(term.clone(), all)).collect(),
        };
        terms.into_iter().flat_map(each).collect()
    };
    let required = json!({ "nodeSelectorTerms": terms });
    if affinity.is_null() {
        affinity = json!({});
    }
    if affinity["nodeAffinity"].is_null() {
        affinity["nodeAffinity"] = json!({});
    }
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    Some(json!({ "op": "add", "path": "/spec/affinity", "value": affinity }))
}

fn expressions(term: &Value) -> &[Value] {
    term["matchExpressions"].as_array().map_or(&[], Vec::as_slice)
}

fn has(term: &Value, requirement: &Value) -> bool {
    expressions(term).contains(requirement)
}

fn matches_nothing(term: &Value) -> bool {
    let fields = term["matchFields"].as_array().is_some_and(|fields| !fields.is_empty());
    expressions(term).is_empty() && !fields
}

fn with(mut term: Value, requirements: &[Value]) -> Value {
    let missing = requirements.iter().filter(|one| !has(&term, one)).cloned();
    term["matchExpressions"] = expressions(&term).iter().cloned().chain(missing).collect();
    term
}

#[cfg(test)]
mod tests;
