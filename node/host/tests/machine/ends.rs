//! What a gateway says in the name of a guest that is gone reaches whoever has sent to it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context as _, Result, ensure};

use crate::cluster::{Cluster, GUEST, MAPPED, NODE_OUTSIDE, PATIENCE, SERVICE, UNMAPPED};
use crate::namespace::Namespace;
use crate::packets::{ANY, PORT, socket};

/// That of `discard`, at which nobody listens.
const NOBODYS_PORT: u16 = 9;

/// From whichever address, and by a Service: resets and errors find the way back.
pub(crate) fn senders_are_told() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let listener = cluster.guest.within(|| TcpListener::bind((GUEST, PORT)))??;
    let ways = [
        (&cluster.pod, MAPPED, GUEST),
        (&cluster.pod, UNMAPPED, GUEST),
        (&cluster.node, ANY, GUEST),
        (&cluster.node, NODE_OUTSIDE, GUEST),
        (&cluster.node, ANY, SERVICE),
    ];
    for (place, from, to) in ways {
        let of = || format!("from {from} to {to}");
        let asks = socket(place, from, 0)?;
        asks.connect((to, NOBODYS_PORT))?;
        asks.send(b"?")?;
        let told = asks.recv(&mut [0; 1]).expect_err("nobody listens").kind();
        ensure!(told == ErrorKind::ConnectionRefused, "{} it is told {told}", of());
        is_reset(place, to, &listener).with_context(of)?;
    }
    Ok(())
}

/// A connection whose other end knows nothing of it any more.
fn is_reset(place: &Namespace, to: Ipv4Addr, listener: &TcpListener) -> Result<()> {
    let mut kept = place.within(move || TcpStream::connect((IpAddr::from(to), PORT)))??;
    kept.set_read_timeout(Some(PATIENCE))?;
    let (mut there, _) = listener.accept()?;
    kept.write_all(b"?")?;
    there.read_exact(&mut [0; 1])?;
    // What is not read is reset when it is closed.
    kept.write_all(b"?")?;
    there.peek(&mut [0; 1])?;
    drop(there);
    let over = kept.read(&mut [0; 1]).expect_err("it is over").kind();
    ensure!(over == ErrorKind::ConnectionReset, "it ends by {over}");
    Ok(())
}
