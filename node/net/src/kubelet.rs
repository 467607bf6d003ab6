//! Kubelet streams: a request, a reply, then raw bytes both ways.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{AsyncWriteExt as _, FutureExt as _};
use libp2p::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _};

use crate::error::NetError;
use crate::peers::Permit;
use crate::{frame, limits};

/// Raw bytes both ways; each way is shut down by itself. What was written before a drop
/// without shutdown may be lost.
#[derive(Debug)]
pub struct ByteStream {
    stream: Compat<Stream>,
    _permit: Option<Permit>,
}

/// How long the request of a kubelet stream is: a long one takes a version of the stream that
/// earlier releases do not speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLength {
    /// A request of at most [`limits::KUBELET_BYTES`].
    Short,
    /// A request of at most [`limits::LONG_KUBELET_BYTES`].
    Long,
}

/// Answers the request that opened a kubelet stream. Dropped, the stream is reset.
#[derive(Debug)]
pub struct KubeletAnswer {
    pub(crate) stream: Stream,
    pub(crate) permit: Permit,
}

impl KubeletAnswer {
    /// Replies, at most [`limits::KUBELET_BYTES`]; from here on the bytes are raw.
    pub fn accept(self, reply: Bytes) -> BoxFuture<'static, Result<ByteStream, NetError>> {
        async move {
            let Self { mut stream, permit } = self;
            write(&mut stream, &reply).await?;
            Ok(ByteStream { stream: stream.compat(), _permit: Some(permit) })
        }
        .boxed()
    }

    /// Replies and closes the stream.
    pub fn refuse(mut self, reply: Bytes) -> BoxFuture<'static, Result<(), NetError>> {
        async move {
            write(&mut self.stream, &reply).await?;
            Ok(self.stream.close().await?)
        }
        .boxed()
    }
}

pub(crate) async fn ask(
    mut stream: Stream,
    request: &[u8],
) -> Result<(Bytes, ByteStream), NetError> {
    let exchange = async {
        frame::write(&mut stream, request).await?;
        stream.flush().await?;
        Ok::<_, NetError>(frame::expect(&mut stream, limits::KUBELET_BYTES).await?)
    };
    let reply =
        timeout(limits::REQUEST_TIMEOUT, exchange).await.map_err(|_| NetError::TimedOut)??;
    Ok((reply, ByteStream { stream: stream.compat(), _permit: None }))
}

async fn write(stream: &mut Stream, message: &[u8]) -> Result<(), NetError> {
    NetError::check_size(message, limits::KUBELET_BYTES)?;
    frame::write(stream, message).await?;
    Ok(stream.flush().await?)
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
