//! What becomes of packets where there are both families.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{Family, Mac, Overlay, Wanted, Way};
use socket2::{Domain, Protocol, Socket, Type};

use crate::both::{
    self, ANY, GATEWAY, GATEWAYS_POD, GUEST, NOBODYS, NODE, NODE_MACHINE, OF_NODE, POD, STRANGER,
    UNMAPPED, dropped, in_clear, of_gateway, of_node,
};
use crate::cluster::{DEVICE, PATIENCE, counted_of, said, set_up, steps};
use crate::namespace::Namespace;
use crate::nodes::{self, Nodes, OVERLAY};
use crate::packets::{MARKED_PORT, PORT, exchange, has_nothing, rises, socket};

/// Enough for packets as large as a way takes, in both directions.
const MANY_BYTES: usize = 1 << 20;
/// Of ICMP (RFC 4443, RFC 4861).
const ECHO: u8 = 128;
const ECHO_REPLY: u8 = 129;
const ROUTER: u8 = 134;
const ASKED: u8 = 135;

pub(crate) fn sources_are_right() -> Result<()> {
    sources_by(&both::nodes(Family::V4)?)
}

fn sources_by(nodes: &Nodes) -> Result<()> {
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
    // Beside it IPv4 goes as ever.
    let guest = socket(&nodes.guest, nodes::GUEST, PORT)?;
    let source = exchange(&socket(&nodes.pod, nodes::POD, 0)?, &guest, nodes::GUEST)?;
    ensure!(source == nodes::POD, "it came from {source}");
    Ok(())
}

pub(crate) fn mapped_pods_alone_are_reached() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    for (place, address) in [(&nodes.pod, POD), (&nodes.gateways_pod, GATEWAYS_POD)] {
        let pod = socket(place, address, PORT)?;
        let source = exchange(&guest, &pod, address).with_context(|| format!("to {address}"))?;
        ensure!(source == GUEST, "a pod network has changed the source to {source}");
    }
    let unmapped = socket(&nodes.pod, UNMAPPED, PORT)?;
    let node = socket(&nodes.node, ANY, PORT)?;
    for (to, whom) in [(UNMAPPED, &unmapped), (NODE_MACHINE, &node), (NODE, &node)] {
        let dropped = || dropped(&nodes.gateway, "from_device", "to nobody who is mapped");
        let before = dropped()?;
        guest.send_to(b"?", (to, PORT))?;
        rises(dropped, before).with_context(|| format!("to {to}"))?;
        has_nothing(whom).with_context(|| format!("to {to}"))?;
    }
    let gateway = socket(&nodes.gateway, ANY, PORT)?;
    let called = "the node is not called from other clusters";
    let count = || dropped(&nodes.gateway, "input", called);
    let before = count()?;
    guest.send_to(b"?", (GATEWAY, PORT))?;
    rises(count, before)?;
    has_nothing(&gateway)?;
    // Whoever was a pod and is none any more.
    let pod = socket(&nodes.pod, POD, PORT)?;
    let mut nobody = of_node(Family::V4);
    nobody.pods.remove(&POD.into());
    set_up(&nodes.node, &nobody)?;
    let count = || dropped(&nodes.node, "from_device", "to nobody who is mapped");
    let before = count()?;
    guest.send_to(b"?", (POD, PORT))?;
    rises(count, before)?;
    has_nothing(&pod)
}

pub(crate) fn all_kinds_cross() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    for (from, own) in [(&nodes.pod, POD), (&nodes.gateways_pod, GATEWAYS_POD)] {
        connects(from, &nodes.guest, GUEST)?;
        connects(&nodes.guest, from, own)?;
        echoes(from, own, GUEST)?;
        echoes(&nodes.guest, GUEST, own)?;
    }
    Ok(())
}

/// A connection brings all bytes there, and back.
fn connects(from: &Namespace, to: &Namespace, at: Ipv6Addr) -> Result<()> {
    let listener = to.within(move || TcpListener::bind((at, PORT)))??;
    let answers = std::thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut bytes = vec![0; MANY_BYTES];
        stream.read_exact(&mut bytes)?;
        Ok(stream.write_all(&bytes)?)
    });
    let to = SocketAddr::from((at, PORT));
    let mut stream = from.within(move || TcpStream::connect_timeout(&to, PATIENCE))??;
    stream.set_read_timeout(Some(PATIENCE))?;
    let sent: Vec<u8> = (0..MANY_BYTES).map(|n| (n % 251) as u8).collect();
    let mut writer = stream.try_clone()?;
    let writes = std::thread::spawn({
        let sent = sent.clone();
        move || writer.write_all(&sent)
    });
    let mut came = vec![0; MANY_BYTES];
    stream.read_exact(&mut came)?;
    writes.join().expect("it writes")?;
    answers.join().expect("it answers")?;
    ensure!(came == sent, "other bytes came back");
    Ok(())
}

