//! Whether the records can be written, as the agent was told, and what becomes of changes that
//! nothing waits for.

use crate::effect::Effect;
use crate::record::Change;

/// Whether records can be written, and why not.
pub(super) struct Disk {
    /// Why records cannot be written.
    failure: Option<String>,
}

impl Disk {
    pub(super) fn new(failure: Option<String>) -> Self {
        Self { failure }
    }

    /// Why records cannot be written, if so.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Keeps what nothing waits for, if anything can be kept.
    pub(super) fn note(&self, changes: impl IntoIterator<Item = Change>, out: &mut Vec<Effect>) {
        if self.failure.is_none() {
            out.extend(changes.into_iter().map(Effect::Persist));
        }
    }
}
