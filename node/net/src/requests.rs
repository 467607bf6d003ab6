//! A request and its one answer, on a stream of their own.

use bytes::Bytes;
use futures::AsyncWriteExt as _;
use libp2p::Stream;
use mercato_protocol::id::PublicKey;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::event::Event;
use crate::handle::NetError;
use crate::{frame, limits};

/// Answers one request. Dropped, the asker learns that there will be no answer.
#[derive(Debug)]
pub struct Responder(oneshot::Sender<Bytes>);

impl Responder {
    /// Sends the answer, at most [`limits::RESPONSE_BYTES`]; a longer one is none.
    pub fn respond(self, response: Bytes) {
        // The asker has gone if this fails.
        let _ = self.0.send(response);
    }
}

pub(crate) async fn ask(mut stream: Stream, request: &[u8]) -> Result<Bytes, NetError> {
    let exchange = async {
        frame::write(&mut stream, request).await?;
        stream.close().await?;
        frame::expect(&mut stream, limits::RESPONSE_BYTES).await
    };
    Ok(timeout(limits::REQUEST_TIMEOUT, exchange).await.map_err(|_| NetError::TimedOut)??)
}

pub(crate) async fn answer(
    mut stream: Stream,
    peer: PublicKey,
    request: Bytes,
    events: mpsc::Sender<Event>,
) -> Result<(), NetError> {
    let (answer, answered) = oneshot::channel();
    let request = Event::Request { peer, request, responder: Responder(answer) };
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
