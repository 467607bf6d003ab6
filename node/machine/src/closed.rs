//! What a pod may reach that is closed to all others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::egress::Egress;
use crate::error::WantedError;
use crate::limits;

/// What a pod may reach. Of a family of which it has no address it neither sends nor gets anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Its own addresses on the pod network: it has no other source.
    pub own: BTreeSet<IpAddr>,
    /// Whom it may call, and who may call it.
    pub reached: BTreeSet<IpNet>,
    /// By what addresses it calls Services, and what addresses these have here, which have to be
    /// reached as well: it never sees the latter. Both are of IPv4, and none comes twice.
    pub services: BTreeMap<Ipv4Addr, Ipv4Addr>,
    /// The node's own addresses, on all its devices, that of the pod's gateway among them: the node
    /// may call it, and is answered.
    pub node: BTreeSet<IpAddr>,
    /// The one TCP port of the node that it may call: that of whoever has closed it, as long as it
    /// has not heard so. Zero: none.
    pub gate: u16,
    /// The one address of the node at which it may ask for names, by UDP and TCP at port 53, and do
    /// nothing else; none: nowhere. Whoever listens there hears it.
    pub names: Option<IpAddr>,
    /// By what address everybody knows it, and it knows itself, where that is not the one of the pod
    /// network: what has this address there has `own` on the wire. None: it has `own` everywhere,
    /// as where `own` has not exactly one address of IPv4.
    pub called: Option<Ipv4Addr>,
    /// Whom it may call beyond clusters, as `never` lets it.
    pub egress: Egress,
    /// Networks that it never calls so.
    pub never: Arc<BTreeSet<IpNet>>,
}

impl Closed {
    /// By what address it knows itself, and the one that it has on the wire in its place; none: they
    /// are one.
    #[must_use]
    pub fn both(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let mut own = self.own.iter().filter_map(|own| match own {
            IpAddr::V4(own) => Some(*own),
            IpAddr::V6(_) => None,
        });
        let (here, more) = (own.next()?, own.next());
        let called = self.called.filter(|called| *called != here && more.is_none())?;
        Some((called, here))
    }

    /// Says what cannot be, before anything is touched.
    ///
    /// # Errors
    /// The first that is more than is taken.
    pub fn check(&self) -> Result<(), WantedError> {
        let named = match &self.egress {
            Egress::Named(named) => named.len(),
            Egress::None | Egress::Internet => 0,
        };
        let bounds = [
            ("addresses of a pod", self.own.len(), limits::OWN),
            ("ranges that a pod reaches", self.reached.len(), limits::REACHED),
            ("Services of a pod", self.services.len(), limits::REACHED),
            ("addresses of this node", self.node.len(), limits::NODE_ADDRESSES),
            ("networks of a contract with egress", named, limits::NAMED),
            ("networks that no guest reaches", self.never.len(), limits::NEVER),
        ];
        match bounds.into_iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => Err(WantedError::Many { what, count, most }),
            None => Ok(()),
        }
    }
}
