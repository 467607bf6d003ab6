//! What the rules of one family have in common.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::expression::{Expression, address, destination, source, within};
use crate::family::{Family, Place};
use crate::overlay::Way;
use crate::wanted::{NamesWay, Wanted};

/// Networks as a set can have them: none is in another, and two halves are one.
pub(super) fn apart(nets: Vec<IpNet>) -> BTreeSet<IpNet> {
    IpNet::aggregate(&nets).into_iter().collect()
}

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

    /// Those of these networks that are of this family.
    pub(super) fn of_family<'b>(
        &self,
        nets: &'b BTreeSet<IpNet>,
    ) -> impl Iterator<Item = IpNet> + use<'b> {
        let family = self.family;
        nets.iter().copied().filter(move |net| Family::of_net(*net) == family)
    }

    /// Where this cluster's API server is called, if that is of this family.
    pub(super) fn api(&self) -> Option<IpAddr> {
        let address = self.wanted.api.as_ref().map(|api| api.address)?;
        (Family::of(address) == self.family).then_some(address)
    }

    /// Where guests ask for names, if that is of this family.
    pub(super) fn names(&self) -> Option<NamesWay> {
        self.wanted.names.filter(|names| Family::of(names.address) == self.family)
    }

    /// It goes to the pool, and not to this node, nor to who is called at the gateway.
    pub(super) fn to_other_of_pool(&self) -> impl Iterator<Item = Expression> + use<> {
        let to_pool = [self.destination()].into_iter().chain(within(self.place.pool));
        let own = [self.place.node].into_iter().chain(self.api());
        let destination = self.destination();
        let not = move |own| [destination.clone(), Expression::CmpNeq(address(own))];
        to_pool.chain(own.flat_map(not))
    }
}
