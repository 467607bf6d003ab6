//! What a lease knows of how the other side's pods are reached.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::effect::MappedRange;
use crate::input::TunnelNews;

/// How the other side's pods are reached, of one lease.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub(super) ranges: Vec<MappedRange>,
    /// Provider: in which ranges its guests are known by their home, as far as any is.
    pub(super) guests: BTreeSet<IpNet>,
    pub(super) news: TunnelNews,
}
