//! Bounds of what custom resources are served with.

use std::time::Duration;

/// Between two looks whether the cluster has the custom resources.
pub(crate) const INSTALLED_LOOK: Duration = Duration::from_secs(10);
/// Custom resources are looked at so often though none has changed: the market has.
pub(crate) const RESOURCES_LOOK: Duration = Duration::from_secs(5);
/// A Contract that is made or removed so often within [`CONTESTED_WINDOW`] is written by somebody else
/// as well: a guess. A person who deletes one sees it made again once.
pub(crate) const CONTESTED: u32 = 4;
/// In which that is counted. After it, it is tried again.
pub(crate) const CONTESTED_WINDOW: Duration = Duration::from_secs(60);
/// For so long after the last time that is told: while it goes on, without a pause.
pub(crate) const CONTESTED_TOLD: Duration = Duration::from_secs(180);
/// Names of which that is counted: as many as are made and removed in a minute, at the most.
pub(crate) const CONTESTED_NAMES: usize = 1_024;
/// Of which so many are named.
pub(crate) const CONTESTED_NAMED: usize = 3;
/// Candidates that an Order lists.
pub(crate) const CANDIDATES: usize = 10;
/// An Order that came to nothing for a reason that passes is tried again so often,
pub(crate) const ATTEMPTS: u32 = 16;
/// after so long, twice as long each time,
pub(crate) const AGAIN_MS: u64 = 5_000;
/// but never after longer than this.
pub(crate) const AGAIN_MOST_MS: u64 = 600_000;
/// A Contract that is over is shown for so long, as a finished Job may be.
pub(crate) const CONTRACT_SHOWN_MS: u64 = 3_600_000;
