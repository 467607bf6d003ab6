//! What the webhook changes of a pod that is being made, as a JSON patch.

use serde_json::{Value, json};

use super::pod::kept_secret;
use super::{OptIn, Secrets, Strategy, Targets};
use crate::forge::labels::{PLACED, PROVIDER};
use crate::forge::{needs, refused_by_all};

/// The operations of a JSON patch (RFC 6902) on a pod that is being made; none
/// for one whose node is decided, by a DaemonSet or by name. `secrets`: those of its namespace that may
/// leave.
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
    let toleration = json!({ "key": PROVIDER, "operator": "Exists", "effect": "NoSchedule" });
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
mod tests {
    use super::*;

    fn applied(strategy: Strategy, pod: &Value) -> Value {
        to(&Targets::All, strategy, pod)
    }

    fn to(targets: &Targets, strategy: Strategy, pod: &Value) -> Value {
        let how = OptIn { strategy, targets: targets.clone(), ..OptIn::default() };
        admitted(&how, pod.clone())
    }

    const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

    #[test]
    fn a_pod_that_waits_for_nodes_of_before_is_outdated() {
        let these = |name: &str| Targets::new(vec![name.to_owned()]);
        let (turin, slip) = (these("mercato-turin"), these("mercato-turino"));
        let pod = to(&slip, Strategy::Remote, &json!({ "spec": {} }));
        assert!(is_outdated(Strategy::Remote, &turin, &pod));
        assert!(is_outdated(Strategy::Both, &turin, &pod));
        assert!(is_outdated(Strategy::Local, &Targets::All, &pod));
        assert!(!is_outdated(Strategy::Remote, &slip, &pod));
        let bound = json!({ "spec": { "nodeName": "mercato-turino", "affinity": pod["spec"]["affinity"] } });
        assert!(!is_outdated(Strategy::Remote, &turin, &bound));
        // Whatever is named then, or nobody any more.
        let (all, by_id) = (&Targets::All, these(&"4f".repeat(32)));
        for strategy in [Strategy::Remote, Strategy::Both] {
            assert!(is_outdated(strategy, all, &pod), "{strategy:?}");
            let named = to(&by_id, Strategy::Remote, &json!({ "spec": {} }));
            assert!(is_outdated(strategy, all, &named), "{strategy:?}");
            assert!(!is_outdated(strategy, all, &to(all, strategy, &json!({ "spec": {} }))));
        }
        // What its template requires is not the webhook's: made again it would be the same.
        let mut own = pod.clone();
        own["metadata"] = Value::Null;
        let own = to(all, Strategy::Both, &own);
        assert!(must_leave(&own) && !is_outdated(Strategy::Both, all, &own));
        let stays = to(&slip, Strategy::Both, &json!({ "spec": {} }));
        assert!(!is_outdated(Strategy::Remote, &turin, &stays), "it does not wait: home takes it");
    }

    #[test]
    fn a_pod_says_by_which_word_it_was_placed() {
        let turin = Targets::new(["mercato-turin".to_owned()]);
        let bare = json!({ "spec": {} });
        let placed = |strategy, targets: &Targets, pod: &Value| {
            placed_by(&to(targets, strategy, pod)).map(str::to_owned)
        };
        for (strategy, targets, word) in [
            (Strategy::Remote, &Targets::All, Some("remote")),
            (Strategy::Remote, &turin, Some("remote:mercato-turin")),
            (Strategy::Both, &turin, Some("both:mercato-turin")),
            (Strategy::Both, &Targets::All, None),
            (Strategy::Local, &Targets::All, None),
        ] {
            assert_eq!(placed(strategy, targets, &bare).as_deref(), word, "{strategy:?}");
            let copy = json!({ "metadata": { "annotations": { "a": "b", PLACED: "remote" } }, "spec": {} });
            let said = to(targets, strategy, &copy);
            assert_eq!(placed_by(&said), Some(&*super::word(strategy, targets)), "{strategy:?}");
            assert_eq!(said["metadata"]["annotations"]["a"], "b");
        }
    }

    #[test]
    fn both_may_leave_and_may_stay() {
        let others = json!({ "key": "gpu", "operator": "Exists" });
        let pod = applied(Strategy::Both, &json!({ "spec": { "tolerations": [others] } }));
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
        assert!(pod["spec"]["affinity"].is_null());
    }

