//! What came over a TCP connection and is not read yet: yamux keeps up to 256 KiB of each of
//! hundreds of streams. Of a stranger's connection no more is read while there is too much of it.
//!
//! A connection is wrapped below yamux, where the lengths of its frames are seen, and above it,
//! where its streams are read. What comes for a stream that is over counts until the connection
//! ends: a stranger that goes on so is not heard any more, and its pings fail.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures::task::AtomicWaker;
use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo};
use libp2p::yamux;
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::PublicKey;

use crate::limits;
use crate::ranks::Ranks;

/// The bytes of one connection that wait in yamux.
struct Unread {
    peer: Option<PublicKey>,
    ranks: Ranks,
    bytes: AtomicUsize,
    /// Who waits until there are fewer.
    waits: AtomicWaker,
}

impl Unread {
    fn is_of_stranger(&self) -> bool {
        self.peer.is_none_or(|peer| self.ranks.of(&peer) <= Rank::Stranger)
    }

    fn is_too_much(&self) -> bool {
        self.bytes.load(Ordering::Acquire) >= limits::UNREAD_OF_STRANGER && self.is_of_stranger()
    }

    /// Until the next frame may come.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_too_much() {
            self.waits.register(cx.waker());
            if self.is_too_much() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// A frame begins, with a body of this length.
    fn comes(&self, length: usize) -> io::Result<()> {
        if length > limits::MUXED_FRAME_OF_STRANGER && self.is_of_stranger() {
            let error = format!("a frame of {length} bytes, by a stranger");
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        self.bytes.fetch_add(length, Ordering::AcqRel);
        Ok(())
    }

    fn is_read(&self, length: usize) {
        self.bytes.fetch_sub(length, Ordering::AcqRel);
        self.waits.wake();
    }
}

/// Yamux over a connection with this peer.
#[derive(Clone)]
pub(crate) struct Upgrade {
    yamux: yamux::Config,
    unread: Arc<Unread>,
}

impl Upgrade {
    pub(crate) fn new(peer: Option<PublicKey>, ranks: Ranks) -> Self {
        let unread = Unread { peer, ranks, bytes: AtomicUsize::new(0), waits: AtomicWaker::new() };
        let mut yamux = yamux::Config::default();
        yamux.set_max_num_streams(match unread.is_of_stranger() {
            true => limits::MUXED_STREAMS_OF_STRANGER,
            false => limits::MUXED_STREAMS,
        });
        Self { yamux, unread: Arc::new(unread) }
    }

    fn wrap<C>(self, socket: C) -> (yamux::Config, Below<C>, Arc<Unread>) {
        let Self { yamux, unread } = self;
        let below = Below { socket, frames: Frames::default(), unread: Arc::clone(&unread) };
        (yamux, below, unread)
    }
}

impl UpgradeInfo for Upgrade {
    type Info = <yamux::Config as UpgradeInfo>::Info;
    type InfoIter = <yamux::Config as UpgradeInfo>::InfoIter;

    fn protocol_info(&self) -> Self::InfoIter {
        self.yamux.protocol_info()
    }
}

type Upgraded<C> = futures::future::BoxFuture<'static, io::Result<Above<yamux::Muxer<Below<C>>>>>;

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> InboundConnectionUpgrade<C> for Upgrade {
    type Output = Above<yamux::Muxer<Below<C>>>;
    type Error = io::Error;
    type Future = Upgraded<C>;

    fn upgrade_inbound(self, socket: C, info: Self::Info) -> Self::Future {
        let (yamux, below, unread) = self.wrap(socket);
        Box::pin(
            async move { Ok(Above { muxer: yamux.upgrade_inbound(below, info).await?, unread }) },
        )
    }
}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> OutboundConnectionUpgrade<C> for Upgrade {
    type Output = Above<yamux::Muxer<Below<C>>>;
    type Error = io::Error;
    type Future = Upgraded<C>;

    fn upgrade_outbound(self, socket: C, info: Self::Info) -> Self::Future {
        let (yamux, below, unread) = self.wrap(socket);
        Box::pin(
            async move { Ok(Above { muxer: yamux.upgrade_outbound(below, info).await?, unread }) },
        )
    }
}

/// Where a reader of yamux' frames is: each has a header of 12 bytes, of which the second says
/// whether it brings data, and the last four how much.
#[derive(Default)]
struct Frames {
    header: [u8; Self::HEADER],
    /// How much of it is there.
    read: usize,
    /// How much of a body is to come.
    body: usize,
}

impl Frames {
    const HEADER: usize = 12;
    /// The type of a frame that brings data.
    const DATA: u8 = 0;

    fn is_between(&self) -> bool {
        self.read == 0 && self.body == 0
    }

    /// Takes what was read; the length of each body that begins goes to `begins`.
    fn take(
        &mut self,
        mut bytes: &[u8],
        mut begins: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(match self.body {
                0 => bytes.len().min(Self::HEADER - self.read),
                body => bytes.len().min(body),
            });
            bytes = rest;
            if self.body > 0 {
                self.body -= part.len();
                continue;
            }
            self.header[self.read..][..part.len()].copy_from_slice(part);
            self.read += part.len();
            if self.read == Self::HEADER {
                self.read = 0;
                let [_, kind, .., a, b, c, d] = self.header;
                if kind == Self::DATA {
                    self.body = u32::from_be_bytes([a, b, c, d]) as usize;
                    begins(self.body)?;
                }
            }
        }
        Ok(())
    }
}

