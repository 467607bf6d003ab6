//! A resize of a pod that runs which the provider refuses: its words to home, and what home's pod
//! says of it, as a kubelet would. Home's scheduler counts what the pod has, where that is said, and
//! otherwise what it asks for, which may be more than the whole node has.

use serde_json::{Value, json};

use super::Refusal;
use crate::placement::amounts;

/// The field that asks for more.
pub const RESOURCES: &str = "spec.containers.resources";

/// The condition that says so.
pub(super) const PENDING: &str = "PodResizePending";

/// There is never room for so much.
const INFEASIBLE: &str = "Infeasible";

/// There is none as long as others do not leave.
const DEFERRED: &str = "Deferred";

/// The refusal of a resize for want of room. Its first word says to home whether that may pass.
pub(crate) fn out_of_room(message: &str, may_pass: bool) -> Refusal {
    let word = if may_pass { DEFERRED } else { INFEASIBLE };
    Refusal { path: RESOURCES.to_owned(), reason: format!("{word}: {message}") }
}

/// Whether it is a resize that is refused, and not another change.
pub(crate) fn is_of_resize(refusal: &Refusal) -> bool {
    refusal.path == RESOURCES
}

/// Whether it is one that others may make room for.
pub(crate) fn is_deferred(refusal: &Refusal) -> bool {
    is_of_resize(refusal) && words(refusal).0 == DEFERRED
}

/// The reason and the message of the condition. Earlier releases do not say which it is: what is
/// infeasible takes nothing of the node, and goes through all the same once there is room.
fn words(refusal: &Refusal) -> (&'static str, &str) {
    match refusal.reason.split_once(": ") {
        Some((DEFERRED, message)) => (DEFERRED, message),
        Some((INFEASIBLE, message)) => (INFEASIBLE, message),
        Some(_) | None => (INFEASIBLE, &refusal.reason),
    }
}

/// The condition of home's own that a resize is refused since `at`, beside the guest's `status` as home shows it.
/// It is said of a generation of home's, and goes once the provider has taken that or a later one in.
/// What stands at home stays until then, also where nobody remembers the refusal any more.
pub(super) fn pending(
    status: &Value,
    guest: &Value,
    home: &Value,
    refusal: Option<&Refusal>,
    at: &str,
) -> Option<Value> {
    let mut before = home["status"]["conditions"].as_array().into_iter().flatten();
    let before = before.rfind(|one| one["type"] == PENDING);
    if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return None;
    }
    if !guest.is_object() {
        return before.cloned();
    }
    let (taken, now) = (guest["observedGeneration"].as_u64(), &home["metadata"]["generation"]);
    let is_taken = |generation: &Value| generation.as_u64() <= taken;
    if !is_resized(status, home) || taken.is_some() && is_taken(now) {
        return None;
    }
    if let Some(refusal) = refusal {
        let (reason, message) = words(refusal);
        return Some(json!({ "type": PENDING, "status": "True", "observedGeneration": now,
            "reason": reason, "message": message, "lastTransitionTime": at }));
    }
    // The guest's own is of a generation that was taken in.
    before.filter(|one| taken.is_some() && !is_taken(&one["observedGeneration"])).cloned()
}

/// Whether a container has another size than home asks for, as far as it is known.
fn is_resized(status: &Value, home: &Value) -> bool {
    let lists = [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")];
    lists.into_iter().any(|(list, statuses)| {
        let mut has = status[statuses].as_array().into_iter().flatten();
        has.any(|has| {
            let asked = home["spec"][list].as_array().into_iter().flatten();
            let mut asked = asked.filter(|asked| asked["name"] == has["name"]);
            asked.next().is_some_and(|asked| differs(&asked["resources"], &has["resources"]))
        })
    })
}

fn differs(asked: &Value, has: &Value) -> bool {
    let other = |sort: &str| {
        let (asked, has) = (amounts(&asked[sort]), amounts(&has[sort]));
        asked.iter().any(|(resource, amount)| has.get(resource) != Some(amount))
    };
    has.is_object() && (other("requests") || other("limits"))
}
