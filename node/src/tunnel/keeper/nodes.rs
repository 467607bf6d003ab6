//! The other nodes of this cluster: they are listened for while there are some, told what they are
//! to have, and shown.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use mercato_broker::Side;
use mercato_protocol::id::ContractId;

use super::guests::{closed_guests, dwellers, own_rules};
use super::names;
use super::{Keeper, Said};
use crate::admin::NodeTrouble;
use crate::driver::clock::wall_ms;
use crate::kubernetes::PodPlace;
use crate::limits;
use crate::nodes::control::{NodeEvent, WishLease};
use crate::tunnel::end::{End, Stand};
use crate::tunnel::event::{Event, tell_each};
use crate::tunnel::nodes::Common;
use crate::tunnel::words::SaidLease;

impl Keeper {
    /// Which nodes there are is told from now on.
    pub(super) fn watch_machines(&mut self) {
        if std::mem::replace(&mut self.watches_machines, true) {
            return;
        }
        tell_each(self.kubernetes.machines(), self.tell.clone(), Event::Machines);
    }

    /// Whether that is something new: a node says every few seconds how it is.
    pub(super) fn on_node(&mut self, event: NodeEvent) -> bool {
        match &event {
            NodeEvent::Joined { node, .. } => tracing::debug!(node, "a node is there"),
            NodeEvent::Left { node, .. } => tracing::debug!(node, "a node has gone"),
            NodeEvent::State { .. } => {}
        }
        self.nodes.on_event(event)
    }

    /// It is listened for nodes as long as there is a pool and another node.
    pub(super) async fn mind_nodes(&mut self, said: &Said) {
        let range = said.own.nodes.filter(|_| self.pool.is_some());
        self.nodes.gather(self.begun.elapsed() < limits::NODE_GATHER);
        let port = self.ground.gateway().ok().map(|settings| settings.nodes.port);
        let at = port.and_then(|port| Some(SocketAddr::new(self.nodes.local()?, port)));
        if at.is_none() && self.door.is_open() && self.dismisses() {
            return;
        }
        self.dismisses = None;
        self.door.stand(at).await;
        self.nodes.know_door(self.door.trouble());
        self.nodes.settle(range);
    }

    /// Nobody needs the other nodes any more: whether it is still waited until they know.
    fn dismisses(&mut self) -> bool {
        let since = *self.dismisses.get_or_insert_with(Instant::now);
        !self.nodes.dismiss() && since.elapsed() < limits::NODE_DISMISS
    }

    /// Nodes whose pods reach no other cluster, and why.
    pub(super) fn cut_off(&self) -> Vec<NodeTrouble> {
        let cut_off = self.nodes.cut_off().into_iter();
        cut_off.map(|(node, reason)| NodeTrouble { node, reason }).collect()
    }

    /// What all nodes have in common, while there is a gateway.
    pub(super) fn common(&self) -> Option<Common> {
        let settings = self.ground.gateway().ok()?;
        Some(Common {
            pool: settings.pool,
            second: self.second.pool(),
            vni: settings.nodes.vni,
            port: settings.nodes.overlay_port,
            gate: settings.nodes.gate,
            mtu: limits::TUNNEL_MTU as u32,
            names: names::of_nodes(&self.ground),
        })
    }

    /// Guests on this node are told names once it has what it needs for them.
    pub(super) async fn mind_names(&mut self, said: &Said) {
        let (ground, end, pods, nodes) = (&self.ground, &self.end, &self.pods, &self.nodes);
        let stand = names::Stand { ground, end, pods, nodes };
        self.own_names.mind(stand, said, &self.heard.name_server).await;
    }

    /// What leases reach by the tunnel is reached by the machine, and by the other nodes.
    pub(super) fn mind_machines(&mut self, said: &Said) {
        let Some(common) = self.common() else { return };
        // What an earlier run has set up stays until all is known that it follows from.
        let is_known = !self.nodes.waits() && (self.knows_pods || self.nodes.local().is_none());
        // Guests that are closed stay as they are until it is known which of them are here.
        let closes = said.leases.values().any(|lease| lease.is_closed);
        let is_known = is_known && (!closes || self.knows_pods && self.nodes.is_known());
        let Some(range) = said.own.nodes.filter(|_| is_known) else {
            return self.own_guests.rest(said);
        };
        let node = range.network();
        let [ranges, homes] =
            [false, true].map(|of_guests| self.second.ranges(said.ranges(of_guests)));
        let dwellers = dwellers(&self.pods, &said.guest_namespaces(), closes);
        let own = own_rules(&common, &self.pods, &self.nodes, &self.second, said, &dwellers);
        let guests = self.own_guests.close(own);
        let (nodes, pods) = (&self.nodes, &self.pod_nodes);
        let api = self.own_api.way(&self.ground, said, &self.consent);
        self.end.stand(Stand { common: &common, node, ranges, homes, nodes, pods, guests, api });
        let ranges = &mut self.lease_ranges;
        let leases = lease_wishes(&self.end, &self.pods, ranges, said, &common);
        self.nodes.tell(&common, Some(node), &leases, &self.pod_nodes, &dwellers, &said.names);
    }
}

/// What nodes are told of leases. One that has ended by the clock is said again, should that
/// have been wrong.
fn lease_wishes(
    end: &End,
    all: &[PodPlace],
    lease_ranges: &mut BTreeMap<ContractId, Arc<Vec<IpNet>>>,
    said: &Said,
    common: &Common,
) -> Vec<WishLease> {
    let now_ms = wall_ms();
    lease_ranges.retain(|id, _| said.leases.contains_key(id));
    // Guests begin also where nothing is reached yet.
    let is_told = |lease: &&SaidLease| {
        let has_guests = lease.side == Side::Provider;
        (has_guests || !lease.ranges.is_empty()) && lease.until_ms > now_ms
    };
    let mut askers: BTreeMap<ContractId, Vec<IpAddr>> = BTreeMap::new();
    for (_, address, id) in names::askers(all, said) {
        askers.entry(id).or_default().push(address);
    }
    let (mut wishes, namespaces) = (Vec::new(), said.guest_namespaces());
    for (id, lease) in said.leases.iter().filter(|(_, lease)| is_told(lease)) {
        let now: Vec<IpNet> = lease.ranges.iter().map(|range| range.local).collect();
        let of = closed_guests(all, &namespaces).filter(|it| lease.is_closed && it.contract == *id);
        let closed = of.map(|it| it.guest).collect();
        let ranges = lease_ranges.entry(*id).or_default();
        if **ranges != now {
            *ranges = Arc::new(now);
        }
        wishes.push(WishLease {
            until_ms: lease.until_ms,
            ranges: ranges.clone(),
            pods: end.pods(id, common),
            guests: lease.side == Side::Provider,
            closed,
            services: said.services(id),
            lease: (lease.side == Side::Provider).then_some(*id),
            askers: askers.remove(id).unwrap_or_default(),
        });
    }
    wishes
}
