//! What a closed pod reaches, and what not. Each try that must fail is made before, when it does
//! not: whether a frame has left is seen at the node's end of the pair.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context as _, Result, ensure};
use ipnet::IpNet;
use mercato_machine::Closed;
use socket2::{Domain, Protocol, Socket, Type};

use crate::cluster::{PATIENCE, nft, said};
use crate::frames::icmp;
use crate::is_full;
use crate::namespace::Namespace;
use crate::packets::{PORT, exchange, has_nothing, rises, socket};
use crate::pods::{
    LATER, NODE, NODE_V6, OTHER, OTHER_V6, POD, POD_V6, Pods, REACHED, REACHED_V6, SERVICE, wanted,
};
use crate::state::all_of;
use crate::tries::{Tries, plain_tries, raw_tries, raw_tries_of_six};

/// Of a Service that the pod may reach.
const OWN_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 7);

/// At which nobody listens in the pod (that of `discard`).
const NOBODYS_PORT: u16 = 9;

fn leaves(pods: &Pods, tries: &Tries) -> Result<()> {
    for (name, sends) in tries {
        let before = pods.seen()?;
        sends(&pods.pod).with_context(|| name.clone())?;
        rises(|| pods.seen(), before).with_context(|| format!("{name}, before it is closed"))?;
    }
    Ok(())
}

fn is_dropped(pods: &Pods, tries: &Tries, dropped: fn(&Pods) -> Result<u64>) -> Result<()> {
    let seen = pods.seen()?;
    for (name, sends) in tries {
        let before = dropped(pods)?;
        sends(&pods.pod).with_context(|| name.clone())?;
        rises(|| dropped(pods), before).with_context(|| format!("{name} is not dropped"))?;
        ensure!(pods.seen()? == seen, "{name} has left the pod");
    }
    Ok(())
}

/// Whoever may be reached is, both ways, and the node's own questions are answered.
fn whom_it_may_is_reached(pods: &Pods) -> Result<()> {
    for (own, reached, node) in [
        (IpAddr::from(POD), IpAddr::from(REACHED), IpAddr::from(NODE[0])),
        (POD_V6.into(), REACHED_V6.into(), NODE_V6[0].into()),
    ] {
        // Ports of their own: a program that another test starts may still have those of before.
        let outside = socket(&pods.outside, reached, 0)?;
        let pod = socket(&pods.pod, own, 0)?;
        let source = exchange(&pod, &outside, reached).context("a datagram")?;
        ensure!(source == own, "it came from {source}");
        exchange(&outside, &pod, own).context("a datagram to it")?;
        for (from, source, to, at) in [
            (&pods.pod, own, &pods.outside, reached),
            (&pods.outside, reached, &pods.pod, own),
            (&pods.node, node, &pods.pod, own),
        ] {
            let (mut stream, mut other) = connection(from, source, to, at)
                .with_context(|| format!("a connection from {source} to {at}"))?;
            says(&mut stream, &mut other)?;
            says(&mut other, &mut stream)?;
            echoes(from, source, at).with_context(|| format!("an echo from {source} to {at}"))?;
        }
        // As large as it takes several packets for.
        let large = [b'x'; 3_000];
        pod.send_to(&large, outside.local_addr()?)?;
        let (length, _) = outside.recv_from(&mut [0; 4_000]).context("in several packets")?;
        ensure!(length == large.len(), "it came with {length} bytes");
        let asks = socket(&pods.node, node, 0)?;
        asks.send_to(b"?", pod.local_addr()?)?;
        pod.recv_from(&mut [0; 1]).context("a datagram of its node")?;
        asks.connect((own, NOBODYS_PORT))?;
        asks.send(b"?")?;
        let refused = asks.recv(&mut [0; 1]).expect_err("nobody listens");
        ensure!(refused.kind() == ErrorKind::ConnectionRefused, "its node is told {refused}");
    }
    Ok(())
}

/// A connection of this source, as both ends have it.
pub(crate) fn connection(
    from: &Namespace,
    source: IpAddr,
    to: &Namespace,
    at: IpAddr,
) -> Result<(TcpStream, TcpStream)> {
    let listener = to.within(move || TcpListener::bind((at, 0)))??;
    let address = listener.local_addr()?;
    let socket =
        from.within(move || Socket::new(Domain::for_address(address), Type::STREAM, None))??;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let (other, _) = listener.accept()?;
    let stream = TcpStream::from(socket);
    for end in [&stream, &other] {
        end.set_read_timeout(Some(PATIENCE))?;
    }
    Ok((stream, other))
}

