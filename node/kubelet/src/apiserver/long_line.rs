//! Request lines that are longer than hyper reads and writes: `http` holds no URI of more than 65,534
//! bytes, and the URI of an exec has its command. An API server's client and server of Go take 1 MiB.
//!
//! The query of such a line goes beside hyper: towards us it is taken out before hyper reads the line,
//! from us it is put in after hyper has written it. Of a connection the first request alone may be so:
//! an exec has one of its own.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits;

/// The query of a connection's first request, where its line was too long.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aside(Arc<Mutex<Option<String>>>);

/// The same, with the request that it is of.
#[derive(Debug, Clone)]
pub(crate) struct LongQuery(pub(crate) String);

impl Aside {
    /// The query that was put aside, once.
    pub(crate) fn take(&self) -> Option<LongQuery> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(LongQuery)
    }
}

/// A connection of which the first request line is shortened.
pub(crate) struct Shortened<S> {
    inner: S,
    head: Head,
    aside: Aside,
}

enum Head {
    /// What has come of the first line.
    Comes(Vec<u8>),
    /// What hyper is still to read of it, and of what came behind.
    Waits(Bytes),
}

impl<S> Shortened<S> {
    /// A connection that has just begun; `aside` is told of the query.
    pub(crate) fn new(inner: S, aside: Aside) -> Self {
        Self { inner, head: Head::Comes(Vec::new()), aside }
    }

    /// One on which every line is as long as it may be.
    pub(crate) fn untouched(inner: S) -> Self {
        Self { inner, head: Head::Waits(Bytes::new()), aside: Aside::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Shortened<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match &mut this.head {
                Head::Comes(line) => {
                    let mut piece = [0; 8 << 10];
                    let mut piece = ReadBuf::new(&mut piece);
                    ready!(Pin::new(&mut this.inner).poll_read(cx, &mut piece))?;
                    let piece = piece.filled();
                    line.extend_from_slice(piece);
                    let is_whole = piece.is_empty() || piece.contains(&b'\n');
                    if is_whole || line.len() > limits::REQUEST_LINE {
                        this.head = Head::Waits(shorten(std::mem::take(line), &this.aside));
                    }
                }
                Head::Waits(rest) if rest.is_empty() => {
                    return Pin::new(&mut this.inner).poll_read(cx, buf);
                }
                Head::Waits(rest) => {
                    let piece = rest.split_to(rest.len().min(buf.remaining()));
                    buf.put_slice(&piece);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Shortened<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// What came, without the query of its first line where that is too long; what is no line of HTTP/1.1
/// stays as it is, for hyper to refuse.
fn shorten(came: Vec<u8>, aside: &Aside) -> Bytes {
    let cut = || {
        let end = came.iter().position(|byte| *byte == b'\n').filter(|end| *end > limits::URI)?;
        let version = came[..end].iter().rposition(|byte| *byte == b' ')?;
        let mark = came[..version].iter().position(|byte| *byte == b'?')?;
        let query = std::str::from_utf8(&came[mark + 1..version]).ok()?;
        let plain = query.bytes().all(|byte| byte.is_ascii_graphic());
        plain.then(|| (query.to_owned(), [&came[..mark], &came[version..]].concat()))
    };
    match cut() {
        Some((query, rest)) => {
            *aside.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(query);
            rest.into()
        }
        None => came.into(),
    }
}

/// A connection into whose first request line a query is put.
pub(crate) struct Lengthened<S> {
    inner: S,
    query: Option<String>,
    /// What is still to be written in the place of so many bytes.
    waits: Option<(Bytes, usize)>,
}

impl<S> Lengthened<S> {
    /// A connection that has just begun.
    pub(crate) fn new(inner: S, query: String) -> Self {
        Self { inner, query: Some(query), waits: None }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lengthened<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(query) = this.query.take() {
            // hyper writes a head at once.
            let end = bytes.windows(VERSION.len()).position(|part| part == VERSION);
            let end = end.ok_or_else(|| io::Error::other("no request line"))?;
            let line = [&bytes[..end], b"?", query.as_bytes(), &bytes[end..]].concat();
            this.waits = Some((line.into(), bytes.len()));
        }
        if let Some((rest, length)) = &mut this.waits {
            while !rest.is_empty() {
                let written = ready!(Pin::new(&mut this.inner).poll_write(cx, rest))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                rest.advance(written);
            }
            let length = *length;
            this.waits = None;
            return Poll::Ready(Ok(length));
        }
        Pin::new(&mut this.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lengthened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

const VERSION: &[u8] = b" HTTP/1.1\r\n";

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What hyper reads of what came, and the query beside it.
    async fn read(came: &[u8]) -> (Vec<u8>, Option<String>) {
        let aside = Aside::default();
        let mut shortened = Shortened::new(came, aside.clone());
        let mut all = Vec::new();
        shortened.read_to_end(&mut all).await.unwrap();
        (all, aside.take().map(|LongQuery(query)| query))
    }

    #[tokio::test]
    async fn the_query_of_a_long_line_goes_beside_it() {
        let query = "command=".to_owned() + &"x".repeat(300_000);
        let came = format!("POST /exec/a/b/c?{query} HTTP/1.1\r\nhost: t\r\n\r\nbody");
        let (all, aside) = read(came.as_bytes()).await;
        assert_eq!(all, b"POST /exec/a/b/c HTTP/1.1\r\nhost: t\r\n\r\nbody");
        assert_eq!(aside, Some(query));
    }

    #[tokio::test]
    async fn everything_else_stays_as_it_is() {
        let long = |text: &str| text.replace('~', &"x".repeat(100_000));
        for came in [
            String::new(),
            "GET /a?b HTTP/1.1\r\n\r\n".into(),
            "half a li".into(),
            long("GET /~ HTTP/1.1\r\n\r\n"),
            long("GET /a?~ b HTTP/1.1\r\n\r\n"),
            long("GET /a?~\u{7} HTTP/1.1\r\n\r\n"),
            long("GET /a HTTP/1.1\r\nx: ~?\r\n\r\n"),
            "x".repeat(limits::REQUEST_LINE * 2),
        ] {
            let (all, aside) = read(came.as_bytes()).await;
            assert!(all == came.as_bytes() && aside.is_none(), "{came:.40}");
        }
    }

    #[tokio::test]
    async fn a_query_is_put_into_the_first_line_alone() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let writing = tokio::spawn(async move {
            let mut lengthened = Lengthened::new(ours, "c=1".into());
            lengthened.write_all(b"GET /a HTTP/1.1\r\nhost: t\r\n\r\n").await.unwrap();
            lengthened.write_all(b"GET /b HTTP/1.1\r\n\r\n").await.unwrap();
        });
        let mut all = String::new();
        theirs.read_to_string(&mut all).await.unwrap();
        writing.await.unwrap();
        assert_eq!(all, "GET /a?c=1 HTTP/1.1\r\nhost: t\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    }
}
