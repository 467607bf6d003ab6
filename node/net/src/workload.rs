//! The frames of one lease in one direction: a header, and a body for those that have
//! one. Their order is kept; acknowledging them is left to offload.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{AsyncWriteExt as _, FutureExt as _};
use libp2p::Stream;

use crate::error::NetError;
use crate::peers::Permit;
use crate::{frame, limits};

/// One workload message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The message, at most [`limits::WORKLOAD_HEADER_BYTES`].
    pub header: Bytes,
    /// The object that follows it, if any, at most [`limits::WORKLOAD_BODY_BYTES`].
    pub body: Bytes,
}

/// Our direction. Dropped or closed, the receiver sees the end.
#[derive(Debug)]
pub struct WorkloadSender(Stream);

impl WorkloadSender {
    pub(crate) async fn open(mut stream: Stream, header: &[u8]) -> Result<Self, NetError> {
        frame::write(&mut stream, header).await?;
        stream.flush().await?;
        Ok(Self(stream))
    }

    /// Sends a frame; waits while the receiver is slow. After an error, or when the
    /// future was dropped half-way, the stream is of no use any more.
    pub fn send(&mut self, frame: Frame) -> BoxFuture<'_, Result<(), NetError>> {
        async move {
            NetError::check_size(&frame.header, limits::WORKLOAD_HEADER_BYTES)?;
            NetError::check_size(&frame.body, limits::WORKLOAD_BODY_BYTES)?;
            frame::write(&mut self.0, &frame.header).await?;
            frame::write(&mut self.0, &frame.body).await?;
            Ok(self.0.flush().await?)
        }
        .boxed()
    }

    /// Ends the stream after all that was sent.
    pub fn close(mut self) -> BoxFuture<'static, Result<(), NetError>> {
        async move { Ok(self.0.close().await?) }.boxed()
    }
}

/// The peer's direction.
#[derive(Debug)]
pub struct WorkloadReceiver {
    pub(crate) stream: Stream,
    #[expect(dead_code, reason = "it is counted")]
    pub(crate) permit: Permit,
}

impl WorkloadReceiver {
    /// The next frame; `None` once the peer has closed the stream. What is not taken
    /// makes the peer wait.
    pub fn recv(&mut self) -> BoxFuture<'_, Result<Option<Frame>, NetError>> {
        async move {
            let header = frame::read(&mut self.stream, limits::WORKLOAD_HEADER_BYTES).await?;
            let Some(header) = header else { return Ok(None) };
            let body = frame::expect(&mut self.stream, limits::WORKLOAD_BODY_BYTES).await?;
            Ok(Some(Frame { header, body }))
        }
        .boxed()
    }
}
