//! A guest that is closed: what is known of it, and what is to be in force.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use mercato_host::Sandbox;
use mercato_machine::{Closed, Egress};
use mercato_protocol::gate::GuestUid;
use tokio::time::Instant;

use super::{ClosingRules, GuestRule};
use crate::limits;

/// A guest that is closed.
pub(super) struct Held {
    /// None: an earlier run has closed it, and nobody has spoken of it yet.
    pub(super) uid: Option<GuestUid>,
    pub(super) sandbox: Sandbox,
    pub(super) own: BTreeSet<IpAddr>,
    /// By what address it knows itself, if that is another one: it stays, once it is put.
    pub(super) called: Option<Ipv4Addr>,
    /// Whom it could reach last, with whom it may have connections.
    pub(super) reached: Arc<BTreeSet<IpNet>>,
    /// Where it could ask for names last: the same.
    pub(super) names: Option<IpAddr>,
    /// Whom it reaches beyond clusters.
    pub(super) egress: Egress,
    /// Its gate may ask again: it is not known that it has heard.
    pub(super) asks: bool,
    /// Since when its address was said to be that of another pod.
    pub(super) other_since: Option<Instant>,
}

impl Held {
    /// One that an earlier run has closed: it reaches nobody, and its gate may ask.
    pub(super) fn unknown(sandbox: Sandbox, own: BTreeSet<IpAddr>, names: Option<IpAddr>) -> Self {
        Self {
            uid: None,
            sandbox,
            own,
            called: None,
            reached: Arc::default(),
            names,
            egress: Egress::None,
            asks: true,
            other_since: None,
        }
    }

    /// It is to be closed by this. Where its lease is over, it may have connections with those of before.
    pub(super) fn take(&mut self, rule: Option<&GuestRule>, names: Option<IpAddr>) {
        self.egress = rule.map(|rule| rule.egress.clone()).unwrap_or_default();
        if let Some(rule) = rule {
            self.reached = Arc::clone(&rule.reached);
            self.names = names.or(self.names);
        }
    }

    /// Its addresses with whom it reaches beyond clusters, if it reaches anybody.
    pub(super) fn outward(&self) -> impl Iterator<Item = (IpAddr, Egress)> {
        let own = self.own.iter().filter(|_| self.egress != Egress::None);
        own.map(|own| (*own, self.egress.clone()))
    }

    /// Whether its address was said to be another's for long enough that it is: what is said of a pod that is
    /// gone, while the guest's own address is not known yet, is taken back by then.
    pub(super) fn has_been_other(&mut self) -> bool {
        let since = *self.other_since.get_or_insert_with(Instant::now);
        since.elapsed() >= limits::CLOSE_LOOK.saturating_sub(Duration::from_millis(1))
    }

    /// All whom it could call last.
    pub(super) fn reached_last(&self) -> BTreeSet<IpNet> {
        self.reached.iter().copied().chain(self.names.map(IpNet::from)).collect()
    }

    pub(super) fn wanted(
        &self,
        rule: Option<&GuestRule>,
        node: BTreeSet<IpAddr>,
        rules: &ClosingRules,
    ) -> Closed {
        let reached = rule.map(|rule| (*rule.reached).clone()).unwrap_or_default();
        let gate = if self.asks { rules.port } else { 0 };
        let names = rules.names.filter(|_| rule.is_some());
        let services = rule.map(|rule| (*rule.services).clone()).unwrap_or_default();
        let egress = rule.map(|rule| rule.egress.clone()).unwrap_or_default();
        Closed {
            own: self.own.clone(),
            reached,
            services,
            node,
            gate,
            names,
            called: self.called,
            egress,
            never: rules.never.clone(),
        }
    }
}

/// Why a guest with these addresses cannot know itself by that one; none: it can.
pub(super) fn why_not<'a>(
    called: IpAddr,
    own: &BTreeSet<IpAddr>,
    node: &BTreeSet<IpAddr>,
    names: Option<IpAddr>,
    mut others: impl Iterator<Item = &'a Held>,
) -> Option<&'static str> {
    if node.contains(&called) {
        Some("this node has it")
    } else if names == Some(called) {
        Some("guests ask for names there")
    } else if others.any(|held| held.own.contains(&called)) {
        Some("another guest has it on this node")
    } else if own.iter().filter(|own| own.is_ipv4()).count() != 1 {
        Some("its pod network has not given it exactly one address of IPv4")
    } else {
        None
    }
}
