//! What becomes of packets between nodes.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{Mac, Overlay, Wanted, Way};

use crate::cluster::{DEVICE, PATIENCE, counted, nft, said, set_up, steps};
use crate::namespace::Namespace;
use crate::nodes::{
    GATEWAY, GATEWAY_MACHINE, GATEWAYS_POD, GUEST, NODE, NODE_MACHINE, Nodes, OVERLAY, OVERLAY_MTU,
    POD, STRANGER, TRANSLATED, UNMAPPED, of_gateway, of_node,
};
use crate::packets::{ANY, MARKED_PORT, PORT, exchange, has_nothing, rises, socket};

/// An address of the pool that is in no range.
const NOBODYS: Ipv4Addr = Ipv4Addr::new(10, 203, 0, 9);
/// What the pod network of these tests leads to the overlay's port.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

pub(crate) fn sources_are_right() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    for (place, address, port, expected) in [
        (&nodes.pod, POD, 0, POD),
        (&nodes.pod, UNMAPPED, 0, NODE),
        (&nodes.pod, POD, MARKED_PORT, NODE),
        (&nodes.node, ANY, 0, NODE),
        (&nodes.node, NODE_MACHINE, 0, NODE),
        (&nodes.gateways_pod, GATEWAYS_POD, 0, GATEWAYS_POD),
        (&nodes.gateway, ANY, 0, GATEWAY),
    ] {
        let from = socket(place, address, port)?;
        let source = exchange(&from, &guest, GUEST)
            .with_context(|| format!("from {address}, port {port}"))?;
        ensure!(source == expected, "from {address}, port {port}, it came from {source}");
    }
    Ok(())
}

pub(crate) fn mapped_pods_alone_are_reached() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    for (place, address) in [(&nodes.pod, POD), (&nodes.gateways_pod, GATEWAYS_POD)] {
        let pod = socket(place, address, PORT)?;
        let source = exchange(&guest, &pod, address).with_context(|| format!("to {address}"))?;
        ensure!(source == GUEST, "a pod network has changed the source to {source}");
    }
    let pod = socket(&nodes.pod, POD, PORT + 1)?;
    let unmapped = socket(&nodes.pod, UNMAPPED, PORT)?;
    let node = socket(&nodes.node, ANY, PORT)?;
    for (to, whom) in [(UNMAPPED, &unmapped), (NODE_MACHINE, &node), (NODE, &node)] {
        let dropped = || nodes.dropped(&nodes.gateway, "from_device", "to nobody who is mapped");
        let before = dropped()?;
        guest.send_to(b"?", (to, PORT))?;
        rises(dropped, before).with_context(|| format!("to {to}"))?;
        has_nothing(whom).with_context(|| format!("to {to}"))?;
    }
    // Whoever was a pod and is none any more, at the one node or at the other.
    let nobody = Wanted { pods: [].into(), ..of_node() };
    set_up(&nodes.node, &nobody)?;
    let dropped = || nodes.dropped(&nodes.node, "from_device", "to nobody who is mapped");
    let before = dropped()?;
    guest.send_to(b"?", (POD, PORT + 1))?;
    rises(dropped, before)?;
    let nobody = Wanted { way: Way::default(), ..of_gateway() };
    set_up(&nodes.gateway, &nobody)?;
    let dropped = || nodes.dropped(&nodes.gateway, "from_device", "to nobody who is mapped");
    let before = dropped()?;
    guest.send_to(b"?", (POD, PORT + 1))?;
    rises(dropped, before)?;
    has_nothing(&pod)
}

pub(crate) fn nothing_leaves_in_clear() -> Result<()> {
    let nodes = Nodes::new()?;
    nodes.gateway.ip(&format!("link set {DEVICE} up"))?;
    nodes.settle()?;
    let stranger = socket(&nodes.stranger, ANY, PORT)?;
    let node = socket(&nodes.node, ANY, 0)?;
    node.send_to(b"?", (GUEST, PORT))?;
    stranger.recv_from(&mut [0; 1]).context("the default route leads nowhere")?;
    let before = nodes.in_clear()?;
    ensure!(before > 0, "the watch sees nothing");
    set_up(&nodes.node, &of_node())?;
    nodes.node.ip(&format!("link del {OVERLAY}"))?;
    for (place, who) in [(&nodes.pod, "a pod"), (&nodes.node, "the node")] {
        let to = SocketAddrV4::new(GUEST, PORT);
        let connected = place.within(move || TcpStream::connect_timeout(&to.into(), PATIENCE))?;
        let kind = connected.err().map(|error| error.kind());
        ensure!(kind == Some(ErrorKind::HostUnreachable), "{who} was told {kind:?}");
    }
    // Also where somebody has removed the rule, or led the pool elsewhere.
    nodes.node.ip("rule del preference 500")?;
    let dropped = || nodes.dropped(&nodes.node, "leaving", "to another cluster in clear");
    for (place, address) in [(&nodes.node, ANY), (&nodes.pod, POD)] {
        let from = socket(place, address, 0)?;
        let dropped_before = dropped()?;
        let sent = from.send_to(b"?", (GUEST, PORT));
        rises(dropped, dropped_before).with_context(|| format!("{sent:?}"))?;
    }
    let after = nodes.in_clear()?;
    ensure!(after == before, "{} packets left in clear", after - before);
    // And it is mended.
    set_up(&nodes.node, &of_node())?;
    ensure!(steps(&nodes.node, &of_node())?.is_empty(), "it is not whole again");
    Ok(())
}

