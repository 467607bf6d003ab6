//! Why what a daemon keeps cannot be opened, and what to do.

use crate::admin::Problem;
use crate::store::StoreError;

/// What to do with what a later release has written.
pub(super) const LATER: &str = "run the release that wrote it, or a later one; to go back, import what was \
    exported before: docs/versions.md";

/// Why the records cannot be opened, and what to do.
pub(super) fn unopened(error: StoreError) -> anyhow::Error {
    let what = format!("the records of this cluster cannot be opened: {error}");
    let problem = Problem::failed(what).because(&error);
    anyhow::Error::new(match error {
        StoreError::InUse(_) => {
            problem.todo("a second daemon needs a folder of its own: --data-dir DIR")
        }
        StoreError::Format { .. } => problem.todo(LATER),
        StoreError::Unreadable { .. } | StoreError::Io { .. } => {
            problem.todo("see whether the disk is full or broken; else import the last export")
        }
    })
}
