//! Which inbound connections are let in: first by the address that they come from, before their
//! key is known, and then by what the peer is worth. libp2p's own limits count all alike.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::task::{Context, Poll};
use std::time::Instant;

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    CloseConnection, ConnectionClosed, ConnectionDenied, ConnectionId, FromSwarm, ListenFailure,
    NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use mercato_protocol::bounded::{Bounded, Rank, Room};
use mercato_protocol::id::PublicKey;
use thiserror::Error;

use crate::identity;
use crate::limits::{self, Limits};
use crate::memory::{Memory, Used};
use crate::origin::{Origin, OriginLimits as _, ip};
use crate::ranks::Ranks;

/// Counts from the first byte of a connection to its end.
pub(crate) struct Behaviour {
    ranks: Ranks,
    /// Strangers' connections.
    strangers: usize,
    /// Handshakes at a time.
    handshakes: usize,
    /// Those whose key is not proven yet.
    pending: BTreeMap<ConnectionId, IpAddr>,
    established: Bounded<ConnectionId, Connection>,
    /// When each address has used up what it may begin.
    begun: Bounded<Origin, Instant>,
    /// From where those who are known have come.
    familiar: Bounded<Origin, ()>,
    memory: Memory,
    /// Who makes room.
    closes: VecDeque<(PeerId, ConnectionId)>,
}

struct Connection {
    peer: PeerId,
    key: PublicKey,
    from: Option<IpAddr>,
}

/// Why a connection is not let in.
#[derive(Debug, Error)]
enum Denied {
    #[error("too many connections begin")]
    Handshakes,
    #[error("too many connections begin around {0}")]
    Hasty(IpAddr),
    #[error("the key is not of our kind")]
    Key,
    #[error("this peer is refused for a while")]
    Refused,
    #[error(transparent)]
    Memory(#[from] Used),
    #[error("too many strangers are connected")]
    Strangers,
    #[error("too many strangers are connected from around {0}")]
    Around(IpAddr),
    #[error("too many are connected that matter as much")]
    Full,
}

impl Behaviour {
    pub(crate) fn new(limits: &Limits, ranks: Ranks) -> Self {
        Self {
            ranks,
            strangers: limits.strangers,
            handshakes: limits.pending_inbound,
            pending: BTreeMap::new(),
            established: Bounded::new(Room::of(limits.inbound)),
            begun: Bounded::new(limits::ORIGINS),
            familiar: Bounded::new(limits::ORIGINS),
            memory: Memory::new(limits),
            closes: VecDeque::new(),
        }
    }

    /// Whether a handshake may begin with this address: each costs us some signatures, whoever
    /// it is. Of those that may, some are left to addresses of those who are known.
    fn begin(&mut self, ip: IpAddr) -> Result<(), Denied> {
        let (now, origin) = (Instant::now(), Origin::of(ip));
        let is_familiar = self.familiar.contains_key(&origin);
        let more = if is_familiar { limits::FAMILIAR_HANDSHAKES } else { 0 };
        if self.pending.len() >= self.handshakes + more {
            return Err(Denied::Handshakes);
        }
        let around = self.pending.values().filter(|other| Origin::of(**other) == origin);
        if around.count() >= origin.handshakes() {
            return Err(Denied::Hasty(ip));
        }
        let empty = self.begun.get(&origin).map_or(now, |empty| (*empty).max(now));
        let empty = empty + origin.pace();
        if empty > now + origin.pace() * limits::HANDSHAKE_BURST {
            return Err(Denied::Hasty(ip));
        }
        let rank = |_: &Origin, empty: &Instant| match *empty > now {
            true => Rank::Stranger,
            false => Rank::Over,
        };
        // The oldest leaves: there is always room.
        let _ = self.begun.put(origin, empty, rank);
        Ok(())
    }

    /// Whether the peer, whose key is proven, may stay.
    fn admit(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        from: Option<IpAddr>,
    ) -> Result<(), Denied> {
        let key = identity::public_key(&peer).ok_or(Denied::Key)?;
        if self.ranks.is_refused(&key) {
            return Err(Denied::Refused);
        }
        let newcomer = self.ranks.of(&key);
        self.memory.admit(newcomer)?;
        if newcomer <= Rank::Stranger {
            self.admit_stranger(&key, from)?;
        } else if let Some(ip) = from {
            let _ = self.familiar.put(Origin::of(ip), (), |_, ()| Rank::Stranger);
        }
        // Nobody leaves for one who matters no more.
        let ranks = &self.ranks;
        let rank = |id: &ConnectionId, of: &Connection| {
            let rank = ranks.of(&of.key);
            if *id != connection && rank >= newcomer { Rank::Kept } else { rank }
        };
        let entry = Connection { peer, key, from };
        let left = self.established.put(connection, entry, rank).map_err(|_| Denied::Full)?;
        self.closes.extend(left.into_iter().map(|(id, of)| (of.peer, id)));
        Ok(())
    }