/// The connection as yamux reads it.
pub(crate) struct Below<C> {
    socket: C,
    frames: Frames,
    unread: Arc<Unread>,
}

impl<C: AsyncRead + Unpin> AsyncRead for Below<C> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Self { socket, frames, unread } = self.get_mut();
        if frames.is_between() {
            ready!(unread.poll_room(cx));
        }
        let read = ready!(Pin::new(socket).poll_read(cx, buf))?;
        frames.take(&buf[..read], |length| unread.comes(length))?;
        Poll::Ready(Ok(read))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Below<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(cx)
    }
}

/// The muxer, whose streams say what is read of them.
pub(crate) struct Above<M> {
    muxer: M,
    unread: Arc<Unread>,
}

impl<M: StreamMuxer + Unpin> Above<M>
where
    M::Substream: Unpin,
{
    fn stream(
        &self,
        polled: Poll<Result<M::Substream, M::Error>>,
    ) -> Poll<Result<Stream<M::Substream>, M::Error>> {
        polled.map_ok(|stream| Stream { stream, unread: Arc::clone(&self.unread) })
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for Above<M>
where
    M::Substream: Unpin,
{
    type Substream = Stream<M::Substream>;
    type Error = M::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let polled = Pin::new(&mut self.muxer).poll_inbound(cx);
        self.stream(polled)
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let polled = Pin::new(&mut self.muxer).poll_outbound(cx);
        self.stream(polled)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.muxer).poll_close(cx)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        Pin::new(&mut self.muxer).poll(cx)
    }
}

/// A stream of the connection.
pub(crate) struct Stream<S: AsyncRead + Unpin> {
    stream: S,
    unread: Arc<Unread>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.unread.is_read(read);
        Poll::Ready(Ok(read))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

impl<S: AsyncRead + Unpin> Drop for Stream<S> {
    /// What waits for it goes with it. Nothing is waited for here.
    fn drop(&mut self) {
        let (mut cx, mut buf) = (Context::from_waker(std::task::Waker::noop()), [0; 4_096]);
        while let Poll::Ready(Ok(1..)) = Pin::new(&mut *self).poll_read(&mut cx, &mut buf) {}
    }
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;
    use futures::{AsyncReadExt as _, FutureExt as _};

    use super::*;

    fn frame(kind: u8, body: usize) -> Vec<u8> {
        let mut frame = vec![0, kind, 0, 0, 0, 0, 0, 1];
        frame.extend((body as u32).to_be_bytes());
        if kind == Frames::DATA {
            frame.resize(frame.len() + body, 7);
        }
        frame
    }

    fn below(bytes: Vec<u8>, ranks: &Ranks) -> (Below<Cursor<Vec<u8>>>, Arc<Unread>) {
        let (_, below, unread) =
            Upgrade::new(Some(PublicKey([1; 32])), ranks.clone()).wrap(Cursor::new(bytes));
        (below, unread)
    }

    #[test]
    fn bodies_count_however_they_are_cut() {
        let frames = [frame(0, 1_000), frame(1, 262_144), frame(0, 0), frame(2, 9), frame(0, 50)];
        let bytes = frames.concat();
        for cut in [1, 5, 12, 13, 500, bytes.len()] {
            let (mut read, mut begun) = (Frames::default(), Vec::new());
            for part in bytes.chunks(cut) {
                let begins = |length| {
                    begun.push(length);
                    Ok(())
                };
                read.take(part, begins).unwrap();
            }
            assert_eq!((begun, read.is_between()), (vec![1_000, 0, 50], true), "{cut}");
        }
    }

    /// Reads as yamux does: no further than the frame that it knows of.
    fn read(below: &mut Below<Cursor<Vec<u8>>>, bytes: usize) -> Option<io::Result<()>> {
        let mut buf = vec![0; bytes];
        below.read_exact(&mut buf).now_or_never()
    }

    #[test]
    fn a_stranger_is_not_read_while_too_much_of_its_is_unread() {
        let (body, ranks) = (16 << 10, Ranks::default());
        let (mut below, unread) = below(frame(0, body).repeat(100), &ranks);
        let mut next = || read(&mut below, body + Frames::HEADER).is_some();
        let frames = std::iter::repeat_with(&mut next).take_while(|read| *read).count();
        assert_eq!(frames, limits::UNREAD_OF_STRANGER / body);
        // As much as is read of its streams may come.
        let stream = Stream { stream: Cursor::new(vec![7; 2 * body]), unread: Arc::clone(&unread) };
        assert!(!next());
        drop(stream);
        assert!(next() && next() && !next(), "what nobody will read counts no more");
        // One that is known is read as before.
        ranks.add(PublicKey([1; 32]), Rank::Member);
        assert!(next());
    }

    #[test]
    fn a_stranger_has_no_memory_taken_for_what_may_never_come() {
        let (body, ranks) = (limits::MUXED_FRAME_OF_STRANGER + 1, Ranks::default());
        let header = |ranks| read(&mut below(frame(0, body), ranks).0, Frames::HEADER).unwrap();
        assert_eq!(header(&ranks).unwrap_err().kind(), io::ErrorKind::InvalidData);
        ranks.add(PublicKey([1; 32]), Rank::Member);
        assert!(header(&ranks).is_ok());
    }
}
