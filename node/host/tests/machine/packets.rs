//! What becomes of packets. Nothing is waited for but a packet, or a counter of dropped ones.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cluster::{
    Cluster, DEVICE, FORGED, GUEST, MAPPED, NODE, NODE_OUTSIDE, PATIENCE, SERVICE, UNMAPPED,
    set_up, steps, wanted,
};
use crate::namespace::Namespace;

pub(crate) const PORT: u16 = 5_000;
/// What the pod network of these tests marks as kube-proxy does.
pub(crate) const MARKED_PORT: u16 = 7_000;
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

pub(crate) fn socket(at: &Namespace, address: impl Into<IpAddr>, port: u16) -> Result<UdpSocket> {
    let address = address.into();
    let socket = at.within(move || UdpSocket::bind((address, port)))??;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends a datagram that must arrive, and be answered; says whom it came from.
pub(crate) fn exchange(from: &UdpSocket, to: &UdpSocket, at: impl Into<IpAddr>) -> Result<IpAddr> {
    let at = at.into();
    let port = to.local_addr()?.port();
    from.send_to(b"?", (at, port)).context("sending")?;
    let (_, source) = to.recv_from(&mut [0; 1]).context("it did not arrive")?;
    to.send_to(b"!", source)?;
    let (_, answered) = from.recv_from(&mut [0; 1]).context("the answer did not arrive")?;
    ensure!(answered.ip() == at, "the answer came from {answered}");
    Ok(source.ip())
}

/// Waits for a counter to rise above what it was.
pub(crate) fn rises(count: impl Fn() -> Result<u64>, before: u64) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if count()? > before {
            return Ok(());
        }
    }
    bail!("nothing was counted")
}

pub(crate) fn has_nothing(socket: &UdpSocket) -> Result<()> {
    socket.set_nonblocking(true)?;
    let got = socket.recv_from(&mut [0; 1]);
    socket.set_nonblocking(false)?;
    match got {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error.into()),
        Ok((_, source)) => bail!("something arrived from {source}"),
    }
}

pub(crate) fn sources_are_right() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let guest = socket(&cluster.guest, GUEST, PORT)?;
    for (place, address, port, expected) in [
        (&cluster.pod, MAPPED, 0, MAPPED),
        (&cluster.pod, UNMAPPED, 0, NODE),
        (&cluster.pod, MAPPED, MARKED_PORT, NODE),
        (&cluster.node, ANY, 0, NODE),
        (&cluster.node, NODE_OUTSIDE, 0, NODE),
    ] {
        let from = socket(place, address, port)?;
        let source = exchange(&from, &guest, GUEST)
            .with_context(|| format!("from {address}, port {port}"))?;
        ensure!(source == expected, "from {address}, port {port}, it came from {source}");
    }
    // Without our table the pod network would have its way: else this test shows nothing.
    cluster.node.run("nft", ["delete", "table", "ip", "mercato"].map(str::to_owned).to_vec())?;
    let from = socket(&cluster.pod, MAPPED, 0)?;
    let source = exchange(&from, &guest, GUEST)?;
    ensure!(source == NODE, "nothing masquerades here: it came from {source}");
    Ok(())
}

pub(crate) fn nobody_else_is_reached() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let guest = socket(&cluster.guest, GUEST, PORT)?;
    let pod = socket(&cluster.pod, MAPPED, PORT)?;
    let source = exchange(&guest, &pod, MAPPED).context("to the pod")?;
    ensure!(source == GUEST, "the pod network has changed the source to {source}");
    let unmapped = socket(&cluster.pod, UNMAPPED, PORT)?;
    let node = socket(&cluster.node, ANY, PORT)?;
    let outside = socket(&cluster.outside, ANY, PORT)?;
    for (to, whom, chain, comment) in [
        (UNMAPPED, &unmapped, "from_device", "to nobody who is mapped"),
        (OUTSIDE, &outside, "from_device", "to nobody who is mapped"),
        (NODE, &node, "input", "the node is not called from other clusters"),
        (NODE_OUTSIDE, &node, "input", "the node is not called from other clusters"),
        (
            Ipv4Addr::new(10, 201, 4, 8),
            &node,
            "between",
            "from another cluster's own to another cluster",
        ),
    ] {
        let dropped = || cluster.dropped(chain, comment);
        let before = dropped()?;
        guest.send_to(b"?", (to, PORT))?;
        rises(dropped, before).with_context(|| format!("to {to}"))?;
        has_nothing(whom).with_context(|| format!("to {to}"))?;
    }
    // Whoever was a pod and is none any more is not reached by what was open, either.
    let nobody = mercato_machine::Wanted { pods: [].into(), ..wanted() };
    set_up(&cluster.node, &nobody)?;
    let dropped = || cluster.dropped("from_device", "to nobody who is mapped");
    let before = dropped()?;
    guest.send_to(b"?", (MAPPED, PORT))?;
    rises(dropped, before)?;
    has_nothing(&pod)
}

