//! What a closed pod reaches, and what not. Each try that must fail is made before, when it does
//! not: whether a frame has left is seen at the node's end of the pair.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context as _, Result, ensure};
use mercato_host::Closed;
use socket2::{Domain, Protocol, Socket, Type};

use crate::cluster::{PATIENCE, said};
use crate::frames::{
    ANY, ARP, IPV4, IPV6, VLAN, about, arp, four, frame, icmp, own, part_of_four, send, send_raw,
    send_with_header, six, tcp, udp,
};
use crate::namespace::Namespace;
use crate::packets::{PORT, exchange, has_nothing, rises, socket};
use crate::pods::{
    INTERNET, INTERNET_V6, LATER, METADATA, NODE, NODE_V6, OTHER, OTHER_V6, POD, POD_V6, Pods,
    REACHED, REACHED_V6, SERVICE, wanted,
};
use crate::state::all_of;

const STRANGERS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const UNSPECIFIED: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const SYN: u8 = 2;
const SYN_AND_FIN: u8 = 3;
const MORE: u16 = 0x2000;

type Try = Box<dyn Fn(&Namespace) -> Result<()>>;
type Tries = BTreeMap<String, Try>;

/// What is tried by sockets as any program has them.
fn plain_tries() -> Tries {
    let mut tries = Tries::new();
    let four = [OTHER, INTERNET, METADATA, SERVICE, LATER].into_iter().chain(NODE);
    let six = [OTHER_V6, INTERNET_V6].into_iter().chain(NODE_V6);
    let all = four.map(IpAddr::from).chain(six.map(IpAddr::from));
    for to in all {
        let own: IpAddr = if to.is_ipv4() { POD.into() } else { POD_V6.into() };
        let datagram = move |pod: &Namespace| {
            let _ = socket(pod, own, 0)?.send_to(b"?", (to, PORT));
            Ok(())
        };
        tries.insert(format!("a datagram to {to}"), Box::new(datagram));
        tries.insert(format!("a connection to {to}"), Box::new(move |pod| call(pod, to)));
        let (protocol, kind) = if to.is_ipv4() { (ICMP, 8) } else { (ICMPV6, 128) };
        let echo = move |pod: &Namespace| send_raw(pod, to, protocol, icmp(kind));
        tries.insert(format!("an echo to {to}"), Box::new(echo));
    }
    tries
}

/// Begins a connection, and waits for nothing.
fn call(pod: &Namespace, to: IpAddr) -> Result<()> {
    let socket = pod.within(move || {
        Socket::new(Domain::for_address((to, PORT).into()), Type::STREAM, None)
    })??;
    socket.set_nonblocking(true)?;
    let _ = socket.connect(&SocketAddr::from((to, PORT)).into());
    Ok(())
}

