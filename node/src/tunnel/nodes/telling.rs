//! What each node is told.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::node::NodeWay;

use super::{Common, Nodes, PodNodes, say};
use crate::nodes::control::WishLease;

impl Nodes {
    /// Says to each node what it is to have: the leases, each with the pods of that node alone.
    pub(in crate::tunnel) fn tell(
        &mut self,
        common: &Common,
        gateway: Option<IpAddr>,
        leases: &[WishLease],
        pods: &PodNodes,
    ) {
        let leases = &self.left_out.leave(leases)[..];
        let (mtu, local) = (self.mtu(common), self.local());
        let mut on: BTreeMap<&str, BTreeMap<usize, Vec<IpAddr>>> = BTreeMap::new();
        for (nth, lease) in leases.iter().enumerate() {
            for pod in &lease.pods {
                let Some(node) = pods.get(pod) else { continue };
                on.entry(node).or_default().entry(nth).or_default().push(*pod);
            }
        }
        for (name, seat) in &mut self.seats {
            let of = on.get(name.as_str());
            let way = gateway.zip(local).filter(|_| !leases.is_empty());
            let way = way.map(|(gateway, gateway_machine)| NodeWay {
                pool: common.pool,
                address: seat.address,
                machine: seat.machine,
                gateway,
                gateway_machine,
                vni: common.vni,
                port: common.port.into(),
                mtu,
                pool_v6: common.second.map(IpNet::V6),
            });
            let mine = |(nth, lease): (usize, &WishLease)| WishLease {
                until_ms: lease.until_ms,
                ranges: lease.ranges.clone(),
                pods: of.and_then(|of| of.get(&nth)).cloned().unwrap_or_default(),
                guests: lease.guests,
            };
            let leases = leases.iter().enumerate().filter(|_| way.is_some()).map(mine).collect();
            if let Some(wish) = seat.wish(self.version + 1, way, leases) {
                self.version = wish.version;
            }
            if let Some(present) = self.present.get(name) {
                say(&present.orders, seat.order());
            }
        }
    }

    /// Says to each node that it needs nothing any more; whether all that are there have heard it.
    pub(in crate::tunnel) fn dismiss(&mut self) -> bool {
        self.hear();
        let mut all = true;
        for (name, seat) in &mut self.seats {
            if let Some(wish) = seat.wish(self.version + 1, None, Vec::new()) {
                self.version = wish.version;
            }
            if let Some(present) = self.present.get(name).filter(|it| !it.orders.is_closed()) {
                say(&present.orders, seat.order());
                all &= seat.is_in_force();
            }
        }
        all
    }

    /// What connections have said last.
    fn hear(&mut self) {
        for (name, present) in &self.present {
            if let Some(seat) = self.seats.get_mut(name) {
                seat.hear(present.connection, present.held, &present.state);
            }
        }
    }
}
