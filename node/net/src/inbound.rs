//! A stream that a peer opened: reads its first frame, and hands it to its kind. Of each frame the
//! length is read first; its body is not before there is room for it in the peer's share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::AsyncWriteExt as _;
use libp2p::Stream;
use mercato_protocol::id::PublicKey;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::error::NetError;
use crate::event::Event;
use crate::held::{Connection, Held, Kind, Share, Taken};
use crate::kubelet::KubeletAnswer;
use crate::peers::Permit;
use crate::protocols::Protocol;
use crate::requests::Responder;
use crate::tunnel::TunnelResponder;
use crate::workload::WorkloadReceiver;
use crate::{frame, limits, pulse, tunnel};

/// A stream that a peer opened, with what it counts for.
pub(crate) struct Opened {
    pub(crate) protocol: Protocol,
    pub(crate) stream: Stream,
    pub(crate) peer: PublicKey,
    pub(crate) permit: Permit,
    pub(crate) share: Arc<Share>,
    pub(crate) connection: Connection,
    pub(crate) body_timeout: Duration,
}

/// Serves the stream to its end, at the latest that of its connection. Whatever is wrong with it
/// ends it, and only it.
pub(crate) async fn serve(opened: Opened, events: mpsc::Sender<Event>) {
    let (peer, protocol) = (opened.peer, opened.protocol.name());
    let connection = opened.connection.clone();
    if let Some(Err(error)) = connection.during(run(opened, events)).await {
        tracing::debug!(peer = %peer.short(), protocol, %error, "stream ended");
    }
}

async fn run(mut opened: Opened, events: mpsc::Sender<Event>) -> Result<(), NetError> {
    let event = match opened.protocol {
        Protocol::Market => return gossip(opened, events).await,
        Protocol::Negotiation => return answer(opened, events).await,
        Protocol::Tunnel => return tunnel(opened, events).await,
        Protocol::Pulse => return pulse::answer(opened.stream).await,
        Protocol::Workload => {
            let (header, taken) = opened.first(limits::WORKLOAD_OPEN_BYTES, 0).await?;
            let Opened { stream, peer, permit, connection, .. } = opened;
            let held = Held::new(taken, connection);
            Event::Workload { peer, header, held, frames: WorkloadReceiver { stream, permit } }
        }
        Protocol::Kubelet | Protocol::LongKubelet => {
            let is_long = opened.protocol == Protocol::LongKubelet;
            let max = if is_long { limits::LONG_KUBELET_BYTES } else { limits::KUBELET_BYTES };
            let (request, taken) = opened.first(max, 0).await?;
            let Opened { stream, peer, permit, connection, .. } = opened;
            let held = Held::new(taken, connection);
            Event::Kubelet { peer, request, held, answer: KubeletAnswer { stream, permit } }
        }
    };
    events.send(event).await.map_err(|_| NetError::Stopped)
}

/// Reads the neighbour's frames as fast as they are dealt with, no faster.
async fn gossip(mut opened: Opened, events: mpsc::Sender<Event>) -> Result<(), NetError> {
    let (peer, body_timeout) = (opened.peer, opened.body_timeout);
    let stream = &mut opened.stream;
    while let Some(length) = frame::length(stream, limits::GOSSIP_BYTES).await? {
        let taken = opened.share.take(Kind::Gossip, length).await?;
        let frame = within(body_timeout, frame::body(stream, length)).await?;
        let held = Held::new(Arc::new(taken), opened.connection.clone());
        let event = Event::Gossip { peer, frame, held };
        events.send(event).await.map_err(|_| NetError::Stopped)?;
    }
    Ok(())
}

async fn answer(mut opened: Opened, events: mpsc::Sender<Event>) -> Result<(), NetError> {
    let (request, taken) = opened.first(limits::REQUEST_BYTES, limits::ANSWER_BYTES).await?;
    let (responder, answered) = Responder::new();
    // It counts until the answer is out, or there will be none.
    let held = Held::new(Arc::clone(&taken), opened.connection.clone());
    let request = Event::Request { peer: opened.peer, request, held, responder };
    events.send(request).await.map_err(|_| NetError::Stopped)?;
    let exchange = async {
        // Dropping the stream says it.
        let Ok(response) = answered.await else { return Ok(()) };
        NetError::check_size(&response, limits::RESPONSE_BYTES)?;
        frame::write(&mut opened.stream, &response).await?;
        opened.stream.close().await?;
        Ok(())
    };
    timeout(limits::REQUEST_TIMEOUT, exchange).await.map_err(|_| NetError::TimedOut)?
}

async fn tunnel(mut opened: Opened, events: mpsc::Sender<Event>) -> Result<(), NetError> {
    let read = async {
        let (length, taken) = opened.room(limits::TUNNEL_BYTES, limits::TUNNEL_BYTES).await?;
        Ok::<_, NetError>((tunnel::question(&mut opened.stream, length).await?, taken))
    };
    let (ask, taken) = within(limits::OPEN_TIMEOUT, read).await?;
    let (responder, answered) = TunnelResponder::new();
    // As that of a request, it counts until the answer is out.
    let held = Held::new(Arc::clone(&taken), opened.connection.clone());
    let question = Event::Tunnel { peer: opened.peer, ask, held, responder };
    events.send(question).await.map_err(|_| NetError::Stopped)?;
    tunnel::answer(opened.stream, answered).await
}

impl Opened {
    /// The first frame, for which there is room, and for so many bytes more.
    async fn first(&mut self, max: usize, more: usize) -> Result<(Bytes, Arc<Taken>), NetError> {
        let read = async {
            let (length, taken) = self.room(max, more).await?;
            Ok::<_, NetError>((frame::body(&mut self.stream, length).await?, taken))
        };
        within(limits::OPEN_TIMEOUT, read).await
    }

    /// How long the first frame is, once there is room for it, and for so many bytes more.
    async fn room(&mut self, max: usize, more: usize) -> Result<(usize, Arc<Taken>), NetError> {
        // What is larger than all that the peer may make us hold is never waited for.
        let max = max.min(self.share.most(Kind::Words));
        let length = frame::length(&mut self.stream, max).await?;
        let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok((length, Arc::new(self.share.take(Kind::Words, length + more).await?)))
    }
}

/// What is read, if it comes within this time.
async fn within<T, E>(
    time: Duration,
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, NetError>
where
    NetError: From<E>,
{
    Ok(timeout(time, read).await.map_err(|_| NetError::TimedOut)??)
}