fn raw(at: &Namespace) -> Result<Socket> {
    let kind = (Domain::IPV6, Type::from(libc::SOCK_RAW), Some(Protocol::ICMPV6));
    let socket = at.within(move || Socket::new(kind.0, kind.1, kind.2))??;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn echoes(from: &Namespace, own: Ipv6Addr, to: Ipv6Addr) -> Result<()> {
    let mut socket = raw(from)?;
    socket.bind(&SocketAddrV6::new(own, 0, 0, 0).into())?;
    socket.connect(&SocketAddrV6::new(to, 0, 0, 0).into())?;
    socket.write_all(&[ECHO, 0, 0, 0, 7, 7, 0, 1])?;
    let mut kind = [0; 8];
    while kind[0] != ECHO_REPLY {
        let _ = socket.read(&mut kind).with_context(|| format!("no echo from {to}"))?;
    }
    Ok(())
}

pub(crate) fn by_a_network_of_ipv6() -> Result<()> {
    let nodes = both::nodes(Family::V6)?;
    let entries = said(&nodes.node, "bridge fdb show dev mercato1")?;
    ensure!(entries.contains("dst 2001:db8::1 "), "{entries}");
    sources_by(&nodes).context("sources")?;
    connects(&nodes.pod, &nodes.guest, GUEST).context("a connection")?;
    connects(&nodes.guest, &nodes.pod, POD).context("a connection of the guest")?;
    forged_by(&nodes, Family::V6).context("forged")?;
    // Where there is no IPv6 but that of the network of the nodes.
    let four = |wanted: Wanted, ours: Ipv6Addr, other: Ipv6Addr| -> Wanted {
        let mut wanted = Wanted { second: None, ..wanted };
        wanted.ranges.retain(|range| range.addr().is_ipv4());
        wanted.pods.remove(&ours.into());
        if let Some(overlay) = &mut wanted.overlay {
            overlay.nodes.remove(&other.into());
        }
        if let Way::Device { elsewhere } = &mut wanted.way {
            elsewhere.remove(&POD.into());
        }
        wanted
    };
    set_up(&nodes.gateway, &four(of_gateway(Family::V6), GATEWAYS_POD, NODE))?;
    set_up(&nodes.node, &four(of_node(Family::V6), POD, GATEWAY))?;
    let guest = socket(&nodes.guest, nodes::GUEST, PORT)?;
    let source = exchange(&socket(&nodes.pod, nodes::POD, 0)?, &guest, nodes::GUEST)?;
    ensure!(source == nodes::POD, "it came from {source}");
    forged_by(&nodes, Family::V6)
}

pub(crate) fn nothing_leaves_in_clear() -> Result<()> {
    let nodes = both::new()?;
    nodes.gateway.ip(&format!("link set {DEVICE} up"))?;
    nodes.settle()?;
    let stranger = socket(&nodes.stranger, ANY, PORT)?;
    let node = socket(&nodes.node, ANY, 0)?;
    node.send_to(b"?", (GUEST, PORT))?;
    stranger.recv_from(&mut [0; 1]).context("the default route leads nowhere")?;
    let before = in_clear(&nodes)?;
    ensure!(before > 0, "the watch sees nothing");
    set_up(&nodes.node, &of_node(Family::V4))?;
    nodes.node.ip(&format!("link del {OVERLAY}"))?;
    for (place, who) in [(&nodes.pod, "a pod"), (&nodes.node, "the node")] {
        let to = SocketAddr::from((GUEST, PORT));
        let connected = place.within(move || TcpStream::connect_timeout(&to, PATIENCE))?;
        let kind = connected.err().map(|error| error.kind());
        let refused = [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable].map(Some);
        ensure!(refused.contains(&kind), "{who} was told {kind:?}");
    }
    nodes.node.ip("-6 rule del preference 500")?;
    let dropped = || dropped(&nodes.node, "leaving", "to another cluster in clear");
    for (place, address) in [(&nodes.node, ANY), (&nodes.pod, POD)] {
        let from = socket(place, address, 0)?;
        let dropped_before = dropped()?;
        let sent = from.send_to(b"?", (GUEST, PORT));
        rises(dropped, dropped_before).with_context(|| format!("{sent:?}"))?;
    }
    let after = in_clear(&nodes)?;
    ensure!(after == before, "{} packets left in clear", after - before);
    set_up(&nodes.node, &of_node(Family::V4))?;
    ensure!(steps(&nodes.node, &of_node(Family::V4))?.is_empty(), "it is not whole again");
    Ok(())
}

/// A device of the same kind as ours, by hand, over a network of this family.
fn join(stranger: &Namespace, network: Family) -> Result<()> {
    let (vni, port) = (Overlay::VNI, Overlay::PORT);
    let (local, machine): (IpAddr, IpAddr) = match network {
        Family::V4 => (nodes::STRANGER.into(), nodes::NODE_MACHINE.into()),
        Family::V6 => (STRANGER.into(), NODE_MACHINE.into()),
    };
    let made = format!("link add forger type vxlan id {vni} dstport {port} local {local}");
    stranger.ip(&format!("{made} nolearning"))?;
    stranger.ip("link set forger up")?;
    let mac = Mac::of(nodes::NODE.into());
    stranger.ip(&format!("neigh add {NODE} lladdr {mac} dev forger nud permanent"))?;
    let words = ["fdb", "add", &mac.to_string(), "dev", "forger", "dst", &machine.to_string()];
    stranger.run("bridge", words.map(str::to_owned).to_vec())?;
    stranger.ip(&format!("-6 route replace fd42:0:0:1::/64 via {NODE} dev forger onlink"))
}

/// Datagrams of whoever is no node are dropped, and of whoever is are looked at.
fn forged_by(nodes: &Nodes, network: Family) -> Result<()> {
    join(&nodes.stranger, network)?;
    let table = match network {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let pod = socket(&nodes.pod, POD, PORT)?;
    let forger = socket(&nodes.stranger, GUEST, 0)?;
    let input = format!("{table} mercato input");
    let dropped = || counted_of(&nodes.node, &input, "overlay from no node");
    let before = dropped()?;
    forger.send_to(b"?", (POD, PORT))?;
    rises(dropped, before)?;
    has_nothing(&pod)?;
    nodes.stranger.ip("link del forger")
}

pub(crate) fn what_is_forged_is_dropped() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    // From the network of the nodes, and from a pod: with a source of another cluster.
    nodes.pod.ip(&format!("address add {GUEST}/128 dev lo nodad"))?;
    let node = socket(&nodes.node, ANY, PORT)?;
    let elsewhere = "source of another cluster from elsewhere";
    for (place, to) in [(&nodes.stranger, NODE_MACHINE), (&nodes.pod, OF_NODE)] {
        let dropped = || dropped(&nodes.node, "arriving", elsewhere);
        let before = dropped()?;
        socket(place, GUEST, 0)?.send_to(b"?", (to, PORT))?;
        rises(dropped, before).with_context(|| format!("to {to}"))?;
        has_nothing(&node)?;
    }
    // By the gateway's device, of a cluster that nobody has a contract with.
    nodes.guest.ip(&format!("address add {NOBODYS}/128 dev lo nodad"))?;
    let lost = || dropped(&nodes.gateway, "arriving", "from where no way leads back");
    let before = lost()?;
    socket(&nodes.guest, NOBODYS, 0)?.send_to(b"?", (GATEWAYS_POD, PORT))?;
    rises(lost, before)?;
    // By the overlay, of a stranger, and of a node for somebody whom no way leads back to.
    forged_by(&nodes, Family::V4)?;
    join(&nodes.stranger, Family::V4)?;
    let mut third = of_node(Family::V4);
    let overlay = third.overlay.as_mut().context("no overlay")?;
    overlay
        .nodes
        .insert(Ipv6Addr::new(0xfd00, 0xc8, 0, 0, 0, 0, 0, 3).into(), nodes::STRANGER.into());
    set_up(&nodes.node, &third)?;
    let pod = socket(&nodes.pod, POD, PORT)?;
    socket(&nodes.stranger, GUEST, 0)?.send_to(b"?", (POD, PORT))?;
    pod.recv_from(&mut [0; 1]).context("the forger's device is no good")?;
    for (source, comment) in
        [(NOBODYS, "from where no way leads back"), (STRANGER, "from a node, of no other cluster")]
    {
        let dropped = || dropped(&nodes.node, "arriving", comment);
        let before = dropped()?;
        socket(&nodes.stranger, source, 0)?.send_to(b"?", (POD, PORT))?;
        rises(dropped, before).with_context(|| format!("from {source}"))?;
        has_nothing(&pod)?;
    }
    Ok(())
}

pub(crate) fn neighbours_are_not_believed() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    let neighbours = || said(&nodes.gateway, &format!("ip -6 neigh show dev {DEVICE}"));
    // A router that has a network for everybody (RFC 4861, section 4.2), as the guest says.
    let prefix = [&[3, 4, 64, 0xc0][..], &[0xff; 8], &[0; 4], &[0x20, 1, 0xd, 0xb8], &[0; 12]];
    let router = [&[ROUTER, 0, 0, 0, 64, 0, 7, 8][..], &[0; 8], &prefix.concat()].concat();
    let socket = raw(&nodes.guest)?;
    socket.set_multicast_hops_v6(255)?;
    let lost = || dropped(&nodes.gateway, "arriving", "from where no way leads back");
    let before = lost()?;
    let link = said(&nodes.guest, "ip -o link show far0")?;
    let index = link.split(':').next().context("no device")?.parse()?;
    let everybody = SocketAddrV6::new("ff02::1".parse()?, 0, 0, index);
    socket.send_to(&router, &everybody.into())?;
    rises(lost, before)?;
    // Who has the gateway's address, with a source that is right (section 4.3).
    let asked = [&[ASKED, 0, 0, 0, 0, 0, 0, 0][..], &GATEWAY.octets()].concat();
    let asking = raw(&nodes.guest)?;
    asking.bind(&SocketAddrV6::new(GUEST, 0, 0, 0).into())?;
    asking.set_unicast_hops_v6(255)?;
    let called = "the node is not called from other clusters";
    let count = || dropped(&nodes.gateway, "input", called);
    let before = count()?;
    asking.send_to(&asked, &SocketAddrV6::new(GATEWAY, 0, 0, 0).into())?;
    rises(count, before)?;
    let routes = said(&nodes.gateway, "ip -6 route show table all proto ra")?;
    ensure!(routes.is_empty(), "{routes}");
    let neighbours = neighbours()?;
    ensure!(!neighbours.contains("router"), "{neighbours}");
    Ok(())
}

