//! Frames on a stream: four bytes of length, the first the highest, then so many bytes.

use std::io;

use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use zeroize::Zeroizing;

/// How long the next frame is; `None` if the stream ends before one begins. One above `max` is
/// refused before anything is allocated.
pub(crate) async fn length(
    from: &mut (impl AsyncRead + Unpin),
    max: usize,
) -> io::Result<Option<usize>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length);
    match usize::try_from(length) {
        Ok(length) if length <= max => Ok(Some(length)),
        _ => {
            let error = format!("a frame of {length} bytes, at most {max}");
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        }
    }
}

/// The frame of which this was the [`length`]. No more is allocated than has arrived.
pub(crate) async fn body(from: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Bytes> {
    let mut frame = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut frame).await?;
    if read != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(frame.into())
}

/// The same of one that may hold a secret: it is erased when it is dropped. Its bound is small, for
/// all of it is allocated at once: no copy stays behind as it grows.
pub(crate) async fn erased(
    from: &mut (impl AsyncRead + Unpin),
    length: usize,
) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut frame = Zeroizing::new(vec![0; length]);
    from.read_exact(&mut frame).await?;
    Ok(frame)
}

/// The next frame, of a stream of which one is held at a time.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    max: usize,
) -> io::Result<Option<Bytes>> {
    match length(from, max).await? {
        Some(length) => Ok(Some(body(from, length).await?)),
        None => Ok(None),
    }
}

/// A frame that has to come.
pub(crate) async fn expect(from: &mut (impl AsyncRead + Unpin), max: usize) -> io::Result<Bytes> {
    read(from, max).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Writes a frame, without a flush. The caller has checked the bound of its kind.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(frame).await
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::io::Cursor;

    use super::*;

    fn read_all(bytes: &[u8], max: usize) -> io::Result<Vec<Bytes>> {
        let mut from = Cursor::new(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = block_on(read(&mut from, max))? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn frames_are_read_as_written() {
        let mut bytes = Vec::new();
        for frame in [&b"one"[..], b"", b"three"] {
            block_on(write(&mut bytes, frame)).unwrap();
        }
        assert_eq!(read_all(&bytes, 5).unwrap(), ["one", "", "three"]);
    }

    #[test]
    fn a_frame_that_is_too_long_or_too_short_is_an_error() {
        let error = |bytes: &[u8]| read_all(bytes, 8).unwrap_err().kind();
        assert_eq!(error(&[0, 0, 0, 9]), io::ErrorKind::InvalidData);
        assert_eq!(error(&[255; 4]), io::ErrorKind::InvalidData);
        assert_eq!(error(&[0, 0, 0, 8, 1]), io::ErrorKind::UnexpectedEof);
        assert_eq!(error(&[0, 0]), io::ErrorKind::UnexpectedEof);
    }
}
