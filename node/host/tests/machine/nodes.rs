//! Two nodes of a cluster, in namespaces: the gateway's and another one, each with a pod; another
//! cluster behind the gateway's device; a stranger on the network of the nodes, who is the way out
//! as well.

use std::net::Ipv4Addr;

use anyhow::{Result, ensure};
use mercato_machine::{Marks, Outward, Overlay, Wanted, Way};

use crate::cluster::{DEVICE, PATIENCE, WATCH, counted, empty, nft, said, set_up, sysctl};
use crate::namespace::Namespace;

pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 1);
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 2);
/// Of both nodes, their addresses on the network of the nodes, and the stranger's.
pub(crate) const GATEWAY_MACHINE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const NODE_MACHINE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
pub(crate) const GATEWAYS_POD: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 5);
pub(crate) const POD: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 5);
pub(crate) const UNMAPPED: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 9);
pub(crate) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 201, 4, 7);
/// As which the session shows the other cluster our pod, where it has one of that address itself.
pub(crate) const TRANSLATED: Ipv4Addr = Ipv4Addr::new(10, 203, 0, 5);
/// The device of the overlay.
pub(crate) const OVERLAY: &str = "mercato1";
pub(crate) const OVERLAY_MTU: u32 = 1_330;

/// What a pod network does: everything is masqueraded that nobody has given a source before, also
/// towards pods; a port is marked as kube-proxy does; a port of a Service leads to the overlay's.
const POD_NETWORK: &str = "
table ip others {
    chain marks {
        type filter hook forward priority mangle; policy accept;
        udp sport 7000 meta mark set 0x4000
    }
    chain services {
        type nat hook prerouting priority dstnat; policy accept;
        ip daddr 10.96.0.1 udp dport 53 dnat to 192.0.2.1:7477
    }
    chain leaving {
        type nat hook postrouting priority srcnat; policy accept;
        oifname != \"lo\" masquerade
    }
}";

/// What the session does for a cluster that has the same range of pods.
const EQUAL_RANGES: &str = "
table ip session {
    chain arriving {
        type filter hook prerouting priority raw; policy accept;
        iifname \"far0\" ip saddr 10.42.1.5 ip saddr set 10.203.0.5
    }
    chain leaving {
        type filter hook postrouting priority raw; policy accept;
        oifname \"far0\" ip daddr 10.203.0.5 ip daddr set 10.42.1.5
    }
}";

pub(crate) struct Nodes {
    pub(crate) gateway: Namespace,
    pub(crate) node: Namespace,
    pub(crate) gateways_pod: Namespace,
    pub(crate) pod: Namespace,
    pub(crate) guest: Namespace,
    pub(crate) stranger: Namespace,
    /// What joins the nodes and the stranger.
    wire: Namespace,
}

fn overlay(local: Ipv4Addr, node: Ipv4Addr, machine: Ipv4Addr) -> Overlay {
    Overlay {
        vni: Overlay::VNI,
        port: Overlay::PORT,
        local: local.into(),
        mtu: OVERLAY_MTU,
        nodes: [(node.into(), machine.into())].into(),
    }
}

/// What the gateway's machine should have.
pub(crate) fn of_gateway() -> Wanted {
    Wanted {
        marks: Marks::default(),
        mtu: 1_420,
        pool: "10.200.0.0/13".parse().expect("a network"),
        node: GATEWAY.into(),
        second: None,
        names: None,
        api: None,
        ranges: ["10.201.4.0/24".parse().expect("a network")].into(),
        homes: [].into(),
        pods: [GATEWAYS_POD.into()].into(),
        guests: [].into(),
        outward: Outward::default(),
        way: Way::Device { elsewhere: [(POD.into(), NODE.into())].into() },
        overlay: Some(overlay(GATEWAY_MACHINE, NODE, NODE_MACHINE)),
    }
}

/// What the other node should have.
pub(crate) fn of_node() -> Wanted {
    Wanted {
        node: NODE.into(),
        pods: [POD.into()].into(),
        way: Way::Through(GATEWAY.into()),
        overlay: Some(overlay(NODE_MACHINE, GATEWAY, GATEWAY_MACHINE)),
        ..of_gateway()
    }
}

impl Nodes {
    pub(crate) fn new() -> Result<Self> {
        Self::of(empty)
    }

