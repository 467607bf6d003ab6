//! Whom guests ask for names, and that one takes up nothing of conntrack's table with that, from every port
//! that it has.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{Closed, NamesWay, Wanted, nobody_listens_plan};
use socket2::{Domain, Socket, Type};

use crate::bounds::{OTHERS, ground, known};
use crate::cluster::{PATIENCE, found, perform, said, set_up, steps};
use crate::guests::{FAR, Ground, NAMES, NAMES_PORT, TO_NODE, wanted};
use crate::namespace::Namespace;
use crate::packets::{PORT, exchange, has_nothing, rises, socket};
use crate::pods::{NODE, OTHER, POD, Pods};

/// By the rules of its node, by those of its own namespace, and by both.
pub(crate) fn guests_ask_for_names() -> Result<()> {
    let ground = Ground::new()?;
    let pods = &ground.pods;
    let pod = socket(&pods.pod, POD, 0)?;
    let server = socket(&pods.node, NAMES, NAMES_PORT)?;
    let listener = pods.node.within(|| TcpListener::bind((NAMES, NAMES_PORT)))??;
    let [other_port, other_address] =
        [socket(&pods.node, NAMES, PORT)?, socket(&pods.node, NODE[0], NAMES_PORT)?];
    let asks = || -> Result<()> {
        exchange(&pod, &server, NAMES)?;
        let at = SocketAddr::from((NAMES, NAMES_PORT));
        let connecting = move || TcpStream::connect_timeout(&at, PATIENCE);
        let connection = pods.pod.within(connecting)??;
        ensure!(connection.peer_addr()?.ip() == NAMES, "it is somebody else");
        drop(listener.accept()?);
        Ok(())
    };
    asks().context("before it is closed")?;
    exchange(&pod, &other_port, NAMES).context("before it is closed")?;
    ground.with_guests(&[POD.into()])?;
    asks().context("by the node's rules")?;
    for other in [&other_port, &other_address] {
        ground.is_dropped(&pod, other, ["input", TO_NODE])?;
    }
    let names = Some(NAMES.into());
    let node = crate::pods::wanted().node.into_iter().chain(names).collect();
    let with = Closed { names, node, ..crate::pods::wanted() };
    let without = Closed { names: None, ..with.clone() };
    for close in [Pods::close, Pods::close_at_node] {
        close(pods, &with)?;
        asks().context("by its own rules")?;
        let dropped = || {
            let counts = [pods.dropped(), pods.dropped_at_node()];
            Ok(counts.into_iter().filter_map(Result::ok).sum())
        };
        let refused = |other: &UdpSocket| -> Result<()> {
            let before = dropped()?;
            pod.send_to(b"?", other.local_addr()?)?;
            rises(dropped, before)?;
            has_nothing(other)
        };
        refused(&other_port).context("another port")?;
        refused(&other_address).context("another address")?;
        close(pods, &without)?;
        refused(&server).context("where nobody is asked")?;
        said(&pods.pod, "nft flush ruleset")?;
    }
    Ok(())
}

/// Another program of the node has that port at all addresses, and so at this one too, and ours has it not:
/// no guest asks that program. Once ours has it no other one comes by it, until it ends.
pub(crate) fn another_name_server_is_not_asked() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { node, pod, .. } = &ground.pods;
    let listens = |listens| {
        let names = Some(NamesWay { address: NAMES.into(), listens });
        Wanted { names, ..wanted(&[POD.into()]) }
    };
    let by_udp = socket(pod, POD, 0)?;
    let begins = || -> Result<Socket> {
        let socket = pod.within(|| Socket::new(Domain::IPV4, Type::STREAM, None))??;
        socket.set_nonblocking(true)?;
        // It is under way, which is an error here.
        let _ = socket.connect(&SocketAddr::from((NAMES, NAMES_PORT)).into());
        Ok(socket)
    };
    let is_refused = || -> Result<()> {
        let dropped = || ground.dropped(NAMES.into(), "input", TO_NODE);
        let before = dropped()?;
        by_udp.send_to(b"?", (NAMES, NAMES_PORT))?;
        rises(dropped, before).context("by UDP")?;
        let before = dropped()?;
        let _begun = begins()?;
        rises(dropped, before).context("by TCP")
    };
    let kinds = [(Type::DGRAM, "UDP"), (Type::STREAM, "TCP")];
    let all = Ipv4Addr::UNSPECIFIED;
    let (other, others) = (listener(node, Type::DGRAM, all)?, listener(node, Type::STREAM, all)?);
    for (kind, how) in kinds {
        ensure!(listener(node, kind, NAMES).is_err(), "there are two at once by {how}");
    }
    let other = UdpSocket::from(other);
    other.set_read_timeout(Some(PATIENCE))?;
    by_udp.send_to(b"?", (NAMES, NAMES_PORT))?;
    other.recv_from(&mut [0; 1]).context("by whoever is no guest")?;
    let _begun = begins()?;
    others.accept().context("by whoever is no guest")?;
    set_up(node, &listens(false))?;
    is_refused().context("another one has the port")?;
    has_nothing(&other)?;
    others.set_nonblocking(true)?;
    ensure!(others.accept().is_err(), "somebody has called");
    drop((other, others));
    let ours = UdpSocket::from(next_listener(node, Type::DGRAM)?);
    let _by_tcp = next_listener(node, Type::STREAM)?;
    ours.set_read_timeout(Some(PATIENCE))?;
    for (kind, how) in kinds {
        ensure!(listener(node, kind, all).is_err(), "another one comes by the port, by {how}");
    }
    set_up(node, &listens(true))?;
    exchange(&by_udp, &ours, NAMES).context("ours has the port")?;
    let ends = nobody_listens_plan(&found(node)?);
    perform(node, ends)?;
    is_refused().context("ours has ended")?;
    ensure!(steps(node, &listens(false))?.is_empty(), "more has been changed");
    Ok(())
}

