//! What was stored, compared with what was forged: an API server that does not know a field drops it
//! without a word, and a webhook may take out what it likes. Each field that bounds a guest or isolates
//! it is a row here. What was added over there, or made stricter, is no loss: defaults, labels, larger
//! requests, smaller limits. The gate has a look of its own: [`super::gate`].

use serde_json::Value;

use super::rule::refusal;
use super::{GuestContext, gate};
use crate::message::Refusal;
use crate::placement::{amounts, counted};

/// A field: where it is, and whether what stands there, the second, has lost something of the first.
type Row = (&'static str, fn(&Value, &Value) -> bool);

/// Of a pod as a whole.
const POD: [Row; 13] = [
    ("/automountServiceAccountToken", not_false),
    ("/hostUsers", not_false),
    ("/hostNetwork", opened),
    ("/hostPID", opened),
    ("/hostIPC", opened),
    ("/shareProcessNamespace", opened),
    ("/runtimeClassName", another),
    ("/priorityClassName", another),
    ("/nodeSelector", fewer_entries),
    ("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution", more_nodes),
    ("/activeDeadlineSeconds", longer),
    ("/terminationGracePeriodSeconds", longer),
    ("/securityContext/supplementalGroupsPolicy", not_strict),
];

/// Of each container. Quantities are looked at one by one: see [`quantity`].
const CONTAINER: [Row; 6] = [
    ("/securityContext/allowPrivilegeEscalation", not_false),
    ("/securityContext/readOnlyRootFilesystem", not_true),
    ("/securityContext/privileged", opened),
    ("/securityContext/procMount", unmasked),
    ("/securityContext/capabilities/drop", fewer_dropped),
    ("/securityContext/capabilities/add", more_added),
];

/// What a container says, or else its pod for all of them.
const EITHER: [Row; 6] = [
    ("/securityContext/runAsNonRoot", not_true),
    ("/securityContext/runAsUser", another_user),
    ("/securityContext/runAsGroup", another_user),
    ("/securityContext/seccompProfile", unconfined),
    ("/securityContext/appArmorProfile", unconfined_by_name),
    ("/securityContext/seLinuxOptions", fewer_entries),
];

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The first field of a forged pod that bounds or isolates it, and that `stored`, the pod which the API
/// server gave back, does not have so.
pub fn lost(forged: &Value, stored: &Value) -> Option<Refusal> {
    let (was, is) = (&forged["spec"], &stored["spec"]);
    let of_pod = POD.iter().find_map(|row| row_lost(row, was, is, "spec"));
    of_pod.or_else(|| quantity(was, is, "spec")).or_else(|| {
        LISTS.iter().find_map(|list| {
            let all = was[*list].as_array().into_iter().flatten().enumerate();
            let mut all = all.map(|(n, container)| (format!("spec.{list}[{n}]"), container));
            all.find_map(|(path, container)| {
                match named(&is[*list], container) {
                    Some(there) => container_lost(was, is, container, there, &path),
                    // Those of `kubectl debug` follow once the pod is there.
                    None if *list == LISTS[2] => None,
                    None => Some(refusal(&path, format!("is not there: {WHO}"))),
                }
            })
        })
    })
}

/// What a guest that runs has no bound for, whatever it was forged with: one made by an earlier release
/// was not looked at when it was made.
pub fn unbounded(ctx: &GuestContext, stored: &Value) -> Option<Refusal> {
    let spec = &stored["spec"];
    let whole = &spec["resources"]["limits"];
    let told = |path: &str| Some(refusal(path, format!("is not set: {WHO}")));
    if ctx.runtime_class.as_ref().is_some_and(|class| spec["runtimeClassName"] != **class) {
        return told("spec.runtimeClassName");
    }
    if spec["automountServiceAccountToken"] != false {
        return told("spec.automountServiceAccountToken");
    }
    let limits: Vec<_> = ctx.default_limits.keys().filter(|it| whole[*it].is_null()).collect();
    LISTS[..2].iter().find_map(|list| {
        let all = spec[*list].as_array().into_iter().flatten().enumerate();
        let mut all = all.filter(|(_, container)| container["name"] != gate::CONTAINER);
        all.find_map(|(n, container)| {
            let own = &container["resources"]["limits"];
            let without = limits.iter().find(|name| own[**name].is_null())?;
            told(&format!("spec.{list}[{n}].resources.limits[{without}]"))
        })
    })
}

fn container_lost(
    was_pod: &Value,
    is_pod: &Value,
    was: &Value,
    is: &Value,
    path: &str,
) -> Option<Refusal> {
    let own = CONTAINER.iter().find_map(|row| row_lost(row, was, is, path));
    own.or_else(|| quantity(was, is, path)).or_else(|| {
        EITHER.iter().find_map(|(at, has_lost)| {
            let said = |one: &Value, pod: &Value| {
                let own = one.pointer(at).filter(|value| !value.is_null());
                own.or_else(|| pod.pointer(at)).cloned().unwrap_or_default()
            };
            let is_own = was.pointer(at).is_some_and(|value| !value.is_null());
            let path = if is_own { path } else { "spec" };
            let (was, is) = (said(was, was_pod), said(is, is_pod));
            has_lost(&was, &is).then(|| told(path, at, &was, &is))
        })
    })
}

fn row_lost(row: &Row, was: &Value, is: &Value, path: &str) -> Option<Refusal> {
    let (at, has_lost) = row;
    let [was, is] = [was, is].map(|of| of.pointer(at).unwrap_or(&Value::Null));
    has_lost(was, is).then(|| told(path, at, was, is))
}

/// Limits that are larger or gone, and requests that are smaller.
fn quantity(was: &Value, is: &Value, path: &str) -> Option<Refusal> {
    ["limits", "requests"].into_iter().find_map(|sort| {
        let [was, is] = [was, is].map(|of| &of["resources"][sort]);
        amounts(was).into_iter().find_map(|(name, amount)| {
            let there = counted(&name, &is[&name]);
            let is_lost = match sort {
                "limits" => there.is_none_or(|there| there > amount),
                _ => there.unwrap_or(0) < amount,
            };
            let at = format!("/resources/{sort}[{name}]");
            is_lost.then(|| told(path, &at, &was[&name], &is[&name]))
        })
    })
}

fn told(path: &str, at: &str, was: &Value, is: &Value) -> Refusal {
    let is = if is.is_null() { "not set".to_owned() } else { is.to_string() };
    refusal(&format!("{path}{}", at.replace('/', ".")), format!("was {was} and is {is}: {WHO}"))
}

fn named<'a>(list: &'a Value, like: &Value) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == like["name"])
}

