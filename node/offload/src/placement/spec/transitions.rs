//! When the conditions of a virtual node last changed.

use std::collections::BTreeMap;

use serde_json::Value;

/// When each condition last changed, so that a repeated one keeps its time.
#[derive(Debug, Default)]
pub struct Transitions(BTreeMap<String, (String, String)>);

impl Transitions {
    /// Takes over what the cluster has, where nothing is known yet.
    pub fn learn(&mut self, conditions: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for condition in conditions.as_array().into_iter().flatten() {
            // The node controller writes Unknown where a Lease was late: not ours to keep.
            if condition["status"] != "Unknown" {
                let known = (text(&condition["status"]), text(&condition["lastTransitionTime"]));
                self.0.entry(text(&condition["type"])).or_insert(known);
            }
        }
    }

    /// When this one last changed, which may be now.
    pub(super) fn of(&mut self, condition: &Value, now: &str) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = text(&condition["status"]);
        let known = self.0.entry(text(&condition["type"])).or_default();
        if known.0 != status {
            *known = (status, now.to_owned());
        }
        known.1.clone()
    }
}
