//! Messages on a connection: each with its length before it (RFC 1035, section 4.2.2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The next message; none, where the other side has ended.
///
/// # Errors
/// When the connection breaks off, or the message has more bytes than that.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<Option<Vec<u8>>> {
    let length = match from.read_u16().await {
        Ok(length) => usize::from(length),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message).await?;
    Ok(Some(message))
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
