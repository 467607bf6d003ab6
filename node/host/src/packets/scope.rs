//! What the rules of one family have in common.

use super::expression::{Expression, address, destination, source, within};
use crate::family::{Family, Place};
use crate::overlay::Way;
use crate::wanted::Wanted;

/// What the rules of one family are about.
pub(super) struct Scope<'a> {
    pub(super) wanted: &'a Wanted,
    pub(super) place: Place,
    pub(super) family: Family,
}

impl Scope<'_> {
    /// The device to other clusters.
    pub(super) fn way(&self) -> &str {
        match self.wanted.way {
            Way::Device { .. } => &self.wanted.marks.device,
            Way::Through(_) => &self.wanted.marks.overlay,
        }
    }

    /// Whether other nodes reach other clusters through this one.
    pub(super) fn is_gateway_of_nodes(&self) -> bool {
        matches!(self.wanted.way, Way::Device { .. }) && self.wanted.overlay.is_some()
    }

    /// All devices that packets with addresses of the pool may take.
    pub(super) fn devices(&self) -> Vec<&str> {
        let inward = self.is_gateway_of_nodes().then_some(&*self.wanted.marks.overlay);
        [self.way()].into_iter().chain(inward).collect()
    }

    pub(super) fn source(&self) -> Expression {
        source(self.family)
    }

    pub(super) fn destination(&self) -> Expression {
        destination(self.family)
    }

    /// Its source is of the pool.
    pub(super) fn source_of_pool(&self) -> impl Iterator<Item = Expression> + use<> {
        [self.source()].into_iter().chain(within(self.place.pool))
    }

    /// It goes to the pool, and not to this node.
    pub(super) fn to_other_of_pool(&self) -> impl Iterator<Item = Expression> + use<> {
        let to_pool = [self.destination()].into_iter().chain(within(self.place.pool));
        to_pool.chain([self.destination(), Expression::IsNot(address(self.place.node))])
    }
}
