//! Conditions of a status, as `kubectl wait` and `kubectl describe` read them.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::format::clock;

/// The one condition that all four have.
pub const READY: &str = "Ready";

/// Whether something holds, and why. All fields are always written, as those of
/// Kubernetes' own `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about: Ready, or something further.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds: True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Why it holds or does not, in a word for programs.
    pub reason: String,
    /// Why, and what to do, for people.
    pub message: String,
    /// Since when the status is so.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Of which generation of the object this is said.
    pub observed_generation: i64,
}

/// A list of conditions, in which each type stands once: whoever applies one leaves those
/// of others as they are.
pub(super) fn list(generator: &mut SchemaGenerator) -> Schema {
    let mut list = generator.subschema_for::<Vec<Condition>>();
    list.insert("x-kubernetes-list-type".to_owned(), "map".into());
    list.insert("x-kubernetes-list-map-keys".to_owned(), vec!["type"].into());
    list
}

impl Condition {
    /// Whether the object is ready; since when is known from `before`.
    pub fn ready(
        holds: bool,
        (reason, message): (&str, String),
        generation: i64,
        before: &[Self],
    ) -> Vec<Self> {
        vec![Self::of(READY, holds, reason, message, generation, before)]
    }

    /// Whether something else holds of it, likewise.
    pub fn of(
        kind: &str,
        holds: bool,
        reason: &str,
        message: String,
        generation: i64,
        before: &[Self],
    ) -> Self {
        let status = if holds { "True" } else { "False" };
        let same = before.iter().find(|known| known.kind == kind && known.status == status);
        let since = same.map(|known| known.last_transition_time.clone());
        Self {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or_else(clock::now),
            observed_generation: generation,
        }
    }
}
