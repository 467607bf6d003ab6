//! How much of conntrack's table a guest takes up by asking for names, from every port that it has.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use socket2::{Domain, Socket, Type};

use crate::bounds::{A_SECOND, BEGIN, HAS, MOST, OTHERS, ground, known};
use crate::guests::{FAR, NAMES, NAMES_PORT};
use crate::namespace::Namespace;
use crate::packets::{exchange, has_nothing, rises, socket};
use crate::pods::{OTHER, POD};

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

pub(crate) fn a_guest_asks_for_so_many_names() -> Result<()> {
    for (ask, how) in [(sends as Ask, "sends"), (connects, "connects")] {
        let ground = ground()?;
        let node = &ground.pods.node;
        let server = socket(node, NAMES, NAMES_PORT)?;
        let _listener = node.within(|| TcpListener::bind((NAMES, NAMES_PORT)))??;
        let began = Instant::now();
        from_each_port(&ground.pods.pod, ask)?;
        let all = known(node)?;
        // Those of TCP that are over count no more, and are known for a while.
        let most = MOST + (began.elapsed().as_secs() + 1) * A_SECOND + OTHERS;
        ensure!((MOST / 2..=most).contains(&all), "a guest that {how} has {all} connections");
        for comment in [BEGIN, HAS] {
            let dropped = || ground.dropped(POD.into(), "input", comment);
            // Of those that are over there are not too many at a time.
            if comment == BEGIN || how == "sends" {
                rises(dropped, 0).with_context(|| format!("{how}: {comment}"))?;
            }
        }
        let neighbour = socket(&ground.pods.other, OTHER, 0)?;
        exchange(&neighbour, &socket(&ground.far, FAR, 0)?, FAR).context("a neighbour")?;
        while has_nothing(&server).is_err() {}
        exchange(&neighbour, &server, NAMES).context("a neighbour asks")?;
    }
    Ok(())
}