    /// Strangers have their own bounds: all together, and around one address. One that comes back
    /// does not stand in its own way.
    fn admit_stranger(&self, key: &PublicKey, from: Option<IpAddr>) -> Result<(), Denied> {
        let all = self.established.values().filter(|of| of.key != *key);
        let strangers: Vec<&Connection> =
            all.filter(|of| self.ranks.of(&of.key) <= Rank::Stranger).collect();
        if strangers.len() >= self.strangers {
            return Err(Denied::Strangers);
        }
        let Some(ip) = from else { return Ok(()) };
        let crowded = Origin::around(ip).into_iter().any(|(origin, most)| {
            let there = |of: &&&Connection| of.from.is_some_and(|other| origin.has(other));
            strangers.iter().filter(there).count() >= most
        });
        if crowded { Err(Denied::Around(ip)) } else { Ok(()) }
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
        self.begin(ip).map_err(ConnectionDenied::new)?;
        self.pending.insert(connection, ip);
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let from = self.pending.remove(&connection);
        self.admit(connection, peer, from).map_err(ConnectionDenied::new)?;
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
                self.pending.remove(&connection_id);
                self.established.remove(&connection_id);
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
        match self.closes.pop_front() {
            Some((peer_id, id)) => {
                let connection = CloseConnection::One(id);
                Poll::Ready(ToSwarm::CloseConnection { peer_id, connection })
            }
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use libp2p::identity::Keypair;

    use super::*;

    /// Connections that come in, of peers each with a key of its own.
    struct Door {
        behaviour: Behaviour,
        ranks: Ranks,
        next: usize,
    }

    impl Door {
        fn new(limits: &Limits) -> Self {
            let ranks = Ranks::default();
            Self { behaviour: Behaviour::new(limits, ranks.clone()), ranks, next: 0 }
        }

        fn peer(&self, n: usize) -> (PeerId, PublicKey) {
            let mut seed = [7; 32];
            seed[..8].copy_from_slice(&n.to_be_bytes());
            let peer = Keypair::ed25519_from_bytes(seed).unwrap().public().to_peer_id();
            (peer, identity::public_key(&peer).unwrap())
        }

        /// Peer `n` comes from there; whether it is let in.
        fn comes(&mut self, n: usize, from: &str) -> bool {
            let local = "/ip4/192.0.2.1/tcp/7474".parse().unwrap();
            let (id, remote) = (ConnectionId::new_unchecked(self.next), from.parse().unwrap());
            self.next += 1;
            let behaviour = &mut self.behaviour;
            if behaviour.handle_pending_inbound_connection(id, &local, &remote).is_err() {
                return false;
            }
            let (peer, _) = self.peer(n);
            let behaviour = &mut self.behaviour;
            behaviour.handle_established_inbound_connection(id, peer, &local, &remote).is_ok()
        }

        /// How many of these, each another peer, are let in.
        fn admitted(&mut self, addresses: impl Iterator<Item = String>) -> usize {
            let first = self.next;
            addresses.enumerate().filter(|(n, from)| self.comes(first + n, from)).count()
        }
    }

    #[test]
    fn strangers_around_one_address_are_limited() {
        let admitted = |addresses: &mut dyn Iterator<Item = String>| {
            Door::new(&Limits::default()).admitted(addresses)
        };
        let mut one = (0..40).map(|n| format!("/ip4/203.0.113.7/tcp/{}", n + 1));
        assert_eq!(admitted(&mut one), limits::PER_IPV4);
        let mut network = (0..40).map(|n| format!("/ip4/203.0.113.{n}/udp/1/quic-v1"));
        assert_eq!(admitted(&mut network), limits::PER_IPV4_24);
        let mut site = (0..40).map(|n| format!("/ip6/2001:db8:0:{n}::1/tcp/1"));
        assert_eq!(admitted(&mut site), limits::PER_IPV6_56);
        let mut mapped = (0..40).map(|n| format!("/ip6/::ffff:203.0.113.7/tcp/{}", n + 1));
        assert_eq!(admitted(&mut mapped), limits::PER_IPV4);
        for private in ["/ip4/10.0.0.1", "/ip4/127.0.0.1", "/ip6/::1", "/ip6/fd00::1"] {
            let mut private = (0..60).map(|n| format!("{private}/tcp/{}", n + 1));
            assert_eq!(admitted(&mut private), limits::PER_PRIVATE);
        }
        let mut apart = (0..100).map(|n| format!("/ip4/203.0.{n}.7/tcp/1"));
        assert_eq!(admitted(&mut apart), Limits::default().strangers);
    }

    #[test]
    fn whoever_is_known_has_a_place_among_any_number_of_strangers() {
        let mut door = Door::new(&Limits { inbound: 70, ..Limits::default() });
        let anywhere = |n: usize| format!("/ip4/203.{}.{}.7/tcp/1", n / 250, n % 250);
        assert_eq!(door.admitted((0..1_000).map(anywhere)), 64);
        // From where strangers have used up all that they may.
        let crowded = "/ip4/198.51.100.1/tcp/1".to_owned();
        door.admitted(std::iter::repeat_n(crowded.clone(), 10));
        let known = |door: &Door, n: usize, rank| door.ranks.add(door.peer(n).1, rank);
        for n in 2_000..2_060 {
            known(&door, n, Rank::Member);
            assert!(door.comes(n, &anywhere(n)));
        }
        assert_eq!(door.behaviour.established.len(), 70);
        assert_eq!(door.behaviour.closes.len(), 54, "strangers make room for members");
        // Members do not make room for members, but for partners.
        for n in 2_060..2_080 {
            known(&door, n, Rank::Member);
            door.comes(n, &anywhere(n));
        }
        assert_eq!(door.behaviour.closes.len(), 64, "all strangers, and nobody else");
        known(&door, 3_000, Rank::Partner);
        assert!(door.comes(3_000, &crowded));
        assert_eq!(door.behaviour.closes.len(), 65);
        assert!(!door.comes(4_000, &anywhere(4_000)), "full of those who matter more");
    }

    #[test]
    fn strangers_are_refused_for_memory_and_partners_are_not() {
        let mut door = Door::new(&Limits { strangers_memory_bytes: 0, ..Limits::default() });
        door.ranks.add(door.peer(1).1, Rank::Partner);
        assert_eq!([0, 1].map(|n| door.comes(n, "/ip4/203.0.113.7/tcp/1")), [false, true]);
    }

    #[test]
    fn a_thousand_are_connected_in_all() {
        let mut door = Door::new(&Limits::default());
        let anywhere = |n: usize| format!("/ip4/203.{}.{}.7/tcp/1", n / 250, n % 250);
        let known = |n: &usize| {
            door.ranks.add(door.peer(*n).1, Rank::Partner);
            door.comes(*n, &anywhere(*n))
        };
        assert_eq!((0..1_100).filter(known).count(), 1_000);
    }

    #[test]
    fn who_is_refused_stays_out_for_a_while() {
        let mut door = Door::new(&Limits::default());
        let (_, key) = door.peer(1);
        door.ranks.refuse(key, Duration::from_secs(600));
        door.ranks.set(Arc::new(BTreeMap::from([(key, Rank::Member)])));
        assert!(!door.comes(1, "/ip4/203.0.113.7/tcp/1"));
        door.ranks.refuse(key, Duration::ZERO);
        assert!(door.comes(1, "/ip4/203.0.113.7/tcp/1"));
    }

    #[test]
    fn an_address_begins_no_more_than_its_pace() {
        let mut door = Door::new(&Limits::default());
        let local = "/ip4/192.0.2.1/tcp/7474".parse().unwrap();
        let remote: Multiaddr = "/ip4/203.0.113.7/tcp/1".parse().unwrap();
        let mut begun = 0;
        for n in 0..500 {
            let id = ConnectionId::new_unchecked(n);
            let behaviour = &mut door.behaviour;
            begun += usize::from(
                behaviour.handle_pending_inbound_connection(id, &local, &remote).is_ok(),
            );
            behaviour.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
                local_addr: &local,
                send_back_addr: &remote,
                error: &libp2p::swarm::ListenError::Aborted,
                connection_id: id,
                peer_id: None,
            }));
        }
        // As many more as come due while the test runs.
        let burst = limits::HANDSHAKE_BURST as usize;
        assert!((burst..burst + 100).contains(&begun), "{begun}");
        assert!(door.behaviour.pending.is_empty());
        // Half-open ones are bounded for themselves, and those who are known have some to spare.
        let mut door = Door::new(&Limits::default());
        let begins = |door: &mut Door, n: usize, from: String| {
            let id = ConnectionId::new_unchecked(n);
            let from = from.parse().unwrap();
            door.behaviour.handle_pending_inbound_connection(id, &local, &from).is_ok()
        };
        let (_, friend) = door.peer(9);
        door.ranks.add(friend, Rank::Partner);
        assert!(door.comes(9, "/ip4/198.51.100.9/tcp/1"));
        let open = (1_000..2_000)
            .filter(|n| begins(&mut door, *n, format!("/ip4/203.0.{}.7/tcp/{n}", n % 250)));
        assert_eq!(open.count(), Limits::default().pending_inbound);
        assert!(begins(&mut door, 3_000, "/ip4/198.51.100.9/tcp/2".to_owned()));
    }
}
