//! Whom a node is to close, and how it is with them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::IpNet;
use mercato_machine::Egress;
use mercato_protocol::gate::GuestUid;
use mercato_protocol::node::{NodeGuest, ServiceAddress};

/// What guests of this node may reach that are to be closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClosingRules {
    /// The TCP port at which gates ask; zero: nobody answers them.
    pub(crate) port: u16,
    /// Where guests ask for names; none: nowhere.
    pub(crate) names: Option<IpAddr>,
    pub(crate) guests: BTreeMap<GuestUid, GuestRule>,
    /// The addresses of the pods of this node that are no such guests.
    pub(crate) others: Arc<BTreeSet<IpAddr>>,
    /// Networks that none of them reaches by its egress; empty where none has any.
    pub(crate) never: Arc<BTreeSet<IpNet>>,
}

/// What one of them may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuestRule {
    /// Its own address, once its gate is known to be open.
    pub(crate) pod: Option<IpAddr>,
    pub(crate) reached: Arc<BTreeSet<IpNet>>,
    /// By what addresses it calls Services, and what these have here.
    pub(crate) services: Arc<BTreeMap<Ipv4Addr, Ipv4Addr>>,
    /// By what address everybody knows it; none: by that of the pod network here alone.
    pub(crate) called: Option<Ipv4Addr>,
    /// Whom it reaches beyond clusters.
    pub(crate) egress: Egress,
}

impl GuestRule {
    /// That of this guest, which reaches these.
    pub(crate) fn of(
        guest: &NodeGuest,
        reached: Arc<BTreeSet<IpNet>>,
        services: Arc<BTreeMap<Ipv4Addr, Ipv4Addr>>,
        egress: Egress,
    ) -> Self {
        let called = match guest.called {
            Some(IpAddr::V4(called)) => Some(called),
            Some(IpAddr::V6(_)) | None => None,
        };
        Self { pod: guest.pod, reached, services, called, egress }
    }
}

impl ClosingRules {
    /// What is to be in force for this guest, whose gate is said to ask from there; none: nobody has
    /// spoken of it yet. Anybody may say a uid, or be made to: who is known to be another pod is
    /// left alone.
    pub(super) fn rule_of(&self, uid: &GuestUid, from: IpAddr) -> Option<&GuestRule> {
        self.guests.get(uid).filter(|_| !self.others.contains(&from))
    }
}

/// By what addresses guests call these Services, and what they have here. Of two to which home has given
/// one address it is either's, until the end of the one that home has deleted is known.
pub(crate) fn called<'a>(
    services: impl IntoIterator<Item = &'a ServiceAddress>,
) -> BTreeMap<Ipv4Addr, Ipv4Addr> {
    let both = |service: &ServiceAddress| match (service.home, service.here) {
        (Some(IpAddr::V4(home)), IpAddr::V4(here)) => Some((home, here)),
        _ => None,
    };
    services.into_iter().filter_map(both).collect()
}

/// How it is with the guests of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Closings {
    /// The addresses of those that are closed, and whose gates have heard so.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Those that reach anybody beyond clusters, and whom, from when they are closed.
    pub(crate) outward: BTreeMap<IpAddr, Egress>,
    /// Why none can be closed, or one is not; none: all are that should be.
    pub(crate) trouble: Option<String>,
}
