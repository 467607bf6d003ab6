//! What a lease knows of how the other side's pods are reached.

use crate::input::TunnelNews;
use mercato_offload::address::MappedRange;

/// How the other side's pods are reached, of one lease.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub(super) ranges: Vec<MappedRange>,
    /// Consumer: by which ranges guests know this cluster's own pods.
    pub(super) own: Vec<MappedRange>,
    pub(super) news: TunnelNews,
}
