//! Guests and their objects, as the provider's API server has them.

use std::net::IpAddr;

use mercato_offload::guest::{Observed, ObservedPod};
use mercato_offload::key::{Item, ObjectKey, PodId};
use mercato_offload::message::Outcome;
use mercato_protocol::id::Digest;

pub(super) struct Pod {
    pub(super) id: PodId,
    pub(super) digest: Digest,
    pub(super) changes: u32,
    pub(super) terminal: Option<Outcome>,
    pub(super) deletion: Option<u32>,
    /// Where its sandbox is; another one after each hundred.
    pub(super) sandbox: u8,
}

pub(super) fn is_unkept(item: &Item) -> bool {
    matches!(item, Item::Pod(id) if unkept(id))
}

/// Nothing of ours keeps a pod whose end nobody counts.
pub(super) fn unkept(id: &PodId) -> bool {
    !super::pod::counts(&id.name)
}

pub(super) fn stop(pod: &mut Pod, grace_s: u32, reason: &str) {
    pod.deletion = Some(grace_s);
    if pod.terminal.is_none() {
        pod.terminal = Some(failed(reason));
        pod.changes += 1;
    }
}

pub(super) fn failed(reason: &str) -> Outcome {
    Outcome::Failed { reason: reason.to_owned(), message: String::new() }
}

pub(super) fn config(key: &ObjectKey, digest: Digest) -> Observed {
    Observed { item: Item::Object(key.clone()), digest, pod: None }
}

pub(super) fn guest_address(pod: &Pod) -> IpAddr {
    let number: u8 = pod.id.uid.0.bytes().fold(0, |sum, byte| sum.wrapping_mul(7) ^ byte);
    [10, 42, pod.sandbox, number].into()
}

pub(super) fn seen(pod: &Pod) -> Observed {
    let status = format!("{} {} {:?}", pod.id.uid, pod.changes, pod.terminal);
    let deleting = pod.deletion.is_some();
    let seen = ObservedPod {
        uid: format!("guest-of-{}", pod.id.uid).parse().expect("a uid"),
        marked: true,
        status: Digest::of(status.as_bytes()),
        terminal: pod.terminal.clone(),
        deleting,
        kept: !unkept(&pod.id),
        ended: deleting && pod.terminal.is_some() && !unkept(&pod.id),
        unschedulable: None,
        unlike: None,
        left_out: false,
        held: false,
        address: Some(guest_address(pod)),
        called: None,
    };
    Observed { item: Item::Pod(pod.id.clone()), digest: pod.digest, pod: Some(seen) }
}
