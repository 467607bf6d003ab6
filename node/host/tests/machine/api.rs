//! Who reaches this cluster's API server at the address of the gateway's machine, and who does not.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{ApiWay, Wanted};
use socket2::{Domain, Socket, Type};

use crate::cluster::{Cluster, GUEST, MAPPED, NODE, PATIENCE, set_up, steps, wanted};
use crate::namespace::Namespace;
use crate::packets::{has_nothing, rises, socket};

const API: Ipv4Addr = Ipv4Addr::new(10, 207, 255, 253);
const HTTPS: u16 = 443;
/// Of the same lease, and none of those that may.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 201, 4, 8);
const NOT_CALLED: &str = "the node is not called from other clusters";
const BY_TUNNELS: &str = "the API server's address is called through tunnels alone";

fn with(callers: &[Ipv4Addr]) -> Wanted {
    let callers = callers.iter().copied().map(IpAddr::from).collect();
    Wanted { api: Some(ApiWay { address: API.into(), callers }), ..wanted() }
}

/// Begins to connect, and does not wait for what comes of it.
fn begins(at: &Namespace, source: Ipv4Addr, to: Ipv4Addr, port: u16) -> Result<Socket> {
    let socket = at.within(|| Socket::new(Domain::IPV4, Type::STREAM, None))??;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.set_nonblocking(true)?;
    // It is under way, which is an error here.
    let _ = socket.connect(&SocketAddr::from((to, port)).into());
    Ok(socket)
}

pub(crate) fn guests_that_may_reach_it() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.guest.ip("address add 10.201.4.8/32 dev far0")?;
    set_up(&cluster.node, &with(&[GUEST]))?;
    cluster.settle()?;
    ensure!(steps(&cluster.node, &with(&[GUEST]))?.is_empty(), "it is not as it was wanted");
    let listen = |at: Ipv4Addr, port| cluster.node.within(move || TcpListener::bind((at, port)));
    let server = listen(API, HTTPS)??;
    let _others = [listen(API, HTTPS + 1)??, listen(NODE, HTTPS)??];
    let reaches = |source: Ipv4Addr| -> Result<()> {
        let socket = cluster.guest.within(|| Socket::new(Domain::IPV4, Type::STREAM, None))??;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.connect_timeout(&SocketAddr::from((API, HTTPS)).into(), PATIENCE)?;
        let (_, from) = server.accept()?;
        ensure!(from.ip() == source, "it came from {from}");
        Ok(())
    };
    reaches(GUEST)?;
    let Cluster { guest, pod, node, .. } = &cluster;
    let tries = [
        (guest, OTHER, API, HTTPS, NOT_CALLED, "another guest"),
        (guest, GUEST, API, HTTPS + 1, NOT_CALLED, "another port"),
        (guest, GUEST, NODE, HTTPS, NOT_CALLED, "another address of the node"),
        (pod, MAPPED, API, HTTPS, BY_TUNNELS, "a pod of this cluster"),
        (node, API, API, HTTPS, BY_TUNNELS, "this machine"),
    ];
    for (at, source, to, port, comment, who) in tries {
        let dropped = || cluster.dropped("input", comment);
        let before = dropped()?;
        let _begun = begins(at, source, to, port)?;
        rises(dropped, before).with_context(|| who.to_owned())?;
    }
    let by_udp = socket(&cluster.node, API, HTTPS)?;
    let dropped = || cluster.dropped("input", NOT_CALLED);
    let before = dropped()?;
    socket(&cluster.guest, GUEST, 0)?.send_to(b"?", (API, HTTPS))?;
    rises(dropped, before).context("by UDP")?;
    has_nothing(&by_udp)?;
    // Another one may by now, and who might does no more.
    set_up(&cluster.node, &with(&[OTHER]))?;
    reaches(OTHER)?;
    let before = dropped()?;
    let _begun = begins(guest, GUEST, API, HTTPS)?;
    rises(dropped, before).context("whose access has ended")?;
    // Without anybody the address is nobody's here.
    set_up(&cluster.node, &wanted())?;
    ensure!(steps(&cluster.node, &wanted())?.is_empty(), "something is left");
    let gone = listen(API, HTTPS + 2)?;
    ensure!(gone.is_err(), "the address is left");
    Ok(())
}
