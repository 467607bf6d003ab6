//! A closed pod calls Services by the addresses that they have in its home.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result, ensure};
use ipnet::IpNet;
use mercato_machine::Closed;
use socket2::{Domain, Socket, Type};

use crate::cluster::{PATIENCE, nft, said};
use crate::packets::{exchange, has_nothing, rises, socket};
use crate::pods::{LATER, NODE, OTHER, POD, Pods, REACHED, SERVICE, wanted};

/// What the pod calls two Services, and what these have here.
pub(crate) const CALLED: Ipv4Addr = Ipv4Addr::new(10, 79, 3, 4);
const ALSO_CALLED: Ipv4Addr = Ipv4Addr::new(10, 79, 3, 5);
pub(crate) const HERE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 7);
const ALSO_HERE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 8);
/// More than a device takes at once, and than one window.
const MUCH: usize = 4 << 20;

pub(crate) fn translated(services: &[(Ipv4Addr, Ipv4Addr)]) -> Closed {
    let reached = services.iter().map(|(_, here)| IpNet::from(IpAddr::from(*here))).collect();
    Closed { reached, services: services.iter().copied().collect(), ..wanted() }
}

/// Their addresses here lead to these, as kube-proxy would have it.
pub(crate) fn behind(pods: &Pods, services: &[(Ipv4Addr, Ipv4Addr)]) -> Result<()> {
    services.iter().try_for_each(|(here, who)| {
        nft(&pods.node, &format!("add rule ip others services ip daddr {here} dnat to {who}"))
    })
}

pub(crate) fn services_have_other_addresses_here() -> Result<()> {
    let pods = Pods::new()?;
    behind(&pods, &[(HERE, REACHED)])?;
    let all = translated(&[(CALLED, HERE)]);
    let [pod, outside] = [socket(&pods.pod, POD, 0)?, socket(&pods.outside, REACHED, 0)?];
    pods.close(&Closed { services: [].into(), ..all.clone() })?;
    let before = pods.dropped()?;
    pod.send_to(b"?", SocketAddr::new(CALLED.into(), outside.local_addr()?.port()))?;
    rises(|| pods.dropped(), before).context("without the map it reaches nobody")?;
    has_nothing(&outside)?;
    pods.close(&all)?;
    ensure!(pods.is_closed(&all)?, "it is not read as it was written");
    // Also by what checks all of it again at the node's end.
    pods.close_at_node(&all)?;
    let source = exchange(&pod, &outside, CALLED)?;
    ensure!(source == IpAddr::from(POD), "it came from {source}");
    let large = [b'x'; 3_000];
    pod.send_to(&large, SocketAddr::new(CALLED.into(), outside.local_addr()?.port()))?;
    let (length, _) = outside.recv_from(&mut [0; 4_000]).context("in several packets")?;
    ensure!(length == large.len(), "it came with {length} bytes");
    much_of_tcp(&pods)?;
    // By its address here it is not known: what comes back is from somebody else.
    pod.send_to(b"?", SocketAddr::new(HERE.into(), outside.local_addr()?.port()))?;
    let (_, back) = outside.recv_from(&mut [0; 1])?;
    outside.send_to(b"!", back)?;
    let (_, from) = pod.recv_from(&mut [0; 1])?;
    ensure!(from.ip() == IpAddr::from(CALLED), "it came from {from}");
    let none = translated(&[]);
    pods.close(&none)?;
    ensure!(pods.is_closed(&none)?, "a map is left");
    let list = said(&pods.pod, "nft list ruleset")?;
    ensure!(!list.contains("services"), "{list}");
    Ok(())
}

/// With the offloads of the device, both ways.
fn much_of_tcp(pods: &Pods) -> Result<()> {
    let listener = pods.outside.within(|| TcpListener::bind((REACHED, 0)))??;
    let at = SocketAddr::new(CALLED.into(), listener.local_addr()?.port());
    let socket = pods.pod.within(|| Socket::new(Domain::IPV4, Type::STREAM, None))??;
    socket.connect_timeout(&at.into(), PATIENCE)?;
    let (mut other, from) = listener.accept()?;
    ensure!(from.ip() == IpAddr::from(POD), "it came from {from}");
    let mut stream = std::net::TcpStream::from(socket);
    ensure!(stream.peer_addr()? == at, "whom it has called");
    for end in [&stream, &other] {
        end.set_read_timeout(Some(PATIENCE))?;
        end.set_write_timeout(Some(PATIENCE))?;
    }
    let all: Vec<u8> = (0..MUCH).map(|nth| (nth % 251) as u8).collect();
    let said = all.clone();
    let echoing = std::thread::spawn(move || -> std::io::Result<()> {
        let mut heard = vec![0; MUCH];
        other.read_exact(&mut heard)?;
        other.write_all(&heard)
    });
    stream.write_all(&said)?;
    let mut heard = vec![0; MUCH];
    stream.read_exact(&mut heard).context("what came back")?;
    ensure!(heard == all, "it was changed on the way");
    echoing.join().expect("it does not panic")?;
    Ok(())
}

