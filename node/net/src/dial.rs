//! Dials under way, and what becomes of them.

use std::collections::{BTreeMap, VecDeque};

use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{self, ConnectionId, Swarm};
use libp2p::{Multiaddr, PeerId};
use mercato_discovery::DialFailure;
use mercato_protocol::id::PublicKey;
use tokio::sync::oneshot;

use crate::address::without_peer;
use crate::behaviour::Behaviour;
use crate::error::DialError;
use crate::identity;

/// A dial that somebody waits for.
pub(crate) struct Dial {
    pub(crate) peer: Option<PeerId>,
    /// Not yet tried, or tried and not wrong; the best first.
    pub(crate) addresses: VecDeque<Multiaddr>,
    pub(crate) reply: oneshot::Sender<Result<PublicKey, DialError>>,
    /// Somebody else answered at one of the addresses.
    pub(crate) wrong_peer: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Dials(BTreeMap<ConnectionId, Dial>);

impl Dials {
    /// Starts the dial, or answers it at once.
    pub(crate) fn start(&mut self, swarm: &mut Swarm<Behaviour>, mut dial: Dial) {
        if let Some(peer) = dial.peer.filter(|peer| swarm.is_connected(peer)) {
            return answer(dial, &peer);
        }
        // From a port of its own. From the port that is listened on, as libp2p would, a dial fails
        // where another process of this machine has that port too (EADDRINUSE).
        tracing::debug!(peer = ?dial.peer, addresses = ?dial.addresses, "dials");
        let options = match dial.peer {
            // All at once, each with a head start over the next.
            Some(peer) => DialOpts::peer_id(peer)
                .condition(PeerCondition::Disconnected)
                .addresses(dial.addresses.iter().cloned().collect())
                .allocate_new_port()
                .build(),
            // libp2p takes one address for a peer it does not know.
            None => match dial.addresses.pop_front() {
                Some(address) => {
                    DialOpts::unknown_peer_id().address(address).allocate_new_port().build()
                }
                None => return fail(dial, DialError::unreachable("no address to dial")),
            },
        };
        let connection = options.connection_id();
        match swarm.dial(options) {
            Ok(()) => {
                self.0.insert(connection, dial);
            }
            Err(error) => self.next(swarm, dial, &error),
        }
    }

    pub(crate) fn on_established(&mut self, connection: ConnectionId, peer: &PeerId) {
        if let Some(dial) = self.0.remove(&connection) {
            answer(dial, peer);
        }
    }

    pub(crate) fn on_failed(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        connection: ConnectionId,
        error: &swarm::DialError,
    ) {
        if let Some(dial) = self.0.remove(&connection) {
            self.next(swarm, dial, error);
        }
    }

    /// Goes on with what is left to try. The first to answer decides for all addresses
    /// that were tried together, so a false one must not stand in the way of the true.
    fn next(&mut self, swarm: &mut Swarm<Behaviour>, mut dial: Dial, error: &swarm::DialError) {
        tracing::debug!(peer = ?dial.peer, error = reason(error), "a dial failed");
        let ourselves = match error {
            swarm::DialError::LocalPeerId { .. } => true,
            // libp2p leaves out our own listen addresses.
            swarm::DialError::NoAddresses => dial.peer.is_none() || !dial.addresses.is_empty(),
            swarm::DialError::DialPeerConditionFalse(_)
            | swarm::DialError::Aborted
            | swarm::DialError::WrongPeerId { .. }
            | swarm::DialError::Denied { .. }
            | swarm::DialError::Transport(_) => false,
        };
        if let swarm::DialError::WrongPeerId { address, .. } = error {
            dial.wrong_peer = true;
            let wrong = without_peer(address);
            dial.addresses.retain(|address| without_peer(address) != wrong);
        } else if dial.peer.is_some() {
            dial.addresses.clear();
        }
        if !dial.addresses.is_empty() {
            return self.start(swarm, dial);
        }
        let failure = match (ourselves, dial.wrong_peer) {
            (true, _) => DialFailure::Ourselves,
            (false, true) => DialFailure::WrongPeer,
            (false, false) => DialFailure::Unreachable,
        };
        fail(dial, DialError { failure, reason: reason(error) });
    }
}

fn answer(dial: Dial, peer: &PeerId) {
    match identity::public_key(peer) {
        // Nobody waits any more if the send fails.
        Some(key) => drop(dial.reply.send(Ok(key))),
        None => fail(dial, DialError::unreachable("the peer's key is not of our kind")),
    }
}

fn fail(dial: Dial, error: DialError) {
    drop(dial.reply.send(Err(error)));
}

/// One line, where libp2p's own has one for each address and cause.
fn reason(error: &swarm::DialError) -> String {
    match error {
        swarm::DialError::Transport(tried) => match tried.first() {
            Some((address, error)) => format!("{address}: {}", innermost(error)),
            None => "no address to dial".to_owned(),
        },
        swarm::DialError::LocalPeerId { address } => format!("{address}: that is ourselves"),
        swarm::DialError::WrongPeerId { address, .. } => {
            format!("{address}: another peer answers there")
        }
        swarm::DialError::Denied { cause } => innermost(cause),
        swarm::DialError::NoAddresses
        | swarm::DialError::DialPeerConditionFalse(_)
        | swarm::DialError::Aborted => error.to_string(),
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