pub(crate) fn large_packets_are_refused() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    let pod = socket(&nodes.pod, POD, 0)?;
    let until = Instant::now() + PATIENCE;
    let is_told = |address: Ipv6Addr, mtu: u32| -> Result<()> {
        let told = format!("mtu {mtu}");
        while !said(&nodes.pod, &format!("ip -6 route get {GUEST} from {address}"))?.contains(&told)
        {
            ensure!(Instant::now() < until, "{address} was not told that {mtu} is the most");
        }
        Ok(())
    };
    // With the headers of IP and UDP, 1,400 bytes. What is in one packet is as large as the route
    // says, and in two afterwards.
    pod.send_to(&[0; 1_352], (GUEST, PORT))?;
    is_told(POD, 1_330)?;
    let guest = socket(&nodes.guest, GUEST, PORT)?;
    exchange(&pod, &guest, GUEST).context("a small one")?;
    pod.send_to(&[0; 1_352], (GUEST, PORT))?;
    let (length, _) = guest.recv_from(&mut [0; 2_000]).context("in two")?;
    ensure!(length == 1_352, "it came with {length} bytes");
    // Where the gateway's device takes less, its node says so, also to whoever has the address of
    // another node.
    set_up(&nodes.gateway, &Wanted { mtu: 1_290, ..of_gateway(Family::V4) })?;
    for address in [POD, UNMAPPED] {
        nodes.pod.ip("-6 route flush cache")?;
        socket(&nodes.pod, address, 0)?.send_to(&[0; 1_275], (GUEST, PORT))?;
        is_told(address, 1_290)?;
    }
    Ok(())
}

pub(crate) fn without_a_pool_nothing_goes() -> Result<()> {
    let nodes = both::new()?;
    set_up(&nodes.gateway, &nodes::of_gateway())?;
    set_up(&nodes.node, &nodes::of_node())?;
    nodes.settle()?;
    let nobody = "nobody has IPv6 here";
    // Both ways by the gateway's device, as if somebody had led IPv6 there.
    let arriving = || dropped(&nodes.gateway, "arriving", nobody);
    let before = arriving()?;
    let guest: UdpSocket = socket(&nodes.guest, GUEST, 0)?;
    guest.send_to(b"?", (GATEWAYS_POD, PORT))?;
    rises(arriving, before)?;
    nodes.gateway.ip(&format!("-6 route add {GUEST} dev {DEVICE}"))?;
    let leaving = || dropped(&nodes.gateway, "leaving", nobody);
    let before = leaving()?;
    let sent = socket(&nodes.gateway, ANY, 0)?.send_to(b"?", (GUEST, PORT));
    rises(leaving, before).with_context(|| format!("{sent:?}"))
}