/// What is tried by whoever has raw sockets, in IPv4.
fn raw_tries() -> Tries {
    let mut tries = Tries::new();
    for protocol in [SCTP, GRE, 2, 4, 50, 254] {
        let raw = move |pod: &Namespace| send_raw(pod, REACHED.into(), protocol, vec![0; 16]);
        tries.insert(format!("protocol {protocol}"), Box::new(raw));
    }
    let forged = four(OTHER, REACHED, UDP, &udp());
    let with_header = forged.clone();
    tries.insert(
        "forged, with a header".to_owned(),
        Box::new(move |pod| send_with_header(pod, REACHED, with_header.clone())),
    );
    let mut by_frame = |name: &str, kind: u16, frame: Vec<u8>| {
        let send = move |pod: &Namespace| send(pod, kind, frame.clone());
        tries.insert(name.to_owned(), Box::new(send));
    };
    by_frame("forged, as a frame", ANY, own(IPV4, &forged));
    let to_reached = four(POD, REACHED, UDP, &udp());
    by_frame("from another device", ANY, frame(STRANGERS_MAC, IPV4, &to_reached));
    let to_internet = four(POD, INTERNET, UDP, &udp());
    // What the kernel is told, and what the frame says.
    by_frame("said to be ARP", ARP, own(IPV4, &to_internet));
    by_frame("said to be IPv6", IPV6, own(IPV4, &to_internet));
    by_frame("said to be IPv4", IPV4, own(IPV6, &six(POD_V6, INTERNET_V6, UDP, &udp())));
    // Where the kernel then looks for a header is one that might pass.
    let shifted = [&[0x45, 0, 0, 60][..], &to_reached].concat();
    by_frame("said to be of a VLAN", VLAN, own(IPV4, &shifted));
    by_frame("of a VLAN", ANY, own(VLAN, &[&[0, 5, 8, 0][..], &to_reached].concat()));
    by_frame("of no kind that is known", ANY, own(0x88b5, &to_reached));
    by_frame("with a length for a kind", ANY, own(60, &[0xaa; 60]));
    by_frame("cut off", ANY, own(IPV4, &to_reached[..12]));
    let mut long_header = to_reached.clone();
    long_header[0] = 0x4f;
    by_frame("with a header that is too long", ANY, own(IPV4, &long_header));
    by_frame("ARP of somebody else", ANY, own(ARP, &arp(crate::pods::MAC, OTHER)));
    by_frame("ARP with another device", ANY, own(ARP, &arp(STRANGERS_MAC, POD)));
    by_frame("to everybody", ANY, own(IPV4, &four(POD, Ipv4Addr::BROADCAST, UDP, &udp())));
    let group = Ipv4Addr::new(224, 0, 0, 251);
    by_frame("to a group", ANY, own(IPV4, &four(POD, group, UDP, &udp())));
    // To the node, what begins something or looks as if it did not.
    let [node, ..] = NODE;
    by_frame("SYN and FIN", ANY, own(IPV4, &four(POD, node, TCP, &tcp(SYN_AND_FIN))));
    let begins = tcp(SYN);
    let (first, rest) = begins.split_at(8);
    by_frame("a first part", ANY, own(IPV4, &part_of_four(POD, node, TCP, MORE, first)));
    by_frame(
        "a first part that is whole",
        ANY,
        own(IPV4, &part_of_four(POD, node, TCP, MORE, &tcp(16))),
    );
    by_frame("a second part", ANY, own(IPV4, &part_of_four(POD, node, TCP, 1, rest)));
    by_frame("a redirect", ANY, own(IPV4, &four(POD, node, ICMP, &icmp(5))));
    by_frame("a question for the time", ANY, own(IPV4, &four(POD, node, ICMP, &icmp(13))));
    tries
}

