//! The other nodes of this cluster: they are listened for while there are some, told what they are
//! to have, and shown.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use mercato_broker::Side;
use mercato_machine::Outward;
use mercato_protocol::id::ContractId;

use super::guests::{Here, closed_guests, dwellers, own_rules};
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
            never: self.own_egress.never().cloned(),
        })
    }

    /// Guests on this node are told names once it has what it needs for them.
    pub(super) async fn mind_names(&mut self, said: &Said) {
        let (ground, end, pods, nodes) = (&self.ground, &self.end, &self.pods, &self.nodes);
        let stand = names::Stand { ground, end, pods, nodes, never: self.own_egress.all() };
        self.own_names.mind(stand, said, &self.heard.name_server).await;
    }

    /// What leases reach by the tunnel is reached by the machine, and by the other nodes.
    pub(super) fn mind_machines(&mut self, said: &Said) {
        let Some(common) = self.common() else { return };
        // What an earlier run has set up stays until all is known that it follows from.
        let knows_cluster = self.knows_pods && self.ground.domain().is_some();
        let is_known = !self.nodes.waits() && (knows_cluster || self.nodes.local().is_none());
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
        let names = self.own_names.way(&self.ground);
        let here = Here {
            common: &common,
            names,
            pods: &self.pods,
            nodes: &self.nodes,
            second: &self.second,
            networks: self.own_egress.networks(),
        };
        let own = own_rules(&here, said, &dwellers);
        let never = own.never.clone();
        let closed = self.own_guests.close(own);
        let outward = Outward::of(&closed.outward, &never);
        let (nodes, pods) = (&self.nodes, &self.pod_nodes);
        let api = self.own_api.way(&self.ground, said, &self.consent);
        self.end.stand(Stand {
            common: &common,
            node,
            ranges,
            homes,
            nodes,
            pods,
            guests: closed.addresses,
            outward,
            names,
            api,
        });
        let ranges = &mut self.lease_ranges;
        let leases = lease_wishes(&self.end, &self.pods, ranges, said, &common);
        self.nodes.tell(&common, Some(node), &leases, &self.pod_nodes, &dwellers, &said.names);
    }
}

/// What is wrong on nodes, by their names, as people see it.
pub(super) fn troubles(all: BTreeMap<String, String>) -> Vec<NodeTrouble> {
    all.into_iter().map(|(node, reason)| NodeTrouble { node, reason }).collect()
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
    // Two of them may have one address for a moment.
    let mut askers: BTreeMap<ContractId, BTreeSet<IpAddr>> = BTreeMap::new();
    for (_, address, id) in names::askers(all, said) {
        askers.entry(id).or_default().insert(address);
    }
    let (mut wishes, namespaces) = (Vec::new(), said.guest_namespaces());
    for (id, lease) in said.leases.iter().filter(|(_, lease)| is_told(lease)) {
        let now: Vec<IpNet> = lease.ranges.iter().map(|range| range.local).collect();
        let of = closed_guests(all, &namespaces).filter(|it| lease.is_closed && it.contract == *id);
        let closed = of.filter_map(|it| it.of(lease)).collect();
        let ranges = lease_ranges.entry(*id).or_default();
        if **ranges != now {
            *ranges = Arc::new(now);
        }
        wishes.push(WishLease {
            id: *id,
            until_ms: lease.until_ms,
            ranges: ranges.clone(),
            pods: end.pods(id, common),
            guests: lease.side == Side::Provider,
            closed,
            services: said.services(id),
            askers: askers.remove(id).unwrap_or_default(),
            egress: lease.egress.clone(),
        });
    }
    wishes
}

#[cfg(test)]
mod tests {
    use mercato_kubelet::inventory::GuestPlace;
    use mercato_machine::Marks;
    use mercato_protocol::codec::Message as _;
    use mercato_protocol::id::ClusterId;
    use mercato_protocol::node::ToNode;
    use tokio::sync::watch;

    use super::*;
    use crate::kubernetes::NodeMachine;
    use crate::nodes::control::Order;
    use crate::tunnel::nodes::Nodes;
    use crate::tunnel::words::TunnelHandle;

    const COMMON: Common = Common {
        pool: IpNet::new_assert(IpAddr::V4(std::net::Ipv4Addr::new(10, 200, 0, 0)), 13),
        second: None,
        vni: 7_475,
        port: 7_477,
        gate: 7_479,
        mtu: 1_420,
        names: None,
        never: Some(BTreeSet::new()),
    };

    /// One whose guests are in this namespace.
    fn lease(namespace: &str) -> SaidLease {
        SaidLease {
            side: Side::Provider,
            cluster: ClusterId([1; 32]),
            until_ms: u64::MAX,
            ranges: vec![],
            is_closed: true,
            egress: mercato_protocol::egress::Egress::None,
            namespaces: [namespace.to_owned()].into(),
            said: 1,
        }
    }

    fn guest(namespace: &str, uid: &str, last: u8) -> PodPlace {
        PodPlace {
            namespace: namespace.to_owned(),
            node: "n2".to_owned(),
            address: Some([10, 42, 0, last].into()),
            second: None,
            guest: Some(GuestPlace { uid: uid.to_owned(), is_open: true, called: None }),
        }
    }

    /// The daemon is on n1, and n2 is there.
    fn two() -> (Nodes, watch::Receiver<Order>) {
        let machine = |name: &str, last| NodeMachine {
            name: name.to_owned(),
            addresses: vec![[192, 0, 2, last].into()],
            public: vec![],
            ready: true,
            left_out: false,
        };
        let (mut nodes, (orders, order)) = (Nodes::default(), watch::channel(Order::Wait));
        nodes.learn(&[machine("n1", 1), machine("n2", 2)], &[[192, 0, 2, 1].into()].into());
        let (node, connection, held) = ("n2".to_owned(), 1, None);
        nodes.on_event(NodeEvent::Joined { node, connection, held, orders });
        nodes.settle("10.203.7.0/24".parse().ok());
        (nodes, order)
    }

    #[test]
    fn two_guests_with_one_address_keep_no_word_from_their_node() {
        let (_tunnels, heard) = TunnelHandle::new(None);
        let mut said = heard.now();
        let ids = [1, 2].map(|id| ContractId([id; 16]));
        said.leases = [(ids[0], lease("shop-rome")), (ids[1], lease("shop-milan"))].into();
        let (one, other) = (guest("shop-rome", "a", 7), guest("shop-rome", "b", 7));
        let all = [one, other, guest("shop-milan", "c", 8)];
        let end = End::new(Marks::default(), std::sync::mpsc::sync_channel(1).0);
        let leases = lease_wishes(&end, &all, &mut BTreeMap::new(), &said, &COMMON);
        let at = all.iter().filter_map(|pod| Some((pod.address?, pod.node.clone()))).collect();
        let dwellers = dwellers(&all, &said.guest_namespaces(), true);
        let (mut nodes, order) = two();
        let gateway = Some([10, 203, 7, 0].into());
        nodes.tell(&COMMON, gateway, &leases, &at, &dwellers, &BTreeMap::new());
        let Order::Have(wish, _) = &*order.borrow() else { panic!() };
        let bytes = ToNode::Snapshot(wish.at(wall_ms())).to_bytes().unwrap();
        let ToNode::Snapshot(heard) = ToNode::from_bytes(&bytes).unwrap() else { panic!() };
        let counts: Vec<_> =
            heard.leases.iter().map(|(id, it)| (*id, it.askers.len(), it.closed.len())).collect();
        assert_eq!(counts, [(ids[0], 1, 2), (ids[1], 1, 1)]);
    }
}
