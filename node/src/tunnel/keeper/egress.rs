//! What of this cluster's own no guest reaches by the egress of its contract, and whether guests are kept to that
//! on each node, which the market needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ipnet::{IpNet, Ipv6Net};
use mercato_agent::{BrokerInput, Input};
use mercato_machine::Marks;
use mercato_protocol::limits::NODE_NEVER;
use mercato_protocol::outside;
use tokio::task::block_in_place;

use super::own_machine::OwnMachine;
use crate::driver::Handle;
use crate::limits;
use crate::nodes::never::{self, OwnNetworks};
use crate::tunnel::ground::Ground;
use crate::tunnel::nodes::{Nodes, unkept};

/// What of this cluster it depends on.
pub(super) struct Stand<'a> {
    pub(super) ground: &'a Ground,
    /// Behind which range pods are known by IPv6.
    pub(super) second: Option<Ipv6Net>,
    pub(super) machine: &'a OwnMachine,
    pub(super) nodes: &'a Nodes,
    pub(super) marks: &'a Marks,
    /// Whether guests are closed on each node.
    pub(super) isolates: bool,
}

/// How it is with the egress of guests in this cluster.
pub(super) struct OwnEgress {
    never: BTreeSet<IpNet>,
    /// Why that is more than nodes can be told.
    too_much: Option<String>,
    networks: OwnNetworks,
    /// When this machine was looked at last; none: not yet.
    looked: Option<Instant>,
    /// Whether guests are kept to it on each node, as the market was told.
    keeps: bool,
}

impl Default for OwnEgress {
    fn default() -> Self {
        Self {
            never: BTreeSet::new(),
            too_much: None,
            networks: Err("its networks are not known yet".to_owned()),
            looked: None,
            keeps: false,
        }
    }
}

impl OwnEgress {
    /// What of this cluster's own nobody reaches so, besides what is nobody's on the Internet; none: it is more
    /// than nodes can be told.
    pub(super) fn never(&self) -> Option<&BTreeSet<IpNet>> {
        self.too_much.is_none().then_some(&self.never)
    }

    /// All that guests of this machine never reach so.
    pub(super) fn all(&self) -> Arc<BTreeSet<IpNet>> {
        never::all(&self.never, self.networks.as_ref().unwrap_or(&BTreeSet::new()))
    }

    /// The networks of this machine; or why guests here cannot be kept from them.
    pub(super) fn networks(&self) -> &OwnNetworks {
        &self.networks
    }

    /// Of the cluster it is this from now on.
    fn learn(&mut self, all: impl Iterator<Item = IpNet>) {
        let is_anybodys = |net: &IpNet| !outside::NEVER.iter().any(|never| never.contains(net));
        let all: Vec<IpNet> = all.map(|net| net.trunc()).filter(is_anybodys).collect();
        let all: BTreeSet<IpNet> = IpNet::aggregate(&all).into_iter().collect();
        let count = all.len();
        self.too_much = (count > NODE_NEVER).then(|| {
            format!(
                "{count} networks of this cluster's own are more than the {NODE_NEVER} that nodes are told of"
            )
        });
        self.never = all;
    }

    /// What no guest reaches is known from now on, and the market hears whether guests are kept to their
    /// egress.
    pub(super) async fn mind(&mut self, stand: Stand<'_>, driver: &Handle) {
        let Some(pool) = stand.ground.pool() else { return self.tell(false, driver).await };
        let except = driver.look(|driver| {
            let policy = driver.agent().broker().share();
            policy.map(|policy| policy.egress.except.clone()).unwrap_or_default()
        });
        // An error says that the daemon is stopping.
        let Ok(except) = except.await else { return };
        let pools = [pool].into_iter().chain(stand.second.map(IpNet::V6));
        let nodes = stand.machine.addresses().map(IpNet::from);
        self.learn(stand.ground.networks().chain(nodes).chain(pools).chain(except));
        self.look(stand.marks);
        let keeps = stand.isolates && self.unkept(stand.nodes).is_empty();
        self.tell(keeps, driver).await;
    }

    /// At first the market takes it that they are not.
    async fn tell(&mut self, keeps: bool, driver: &Handle) {
        if self.keeps != keeps {
            self.keeps = keeps;
            driver.tell(Input::Broker(BrokerInput::Egress(keeps))).await;
        }
    }

    /// The nodes on which guests are not kept to their egress, and why.
    pub(super) fn unkept(&self, nodes: &Nodes) -> BTreeMap<String, String> {
        let here = self.too_much.clone().or_else(|| self.networks.clone().err());
        let here = here.map(|why| (nodes.own_name(), why));
        unkept(nodes).into_iter().chain(here).collect()
    }

    /// This machine is looked at now and then.
    fn look(&mut self, marks: &Marks) {
        if self.looked.is_some_and(|looked| looked.elapsed() < limits::TUNNEL_PROBE) {
            return;
        }
        self.networks = never::own(block_in_place(|| mercato_host::networks(marks)));
        self.looked = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(nets: &[&str]) -> OwnEgress {
        let mut own = OwnEgress::default();
        own.learn(nets.iter().map(|net| net.parse().unwrap()));
        own
    }

    #[test]
    fn what_is_nobodys_on_the_internet_is_not_said_again() {
        let own = learn(&["10.42.0.0/16", "203.0.114.7/32", "203.0.114.0/24", "2a00:1450::7/128"]);
        let expected = ["203.0.114.0/24", "2a00:1450::7/128"].map(|net| net.parse().unwrap());
        assert_eq!(own.never(), Some(&expected.into()));
    }

    #[test]
    fn more_than_nodes_are_told_of_is_said() {
        let all: Vec<_> = (0..257).map(|n| format!("8.{}.{}.1/32", n / 256, n % 256)).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let many = learn(&all);
        assert_eq!(many.never(), None, "a snapshot with it would be no message");
        let why = many.too_much.unwrap();
        assert!(why.starts_with("257 networks of this cluster's own"), "{why}");
        assert_eq!(learn(&all[1..]).never().map(BTreeSet::len), Some(256));
    }
}