/// A device of the same kind as ours, by hand: whoever is at it sends frames to our nodes.
fn join(stranger: &Namespace) -> Result<()> {
    let (vni, port) = (Overlay::VNI, Overlay::PORT);
    let made = format!("link add forger type vxlan id {vni} dstport {port} local {STRANGER}");
    stranger.ip(&format!("{made} nolearning"))?;
    stranger.ip("link set forger up")?;
    for (node, machine, to) in
        [(NODE, NODE_MACHINE, "10.42.1.0/24"), (GATEWAY, GATEWAY_MACHINE, "10.201.4.128/25")]
    {
        let mac = Mac::of(node.into());
        stranger.ip(&format!("neigh add {node} lladdr {mac} dev forger nud permanent"))?;
        let words = ["fdb", "add", &mac.to_string(), "dev", "forger", "dst", &machine.to_string()];
        stranger.run("bridge", words.map(str::to_owned).to_vec())?;
        stranger.ip(&format!("route replace {to} via {node} dev forger onlink"))?;
    }
    Ok(())
}

pub(crate) fn forged_datagrams_are_dropped() -> Result<()> {
    let nodes = Nodes::set_up()?;
    join(&nodes.stranger)?;
    let pod = socket(&nodes.pod, POD, PORT)?;
    let forger = socket(&nodes.stranger, GUEST, 0)?;
    let dropped = || nodes.dropped(&nodes.node, "input", "overlay from no node");
    let before = dropped()?;
    forger.send_to(b"?", (POD, PORT))?;
    rises(dropped, before)?;
    has_nothing(&pod)?;
    // Were it a node, it would be heard: else this test shows nothing.
    let mut third = of_node();
    let overlay = third.overlay.as_mut().context("no overlay")?;
    overlay.nodes.insert(Ipv4Addr::new(10, 201, 0, 3).into(), STRANGER.into());
    set_up(&nodes.node, &third)?;
    forger.send_to(b"?", (POD, PORT))?;
    pod.recv_from(&mut [0; 1]).context("the forger's device is no good")?;
    // Of a cluster that nobody has a contract with. What is sent later does not come first.
    socket(&nodes.stranger, NOBODYS, 0)?.send_to(b"?", (POD, PORT))?;
    forger.send_to(b"?", (POD, PORT))?;
    let (_, source) = pod.recv_from(&mut [0; 1])?;
    ensure!(source.ip() == GUEST, "it came from {source}");
    has_nothing(&pod)?;
    // From a node, of somebody who is no other cluster.
    let forger = socket(&nodes.stranger, STRANGER, 0)?;
    let dropped = || nodes.dropped(&nodes.node, "arriving", "from a node, of no other cluster");
    let before = dropped()?;
    forger.send_to(b"?", (POD, PORT))?;
    rises(dropped, before)?;
    has_nothing(&pod)
}

pub(crate) fn nodes_send_for_mapped_pods_alone() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    // A node that has lost its rules, and its pod network: sources are what pods say.
    nft(&nodes.node, "delete table ip mercato")?;
    nft(&nodes.node, "delete table ip others")?;
    let unmapped = socket(&nodes.pod, UNMAPPED, 0)?;
    let dropped =
        || nodes.dropped(&nodes.gateway, "arriving", "from a node, of nobody who is mapped");
    let before = dropped()?;
    unmapped.send_to(b"?", (GUEST, PORT))?;
    rises(dropped, before)?;
    has_nothing(&guest)?;
    exchange(&socket(&nodes.pod, POD, 0)?, &guest, GUEST).context("of a pod that is mapped")?;
    // To the gateway's machine itself, or to a pod there.
    let gateway = socket(&nodes.gateway, ANY, PORT)?;
    let gateways_pod = socket(&nodes.gateways_pod, GATEWAYS_POD, PORT)?;
    nodes
        .node
        .ip(&format!("route add table 7475 {GATEWAYS_POD} via {GATEWAY} dev {OVERLAY} onlink"))?;
    nodes.node.ip(&format!("rule add preference 499 to {GATEWAYS_POD} lookup 7475"))?;
    let pod = socket(&nodes.pod, POD, 0)?;
    for (to, whom, chain, comment) in [
        (GATEWAY, &gateway, "input", "the node is not called by the overlay"),
        (GATEWAYS_POD, &gateways_pod, "from_overlay", "from a node to no other cluster"),
    ] {
        let dropped = || nodes.dropped(&nodes.gateway, chain, comment);
        let before = dropped()?;
        pod.send_to(b"?", (to, PORT))?;
        rises(dropped, before).with_context(|| format!("to {to}"))?;
        has_nothing(whom).with_context(|| format!("to {to}"))?;
    }
    Ok(())
}

