//! The daemon as its virtual nodes show it: a condition says whether it is away, and since when, and
//! a taint keeps new pods waiting. Somebody else writes both while it is away; back again, it takes
//! them off with all else that it makes right.

use serde_json::{Value, json};

use crate::forge::labels::{AWAY, DAEMON_AWAY};
use crate::time::rfc3339;

/// A daemon that is away, and for how long its virtual node is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absence {
    /// When it gave its last sign of life, milliseconds since 1970.
    pub since_ms: u64,
    /// Until when the node is kept without it, milliseconds since 1970.
    pub until_ms: u64,
}

impl Absence {
    /// The word that stands for it in the condition, and in an event.
    pub const REASON: &str = "DaemonAway";

    /// The same for a person.
    pub fn message(&self) -> String {
        let [since, until] = [self.since_ms, self.until_ms].map(rfc3339);
        format!(
            "the daemon is away since {since}: what runs here runs on, and the node is kept \
            until {until} without it; new pods wait"
        )
    }

    /// The condition of the node, as a patch of its status; `now` in RFC 3339.
    pub fn status(&self, now: &str) -> Value {
        json!({ "status": { "conditions": [{ "type": DAEMON_AWAY, "status": "True",
            "reason": Self::REASON, "message": self.message(),
            "lastTransitionTime": rfc3339(self.since_ms), "lastHeartbeatTime": now }] } })
    }

    /// Whether a node says that already, with whatever end.
    pub fn is_told(&self, node: &Value) -> bool {
        let conditions = node["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["type"] == DAEMON_AWAY
                && condition["status"] == "True"
                && condition["lastTransitionTime"] == rfc3339(self.since_ms)
        })
    }

    /// The node's list of taints as it should be, if it is another: all that are there, and ours.
    pub fn taints(node: &Value) -> Option<Vec<Value>> {
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let is_ours = |taint: &Value| taint["key"] == AWAY && taint["effect"] == "NoSchedule";
        if taints.iter().any(is_ours) {
            return None;
        }
        taints.push(json!({ "key": AWAY, "effect": "NoSchedule" }));
        Some(taints)
    }
}

/// The condition of a node whose daemon writes it, times aside.
pub(super) fn none() -> Value {
    json!({ "type": DAEMON_AWAY, "status": "False", "reason": "DaemonRuns",
        "message": "the daemon keeps the node" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY_SINCE: Absence =
        Absence { since_ms: 1_798_761_590_000, until_ms: 1_798_761_599_000 };

    #[test]
    fn a_node_says_since_when_and_for_how_long() {
        let node = AWAY_SINCE.status("now");
        let condition = &node["status"]["conditions"][0];
        let message = condition["message"].as_str().unwrap();
        for time in ["since 2026-12-31T23:59:50Z", "until 2026-12-31T23:59:59Z"] {
            assert!(message.contains(time), "{message}");
        }
        assert!(AWAY_SINCE.is_told(&node));
        let again = Absence { since_ms: 1_798_761_591_000, ..AWAY_SINCE };
        assert!(!again.is_told(&node), "away once more, since a later moment");
        let runs = json!({ "status": { "conditions": [none()] } });
        assert!(!AWAY_SINCE.is_told(&runs));
    }

    #[test]
    fn others_taints_stay() {
        let other = json!({ "key": "a", "effect": "NoExecute" });
        let with = Absence::taints(&json!({ "spec": { "taints": [other] } })).unwrap();
        assert_eq!((with.len(), &with[0]), (2, &other));
        assert_eq!(Absence::taints(&json!({ "spec": { "taints": with } })), None);
        assert_eq!(Absence::taints(&json!({ "spec": {} })).unwrap().len(), 1);
    }
}