/// Ours, once nobody has the port any more: a process that another test starts meanwhile has all sockets of
/// this one until it runs its own program.
fn next_listener(at: &Namespace, kind: Type) -> Result<Socket> {
    let until = Instant::now() + PATIENCE;
    loop {
        match listener(at, kind, NAMES) {
            Err(_) if Instant::now() < until => std::thread::yield_now(),
            done => return done,
        }
    }
}

/// Whoever has that port there, and would share it with anybody who would.
fn listener(at: &Namespace, kind: Type, address: Ipv4Addr) -> Result<Socket> {
    let socket = at.within(move || Socket::new(Domain::IPV4, kind, None))??;
    // Our own server leaves it to the standard library, which shares by TCP alone what nobody listens at.
    socket.set_reuse_address(kind == Type::STREAM || address.is_unspecified())?;
    socket.bind(&SocketAddr::from((address, NAMES_PORT)).into())?;
    if kind == Type::STREAM {
        socket.listen(1)?;
    }
    Ok(socket)
}

/// By the node's rules, where the guest's own are none.
const OFTEN: &str = "guests ask for names too often";

/// One way to ask, once from this port: what comes of it is not waited for.
type Ask = fn(u16) -> Result<()>;

fn sends(port: u16) -> Result<()> {
    let _ = UdpSocket::bind((POD, port))?.send_to(b"?", (NAMES, NAMES_PORT));
    Ok(())
}

fn connects(port: u16) -> Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((POD, port)).into())?;
    socket.set_nonblocking(true)?;
    // It is under way, which is an error here.
    let _ = socket.connect(&SocketAddr::from((NAMES, NAMES_PORT)).into());
    Ok(())
}

fn from_each_port(guest: &Namespace, ask: Ask) -> Result<()> {
    guest.within(move || (1_024..=u16::MAX).try_for_each(ask))?
}

/// From every port that it has, by UDP and by TCP: conntrack knows nothing of it, so that all else which the
/// guest has goes on; what is more than it may send is dropped.
pub(crate) fn a_guest_asks_for_so_many_names() -> Result<()> {
    for (ask, how) in [(sends as Ask, "sends"), (connects, "connects")] {
        let ground = ground()?;
        let node = &ground.pods.node;
        let server = socket(node, NAMES, NAMES_PORT)?;
        let _listener = node.within(|| TcpListener::bind((NAMES, NAMES_PORT)))??;
        from_each_port(&ground.pods.pod, ask)?;
        let all = known(node)?;
        ensure!(all <= OTHERS, "of a guest that {how} conntrack knows {all} connections");
        if how == "sends" {
            // Twice as much at once as may be, however slow the machine is.
            from_each_port(&ground.pods.pod, ask)?;
            rises(|| ground.dropped(POD.into(), "input", OFTEN), 0)?;
        }
        exchange(&socket(&ground.pods.pod, POD, 0)?, &socket(&ground.far, FAR, 0)?, FAR)
            .context("the guest itself, of somebody else")?;
        let neighbour = socket(&ground.pods.other, OTHER, 0)?;
        exchange(&neighbour, &socket(&ground.far, FAR, 0)?, FAR).context("a neighbour")?;
        while has_nothing(&server).is_err() {}
        exchange(&neighbour, &server, NAMES).context("a neighbour asks")?;
    }
    Ok(())
}
