//! What a lease knows of how the other side's pods are reached.

use crate::effect::MappedRange;
use crate::input::TunnelNews;

/// How the other side's pods are reached, of one lease.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub(super) ranges: Vec<MappedRange>,
    pub(super) news: TunnelNews,
}
