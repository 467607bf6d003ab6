//! A stream that a peer opened: reads its first frame, and hands it to its kind.

use bytes::Bytes;
use libp2p::Stream;
use mercato_protocol::id::PublicKey;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::event::Event;
use crate::handle::NetError;
use crate::kubelet::KubeletAnswer;
use crate::peers::Permit;
use crate::protocols::Protocol;
use crate::workload::WorkloadReceiver;
use crate::{frame, gossip, limits, requests};

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
        Protocol::Market => return gossip::read(stream, peer, permit.turns, events).await,
        Protocol::Negotiation => {
            let request = first(&mut stream, limits::REQUEST_BYTES).await?;
            return requests::answer(stream, peer, request, events).await;
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

async fn first(stream: &mut Stream, max: usize) -> Result<Bytes, NetError> {
    let read = timeout(limits::OPEN_TIMEOUT, frame::expect(stream, max));
    Ok(read.await.map_err(|_| NetError::TimedOut)??)
}
