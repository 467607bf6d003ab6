//! What lies at both ends of a tunnel: the gateways alone, or behind each of them another node
//! with pods, as the daemons set both machines up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result};
use ipnet::{IpNet, Ipv4Net};
use mercato_machine::{Marks, Outward, Overlay, Wanted, Way};

use super::cable::{self, Cable, Ends, Wire, wait_for_link};
use super::case::MANY;
use super::mercato::{DEVICE, OVERHEAD, Settings, Tunnel, pod};
use super::namespace::Namespace;

/// What the device of a node's pods is called, and of the pods.
const PODS: &str = "pods";
/// What the device is called that a gateway and its other node have on the network of nodes.
const NODES: &str = "nodes";

/// Which way the load goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// From one gateway to the other.
    Gateways,
    /// From a pod of another node to such a pod: by the overlay on both sides.
    Nodes,
}

/// The machines of a tunnel.
pub(super) struct Ground {
    pub(super) cable: Cable,
    behind: Vec<Behind>,
}

/// What is behind a gateway.
struct Behind {
    node: Namespace,
    pods: Namespace,
}

impl Ground {
    /// Makes them, in new network namespaces.
    pub(super) fn lay(wire: Wire, mtu: usize, through: Through) -> Result<Self> {
        let cable = Cable::lay(wire, mtu)?;
        let behind = match through {
            Through::Gateways => Vec::new(),
            Through::Nodes => {
                let behind = |end| Behind::new(cable.namespace(end), end, wire, mtu);
                vec![behind(0)?, behind(1)?]
            }
        };
        Ok(Self { cable, behind })
    }

    /// Whether there are pods, on nodes that are not the gateways'.
    pub(super) fn has_nodes(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Between which the load of a tunnel goes.
    pub(super) fn ends(&self) -> Ends<'_> {
        match &self.behind[..] {
            [one, other] => [&one.pods, &other.pods],
            _ => self.cable.ends(),
        }
    }

    /// Starts our own tunnel, and waits until its ends reach each other.
    pub(super) fn begin(&self, settings: Settings) -> Result<Tunnel> {
        if !self.has_nodes() {
            return Tunnel::begin(&self.cable, settings);
        }
        let stand = |end| self.stand(end, DEVICE, settings.mtu - OVERHEAD);
        let tunnel = Tunnel::start(&self.cable, settings, stand)?;
        wait_for_link(self.ends(), pod(0, 0), pod(1, 0))?;
        Ok(tunnel)
    }

    /// Brings the machines of one end to what the daemons want of them, where there are nodes: the
    /// gateway is a device of this name.
    pub(super) fn stand(&self, end: usize, device: &str, mtu: usize) -> Result<()> {
        let Some(behind) = self.behind.get(end) else { return Ok(()) };
        let marks = Marks { device: device.to_owned(), ..Marks::default() };
        let [gateway, node] = wanted(end, &marks, mtu);
        set_up(self.cable.namespace(end), gateway).context("the gateway's machine")?;
        set_up(&behind.node, node).context("the machine of the other node")
    }
}

impl Behind {
    /// A node on a network with this gateway, and its pods.
    fn new(gateway: &Namespace, end: usize, wire: Wire, mtu: usize) -> Result<Self> {
        let (node, pods) = (Namespace::new()?, Namespace::new()?);
        for namespace in [&node, &pods] {
            namespace.ip("link set lo up")?;
        }
        cable::join(gateway, &node, NODES, wire, mtu)?;
        cable::join(&node, &pods, PODS, Wire::Segments, mtu)?;
        gateway.ip(&format!("address add {}/24 dev {NODES}", machine(end, 1)))?;
        node.ip(&format!("address add {}/24 dev {NODES}", machine(end, 2)))?;
        for lease in 0..MANY {
            pods.ip(&format!("address add {}/32 dev {PODS}", pod(end, lease)))?;
        }
        let [at_node, at_pods] = [1, 2].map(|last| Ipv4Addr::new(172, 30, end as u8, last));
        node.ip(&format!("address add {at_node}/24 dev {PODS}"))?;
        pods.ip(&format!("address add {at_pods}/24 dev {PODS}"))?;
        node.ip(&format!("route add {} via {at_pods}", network(end)))?;
        pods.ip(&format!("route add default via {at_node} src {}", pod(end, 0)))?;
        for namespace in [gateway, &node] {
            namespace.within(forward)??;
        }
        Ok(Self { node, pods })
    }
}

/// Of an end: all addresses of its cluster, as the other one knows them.
pub(super) fn network(end: usize) -> IpNet {
    let address = Ipv4Addr::new(10, 200 + end as u8, 0, 0);
    IpNet::V4(Ipv4Net::new_assert(address, 16))
}

/// Of the gateway's machine of an end, or of the other node's, on the network of nodes.
fn machine(end: usize, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 29, end as u8, last)
}

/// What the gateway's machine and the other node of an end should have. A rival translates no
/// addresses, so that the pool of a cluster is where the other one's pods have their own.
fn wanted(end: usize, marks: &Marks, mtu: usize) -> [Wanted; 2] {
    let pool = network(1 - end);
    let own = |last| IpAddr::V4(Ipv4Addr::new(10, 201 - end as u8, 255, last));
    let (gateway, node) = (own(1), own(2));
    let machine = |last| IpAddr::V4(machine(end, last));
    let pods: BTreeSet<IpAddr> = (0..MANY).map(|lease| pod(end, lease)).collect();
    let headers = Overlay::headers(mercato_machine::Family::V4);
    let largest = (mtu as u32).min((mtu + OVERHEAD) as u32 - headers);
    let overlay = |local, node: IpAddr, machine: IpAddr| Overlay {
        vni: Overlay::VNI,
        port: Overlay::PORT,
        local,
        mtu: largest,
        nodes: BTreeMap::from([(node, machine)]),
    };
    let elsewhere = pods.iter().map(|pod| (*pod, node)).collect();
    let of_gateway = Wanted {
        marks: marks.clone(),
        mtu: mtu as u32,
        pool,
        node: gateway,
        second: None,
        names: None,
        api: None,
        ranges: BTreeSet::from([others(end)]),
        homes: BTreeSet::new(),
        pods: BTreeSet::new(),
        guests: BTreeSet::new(),
        outward: Outward::default(),
        way: Way::Device { elsewhere },
        overlay: Some(overlay(machine(1), node, machine(2))),
    };
    let of_node = Wanted {
        mtu: largest,
        node,
        pods,
        way: Way::Through(gateway),
        overlay: Some(overlay(machine(2), gateway, machine(1))),
        ..of_gateway.clone()
    };
    [of_gateway, of_node]
}

/// Where an end reaches the pods of the other one.
fn others(end: usize) -> IpNet {
    let address = Ipv4Addr::new(10, 201 - end as u8, 0, 0);
    IpNet::V4(Ipv4Net::new_assert(address, 24))
}

/// Lets the namespace of this thread forward packets.
fn forward() -> io::Result<()> {
    let mut setting = File::options().write(true).open("/proc/sys/net/ipv4/ip_forward")?;
    setting.write_all(b"1")
}

fn set_up(at: &Namespace, wanted: Wanted) -> Result<()> {
    at.within(move || {
        let found = mercato_host::read(&wanted.marks)?;
        let steps = mercato_machine::plan(&found, &wanted)?;
        Ok(mercato_host::apply(&steps)?)
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_machines_of_each_end_may_be_as_they_are_wanted() {
        for end in 0..2 {
            for wanted in wanted(end, &Marks::default(), cable::MTU - OVERHEAD) {
                wanted.check().unwrap();
            }
        }
    }
}