    #[test]
    fn whoever_no_provider_takes_stays_where_it_may() {
        let claim = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } });
        let port = json!({ "name": "web", "ports": [{ "containerPort": 80, "hostPort": 80 }] });
        let other = Targets::new(["mercato-turin".to_owned()]);
        for spec in [json!({ "volumes": [claim] }), json!({ "containers": [port] })] {
            let pod = json!({ "metadata": { "generateName": "web-" }, "spec": spec });
            for targets in [&Targets::All, &other] {
                let stays = to(targets, Strategy::Both, &pod);
                let terms = stays.pointer(REQUIRED).unwrap();
                let at_home = json!({ "key": PROVIDER, "operator": "DoesNotExist" });
                assert_eq!(terms, &json!([{ "matchExpressions": [at_home] }]));
                assert!(stays["spec"]["tolerations"].is_null());
                assert!(
                    admission(Strategy::Both, targets, &Secrets::All, &stays).is_empty(),
                    "a second review"
                );
            }
            assert!(must_leave(&applied(Strategy::Remote, &pod)), "it is told why over there");
            let mut chosen = pod.clone();
            chosen["spec"]["nodeSelector"] = json!({ PROVIDER: "x" });
            let tolerates = applied(Strategy::Both, &chosen);
            assert_eq!(tolerates["spec"]["tolerations"].as_array().unwrap().len(), 1);
        }
        let uses = json!({ "spec": { "volumes": [
            { "name": "tls", "secret": { "secretName": "tls" } } ] } });
        let which = |secrets| OptIn { strategy: Strategy::Both, secrets, ..OptIn::default() };
        let kept = which(Secrets::Deny(["tls".to_owned()].into()));
        assert_eq!(
            admitted(&kept, uses.clone()).pointer(REQUIRED).unwrap()[0]["matchExpressions"][0]["operator"],
            "DoesNotExist"
        );
        let goes = which(Secrets::Deny(["other".to_owned()].into()));
        assert!(admitted(&goes, uses.clone()).pointer(REQUIRED).is_none());
        let told = OptIn { strategy: Strategy::Remote, ..kept };
        assert!(must_leave(&admitted(&told, uses)), "it is told why over there");
        let empty = json!({ "spec": { "volumes": [{ "name": "tmp", "emptyDir": {} }] } });
        assert!(applied(Strategy::Both, &empty).pointer(REQUIRED).is_none());
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
    fn a_pod_that_must_leave_is_known_again_and_one_that_may_stay_is_not() {
        let bare = json!({ "spec": {} });
        let turin = Targets::new(["mercato-turin".to_owned(), "4f".repeat(32)]);
        for (strategy, targets, must) in [
            (Strategy::Remote, &Targets::All, true),
            (Strategy::Remote, &turin, true),
            (Strategy::Both, &turin, false),
            (Strategy::Both, &Targets::All, false),
            (Strategy::Local, &Targets::All, false),
        ] {
            let mut pod = to(targets, strategy, &bare);
            assert_eq!(must_leave(&pod), must, "{strategy:?} {targets:?}");
            pod["spec"]["nodeName"] = "mercato-turin".into();
            assert!(!must_leave(&pod), "it is bound");
        }
        assert!(!must_leave(&bare));
        // An annotation that permits nobody leaves no alternative at all.
        let mut none = bare;
        none["spec"]["affinity"]["nodeAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } });
        assert!(!must_leave(&none));
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
        let turin = Targets::new(["mercato-turin".to_owned(), "4f".repeat(32)]);
        for strategy in [Strategy::Both, Strategy::Remote, Strategy::Local] {
            for targets in [&Targets::All, &turin] {
                let once = to(targets, strategy, &json!({ "spec": {} }));
                assert!(
                    admission(strategy, targets, &Secrets::All, &once).is_empty(),
                    "{strategy:?} {targets:?}"
                );
            }
        }
    }

    #[test]
    fn each_alternative_goes_to_one_of_the_targets() {
        let zone = |z: &str| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [z] }] });
        let mut pod = json!({ "spec": {} });
        pod["spec"]["affinity"]["nodeAffinity"] = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [zone("a"), zone("b")] } });
        let turin = Targets::new(["mercato-turin".to_owned(), "4f".repeat(32)]);
        let terms = |strategy| to(&turin, strategy, &pod).pointer(REQUIRED).unwrap().clone();
        assert_eq!(terms(Strategy::Remote).as_array().unwrap().len(), 6);
        let both = terms(Strategy::Both);
        assert_eq!(both.as_array().unwrap().len(), 8);
        let home = both[3]["matchExpressions"].as_array().unwrap();
        assert_eq!(
            (&home[0]["key"], &home[1]["operator"]),
            (&json!("zone"), &json!("DoesNotExist"))
        );
    }

    #[test]
    fn what_is_placed_stays() {
        let daemon =
            json!({ "metadata": { "ownerReferences": [{ "kind": "DaemonSet" }] }, "spec": {} });
        let all = (Targets::All, Secrets::All);
        let stays = |pod: &Value| admission(Strategy::Remote, &all.0, &all.1, pod).is_empty();
        assert!(stays(&daemon) && stays(&json!({ "spec": { "nodeName": "n" } })));
    }
}
