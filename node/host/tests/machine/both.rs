//! The two nodes with both families, over a network of either.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::Result;
use mercato_machine::{Family, Overlay, Place, Wanted, Way};

use crate::cluster::{counted_of, empty_of_both, nft, set_up, sysctl};
use crate::namespace::Namespace;
use crate::nodes::{self, Nodes};

pub(crate) const POOL: &str = "fd00:c8::/32";
pub(crate) const GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 0, 0, 0, 0, 0, 1);
pub(crate) const NODE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 0, 0, 0, 0, 0, 2);
pub(crate) const GUEST: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 4, 0, 0, 0, 0, 7);
/// An address of the pool that is in no range.
pub(crate) const NOBODYS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 9, 0, 0, 0, 0, 7);
pub(crate) const GATEWAYS_POD: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 5);
pub(crate) const POD: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 1, 0, 0, 0, 5);
pub(crate) const UNMAPPED: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 1, 0, 0, 0, 9);
pub(crate) const GATEWAY_MACHINE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const NODE_MACHINE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x11);
pub(crate) const STRANGER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x66);
pub(crate) const ANY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
/// What the other node says to a pod comes from there.
pub(crate) const OF_NODE: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 1, 0, 0, 0, 1);

/// What a pod network does in IPv6, as in IPv4.
const POD_NETWORK: &str = "
table ip6 others {
    chain marks {
        type filter hook forward priority mangle; policy accept;
        udp sport 7000 meta mark set 0x4000
    }
    chain leaving {
        type nat hook postrouting priority srcnat; policy accept;
        oifname != \"lo\" masquerade
    }
}";

/// Counts what comes to the pool in clear.
const WATCH: &str = "
table ip6 watch {
    chain arriving {
        type filter hook prerouting priority raw; policy accept;
        ip6 daddr fd00:c8::/32 counter comment \"in clear\"
    }
}";

fn with_six(mut wanted: Wanted, node: Ipv6Addr) -> Wanted {
    let pool = POOL.parse().expect("a network");
    wanted.second = Some(Place { pool, node: node.into() });
    wanted.ranges.insert("fd00:c8:4::/64".parse().expect("a network"));
    wanted
}

/// What the gateway's machine should have, by a network of nodes of this family.
pub(crate) fn of_gateway(network: Family) -> Wanted {
    let mut wanted = with_six(nodes::of_gateway(), GATEWAY);
    wanted.pods.insert(GATEWAYS_POD.into());
    let Way::Device { elsewhere } = &mut wanted.way else { unreachable!("it is the gateway's") };
    elsewhere.insert(POD.into(), NODE.into());
    by(wanted, network, NODE, [GATEWAY_MACHINE, NODE_MACHINE])
}

/// What the other node should have.
pub(crate) fn of_node(network: Family) -> Wanted {
    let mut wanted = with_six(nodes::of_node(), NODE);
    wanted.pods.insert(POD.into());
    by(wanted, network, GATEWAY, [NODE_MACHINE, GATEWAY_MACHINE])
}

fn by(mut wanted: Wanted, network: Family, node: Ipv6Addr, [here, there]: [Ipv6Addr; 2]) -> Wanted {
    if let Some(overlay) = &mut wanted.overlay {
        let machines = overlay.nodes.values().copied();
        let machine = match network {
            Family::V4 => machines.last().expect("another node"),
            Family::V6 => {
                overlay.local = here.into();
                overlay.mtu = 1_500 - Overlay::headers(network);
                IpAddr::from(there)
            }
        };
        overlay.nodes.values_mut().for_each(|other| *other = machine);
        overlay.nodes.insert(node.into(), machine);
    }
    wanted
}

/// Nodes with both families, on which nothing of ours is set up.
pub(crate) fn new() -> Result<Nodes> {
    let nodes = Nodes::of(empty_of_both)?;
    let Nodes { gateway, node, gateways_pod, pod, guest, stranger, .. } = &nodes;
    for (at, words) in [
        (gateway, "address add 2001:db8::1/64 dev eth0 nodad"),
        (node, "address add 2001:db8::11/64 dev eth0 nodad"),
        (stranger, "address add 2001:db8::66/64 dev eth0 nodad"),
        (gateway, "address add fd42::1/64 dev pod0 nodad"),
        (node, "address add fd42:0:0:1::1/64 dev pod0 nodad"),
        (gateways_pod, "address add fd42::5/64 dev eth0 nodad"),
        (pod, "address add fd42:0:0:1::9/64 dev eth0 nodad"),
        (pod, "address add fd42:0:0:1::5/64 dev eth0 nodad"),
        (guest, "address add fd00:c8:4::7/128 dev far0 nodad"),
        (stranger, "address add fd00:c8:4::7/128 dev lo nodad"),
        (stranger, "address add fd00:c8:9::7/128 dev lo nodad"),
        (gateways_pod, "-6 route add default via fd42::1"),
        (pod, "-6 route add default via fd42:0:0:1::1"),
        (guest, "-6 route add default dev far0"),
        (gateway, "-6 route add fd42:0:0:1::/64 via 2001:db8::11"),
        (gateway, "-6 route add default via 2001:db8::66"),
        (node, "-6 route add fd42::/64 via 2001:db8::1"),
        (node, "-6 route add default via 2001:db8::66"),
        (stranger, "-6 route add fd42:0:0:1::/64 via 2001:db8::11"),
    ] {
        at.ip(words)?;
    }
    for at in [gateway, node] {
        sysctl(at, "net.ipv6.conf.all.forwarding=1")?;
        nft(at, POD_NETWORK)?;
    }
    nft(stranger, WATCH)?;
    Ok(nodes)
}

/// Nodes on which everything is in force.
pub(crate) fn nodes(network: Family) -> Result<Nodes> {
    let nodes = new()?;
    set_up(&nodes.gateway, &of_gateway(network))?;
    set_up(&nodes.node, &of_node(network))?;
    nodes.settle()?;
    Ok(nodes)
}

/// How many packets of IPv6 a rule of ours has dropped there.
pub(crate) fn dropped(at: &Namespace, chain: &str, comment: &str) -> Result<u64> {
    counted_of(at, &format!("ip6 mercato {chain}"), comment)
}

/// How many packets of IPv6 to the pool have left in clear.
pub(crate) fn in_clear(nodes: &Nodes) -> Result<u64> {
    counted_of(&nodes.stranger, "ip6 watch arriving", "in clear")
}