/// Nobody listens there, and a network on the way takes less: who has asked hears of both.
pub(crate) fn errors_are_about_what_was_called() -> Result<()> {
    let pods = Pods::new()?;
    behind(&pods, &[(HERE, REACHED)])?;
    pods.close(&translated(&[(CALLED, HERE)]))?;
    let pod = socket(&pods.pod, POD, 0)?;
    pod.connect((CALLED, 9))?;
    pod.send(b"?")?;
    let refused = pod.recv(&mut [0; 1]).expect_err("nobody is there");
    ensure!(refused.kind() == ErrorKind::ConnectionRefused, "{refused}");
    pods.node.ip("link set out0 mtu 1300")?;
    let outside = socket(&pods.outside, REACHED, 0)?;
    let raw = socket2::SockRef::from(&pod);
    pod.connect((CALLED, outside.local_addr()?.port()))?;
    // The first is too large, and an error says so; then its way is known, and it goes in parts.
    let _ = raw.send(&[b'x'; 1_400])?;
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let routes = said(&pods.pod, &format!("ip route get {CALLED}"))?;
        if routes.contains("mtu 1300") {
            break;
        }
        ensure!(std::time::Instant::now() < until, "the way is not known to take less: {routes}");
        let _ = raw.send(&[b'x'; 1_400]);
    }
    Ok(())
}

/// Home's Services may have addresses that here are the node's, or the pod's own: probes are answered all
/// the same, and nobody else is asked in their place.
pub(crate) fn neither_node_nor_pod_is_a_service() -> Result<()> {
    let pods = Pods::new()?;
    behind(&pods, &[(HERE, REACHED), (ALSO_HERE, LATER)])?;
    let all = translated(&[(NODE[0], HERE), (POD, ALSO_HERE), (CALLED, HERE)]);
    pods.close(&all)?;
    let listener = pods.pod.within(|| TcpListener::bind((POD, 0)))??;
    let probe = pods.node.within(|| Socket::new(Domain::IPV4, Type::STREAM, None))??;
    probe.connect_timeout(&listener.local_addr()?.into(), PATIENCE).context("a probe")?;
    let (_, from) = listener.accept()?;
    ensure!(from.ip() == IpAddr::from(NODE[0]), "it came from {from}");
    let pod = socket(&pods.pod, POD, 0)?;
    exchange(&pod, &socket(&pods.outside, REACHED, 0)?, CALLED).context("a Service").map(drop)
}

/// Two clusters have equal ranges for Services, more often than not.
pub(crate) fn each_others_addresses() -> Result<()> {
    let pods = Pods::new()?;
    behind(&pods, &[(HERE, REACHED), (ALSO_HERE, LATER)])?;
    pods.close(&translated(&[(ALSO_HERE, HERE), (HERE, ALSO_HERE)]))?;
    let pod = socket(&pods.pod, POD, 0)?;
    let [one, other] = [REACHED, LATER].map(|at| socket(&pods.outside, at, 0));
    exchange(&pod, &one?, ALSO_HERE).context("the one")?;
    exchange(&pod, &other?, HERE).context("the other")?;
    // Whatever a home says, it opens nobody: what a packet has then is what it is judged by.
    let pods = Pods::new()?;
    let other = socket(&pods.other, OTHER, 0)?;
    let hostile = Closed { reached: [].into(), ..translated(&[(ALSO_CALLED, SERVICE)]) };
    pods.close(&hostile)?;
    let pod = socket(&pods.pod, POD, 0)?;
    for at in [ALSO_CALLED, SERVICE] {
        let before = pods.dropped()?;
        pod.send_to(b"?", SocketAddr::new(at.into(), other.local_addr()?.port()))?;
        rises(|| pods.dropped(), before).with_context(|| format!("to {at}"))?;
    }
    has_nothing(&other)
}
