//! Guest objects and answers of the provider's API server, read.

use mercato_protocol::id::ClusterId;
use serde_json::Value;

use super::labels::*;
use super::metadata::kind_name;
use super::rule::refusal;
use super::{GuestContext, Passage, digest, gate, guest_status, passage};
use crate::guest::{Failure, Observed, ObservedPod};
use crate::key::{Item, ObjectKind, PodId, Uid, key};
use crate::message::{Outcome, Route};

/// A guest object as the session sees it; none if it does not carry the marks of the context's
/// contract, so that it is not ours. The status of a pod is [`guest_status`]'s.
pub fn observe(ctx: &GuestContext, guest: &Value) -> Option<Observed> {
    let metadata = &guest["metadata"];
    if metadata["labels"][CONTRACT].as_str()? != ctx.contract.to_string() {
        return None;
    }
    let mark = |name: &str| metadata["annotations"][name].as_str();
    let (namespace, name) = (mark(HOME_NAMESPACE)?, mark(HOME_NAME)?);
    let kinds = [
        ObjectKind::ConfigMap,
        ObjectKind::Secret,
        ObjectKind::ServiceAccountToken,
        ObjectKind::Service,
        ObjectKind::EndpointSlice,
    ];
    let kind = mark(HOME_KIND)?;
    let digest = mark(DIGEST)?.parse().ok()?;
    if kind == kind_name(ObjectKind::Pod) {
        let uid = Uid(metadata["labels"][HOME_UID].as_str()?.to_owned());
        let id = PodId { uid, namespace: namespace.to_owned(), name: name.to_owned() };
        return Some(Observed { item: Item::Pod(id), digest, pod: Some(observe_pod(ctx, guest)) });
    }
    let kind = kinds.into_iter().find(|known| kind_name(*known) == kind)?;
    Some(Observed { item: Item::Object(key(kind, namespace, name)), digest, pod: None })
}

/// How a pod came here, if it is a guest: by its marks. What cannot be read may go no further.
pub fn came(pod: &Value) -> Option<Route> {
    let metadata = &pod["metadata"];
    metadata["labels"].get(CONTRACT)?;
    let mark = |name: &str| metadata["annotations"][name].as_str();
    let route = || {
        let path: Result<Vec<_>, _> = mark(PATH)?.split(',').map(str::parse).collect();
        let hops = mark(HOPS_LEFT)?.parse().ok()?;
        Some(Route { origin: mark(ORIGIN)?.parse().ok()?, path: path.ok()?, hops })
    };
    Some(route().unwrap_or(Route { origin: ClusterId([0; 32]), path: Vec::new(), hops: 0 }))
}

fn observe_pod(ctx: &GuestContext, guest: &Value) -> ObservedPod {
    let (metadata, status) = (&guest["metadata"], &guest["status"]);
    let terminal = match status["phase"].as_str() {
        Some("Succeeded") => Some(Outcome::Succeeded),
        Some("Failed") => Some(Outcome::Failed {
            reason: status["reason"].as_str().unwrap_or_default().to_owned(),
            message: status["message"].as_str().unwrap_or_default().to_owned(),
        }),
        _ => None,
    };
    let deleting = !metadata["deletionTimestamp"].is_null();
    // Once it is off there is nothing left to do but wait for the kubelet.
    let finalizers = metadata["finalizers"].as_array();
    let held = finalizers.is_some_and(|names| names.iter().any(|name| name == FINALIZER));
    let grace_over = metadata["deletionGracePeriodSeconds"].as_i64() == Some(0);
    ObservedPod {
        status: digest(&guest_status(guest)),
        ended: deleting && held && (terminal.is_some() || grace_over),
        terminal,
        deleting,
        unschedulable: unschedulable(status),
        ungated: ctx.gate.as_ref().and_then(|_| gate::misplaced(guest)),
        held: passage(guest) == Passage::Held,
        address: status["podIP"].as_str().and_then(|text| text.parse().ok()),
    }
}

/// As a kubelet would put it: `OutOf` and the resource that there is not enough of.
fn unschedulable(status: &Value) -> Option<Outcome> {
    let is_it = |condition: &&Value| {
        condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] == "Unschedulable"
    };
    let condition = status["conditions"].as_array()?.iter().find(is_it)?;
    let message = condition["message"].as_str().unwrap_or_default().to_owned();
    let resource = message.split_once("Insufficient ").map(|(_, rest)| rest);
    let resource = resource.and_then(|rest| rest.split([',', ' ']).next()).unwrap_or("Resources");
    Some(Outcome::Failed { reason: format!("OutOf{}", resource.trim_end_matches('.')), message })
}

/// What a failed write means, from the `Status` that the API server answered with; null
/// if it did not answer.
pub fn classify(status: &Value) -> Failure {
    let message = status["message"].as_str().unwrap_or_default();
    let code = status["code"].as_u64().unwrap_or(0);
    let fresh = message.contains("status unknown for quota")
        || message.contains("error looking up service account")
        || message.contains("no API token found for service account")
        || message.contains("because it is being terminated");
    // What etcd does not take, and what its client does not send it: the answer's code is 500.
    let is_large = message.contains("request is too large")
        || message.contains("trying to send message larger than max");
    match code {
        _ if fresh => Failure::Transient,
        _ if is_large => Failure::Refused(refusal("", message)),
        403 if message.contains("exceeded quota") => {
            let resource = message.split_once("requested: ").map(|(_, rest)| rest);
            let resource = resource.and_then(|rest| rest.split(['=', ',']).next());
            let resource = resource.unwrap_or("Resources").trim_start_matches("requests.");
            let reason = format!("OutOf{}", resource.trim_start_matches("limits."));
            Failure::Full(Outcome::Failed { reason, message: message.to_owned() })
        }
        400 | 403 | 413 | 422 => Failure::Refused(refusal("", message)),
        _ => Failure::Transient,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_etcd_does_not_take_is_refused_and_not_tried_without_end() {
        for message in [
            "etcdserver: request is too large",
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max \
             (2169342 vs. 2097152)",
        ] {
            let failure = classify(&json!({ "code": 500, "message": message }));
            assert!(matches!(failure, Failure::Refused(_)), "{failure:?}");
        }
    }
}