fn not_false(was: &Value, is: &Value) -> bool {
    *was == false && *is != false
}

fn not_true(was: &Value, is: &Value) -> bool {
    *was == true && *is != true
}

fn opened(was: &Value, is: &Value) -> bool {
    *was != true && *is == true
}

fn another(was: &Value, is: &Value) -> bool {
    !was.is_null() && was != is
}

/// Whoever was to be root may be somebody else.
fn another_user(was: &Value, is: &Value) -> bool {
    another(was, is) && (*was != 0 || is.is_null())
}

fn longer(was: &Value, is: &Value) -> bool {
    let at_most = was.as_u64();
    at_most.is_some_and(|most| is.as_u64().is_none_or(|is| is > most))
}

fn fewer_entries(was: &Value, is: &Value) -> bool {
    was.as_object().is_some_and(|was| was.iter().any(|(key, value)| another(value, &is[key])))
}

fn not_strict(was: &Value, is: &Value) -> bool {
    *was == "Strict" && was != is
}

fn unmasked(was: &Value, is: &Value) -> bool {
    *was != "Unmasked" && *is == "Unmasked"
}

fn fewer_dropped(was: &Value, is: &Value) -> bool {
    let dropped: Vec<_> = each(is).collect();
    let all = dropped.iter().any(|name| **name == "ALL");
    !all && each(was).any(|name| !dropped.contains(&name))
}

fn more_added(was: &Value, is: &Value) -> bool {
    let added: Vec<_> = each(was).collect();
    let all = added.iter().any(|name| **name == "ALL");
    !all && each(is).any(|name| !added.contains(&name))
}

/// A profile of the node's owner, by its name, is one.
fn unconfined(was: &Value, is: &Value) -> bool {
    let confines = |profile: &Value| !profile["type"].is_null() && profile["type"] != "Unconfined";
    confines(was) && !confines(is)
}

/// Where none is named, a runtime has its own.
fn unconfined_by_name(was: &Value, is: &Value) -> bool {
    was["type"] != "Unconfined" && is["type"] == "Unconfined"
}

/// Terms are alternatives: each of those that stand there keeps to one of those that were forged.
fn more_nodes(was: &Value, is: &Value) -> bool {
    let [was, is] = [was, is].map(|affinity| &affinity["nodeSelectorTerms"]);
    let keeps = |term: &Value, to: &Value| {
        ["matchExpressions", "matchFields"].iter().all(|sort| {
            each(&to[*sort]).all(|asked| each(&term[*sort]).any(|there| is_same(asked, there)))
        })
    };
    let kept = |term: &Value| each(was).any(|to| keeps(term, to));
    each(was).next().is_some() && (each(is).next().is_none() || !each(is).all(kept))
}

fn is_same(one: &Value, other: &Value) -> bool {
    let values = |of: &Value| each(&of["values"]).cloned().collect::<Vec<_>>();
    one["key"] == other["key"]
        && one["operator"] == other["operator"]
        && values(one) == values(other)
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

const WHO: &str = "the provider's API server does not know the field, or a webhook there has changed \
                   it; leave it out, or ask the provider";
