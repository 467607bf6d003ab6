//! A pod that the scheduler finds no room for: what it asks for, and what keeps it from running
//! elsewhere.

use std::fmt;

use mercato_protocol::terms::Platform;
use serde_json::Value;

use super::choice::{self, NodeAsk};
use crate::forge::labels::PROVIDER;
use crate::forge::{needs, refused_by_all};
use crate::home::leaving::{OwnerSort, PodSeen};
use crate::key::ObjectKind;
use crate::placement::export::Secrets;
use crate::placement::{is_device, requests};
use crate::time;

/// Resources of GPUs that can be bought by their vendor.
const GPUS: [(&str, &str); 2] = [("nvidia.com/gpu", "nvidia"), ("amd.com/gpu", "amd")];

/// Why nothing is bought for a pod, with its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack(String);

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pod that the scheduler finds no room for.
#[derive(Debug)]
pub(super) struct Waits {
    /// Since when it says so, milliseconds since 1970.
    pub(super) since_ms: u64,
    pub(super) cpu_millis: u64,
    pub(super) memory_bytes: u64,
    pub(super) gpus: Option<(&'static str, u64)>,
    /// What keeps it at home, whoever would take it.
    stays: Option<Lack>,
    secrets: Vec<String>,
    /// What of its spec its node is chosen by.
    spec: Value,
}

impl Waits {
    /// None for a pod that is bound, ends, or of which the scheduler has not said so.
    pub(super) fn read(pod: &Value, seen: &PodSeen) -> Option<Self> {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        if seen.node.is_some() || seen.deleting {
            return None;
        }
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut said =
            conditions.filter(|it| it["type"] == "PodScheduled" && it["status"] == "False");
        let said = said.next()?;
        let since_ms = said["lastTransitionTime"].as_str().and_then(time::parse_ms)?;
        let asks = requests(spec);
        let ask = |name: &str| asks.get(name).copied().unwrap_or(0);
        let gpus = GPUS.iter().find(|(name, _)| ask(name) > 0);
        let unknown = asks.iter().find(|(name, n)| {
            is_device(name) && **n > 0 && gpus.is_none_or(|(known, _)| name.as_str() != *known)
        });
        let used = needs(pod).into_iter().filter(|need| need.kind == ObjectKind::Secret);
        let stays = match unknown {
            Some((name, _)) => Some(format!("it asks for {name}, which is not bought by itself")),
            None => stays(pod, seen, said["reason"].as_str().unwrap_or_default()),
        };
        Some(Self {
            since_ms,
            cpu_millis: ask("cpu"),
            memory_bytes: ask("memory"),
            gpus: gpus.map(|(name, vendor)| (*vendor, ask(name))),
            stays: stays.map(Lack),
            secrets: used.map(|secret| secret.name).collect(),
            spec: serde_json::json!({
                "nodeSelector": spec["nodeSelector"], "affinity": spec["affinity"],
            }),
        })
    }

    /// On which kind of node it would run elsewhere, and whose; or why it would not.
    pub(super) fn asks(
        &self,
        secrets: &Secrets,
        platforms: &[Platform],
    ) -> Result<(Platform, Vec<Vec<NodeAsk>>), Lack> {
        if let Some(lack) = &self.stays {
            return Err(lack.clone());
        }
        if let Some(kept) = self.secrets.iter().find(|name| !secrets.permit(name)) {
            let text =
                format!("it uses secret {kept}, which may not leave (NamespaceOffload, secrets)");
            return Err(Lack(text));
        }
        let mut first = Err(Lack("no kind of node is known".to_owned()));
        for platform in platforms {
            match choice::asked(&self.spec, platform) {
                Ok(to) => return Ok((platform.clone(), to)),
                Err(lack) if first.is_err() => first = Err(Lack(lack)),
                Err(_) => {}
            }
        }
        first
    }
}

fn stays(pod: &Value, seen: &PodSeen, reason: &str) -> Option<String> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut claims =
        volumes.filter(|it| !it["persistentVolumeClaim"].is_null() || !it["ephemeral"].is_null());
    let text = match () {
        () if some(&spec["schedulingGates"]) => {
            "spec.schedulingGates: something holds it back".to_owned()
        }
        () if reason != "Unschedulable" => {
            format!("the scheduler says {reason} of it, not Unschedulable")
        }
        () if status["nominatedNodeName"].as_str().is_some_and(|node| !node.is_empty()) => {
            "status.nominatedNodeName: room is made for it on another node".to_owned()
        }
        () if seen.owner.as_ref().is_some_and(|it| it.sort == OwnerSort::DaemonSet) => {
            "it is of a DaemonSet, whose nodes are given".to_owned()
        }
        () if claims.next().is_some() => {
            "spec.volumes: it has a claim on a volume, and no storage is bought by itself"
                .to_owned()
        }
        () if !tolerates(spec) => format!(
            "spec.tolerations: it does not tolerate {PROVIDER}, since it was made before its namespace could \
             leave, or while Mercato was away, or must stay: make it again"
        ),
        () => {
            let refusal = refused_by_all(pod)?;
            format!("{}: {}", refusal.path, refusal.reason)
        }
    };
    Some(text)
}

fn tolerates(spec: &Value) -> bool {
    let mut all = spec["tolerations"].as_array().into_iter().flatten();
    all.any(|one| {
        let key = one["key"].as_str().unwrap_or_default();
        let effect = one["effect"].as_str().unwrap_or_default();
        one["operator"] == "Exists"
            && (key.is_empty() || key == PROVIDER)
            && (effect.is_empty() || effect == "NoSchedule")
    })
}
