//! Whether the daemon is away, and which of its virtual nodes' Leases are to be renewed in its place
//! now: decided from what the cluster says and from clocks that are given. Nothing is asked here.

use std::collections::BTreeMap;
use std::time::Duration;

use mercato_offload::forge::labels::NOT_AFTER;
use mercato_offload::placement::spec::{Absence, NODE_PREFIX};
use mercato_protocol::time::Now;
use serde_json::Value;

use crate::daemon_lease::DaemonLease;
use crate::format::clock;
use crate::limits;
use crate::names::{CONTRACT, FIELD_MANAGER};

/// A virtual node, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    /// When its contract ends, milliseconds since 1970.
    not_after_ms: u64,
}

impl Node {
    /// Reads the object; none if it is no virtual node of ours, or does not say when its contract
    /// ends: such a one is kept by its daemon alone.
    pub(super) fn read(node: &Value) -> Option<Self> {
        let metadata = &node["metadata"];
        let name = metadata["name"].as_str()?;
        let id = node["spec"]["providerID"].as_str()?;
        let is_ours = name.starts_with(NODE_PREFIX)
            && metadata["labels"][CONTRACT].is_string()
            && id.strip_prefix(FIELD_MANAGER).is_some_and(|rest| rest.starts_with("://"));
        let not_after_ms = clock::parse_ms(metadata["annotations"][NOT_AFTER].as_str()?)?;
        is_ours.then(|| Self { name: name.to_owned(), not_after_ms })
    }
}

/// How the daemon is, as far as others see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It lives, or there is none.
    Lives,
    /// It is away: its nodes are kept.
    Away(Away),
    /// It is away for longer than its nodes are kept.
    Lost,
}

/// A daemon that is away; all times are by its own clock, carried on, since a node controller takes
/// none that is before the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Away {
    since_ms: u64,
    until_ms: u64,
    /// The present, milliseconds since 1970.
    pub(super) now_ms: u64,
}

impl Away {
    /// Whether a node's contract is in force.
    pub(super) fn keeps(&self, node: &Node) -> bool {
        self.now_ms < node.not_after_ms
    }

    /// As a node says it, which is kept until its contract ends at most.
    pub(super) fn of(&self, node: &Node) -> Absence {
        let until_ms = self.until_ms.min(node.not_after_ms);
        Absence { since_ms: self.since_ms, until_ms }
    }
}

/// The daemon's last sign of life, and the nodes that were kept since.
pub(super) struct Vigil {
    keep_alive_ms: u64,
    sign: Option<Sign>,
    /// When each node's Lease was renewed here last, by the monotonic clock.
    renewed: BTreeMap<String, u64>,
}

/// A sign of life. It is known to be old by its not changing: the clocks of two machines are not
/// compared, but for one that was there before anybody looked.
struct Sign {
    renewed: String,
    /// When it was given, by the daemon's clock.
    at_ms: u64,
    /// How long before it was first seen.
    before_ms: u64,
    /// When it was first seen, by the monotonic clock.
    seen_ms: u64,
    /// For so long no other came, while it was looked for.
    watched_ms: u64,
    /// The last look, by the monotonic clock.
    looked_ms: u64,
}

impl Vigil {
    /// Nodes are kept for so long after the daemon's last sign.
    pub(super) fn new(keep_alive: Duration) -> Self {
        Self { keep_alive_ms: ms(keep_alive), sign: None, renewed: BTreeMap::new() }
    }

    /// What a look at the daemon's Lease has shown.
    pub(super) fn see(&mut self, now: Now, lease: Option<&DaemonLease>) {
        let read = lease.and_then(|lease| Some((lease, clock::parse_ms(&lease.renewed)?)));
        let Some((lease, at_ms)) = read else {
            self.sign = None;
            return;
        };
        match &mut self.sign {
            Some(sign) if sign.renewed == lease.renewed => {
                // While the API server could not be asked, the daemon could not give a sign either.
                let passed_ms = now.mono_ms.saturating_sub(sign.looked_ms);
                sign.watched_ms += passed_ms.min(2 * ms(limits::HEARTBEAT_LOOK));
                sign.looked_ms = now.mono_ms;
            }
            known => {
                let before_ms = match known {
                    Some(_) => 0,
                    None => now.wall_ms.saturating_sub(at_ms),
                };
                *known = Some(Sign {
                    renewed: lease.renewed.clone(),
                    at_ms,
                    before_ms,
                    seen_ms: now.mono_ms,
                    watched_ms: before_ms.saturating_sub(ms(limits::HEARTBEAT_SKEW)),
                    looked_ms: now.mono_ms,
                });
            }
        }
    }

    /// How the daemon is, as far as was seen.
    pub(super) fn standing(&self, now: Now) -> Standing {
        let Some(sign) = &self.sign else { return Standing::Lives };
        if sign.watched_ms < ms(limits::HEARTBEAT_AWAY) {
            return Standing::Lives;
        }
        let silent_ms = sign.before_ms + now.mono_ms.saturating_sub(sign.seen_ms);
        if silent_ms >= self.keep_alive_ms {
            return Standing::Lost;
        }
        Standing::Away(Away {
            since_ms: sign.at_ms,
            until_ms: sign.at_ms.saturating_add(self.keep_alive_ms),
            now_ms: sign.at_ms.saturating_add(silent_ms),
        })
    }

    /// Of these nodes those whose Leases are to be renewed now.
    pub(super) fn due(&self, now: Now, nodes: &[Node]) -> Vec<Node> {
        // The next look would be too late.
        let pause_ms = ms(limits::LEASE_RENEWAL - limits::HEARTBEAT_LOOK);
        let is_due = |node: &&Node| {
            let last = self.renewed.get(&node.name);
            last.is_none_or(|last_ms| now.mono_ms.saturating_sub(*last_ms) > pause_ms)
        };
        nodes.iter().filter(is_due).cloned().collect()
    }

    /// A node's Lease was renewed here.
    pub(super) fn renewed(&mut self, now: Now, name: String) {
        self.renewed.insert(name, now.mono_ms);
    }

    /// The daemon is not away, or for too long: what was done while it was is over.
    pub(super) fn rest(&mut self) {
        self.renewed.clear();
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