pub(crate) fn pods_have_no_overlay() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let port = Overlay::PORT;
    // What it may try: the address of the gateway's machine.
    nodes.pod.ip("address add 192.0.2.1/32 dev lo")?;
    for (from, to, to_port, chain, comment) in [
        (POD, NODE_MACHINE, port, "input", "overlay from no node"),
        (POD, NODE, port, "input", "overlay from no node"),
        // With the address of the gateway's machine.
        (GATEWAY_MACHINE, NODE_MACHINE, port, "input", "overlay by no network of nodes"),
        (POD, GATEWAY_MACHINE, port, "forward", "overlay of somebody who is no node"),
        (POD, SERVICE, 53, "forward", "overlay of somebody who is no node"),
    ] {
        // Its own address, which it tries to send from, is no way to that machine.
        if to == GATEWAY_MACHINE {
            nodes.pod.ip("address del 192.0.2.1/32 dev lo")?;
        }
        let dropped = || nodes.dropped(&nodes.node, chain, comment);
        let before = dropped()?;
        socket(&nodes.pod, from, 0)?.send_to(b"?", (to, to_port))?;
        rises(dropped, before).with_context(|| format!("from {from} to {to}"))?;
    }
    // The same port of whoever is no node is nobody's business.
    let stranger = socket(&nodes.stranger, STRANGER, port)?;
    exchange(&socket(&nodes.pod, POD, 0)?, &stranger, STRANGER)?;
    Ok(())
}

pub(crate) fn equal_ranges_do_no_harm() -> Result<()> {
    let nodes = Nodes::set_up()?;
    nodes.with_equal_ranges()?;
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    let pod = socket(&nodes.pod, POD, PORT)?;
    let source = exchange(&pod, &guest, GUEST).context("to the other cluster")?;
    ensure!(source == TRANSLATED, "it came from {source}");
    let source = exchange(&guest, &pod, TRANSLATED).context("from the other cluster")?;
    ensure!(source == GUEST, "it came from {source}");
    // Within the cluster the address means our pod, by the pod network.
    let gateways_pod = socket(&nodes.gateways_pod, GATEWAYS_POD, 0)?;
    for from in [&gateways_pod, &socket(&nodes.gateway, ANY, 0)?] {
        let source = exchange(from, &pod, POD).context("within the cluster")?;
        ensure!(source != TRANSLATED && source != GUEST, "it came from {source}");
    }
    Ok(())
}

pub(crate) fn large_packets_are_refused_by_the_own_node() -> Result<()> {
    let nodes = Nodes::set_up()?;
    nft(
        &nodes.pod,
        "table ip watch {
            chain arriving {
                type filter hook prerouting priority raw; policy accept;
                ip saddr 10.42.1.1 icmp type destination-unreachable icmp code 4 counter comment \"large\"
            }
        }",
    )?;
    let pod = socket(&nodes.pod, POD, 0)?;
    // With the headers of IP and UDP, 1,400 bytes; the kernel forbids to fragment it.
    pod.send_to(&[0; 1_372], (GUEST, PORT))?;
    rises(|| counted(&nodes.pod, "watch arriving", "large"), 0)?;
    let until = Instant::now() + PATIENCE;
    let told = format!("mtu {OVERLAY_MTU}");
    while !said(&nodes.pod, &format!("ip route get {GUEST}"))?.contains(&told) {
        ensure!(Instant::now() < until, "the pod was not told the right size");
    }
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    exchange(&pod, &guest, GUEST).context("a small one")?;
    // Where the gateway's device takes less, its node says so, also to whoever has the address of
    // another node.
    set_up(&nodes.gateway, &Wanted { mtu: 1_300, ..of_gateway() })?;
    for address in [POD, UNMAPPED] {
        nodes.pod.ip("route flush cache")?;
        socket(&nodes.pod, address, 0)?.send_to(&[0; 1_290], (GUEST, PORT))?;
        while !said(&nodes.pod, &format!("ip route get {GUEST} from {address}"))?
            .contains("mtu 1300")
        {
            ensure!(Instant::now() < until, "{address} was not told what the gateway takes");
        }
    }
    Ok(())
}
