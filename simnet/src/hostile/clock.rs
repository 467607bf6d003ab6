//! Attacks that need no words of their own: a clock that is ahead, a price that is low.

use super::Attack;

/// An hour: far beyond the skew that is allowed.
pub(crate) const AHEAD_MS: i64 = 3_600_000;

/// What its plan makes of it is all.
pub(crate) struct Plain;

impl Attack for Plain {}
