//! A kubelet stream that counts what passes, and is counted itself for as long as it is
//! open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Metrics, Way, name};

const KIND: &str = "kubelet";

/// The peer's end of a kubelet stream.
pub(crate) struct Counted<S> {
    inner: S,
    metrics: Metrics,
    open: Gauge,
}

impl<S> Counted<S> {
    /// Asked of a peer (out), or for one (in).
    pub(crate) fn new(inner: S, way: Way, metrics: Metrics) -> Self {
        let open = metrics.0.streams_open.get_or_create_owned(&[("direction", name(way))]);
        open.inc();
        Self { inner, metrics, open }
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.open.dec();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.metrics.bytes(Way::In, KIND, buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.metrics.bytes(Way::Out, KIND, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
