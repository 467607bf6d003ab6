//! Listening, and what to do about a port that is taken.

use std::io;
use std::net::SocketAddr;

use libp2p::Swarm;
use mercato_discovery::{Address, Host, Transport};
use socket2::{Domain, Socket, Type};

use crate::address::multiaddr;
use crate::behaviour::Behaviour;
use crate::error::StartError;
use crate::event::Event;

/// Where to listen.
#[derive(Clone, Debug)]
pub struct Listen {
    /// An IP address; port 0 takes a free one.
    pub address: Address,
    /// Configured by the owner: here or not at all. Otherwise a taken port moves to a
    /// free one, and whatever else fails is reported and survived.
    pub required: bool,
}

/// Listens there, or says what else happened.
pub(crate) fn listen(
    swarm: &mut Swarm<Behaviour>,
    listen: Listen,
) -> Result<Option<Event>, StartError> {
    let Listen { address, required } = listen;
    let error = match try_listen(swarm, &address) {
        Ok(()) => return Ok(None),
        Err(source) if required => return Err(StartError::Listen { address, source }),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::AddrInUse {
        let free = Address { port: 0, ..address.clone() };
        if try_listen(swarm, &free).is_ok() {
            return Ok(Some(Event::PortTaken { address }));
        }
    }
    Ok(Some(Event::ListenFailed { address, reason: error.to_string() }))
}

fn try_listen(swarm: &mut Swarm<Behaviour>, address: &Address) -> io::Result<()> {
    let Host::Ip(ip) = address.host else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name, not an IP address"));
    };
    let socket = SocketAddr::new(ip, address.port);
    probe(socket, address.transport)?;
    swarm.listen_on(multiaddr(socket, address.transport)).map_err(io::Error::other)?;
    Ok(())
}

/// Whether the port is free. libp2p listens with SO_REUSEPORT, so that two daemons of
/// one user would share a TCP port and each get half of the connections.
fn probe(address: SocketAddr, transport: Transport) -> io::Result<()> {
    let kind = match transport {
        Transport::Quic => Type::DGRAM,
        Transport::Tcp => Type::STREAM,
    };
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if transport == Transport::Tcp {
        // A port that an ended daemon left in TIME_WAIT is free.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())
}
