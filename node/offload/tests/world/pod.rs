//! A pod at home's API server, and how its session sees it.

use std::net::IpAddr;

use mercato_offload::home::{HomePod, StandIn};
use mercato_offload::key::{ObjectKey, ObjectKind, PodId, key};
use mercato_protocol::id::Digest;

use super::content;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Live,
    Succeeded,
    Failed(String),
}

pub(super) struct Pod {
    pub(super) id: PodId,
    pub(super) version: u32,
    pub(super) deletion: Option<u32>,
    pub(super) phase: Phase,
    pub(super) status: Option<Digest>,
    /// Its readiness gate is open, and whether it was as the status was last written.
    pub(super) gate: bool,
    pub(super) ready: bool,
    pub(super) ip: Option<IpAddr>,
}

pub(crate) fn config_key(name: u8) -> ObjectKey {
    key(ObjectKind::ConfigMap, "shop", &format!("config-{name}"))
}

impl Pod {
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed(_))
    }
}

/// Of every second name, how a pod ended is counted.
pub(super) fn is_counted(pod: &Pod) -> bool {
    counts(&pod.id.name)
}

/// The same by its name, on either side.
pub(super) fn counts(name: &str) -> bool {
    name.ends_with(['0', '2'])
}

pub(super) fn needs(pod: &Pod) -> Vec<ObjectKey> {
    let shared = config_key(0);
    if pod.id.name == "web-0" { vec![shared] } else { vec![shared, config_key(1)] }
}

pub(super) fn seen(pod: &Pod) -> HomePod {
    HomePod {
        pod: pod.id.clone(),
        digest: content(&pod.id.uid.0, pod.version),
        needs: needs(pod),
        deletion_grace_s: pod.deletion,
        terminal: pod.is_terminal(),
        counted: is_counted(pod),
        pod_ip: pod.ip,
        second_ip: None,
        gates: pod.gate.then(|| "open".to_owned()).into_iter().collect(),
        route: None,
        place: None,
        patience_ms: 10_000,
        refusal: None,
        stand_in: StandIn::Never,
    }
}
