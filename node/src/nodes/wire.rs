//! Frames between the daemon and the nodes of its cluster: four bytes of length, the first the
//! highest, then the canonical bytes of one message. Neither end is cut short in the middle of one:
//! whoever drops a reading or a writing drops the connection too.

use std::io;

use bytes::Bytes;
use mercato_protocol::codec::{CodecError, Message};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The length of a frame, in bytes.
const LENGTH_BYTES: usize = 4;

/// The next message.
///
/// # Errors
/// `UnexpectedEof` where the stream ends, `InvalidData` for one that is too long or malformed.
pub(super) async fn read<T: Message>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length).await?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > T::MAX_BYTES {
        let limit = T::MAX_BYTES;
        return Err(malformed(CodecError::TooLong { what: "message bytes", limit }));
    }
    // No more is allocated than has arrived.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    T::from_bytes(&bytes).map_err(malformed)
}

/// Says a message, whole.
///
/// # Errors
/// `InvalidData` for one that the other end would refuse; whatever else the stream says.
pub(super) async fn write<T: Message>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> io::Result<()> {
    let frame = frame(message).inspect_err(|error| {
        // Once for each connection, which it ends: what is said should never be refused.
        tracing::warn!(%error, "a message between the daemon and a node cannot be said");
    })?;
    send(to, &frame).await
}

/// A message as it is said.
///
/// # Errors
/// `InvalidData` for one that the other end would refuse.
pub(super) fn frame<T: Message>(message: &T) -> io::Result<Bytes> {
    let bytes = message.to_bytes().map_err(malformed)?;
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(LENGTH_BYTES + bytes.len());
    frame.extend(length.to_be_bytes());
    frame.extend(bytes);
    Ok(frame.into())
}

/// Says what was made a frame, whole.
///
/// # Errors
/// Whatever the stream says.
pub(super) async fn send(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    to.write_all(frame).await?;
    to.flush().await
}

fn malformed(error: CodecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use mercato_protocol::limits::{FROM_NODE_BYTES, LINE_BYTES};
    use mercato_protocol::node::{FromNode, NodeState, ToNode};

    use super::*;

    async fn refused<T: Message>(mut bytes: &[u8]) -> io::Error {
        read::<T>(&mut bytes).await.err().unwrap()
    }

    #[tokio::test]
    async fn one_after_the_other() {
        let said = [
            FromNode::Hello { token: "a.b.c".to_owned(), address: "10.200.0.7".parse().ok() },
            FromNode::State(NodeState {
                version: 3,
                mtu: 1_500,
                trouble: Some("no".to_owned()),
                second: true,
                ..NodeState::default()
            }),
        ];
        // A few bytes at a time.
        let (mut near, mut far) = tokio::io::duplex(5);
        let writing = async move {
            for message in &said {
                write(&mut near, message).await.unwrap();
            }
            said
        };
        let reading = async {
            let first = read::<FromNode>(&mut far).await.unwrap();
            let second = read::<FromNode>(&mut far).await.unwrap();
            ([first, second], read::<FromNode>(&mut far).await.err().unwrap())
        };
        let (said, (heard, end)) = tokio::join!(writing, reading);
        assert_eq!(heard, said);
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn one_that_is_cut_off() {
        let mut whole = Vec::new();
        write(&mut whole, &ToNode::Refused { text: "who are you?".to_owned() }).await.unwrap();
        for cut in 0..whole.len() {
            let error = refused::<ToNode>(&whole[..cut]).await;
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "after {cut} bytes");
        }
    }

    #[tokio::test]
    async fn one_that_is_too_long_is_refused_by_its_length() {
        let length = u32::try_from(FROM_NODE_BYTES + 1).unwrap().to_be_bytes();
        let error = refused::<FromNode>(&length).await;
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(&FROM_NODE_BYTES.to_string()), "{error}");
    }

    #[tokio::test]
    async fn one_that_is_malformed() {
        let error = refused::<ToNode>(&[0, 0, 0, 1, 0xff]).await;
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let long = ToNode::Refused { text: "n".repeat(LINE_BYTES + 1) };
        let mut nothing = Vec::new();
        let error = write(&mut nothing, &long).await.err().unwrap();
        assert_eq!((error.kind(), nothing.len()), (io::ErrorKind::InvalidData, 0));
    }
}
