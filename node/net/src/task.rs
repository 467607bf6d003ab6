//! The task that owns the swarm: takes commands, reports events, never waits for either.

mod listening;
mod pulses;
mod runs;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use libp2p::core::ConnectedPoint;
use libp2p::swarm::{ConnectionId, Swarm, SwarmEvent};
use libp2p::{PeerId, identify, ping};
use mercato_protocol::id::PublicKey;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::behaviour::{Behaviour, BehaviourEvent};
use crate::command::{Command, Opener};
use crate::dial::Dials;
use crate::error::NetError;
use crate::event::Event;
use crate::gossip::Queue;
use crate::held::{Life, Shares};
use crate::link::{Link, replaced};
use crate::pace::Pace;
use crate::peers::Peers;
use crate::pulse::Pulses;
use crate::ranks::Ranks;
use crate::run::Run;
use crate::session::Session;
use crate::streams::Inbound;
use crate::{address, ended, gossip, identity, inbound, limits};

pub(crate) struct Task {
    swarm: Swarm<Behaviour>,
    peers: Arc<Peers>,
    ranks: Ranks,
    /// What each peer makes us hold.
    shares: Shares,
    dials: Dials,
    /// The connections of each peer, the oldest first: our streams go over it.
    links: BTreeMap<PublicKey, Vec<Link>>,
    /// Gossip to each neighbour; ends with the peer, to be disconnected if that failed.
    writers: JoinSet<Option<(PublicKey, Arc<Queue>)>>,
    /// For the writers.
    opener: Opener,
    /// Peers of which a later connection has told its run, and an earlier one may be silent.
    silences: JoinSet<PublicKey>,
    /// How often each may connect.
    pace: Pace,
    /// Whether each of the partners is there,
    pulses: Pulses,
    /// the streams by which they are asked,
    beats: JoinSet<(PublicKey, ConnectionId, Result<(), NetError>)>,
    /// and connections that are dialled beside those over which they are silent.
    renewals: BTreeMap<ConnectionId, PublicKey>,
    events: mpsc::Sender<Event>,
    /// Events for which the channel has no room yet. While there is one, the swarm
    /// waits, and with it the peers; commands are still taken.
    outbox: VecDeque<Event>,
}

impl Task {
    pub(crate) fn new(
        swarm: Swarm<Behaviour>,
        peers: Arc<Peers>,
        ranks: Ranks,
        shares: Shares,
        events: mpsc::Sender<Event>,
        opener: Opener,
        first: Vec<Event>,
    ) -> Self {
        Self {
            swarm,
            peers,
            ranks,
            shares,
            dials: Dials::default(),
            links: BTreeMap::new(),
            writers: JoinSet::new(),
            opener,
            silences: JoinSet::new(),
            pace: Pace::default(),
            pulses: Pulses::default(),
            beats: JoinSet::new(),
            renewals: BTreeMap::new(),
            events,
            outbox: first.into(),
        }
    }

