//! A stream that a peer opened: reads its first frame, and hands it to its kind.

use std::sync::Arc;

use bytes::Bytes;
use futures::AsyncWriteExt as _;
use libp2p::Stream;
use mercato_protocol::id::PublicKey;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::error::NetError;
use crate::event::Event;
use crate::gossip::Turn;
use crate::kubelet::KubeletAnswer;
use crate::peers::Permit;
use crate::protocols::Protocol;
use crate::requests::Responder;
use crate::workload::WorkloadReceiver;
use crate::{frame, limits};

/// Serves the stream to its end. Whatever is wrong with it ends it, and only it.
pub(crate) async fn serve(
    protocol: Protocol,
    stream: Stream,
    peer: PublicKey,
    permit: Permit,
    events: mpsc::Sender<Event>,
) {
    if let Err(error) = run(protocol, stream, peer, permit, events).await {
        tracing::debug!(peer = %peer.short(), protocol = protocol.name(), %error, "stream ended");
    }
}

async fn run(
    protocol: Protocol,
    mut stream: Stream,
    peer: PublicKey,
    permit: Permit,
    events: mpsc::Sender<Event>,
) -> Result<(), NetError> {
    let event = match protocol {
        Protocol::Market => return gossip(stream, peer, &permit.turns, events).await,
        Protocol::Negotiation => {
            let request = first(&mut stream, limits::REQUEST_BYTES).await?;
            return answer(stream, peer, request, events).await;
        }
        Protocol::Workload => {
            let header = first(&mut stream, limits::WORKLOAD_HEADER_BYTES).await?;
            let frames = WorkloadReceiver { stream, _permit: permit };
            Event::Workload { peer, header, frames }
        }
        Protocol::Kubelet => {
            let request = first(&mut stream, limits::KUBELET_BYTES).await?;
            Event::Kubelet { peer, request, answer: KubeletAnswer { stream, permit } }
        }
    };
    events.send(event).await.map_err(|_| NetError::Stopped)
}

/// Reads the neighbour's frames as fast as the driver takes them, no faster.
async fn gossip(
    mut stream: Stream,
    peer: PublicKey,
    turns: &Arc<Semaphore>,
    events: mpsc::Sender<Event>,
) -> Result<(), NetError> {
    while let Some(frame) = frame::read(&mut stream, limits::GOSSIP_BYTES).await? {
        let turn = Turn::take(turns, frame.len()).await?;
        let event = Event::Gossip { peer, frame, turn };
        events.send(event).await.map_err(|_| NetError::Stopped)?;
    }
    Ok(())
}

async fn answer(
    mut stream: Stream,
    peer: PublicKey,
    request: Bytes,
    events: mpsc::Sender<Event>,
) -> Result<(), NetError> {
    let (responder, answered) = Responder::new();
    let request = Event::Request { peer, request, responder };
    events.send(request).await.map_err(|_| NetError::Stopped)?;
    let exchange = async {
        // Dropping the stream says it.
        let Ok(response) = answered.await else { return Ok(()) };
        NetError::check_size(&response, limits::RESPONSE_BYTES)?;
        frame::write(&mut stream, &response).await?;
        stream.close().await?;
        Ok(())
    };
    timeout(limits::REQUEST_TIMEOUT, exchange).await.map_err(|_| NetError::TimedOut)?
}

async fn first(stream: &mut Stream, max: usize) -> Result<Bytes, NetError> {
    let read = timeout(limits::OPEN_TIMEOUT, frame::expect(stream, max));
    Ok(read.await.map_err(|_| NetError::TimedOut)??)
}
