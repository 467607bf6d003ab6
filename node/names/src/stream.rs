//! Messages on a connection: each with its length before it (RFC 1035, section 4.2.2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The messages that come on one connection.
pub(crate) struct Messages {
    /// What has come, and is no whole message yet.
    buffer: Vec<u8>,
    most: usize,
}

impl Messages {
    /// Of at most so many bytes each.
    pub(crate) fn new(most: usize) -> Self {
        Self { buffer: Vec::new(), most }
    }

    /// The next message; none, where the other side has ended. Whoever stops waiting loses nothing.
    ///
    /// # Errors
    /// When the connection breaks off, or a message has more bytes than that.
    pub(crate) async fn next(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some((length, rest)) = self.buffer.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if length > self.most {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if let Some(message) = rest.get(..length) {
                    let message = message.to_vec();
                    self.buffer.drain(..2 + length);
                    return Ok(Some(message));
                }
            }
            if from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Says a message.
///
/// # Errors
/// When the connection breaks off, or the message is too long.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes()[..], message].concat();
    to.write_all(&framed).await
}
