//! Which of the times that a peer was connected.

use libp2p::swarm::ConnectionId;

/// From [`Event::Connected`](crate::Event::Connected) to [`Event::Disconnected`](crate::Event::Disconnected).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session(pub(crate) ConnectionId);