pub(crate) fn forged_sources_are_dropped() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let pod = socket(&cluster.pod, MAPPED, PORT)?;
    let node = socket(&cluster.node, NODE_OUTSIDE, PORT)?;
    // Whoever has a question about neighbours answered needs a source that may ask.
    for (place, own) in [(&cluster.outside, OUTSIDE), (&cluster.pod, MAPPED)] {
        exchange(&socket(place, own, 0)?, &node, NODE_OUTSIDE)?;
    }
    // A machine nearby, and a pod of this node: both have an address of the other cluster.
    for (place, to, whom) in [
        (&cluster.outside, MAPPED, &pod),
        (&cluster.outside, NODE_OUTSIDE, &node),
        (&cluster.pod, NODE_OUTSIDE, &node),
    ] {
        let dropped = || cluster.dropped("arriving", "source of another cluster from elsewhere");
        let before = dropped()?;
        let forger = socket(place, FORGED, 0)?;
        forger.send_to(b"?", (to, PORT))?;
        rises(dropped, before)?;
        has_nothing(whom)?;
    }
    Ok(())
}

pub(crate) fn services_lead_there() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let guest = socket(&cluster.guest, GUEST, PORT)?;
    let host = socket(&cluster.node, ANY, 0)?;
    let source = exchange(&host, &guest, SERVICE)?;
    ensure!(source == NODE, "it came from {source}");
    Ok(())
}

pub(crate) fn nothing_leaves_in_clear() -> Result<()> {
    let cluster = Cluster::new()?;
    // The device carries nothing yet, but its other end is there.
    cluster.node.ip(&format!("link set {DEVICE} up"))?;
    cluster.settle()?;
    let node = socket(&cluster.node, ANY, 0)?;
    let outside = socket(&cluster.outside, ANY, PORT)?;
    node.send_to(b"?", (GUEST, PORT))?;
    outside.recv_from(&mut [0; 1]).context("the default route leads nowhere")?;
    let before = cluster.in_clear()?;
    ensure!(before > 0, "the watch sees nothing");
    set_up(&cluster.node, &wanted())?;
    cluster.node.ip(&format!("link del {DEVICE}"))?;
    for (place, who) in [(&cluster.pod, "a pod"), (&cluster.node, "the node")] {
        let to = SocketAddrV4::new(GUEST, PORT);
        let connected = place.within(move || TcpStream::connect_timeout(&to.into(), PATIENCE))?;
        let kind = connected.err().map(|error| error.kind());
        ensure!(kind == Some(ErrorKind::HostUnreachable), "{who} was told {kind:?}");
    }
    ensure!(steps(&cluster.node, &wanted())?.is_empty(), "what protects is not whole");
    // Also where somebody has removed the rule, or led the pool elsewhere.
    cluster.node.ip("rule del preference 500")?;
    let dropped = || cluster.dropped("leaving", "to another cluster in clear");
    let dropped_before = dropped()?;
    let sent = node.send_to(b"?", (GUEST, PORT));
    rises(dropped, dropped_before).with_context(|| format!("{sent:?}"))?;
    let pod = socket(&cluster.pod, MAPPED, 0)?;
    let dropped_before = dropped()?;
    pod.send_to(b"?", (GUEST, PORT))?;
    rises(dropped, dropped_before)?;
    let after = cluster.in_clear()?;
    ensure!(after == before, "{} packets left in clear", after - before);
    Ok(())
}
