//! Bounds of the page in the browser.

use std::time::Duration;

/// Between two looks at the daemon while somebody looks at the page.
pub(crate) const PAGE_LOOK: Duration = Duration::from_millis(900);
/// Between two looks at what changes seldom without an event.
pub(crate) const PAGE_WHOLE: Duration = Duration::from_secs(10);
/// Events that are remembered for the page: as many as the daemon remembers.
pub(crate) const PAGE_EVENTS: usize = 1_000;
/// Requests of browsers that are answered at once: a few for each of 16 tabs.
pub(crate) const PAGE_REQUESTS: usize = 64;
/// The target of a request, with the search in it.
pub(crate) const PAGE_TARGET: usize = 16 << 10;
/// Rows of a list, at most.
pub(crate) const PAGE_ROWS: usize = 500;
/// Characters of a text of others that are shown.
pub(crate) const PAGE_TEXT: usize = 300;
/// Offers that stand side by side.
pub(crate) const PAGE_PICKED: usize = 4;
