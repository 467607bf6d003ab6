//! Guest objects and answers of the provider's API server, read.

use mercato_protocol::gate::GuestUid;
use serde_json::Value;

use super::labels::*;
use super::marks::{KnownGuests, Marks, known_as, uid};
use super::rule::refusal;
use super::{GuestContext, Passage, digest, gate, guest_status, passage};
use crate::guest::{Failure, Observed, ObservedPod};
use crate::key::Item;
use crate::message::Outcome;

/// A guest object as the session sees it; none if it is not ours, by its marks and by the uids that
/// are known ([`Marks::of`]). The status of a pod is [`guest_status`]'s.
pub fn observe(ctx: &GuestContext, known: &KnownGuests, guest: &Value) -> Option<Observed> {
    let Marks { item, digest, whole } = Marks::of(ctx, known, guest)?;
    let pod = match &item {
        Item::Pod(pod) => {
            let mut seen = observe_pod(guest, uid(guest)?, whole);
            let known_by = known.guest(pod).and_then(|known| known.called);
            seen.called = known_by.or_else(|| known_as(guest));
            if ctx.gate.is_some() {
                // What it was made with does not change with its mark.
                let made = known.guest(pod).and_then(|known| known.gate.as_deref());
                let made = made.or(guest["metadata"]["annotations"][GATE].as_str());
                seen.unlike = gate::misplaced(guest, made);
            }
            let lost = || known.guest(pod).filter(|it| it.uid == seen.uid)?.lost.clone();
            seen.unlike = seen.unlike.or_else(lost);
            let node = guest["spec"]["nodeName"].as_str();
            seen.left_out = node.is_some_and(|node| ctx.leaves_out(node));
            Some(seen)
        }
        Item::Object(_) => None,
    };
    Some(Observed { item, digest, pod })
}

fn observe_pod(guest: &Value, uid: GuestUid, marked: bool) -> ObservedPod {
    let (metadata, status) = (&guest["metadata"], guest_status(guest));
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
    let kept = finalizers.is_some_and(|names| names.iter().any(|name| name == FINALIZER));
    let grace_over = metadata["deletionGracePeriodSeconds"].as_i64() == Some(0);
    ObservedPod {
        uid,
        marked,
        status: digest(&status),
        kept,
        ended: deleting && kept && (terminal.is_some() || grace_over),
        terminal,
        deleting,
        unschedulable: unschedulable(&status),
        unlike: None,
        left_out: false,
        held: passage(guest) == Passage::Held,
        called: None,
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
        // Said before anything is stored; others may come late, of an API server that ends.
        401 | 404 | 409 | 429 => Failure::Transient,
        _ => Failure::Unanswered,
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