pub(crate) fn echoes(from: &Namespace, source: IpAddr, to: IpAddr) -> Result<()> {
    let (domain, protocol, asks, answers) = if to.is_ipv4() {
        (Domain::IPV4, Protocol::ICMPV4, 8, 0)
    } else {
        (Domain::IPV6, Protocol::ICMPV6, 128, 129)
    };
    let raw = Type::from(libc::SOCK_RAW);
    let mut socket = from.within(move || Socket::new(domain, raw, Some(protocol)))??;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect(&SocketAddr::new(to, 0).into())?;
    let mut echo = icmp(asks);
    if to.is_ipv4() {
        // The kernel sums up that of IPv6 alone.
        let sum = !((u16::from(asks) << 8) + 8);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    socket.write_all(&echo)?;
    loop {
        let mut packet = [0; 64];
        let _ = socket.read(&mut packet)?;
        // A raw socket of IPv4 gives the header as well.
        if packet[if to.is_ipv4() { 20 } else { 0 }] == answers {
            return Ok(());
        }
    }
}

pub(crate) fn says(from: &mut TcpStream, to: &mut TcpStream) -> Result<()> {
    let bytes = vec![7; 100_000];
    let mut writer = from.try_clone()?;
    let sent = bytes.clone();
    let writes = std::thread::spawn(move || writer.write_all(&sent));
    let mut came = vec![0; bytes.len()];
    to.read_exact(&mut came)?;
    writes.join().expect("it writes")?;
    ensure!(came == bytes, "other bytes came");
    Ok(())
}

pub(crate) fn nobody_else_is_reached() -> Result<()> {
    let pods = Pods::new()?;
    whom_it_may_is_reached(&pods).context("before it is closed")?;
    leaves(&pods, &plain_tries())?;
    pods.close(&wanted())?;
    is_dropped(&pods, &plain_tries(), Pods::dropped)?;
    whom_it_may_is_reached(&pods)?;
    for node in [&pods.node, &pods.pod] {
        said(node, "ip neigh flush all")?;
    }
    whom_it_may_is_reached(&pods).context("with neighbours that it has to ask for")
}

pub(crate) fn nothing_else_leaves() -> Result<()> {
    let pods = Pods::new()?;
    for tries in [raw_tries(), raw_tries_of_six()] {
        leaves(&pods, &tries)?;
    }
    pods.close(&wanted())?;
    for tries in [raw_tries(), raw_tries_of_six()] {
        is_dropped(&pods, &tries, Pods::dropped)?;
    }
    Ok(())
}

pub(crate) fn it_is_closed_without_the_nodes_rules() -> Result<()> {
    let pods = Pods::new()?;
    leaves(&pods, &plain_tries())?;
    let before = all_of(&pods.node)?;
    pods.close(&wanted())?;
    let after = all_of(&pods.node)?;
    ensure!(before == after, "the node was changed:\n{after}\nis not\n{before}");
    said(&pods.node, "nft flush ruleset")?;
    pods.watch()?;
    ensure!(pods.is_closed(&wanted())?, "it is open");
    is_dropped(&pods, &plain_tries(), Pods::dropped)?;
    whom_it_may_is_reached(&pods)
}

pub(crate) fn nobody_else_reaches_it() -> Result<()> {
    let pods = Pods::new()?;
    for (own, other) in [(IpAddr::from(POD), IpAddr::from(OTHER)), (POD_V6.into(), OTHER_V6.into())]
    {
        let [pod, other] = [socket(&pods.pod, own, PORT)?, socket(&pods.other, other, PORT)?];
        exchange(&other, &pod, own).context("before it is closed")?;
        pods.close(&wanted())?;
        let before = pods.dropped()?;
        other.send_to(b"?", (own, PORT))?;
        rises(|| pods.dropped(), before)?;
        has_nothing(&pod)?;
        let nobody = Closed::default();
        pods.close(&nobody)?;
        let node = socket(
            &pods.node,
            if own.is_ipv4() { IpAddr::from(NODE[0]) } else { NODE_V6[0].into() },
            0,
        )?;
        let before = pods.dropped()?;
        node.send_to(b"?", (own, PORT))?;
        rises(|| pods.dropped(), before).context("of no address")?;
        has_nothing(&pod)?;
        said(&pods.pod, "nft delete table netdev mercato")?;
    }
    Ok(())
}

pub(crate) fn a_change_keeps_connections() -> Result<()> {
    let pods = Pods::new()?;
    pods.close(&wanted())?;
    let (mut stream, mut other) = connection(&pods.pod, POD.into(), &pods.outside, REACHED.into())?;
    says(&mut stream, &mut other)?;
    let reached = ["10.201.4.0/25", "10.201.5.0/24"];
    let changed = Closed {
        reached: reached.map(|range| range.parse().expect("a network")).into(),
        ..wanted()
    };
    pods.close(&changed)?;
    ensure!(pods.is_closed(&changed)? && !pods.is_closed(&wanted())?, "it is another one");
    says(&mut stream, &mut other)?;
    says(&mut other, &mut stream)?;
    let pod = socket(&pods.pod, POD, 0)?;
    exchange(&pod, &socket(&pods.outside, LATER, 0)?, LATER).context("whom it may reach now")?;
    // Whoever is reached no more is not reached by what was open, either.
    let fewer = Closed { reached: ["10.201.5.0/24".parse()?].into(), ..changed };
    pods.close(&fewer)?;
    let before = pods.dropped()?;
    stream.write_all(b"?")?;
    rises(|| pods.dropped(), before)?;
    exchange(&pod, &socket(&pods.outside, LATER, 0)?, LATER).context("whom it may still reach")?;
    Ok(())
}

/// By the address that its node gives another destination to, and by no other one: answers come from
/// it, and not from who is behind it.
pub(crate) fn a_service_is_reached_by_its_address() -> Result<()> {
    let pods = Pods::new()?;
    let rules = format!("add rule ip others services ip daddr {OWN_SERVICE} dnat to {REACHED}");
    nft(&pods.node, &rules)?;
    let [pod, outside] = [socket(&pods.pod, POD, 0)?, socket(&pods.outside, REACHED, 0)?];
    let other = socket(&pods.other, OTHER, 0)?;
    let to_other = SocketAddr::new(SERVICE.into(), other.local_addr()?.port());
    let to_outside = SocketAddr::new(OWN_SERVICE.into(), outside.local_addr()?.port());
    exchange(&pod, &outside, OWN_SERVICE).context("before it is closed")?;
    exchange(&pod, &other, SERVICE).context("before it is closed")?;
    let none = Closed { reached: [].into(), ..wanted() };
    let alone = Closed { reached: [IpNet::from(IpAddr::from(OWN_SERVICE))].into(), ..wanted() };
    for close in [Pods::close, Pods::close_at_node] {
        close(&pods, &alone)?;
        let source = exchange(&pod, &outside, OWN_SERVICE)?;
        ensure!(source == IpAddr::from(POD), "it came from {source}");
        let dropped = || {
            // One of the two is not there.
            let counts = [pods.dropped(), pods.dropped_at_node()];
            Ok(counts.into_iter().filter_map(Result::ok).sum())
        };
        let refused = |at: SocketAddr, why: &str| -> Result<()> {
            let before = dropped()?;
            pod.send_to(b"?", at)?;
            rises(dropped, before).with_context(|| why.to_owned())
        };
        refused(to_other, "another Service")?;
        has_nothing(&other)?;
        refused(outside.local_addr()?, "who is behind it")?;
        // Also in what goes on.
        close(&pods, &none)?;
        refused(to_outside, "a Service that has gone")?;
        has_nothing(&outside)?;
        said(&pods.pod, "nft flush ruleset")?;
    }
    Ok(())
}

pub(crate) fn the_nodes_end_is_enough() -> Result<()> {
    let pods = Pods::new()?;
    // By frames of any shape, which are looked at in its own namespace, at level `full` alone.
    let all = || match is_full() {
        true => vec![plain_tries(), raw_tries(), raw_tries_of_six()],
        false => vec![plain_tries()],
    };
    for tries in all() {
        leaves(&pods, &tries)?;
    }
    // As if the pod's own rules were passed by.
    pods.close_at_node(&wanted())?;
    for tries in all() {
        is_dropped(&pods, &tries, Pods::dropped_at_node)?;
    }
    // What the tries had said of neighbours before.
    said(&pods.node, "ip neigh flush all")?;
    whom_it_may_is_reached(&pods)?;
    let own = said(&pods.pod, "nft list ruleset")?;
    ensure!(own.is_empty(), "{own}");
    pods.close(&wanted())?;
    whom_it_may_is_reached(&pods).context("with both")
}
