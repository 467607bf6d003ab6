//! Conditions of a status, as `kubectl wait` and `kubectl describe` read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock;

/// The one condition that all four have.
pub const READY: &str = "Ready";

/// Whether something holds, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// True or False.
    pub status: String,
    /// Why, in a word.
    pub reason: String,
    /// Why, and what to do, for people.
    pub message: String,
    /// Since when the status is so.
    pub last_transition_time: String,
    /// Of which generation of the object this is said.
    pub observed_generation: i64,
}

impl Condition {
    /// Whether the object is ready; since when is known from `before`.
    pub fn ready(
        holds: bool,
        (reason, message): (&str, String),
        generation: i64,
        before: &[Self],
    ) -> Vec<Self> {
        let status = if holds { "True" } else { "False" };
        let same = before.iter().find(|known| known.kind == READY && known.status == status);
        let since = same.map(|known| known.last_transition_time.clone());
        vec![Self {
            kind: READY.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or_else(clock::now),
            observed_generation: generation,
        }]
    }
}
