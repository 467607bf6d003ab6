//! Inbound connections per public address, which libp2p does not limit. The totals are
//! libp2p's own behaviour.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionClosed, ConnectionDenied, ConnectionId, FromSwarm, ListenFailure, NetworkBehaviour,
    THandler, THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use mercato_discovery::Host;
use thiserror::Error;

use crate::address::address;
use crate::limits;

/// Counts from the first byte of a connection to its end.
#[derive(Default)]
pub(crate) struct Behaviour {
    inbound: BTreeMap<ConnectionId, IpAddr>,
}

#[derive(Debug, Error)]
#[error("too many connections from around {0}")]
struct TooMany(IpAddr);

impl Behaviour {
    fn has_room(&self, ip: IpAddr) -> bool {
        let alike = |group: &dyn Fn(IpAddr) -> bool| {
            self.inbound.values().filter(|other| group(**other)).count()
        };
        if is_private(ip) {
            return true;
        }
        match ip {
            IpAddr::V4(ip) => {
                alike(&|other| other == ip) < limits::PER_IPV4
                    && alike(&|other| matches!(other, IpAddr::V4(o) if net24(o) == net24(ip)))
                        < limits::PER_IPV4_24
            }
            IpAddr::V6(ip) => {
                alike(&|other| matches!(other, IpAddr::V6(o) if net56(o) == net56(ip)))
                    < limits::PER_IPV6_56
            }
        }
    }
}

fn net24(ip: Ipv4Addr) -> u32 {
    ip.to_bits() >> 8
}

fn net56(ip: Ipv6Addr) -> u128 {
    ip.to_bits() >> 72
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

fn ip(remote: &Multiaddr) -> Option<IpAddr> {
    match address(remote)?.host {
        Host::Ip(ip) => Some(ip.to_canonical()),
        Host::Name(_) => None,
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        let Some(ip) = ip(remote) else { return Ok(()) };
        if !self.has_room(ip) {
            return Err(ConnectionDenied::new(TooMany(ip)));
        }
        self.inbound.insert(connection, ip);
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "libp2p's enum is non-exhaustive")]
    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionClosed(ConnectionClosed { connection_id, .. })
            | FromSwarm::ListenFailure(ListenFailure { connection_id, .. }) => {
                self.inbound.remove(&connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many connections from these addresses are admitted.
    fn admitted(addresses: impl Iterator<Item = String>) -> usize {
        let mut behaviour = Behaviour::default();
        let local = "/ip4/192.0.2.1/tcp/7474".parse().unwrap();
        addresses
            .enumerate()
            .filter(|(n, address)| {
                let (id, remote) = (ConnectionId::new_unchecked(*n), address.parse().unwrap());
                behaviour.handle_pending_inbound_connection(id, &local, &remote).is_ok()
            })
            .count()
    }

    #[test]
    fn one_address_and_its_network_are_limited() {
        let one = (0..40).map(|n| format!("/ip4/203.0.113.7/tcp/{}", n + 1));
        assert_eq!(admitted(one), limits::PER_IPV4);
        let network = (0..40).map(|n| format!("/ip4/203.0.113.{n}/udp/1/quic-v1"));
        assert_eq!(admitted(network), limits::PER_IPV4_24);
        let site = (0..40).map(|n| format!("/ip6/2001:db8:0:{n}::1/tcp/1"));
        assert_eq!(admitted(site), limits::PER_IPV6_56);
        let mapped = (0..40).map(|n| format!("/ip6/::ffff:203.0.113.7/tcp/{}", n + 1));
        assert_eq!(admitted(mapped), limits::PER_IPV4);
    }

    #[test]
    fn elsewhere_there_are_only_the_totals() {
        let apart = (0..40).map(|n| format!("/ip4/203.0.{n}.7/tcp/1"));
        assert_eq!(admitted(apart), 40);
        for private in ["/ip4/10.0.0.1", "/ip4/127.0.0.1", "/ip6/::1", "/ip6/fd00::1"] {
            assert_eq!(admitted((0..40).map(|n| format!("{private}/tcp/{}", n + 1))), 40);
        }
    }

    #[test]
    fn who_leaves_makes_room() {
        let mut behaviour = Behaviour::default();
        let local = "/ip4/192.0.2.1/tcp/7474".parse().unwrap();
        let remote: Multiaddr = "/ip4/203.0.113.7/tcp/1".parse().unwrap();
        for n in 0..10 {
            let id = ConnectionId::new_unchecked(n);
            behaviour.handle_pending_inbound_connection(id, &local, &remote).unwrap();
            behaviour.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
                local_addr: &local,
                send_back_addr: &remote,
                error: &libp2p::swarm::ListenError::Aborted,
                connection_id: id,
                peer_id: None,
            }));
        }
        assert!(behaviour.inbound.is_empty());
    }
}
