//! Streams to and from connected peers, as a libp2p behaviour.
//!
//! It opens what it is asked to and hands over what peers open. Unlike libp2p-stream it
//! never dials, never drops an inbound stream because somebody is busy, and keeps
//! nothing of a connection that is gone.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo};
use libp2p::swarm::handler::{
    ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound,
};
use libp2p::swarm::{
    ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm,
    NetworkBehaviour, NotifyHandler, Stream, StreamUpgradeError, SubstreamProtocol, THandler,
    THandlerInEvent, THandlerOutEvent, ToSwarm,
};
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use tokio::sync::oneshot;

use crate::error::NetError;
use crate::protocols::Protocol;

/// Where an opened stream goes. Dropped without an answer: the peer is not connected.
pub(crate) type Opened = oneshot::Sender<Result<Stream, NetError>>;

/// A stream that a peer opened.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) peer: PeerId,
    /// Over which of its connections.
    pub(crate) connection: ConnectionId,
    pub(crate) protocol: Protocol,
    pub(crate) stream: Stream,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Behaviour {
    pending: VecDeque<ToSwarm<Inbound, Open>>,
}

impl Behaviour {
    pub(crate) fn open(
        &mut self,
        peer_id: PeerId,
        connection: ConnectionId,
        protocol: Protocol,
        opened: Opened,
    ) {
        let event = Open { protocol, opened };
        let handler = NotifyHandler::One(connection);
        self.pending.push_back(ToSwarm::NotifyHandler { peer_id, handler, event });
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = Inbound;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::default())
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::default())
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        opened: THandlerOutEvent<Self>,
    ) {
        let (protocol, stream) = opened;
        let inbound = Inbound { peer, connection, protocol, stream };
        self.pending.push_back(ToSwarm::GenerateEvent(inbound));
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Inbound, THandlerInEvent<Self>>> {
        self.pending.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Asks a connection for a stream.
#[derive(Debug)]
pub(crate) struct Open {
    protocol: Protocol,
    opened: Opened,
}

type HandlerEvent = ConnectionHandlerEvent<Offer, Open, (Protocol, Stream)>;

/// The streams of one connection.
#[derive(Default)]
pub(crate) struct Handler {
    pending: VecDeque<HandlerEvent>,
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Open;
    type ToBehaviour = (Protocol, Stream);
    type InboundProtocol = Offer;
    type OutboundProtocol = Offer;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Open;

    fn listen_protocol(&self) -> SubstreamProtocol<Offer> {
        SubstreamProtocol::new(Offer(Protocol::ALL.to_vec()), ())
    }

    fn on_behaviour_event(&mut self, open: Open) {
        let protocol = SubstreamProtocol::new(Offer(vec![open.protocol]), open);
        self.pending.push_back(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol });
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<HandlerEvent> {
        self.pending.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "libp2p's enum is non-exhaustive")]
    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Offer, Offer, (), Open>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, name),
                ..
            }) => {
                if let Some(protocol) = Protocol::of(&name) {
                    let event = ConnectionHandlerEvent::NotifyBehaviour((protocol, stream));
                    self.pending.push_back(event);
                }
            }
            // Nobody waits any more if the send fails: the stream is dropped.
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: (stream, _),
                info: open,
            }) => drop(open.opened.send(Ok(stream))),
            ConnectionEvent::DialUpgradeError(DialUpgradeError { error, info: open }) => {
                let error = match error {
                    StreamUpgradeError::Timeout => NetError::TimedOut,
                    StreamUpgradeError::NegotiationFailed => {
                        NetError::Unsupported(open.protocol.name())
                    }
                    StreamUpgradeError::Io(error) => NetError::Io(error),
                    StreamUpgradeError::Apply(never) => match never {},
                };
                drop(open.opened.send(Err(error)));
            }
            _ => {}
        }
    }
}

/// The protocols that one side is ready to speak on a stream.
#[derive(Debug)]
pub(crate) struct Offer(Vec<Protocol>);

impl UpgradeInfo for Offer {
    type Info = StreamProtocol;
    type InfoIter = std::vec::IntoIter<StreamProtocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.iter().map(|protocol| (*protocol).into()).collect::<Vec<_>>().into_iter()
    }
}

impl InboundUpgrade<Stream> for Offer {
    type Output = (Stream, StreamProtocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, name: StreamProtocol) -> Self::Future {
        ready(Ok((stream, name)))
    }
}

impl OutboundUpgrade<Stream> for Offer {
    type Output = (Stream, StreamProtocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, name: StreamProtocol) -> Self::Future {
        ready(Ok((stream, name)))
    }
}
