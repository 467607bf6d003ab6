//! Frames on a stream between peers, without the IO: four bytes (kind, then length in
//! three bytes, big-endian) and the content. A message is one frame; the body that a
//! workload message announces follows it in chunks, with nothing between.

use thiserror::Error;

use crate::codec::{CodecError, Message as _};
use crate::id::Digest;
use crate::limits;
use crate::workload::{Desire, Message};

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 4;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message in CBOR, signed or not.
    Message,
    /// A part of a body.
    Chunk,
}

/// Why a stream must be closed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// Neither a message nor a chunk.
    #[error("frame kind {0} is not known")]
    UnknownKind(u8),
    /// Above the bound of its kind.
    #[error("a frame of {0} bytes")]
    TooLong(usize),
    /// A frame of nothing.
    #[error("an empty frame")]
    Empty,
    /// A chunk where a message belongs, a message inside a body, or more than announced.
    #[error("a frame out of order")]
    OutOfOrder,
    /// The body is not the one that was announced.
    #[error("the body does not match its digest")]
    OtherBody,
    /// The message is malformed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What follows.
    pub kind: Kind,
    /// How many bytes of it.
    pub length: usize,
}

impl Head {
    /// Reads a head, before anything is allocated for the frame. `max_message` is the
    /// bound of the messages that this stream carries, envelope included.
    pub fn parse(bytes: [u8; HEAD_BYTES], max_message: usize) -> Result<Self, FrameError> {
        let [kind, a, b, c] = bytes;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let (kind, limit) = match kind {
            0 => (Kind::Message, max_message),
            1 => (Kind::Chunk, limits::CHUNK_BYTES),
            other => return Err(FrameError::UnknownKind(other)),
        };
        match length {
            0 => Err(FrameError::Empty),
            _ if length > limit => Err(FrameError::TooLong(length)),
            _ => Ok(Self { kind, length }),
        }
    }
}

/// A message as one frame. An error if it does not fit into any.
pub fn message(bytes: &[u8]) -> Result<Vec<u8>, FrameError> {
    frame(0, bytes)
}

/// A body as chunks.
pub fn chunks(body: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let chunk = |part| frame(1, part).expect("a chunk is far below three bytes of length");
    body.chunks(limits::CHUNK_BYTES).map(chunk)
}

fn frame(kind: u8, content: &[u8]) -> Result<Vec<u8>, FrameError> {
    let length = u32::try_from(content.len()).ok().filter(|length| length >> 24 == 0);
    let [_, a, b, c] = length.ok_or(FrameError::TooLong(content.len()))?.to_be_bytes();
    Ok([&[kind, a, b, c], content].concat())
}

/// Puts a workload message and its body together, frame by frame.
#[derive(Debug, Default)]
pub struct Assembly {
    open: Option<(Message, Vec<u8>)>,
}

impl Assembly {
    /// Takes the next frame; a message once it is whole, with its body (empty where it
    /// has none), which matches its digest.
    pub fn on_frame(
        &mut self,
        kind: Kind,
        content: &[u8],
    ) -> Result<Option<(Message, Vec<u8>)>, FrameError> {
        let (message, body) = match (kind, self.open.take()) {
            (Kind::Message, None) => (Message::from_bytes(content)?, Vec::new()),
            (Kind::Chunk, Some((message, mut body))) => {
                body.extend_from_slice(content);
                (message, body)
            }
            (Kind::Message, Some(_)) | (Kind::Chunk, None) => return Err(FrameError::OutOfOrder),
        };
        match body.len().cmp(&(message.body_len() as usize)) {
            std::cmp::Ordering::Less => {
                self.open = Some((message, body));
                Ok(None)
            }
            std::cmp::Ordering::Equal => {
                let matches =
                    body_digest(&message).is_none_or(|digest| digest == Digest::of(&body));
                if matches { Ok(Some((message, body))) } else { Err(FrameError::OtherBody) }
            }
            std::cmp::Ordering::Greater => Err(FrameError::OutOfOrder),
        }
    }
}

fn body_digest(message: &Message) -> Option<Digest> {
    match message {
        Message::Desire(Desire { digest, .. }) | Message::GuestStatus { digest, .. } => {
            Some(*digest)
        }
        Message::Hello { .. }
        | Message::Digests { .. }
        | Message::Synced
        | Message::Delete(_)
        | Message::Ack { .. }
        | Message::Gone { .. }
        | Message::Refused { .. } => None,
    }
}