/// The same, in IPv6.
fn raw_tries_of_six() -> Tries {
    let mut tries = Tries::new();
    let mut by_frame = |name: &str, packet: Vec<u8>| {
        let frame = own(IPV6, &packet);
        let send = move |pod: &Namespace| send(pod, ANY, frame.clone());
        tries.insert(format!("IPv6: {name}"), Box::new(send));
    };
    for protocol in [SCTP, GRE, 59] {
        by_frame(&format!("protocol {protocol}"), six(POD_V6, REACHED_V6, protocol, &[0; 16]));
    }
    by_frame("forged", six(OTHER_V6, REACHED_V6, UDP, &udp()));
    let link: Ipv6Addr = "fe80::ff:fe00:5".parse().expect("an address");
    by_frame("of the link", six(link, REACHED_V6, UDP, &udp()));
    let [node, ..] = NODE_V6;
    by_frame("SYN and FIN", six(POD_V6, node, TCP, &tcp(SYN_AND_FIN)));
    // Behind a header of options for whoever it is to, and as a part of a larger one.
    let options = |payload: &[u8]| [&[TCP, 0, 1, 4, 0, 0, 0, 0][..], payload].concat();
    by_frame("SYN behind options", six(POD_V6, node, 60, &options(&tcp(SYN))));
    by_frame("behind options", six(POD_V6, node, 60, &options(&tcp(16))));
    let part = |offset: u16, payload: &[u8]| {
        [&[TCP, 0][..], &offset.to_be_bytes(), &[0, 0, 0, 7], payload].concat()
    };
    by_frame("a first part", six(POD_V6, node, 44, &part(1, &tcp(16))));
    by_frame("a second part", six(POD_V6, node, 44, &part(8, &tcp(16))));
    by_frame(
        "a second part of SCTP",
        six(POD_V6, REACHED_V6, 44, &[&[SCTP, 0, 0, 8, 0, 0, 0, 7][..], &[0; 16]].concat()),
    );
    let everybody: Ipv6Addr = "ff02::1".parse().expect("an address");
    for kind in [133, 134, 137] {
        for to in [everybody, node, REACHED_V6] {
            by_frame(
                &format!("ICMPv6 {kind} to {to}"),
                six(POD_V6, to, ICMPV6, &about(kind, OTHER_V6)),
            );
        }
    }
    by_frame("says that it is another", six(POD_V6, everybody, ICMPV6, &about(136, OTHER_V6)));
    by_frame("says so as another", six(OTHER_V6, everybody, ICMPV6, &about(136, OTHER_V6)));
    by_frame("asks as another", six(OTHER_V6, everybody, ICMPV6, &about(135, node)));
    by_frame("asks for another's", six(UNSPECIFIED, everybody, ICMPV6, &about(135, OTHER_V6)));
    by_frame("asks far away", six(POD_V6, INTERNET_V6, ICMPV6, &about(135, INTERNET_V6)));
    by_frame("asks whom it may reach", six(POD_V6, REACHED_V6, ICMPV6, &about(135, REACHED_V6)));
    by_frame("says it far away", six(POD_V6, INTERNET_V6, ICMPV6, &about(136, POD_V6)));
    by_frame("asks a name of the link", six(POD_V6, everybody, UDP, &udp()));
    tries
}

fn leaves(pods: &Pods, tries: &Tries) -> Result<()> {
    for (name, sends) in tries {
        let before = pods.seen()?;
        sends(&pods.pod).with_context(|| name.clone())?;
        rises(|| pods.seen(), before).with_context(|| format!("{name}, before it is closed"))?;
    }
    Ok(())
}

fn is_dropped(pods: &Pods, tries: &Tries) -> Result<()> {
    let seen = pods.seen()?;
    for (name, sends) in tries {
        let before = pods.dropped()?;
        sends(&pods.pod).with_context(|| name.clone())?;
        rises(|| pods.dropped(), before).with_context(|| format!("{name} is not dropped"))?;
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
        let outside = socket(&pods.outside, reached, PORT)?;
        let pod = socket(&pods.pod, own, PORT)?;
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
        pod.send_to(&large, (reached, PORT))?;
        let (length, _) = outside.recv_from(&mut [0; 4_000]).context("in several packets")?;
        ensure!(length == large.len(), "it came with {length} bytes");
        let asks = socket(&pods.node, node, 0)?;
        asks.send_to(b"?", (own, PORT))?;
        pod.recv_from(&mut [0; 1]).context("a datagram of its node")?;
    }
    Ok(())
}

/// A connection of this source, as both ends have it.
fn connection(
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

fn echoes(from: &Namespace, source: IpAddr, to: IpAddr) -> Result<()> {
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

fn says(from: &mut TcpStream, to: &mut TcpStream) -> Result<()> {
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
    is_dropped(&pods, &plain_tries())?;
    whom_it_may_is_reached(&pods)?;
    // Nor is it answered who is not known any more.
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
        is_dropped(&pods, &tries)?;
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
    is_dropped(&pods, &plain_tries())?;
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
    exchange(&pod, &socket(&pods.outside, LATER, PORT)?, LATER).context("whom it may reach now")?;
    // Whoever is reached no more is not reached by what was open, either.
    let fewer = Closed { reached: ["10.201.5.0/24".parse()?].into(), ..changed };
    pods.close(&fewer)?;
    let before = pods.dropped()?;
    stream.write_all(b"?")?;
    rises(|| pods.dropped(), before)?;
    exchange(&pod, &socket(&pods.outside, LATER, PORT)?, LATER)
        .context("whom it may still reach")?;
    Ok(())
}
