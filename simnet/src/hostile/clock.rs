//! Attacks that need no words of their own: a clock that is ahead, a price that is low.

use super::Attack;

/// What its plan makes of it is all.
pub(crate) struct Plain;

impl Attack for Plain {}