    /// Runs until it is stopped, or nobody holds the handle or the events any more.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let events = self.events.clone();
        let look = sleep(limits::PULSE_LOOK);
        tokio::pin!(look);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Stop(stopped)) => {
                        self.drain(&mut commands).await;
                        // Nobody waits any more if the send fails.
                        let _ = stopped.send(());
                        return;
                    }
                    Some(command) => self.obey(command),
                    None => return,
                },
                event = self.swarm.select_next_some(), if self.outbox.is_empty() => {
                    self.on_swarm_event(event);
                }
                room = events.reserve(), if !self.outbox.is_empty() => match room {
                    Ok(room) => {
                        if let Some(event) = self.outbox.pop_front() {
                            room.send(event);
                        }
                    }
                    Err(_) => return,
                },
                Some(writer) = self.writers.join_next() => {
                    // Not that of an earlier connection.
                    if let Ok(Some((peer, queue))) = writer
                        && self.peers.gossips(peer, &queue)
                    {
                        self.disconnect(peer);
                    }
                }
                () = &mut look, if self.minds_pulses() => {
                    self.mind_pulses();
                    look.set(sleep(limits::PULSE_LOOK));
                }
                Some(ended) = self.beats.join_next() => {
                    if let Ok((peer, connection, ended)) = ended {
                        self.on_pulse_ended(peer, connection, ended);
                    }
                }
                Some(peer) = self.silences.join_next() => {
                    if let Ok(peer) = peer {
                        self.end_other_runs(peer);
                    }
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Dial(dial) => self.dials.start(&mut self.swarm, dial),
            // Dropped, it says that the peer is not connected.
            Command::Open(peer, protocol, opened) => {
                if let Some(link) = self.link(&peer) {
                    let connection = link.connection;
                    self.swarm.behaviour_mut().streams.open(peer, connection, protocol, opened);
                }
            }
            // An error says that the peer was not connected.
            Command::Disconnect(peer) => drop(self.swarm.disconnect_peer_id(peer)),
            Command::End(peer, Session(connection)) => {
                if self.link(&peer).is_some_and(|link| link.connection == connection) {
                    self.obey(Command::Disconnect(peer));
                }
            }
            Command::Block(peer) => drop(self.swarm.behaviour_mut().blocked.block_peer(peer)),
            Command::Unblock(peer) => drop(self.swarm.behaviour_mut().blocked.unblock_peer(peer)),
            Command::Tell => self.tell_addresses(),
            // The caller learns that the channel is closed.
            Command::Stop(_) => {}
        }
    }

    fn disconnect(&mut self, peer: PublicKey) {
        if let Some(peer) = identity::peer_id(peer) {
            self.obey(Command::Disconnect(peer));
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "libp2p's enum is non-exhaustive")]
    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                self.on_established(&peer_id, connection_id, &endpoint);
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, .. } => {
                if let Some(peer) = identity::public_key(&peer_id) {
                    self.on_closed(peer, connection_id, ended::is_by_peer(cause.as_ref()));
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.renewals.remove(&connection_id);
                self.dials.on_failed(&mut self.swarm, connection_id, &error);
            }
            SwarmEvent::IncomingConnectionError { send_back_addr, error, .. } => {
                tracing::debug!(from = %send_back_addr, %error, "no connection came of it");
            }
            SwarmEvent::NewListenAddr { address, .. } => {
                self.listening(address::address(&address), true);
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.listening(address::address(&address), false);
            }
            SwarmEvent::ListenerClosed { addresses, reason, .. } => {
                // Once for each listener.
                tracing::warn!(?reason, "a listener closed");
                for address in addresses {
                    self.listening(address::address(&address), false);
                }
            }
            SwarmEvent::Behaviour(event) => self.on_behaviour_event(event),
            _ => {}
        }
    }

    fn on_established(
        &mut self,
        peer_id: &PeerId,
        connection: ConnectionId,
        endpoint: &ConnectedPoint,
    ) {
        self.dials.on_established(connection, peer_id);
        let Some(peer) = identity::public_key(peer_id) else {
            self.swarm.close_connection(connection);
            return;
        };
        if self.is_surplus(peer, connection) {
            self.swarm.close_connection(connection);
            return;
        }
        let (address, dialled) = (endpoint.get_remote_address(), endpoint.is_dialer());
        let since = Instant::now();
        if !dialled && !self.pace.admits(peer, since) {
            tracing::debug!(peer = %peer.short(), "connects too often");
            self.swarm.close_connection(connection);
            return;
        }
        let links = self.links.entry(peer).or_default();
        let replaced = replaced(links, dialled);
        let address = address::address(address);
        let life = Life::default();
        links.push(Link { connection, address, dialled, since, run: None, life });
        if links.len() == 1 {
            self.begin(peer);
        } else if replaced {
            self.end(peer, |link| link.connection != connection);
        } else {
            self.end_silent(peer, connection);
        }
    }

    /// Ends these connections with a peer, which has others. If our streams went over one of
    /// them, it is met anew.
    fn end(&mut self, peer: PublicKey, ends: impl Fn(&Link) -> bool) {
        let Some(links) = self.links.get_mut(&peer) else { return };
        let first = links.first().map(|link| link.connection);
        let (dead, rest): (Vec<_>, Vec<_>) = std::mem::take(links).into_iter().partition(ends);
        *links = rest;
        for link in &dead {
            tracing::debug!(peer = %peer.short(), "a peer came back; its earlier connection ends");
            self.swarm.close_connection(link.connection);
        }
        if dead.iter().any(|link| Some(link.connection) == first) {
            self.on_gone(peer, false);
            self.begin(peer);
        }
    }

    /// Who loses the first of two connections is met anew over the other: what was said over
    /// the first may be lost, and the peer may have taken the second for that of a new start.
    fn on_closed(&mut self, peer: PublicKey, connection: ConnectionId, by_peer: bool) {
        let Some(links) = self.links.get_mut(&peer) else { return };
        let Some(place) = links.iter().position(|link| link.connection == connection) else {
            return;
        };
        links.remove(place);
        if links.is_empty() {
            self.links.remove(&peer);
        }
        if place == 0 {
            self.on_gone(peer, by_peer);
            self.begin(peer);
        }
    }

    /// Meets a peer over its first connection, if it has one.
    fn begin(&mut self, peer: PublicKey) {
        let Some(link) = self.links.get(&peer).and_then(|links| links.first()) else { return };
        let (address, dialled) = (link.address.clone(), link.dialled);
        let session = Session(link.connection);
        let queue = self.peers.connect(peer, address.clone(), dialled);
        let opener = self.opener.clone();
        self.writers.spawn(async move {
            let error = gossip::write(queue.clone(), opener, peer).await.err()?;
            tracing::debug!(peer = %peer.short(), %error, "gossip to a neighbour ended");
            Some((peer, queue))
        });
        self.outbox.push_back(Event::Connected { peer, session, address, dialled });
    }

    fn link(&self, peer: &PeerId) -> Option<&Link> {
        self.links.get(&identity::public_key(peer)?)?.first()
    }

    fn on_gone(&mut self, peer: PublicKey, by_peer: bool) {
        self.peers.disconnect(peer);
        self.outbox.push_back(Event::Disconnected { peer, by_peer });
    }

    /// A peer has opened a stream. One of a connection that is over goes with it.
    fn on_stream(&mut self, Inbound { peer, connection, protocol, stream }: Inbound) {
        let Some(peer) = identity::public_key(&peer) else { return };
        let mut links = self.links.get(&peer).into_iter().flatten();
        let Some(link) = links.find(|link| link.connection == connection) else { return };
        let (permit, share) = (self.peers.permit(peer, protocol), self.shares.of(peer));
        let Some((permit, share)) = permit.zip(share) else {
            return tracing::debug!(peer = %peer.short(), "too many streams");
        };
        let connection = link.life.connection();
        let body_timeout = self.shares.body_timeout;
        let inbound =
            inbound::Opened { protocol, stream, peer, permit, share, connection, body_timeout };
        tokio::spawn(inbound::serve(inbound, self.events.clone()));
    }

    fn on_behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Streams(inbound) => self.on_stream(inbound),
            BehaviourEvent::Ping(ping::Event { peer, connection, result }) => match result {
                Ok(rtt) => {
                    if let Some(peer) = identity::public_key(&peer) {
                        self.peers.measure(peer, rtt);
                        self.outbox.push_back(Event::Rtt { peer, rtt });
                    }
                }
                // Where nothing comes any more, a second ping does not even find a stream.
                Err(error @ (ping::Failure::Timeout | ping::Failure::Other { .. })) => {
                    tracing::debug!(%peer, %error, "a connection is dead");
                    self.swarm.close_connection(connection);
                }
                Err(ping::Failure::Unsupported) => {}
            },
            BehaviourEvent::Identify(identify::Event::Received {
                peer_id,
                info,
                connection_id,
            }) => {
                if let Some(peer) = identity::public_key(&peer_id) {
                    if let Some(run) = Run::of_agent(&info.agent_version) {
                        self.on_run(peer, connection_id, run);
                    }
                    self.peers.listens(peer, &info.listen_addrs);
                    let reached = self.peers.address(peer);
                    let addresses = address::plausible(&info.listen_addrs, reached.as_ref());
                    self.outbox.push_back(Event::Addresses { peer, addresses });
                }
            }
            BehaviourEvent::Identify(_) => {}
            BehaviourEvent::Admission(never) | BehaviourEvent::Connections(never) => match never {},
            BehaviourEvent::Blocked(never) => match never {},
        }
    }

    /// Ends in order: the gossip that waits goes out, then the connections close.
    async fn drain(&mut self, commands: &mut mpsc::Receiver<Command>) {
        self.peers.close_gossip();
        let end = sleep(limits::DRAIN);
        tokio::pin!(end);
        while !self.writers.is_empty() {
            tokio::select! {
                () = &mut end => break,
                _ = self.writers.join_next() => {}
                Some(command) = commands.recv() => self.obey(command),
                event = self.swarm.select_next_some() => self.on_swarm_event(event),
            }
        }
        let connected: Vec<PeerId> = self.swarm.connected_peers().copied().collect();
        for peer in connected {
            self.obey(Command::Disconnect(peer));
        }
        let closed = async {
            while self.swarm.connected_peers().next().is_some() {
                let event = self.swarm.select_next_some().await;
                self.on_swarm_event(event);
            }
        };
        drop(timeout(limits::DRAIN, closed).await); // whoever takes no part is left behind
    }
}
