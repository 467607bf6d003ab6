//! A request and its one answer, on a stream of their own.

use bytes::Bytes;
use futures::AsyncWriteExt as _;
use libp2p::Stream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::NetError;
use crate::{frame, limits};

/// Answers one request. Dropped, the asker learns that there will be no answer.
#[derive(Debug)]
pub struct Responder(oneshot::Sender<Bytes>);

impl Responder {
    /// One, and where its answer arrives.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Bytes>) {
        let (answer, answered) = oneshot::channel();
        (Self(answer), answered)
    }

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
