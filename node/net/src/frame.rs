//! Frames on a stream: four bytes of length, the first the highest, then so many bytes.

use std::io;

use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The next frame; `None` if the stream ends before one begins. A frame above `max` is
/// refused before anything is allocated, and no more is allocated than has arrived.
pub(crate) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    max: usize,
) -> io::Result<Option<Bytes>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..]).await?;
    let length = u32::from_be_bytes(length);
    if usize::try_from(length).is_ok_and(|length| length > max) {
        let error = format!("a frame of {length} bytes, at most {max}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    let mut frame = Vec::new();
    let read = from.take(length.into()).read_to_end(&mut frame).await?;
    if read as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame.into()))
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