    /// Of namespaces that are made so.
    pub(crate) fn of(empty: fn() -> Result<Namespace>) -> Result<Self> {
        let [gateway, node, gateways_pod] = [empty()?, empty()?, empty()?];
        let [pod, guest, stranger, wire] = [empty()?, empty()?, empty()?, empty()?];
        wire.ip("link add bridge0 type bridge")?;
        wire.ip("link set bridge0 up")?;
        for (name, at, address) in [
            ("gateway", &gateway, GATEWAY_MACHINE),
            ("node", &node, NODE_MACHINE),
            ("stranger", &stranger, STRANGER),
        ] {
            wire.ip(&format!("link add {name} type veth peer name eth0 netns {}", at.id()))?;
            wire.ip(&format!("link set {name} master bridge0 up"))?;
            at.ip("link set eth0 up")?;
            at.ip(&format!("address add {address}/24 dev eth0"))?;
        }
        pair(&gateway, &gateways_pod, 0)?;
        pair(&node, &pod, 1)?;
        // As a device of IP alone.
        gateway.ip(&format!("link add {DEVICE} type veth peer name far0 netns {}", guest.id()))?;
        gateway.ip(&format!("link set {DEVICE} arp off address 02:00:00:00:00:01"))?;
        for (at, words) in [
            (&guest, "link set far0 arp off address 02:00:00:00:00:01"),
            (&guest, "link set far0 up"),
            (&guest, "address add 10.201.4.7/32 dev far0"),
            (&guest, "route add default dev far0"),
            (&gateway, "route add 10.42.1.0/24 via 192.0.2.11"),
            (&gateway, "route add default via 192.0.2.66"),
            (&node, "route add 10.42.0.0/24 via 192.0.2.1"),
            (&node, "route add default via 192.0.2.66"),
            (&pod, "address add 10.42.1.9/24 dev eth0"),
            (&stranger, "address add 10.201.4.7/32 dev lo"),
            (&stranger, "address add 10.203.0.9/32 dev lo"),
            (&stranger, "route add 10.42.1.0/24 via 192.0.2.11"),
        ] {
            at.ip(words)?;
        }
        for at in [&gateway, &node] {
            sysctl(at, "net.ipv4.ip_forward=1")?;
            nft(at, POD_NETWORK)?;
        }
        // One is as strict as many distributions are; the other believes pods whatever they say.
        sysctl(&gateway, "net.ipv4.conf.all.rp_filter=1")?;
        nft(&stranger, WATCH)?;
        Ok(Self { gateway, node, gateways_pod, pod, guest, stranger, wire })
    }

    /// One in which everything is in force.
    pub(crate) fn set_up() -> Result<Self> {
        let nodes = Self::new()?;
        set_up(&nodes.gateway, &of_gateway())?;
        set_up(&nodes.node, &of_node())?;
        nodes.settle()?;
        Ok(nodes)
    }

    /// Waits until each device that is set up carries packets, and the bridge does.
    pub(crate) fn settle(&self) -> Result<()> {
        let Self { gateway, node, gateways_pod, pod, guest, stranger, wire } = self;
        let until = std::time::Instant::now() + PATIENCE;
        for namespace in [gateway, node, gateways_pod, pod, guest, stranger, wire] {
            while said(namespace, "ip -o link show up")?.contains("DOWN")
                || said(namespace, "ip -4 route")?.contains("linkdown")
            {
                ensure!(std::time::Instant::now() < until, "a device does not come up");
            }
        }
        Ok(())
    }

    /// The other cluster has a pod of the same address as ours, and more in the same range.
    pub(crate) fn with_equal_ranges(&self) -> Result<()> {
        self.guest.ip("address add 10.42.1.5/24 dev lo")?;
        nft(&self.guest, EQUAL_RANGES)
    }

    /// How many packets a rule of ours has dropped there.
    pub(crate) fn dropped(&self, at: &Namespace, chain: &str, comment: &str) -> Result<u64> {
        counted(at, &format!("mercato {chain}"), comment)
    }

    /// How many packets to the pool have left in clear.
    pub(crate) fn in_clear(&self) -> Result<u64> {
        counted(&self.stranger, "watch arriving", "in clear")
    }
}

/// A pod behind a node.
fn pair(node: &Namespace, pod: &Namespace, third: u8) -> Result<()> {
    node.ip(&format!("link add pod0 type veth peer name eth0 netns {}", pod.id()))?;
    node.ip("link set pod0 up")?;
    node.ip(&format!("address add 10.42.{third}.1/24 dev pod0"))?;
    pod.ip("link set eth0 up")?;
    pod.ip(&format!("address add 10.42.{third}.5/24 dev eth0"))?;
    pod.ip(&format!("route add default via 10.42.{third}.1"))
}
