//! What stands in a datagram: the layout of the four messages, which is WireGuard's with
//! another payload in the handshake. Reading checks lengths and nothing else; what is secret
//! stays sealed.

use thiserror::Error;

use crate::limits;

/// Of an authentication code in front of the handshake's own.
pub(crate) const MAC_BYTES: usize = 16;
/// Of a public key.
pub(crate) const KEY_BYTES: usize = 32;
/// Of an AEAD's tag.
pub(crate) const TAG_BYTES: usize = 16;
/// Of the nonce of a cookie.
pub(crate) const COOKIE_NONCE_BYTES: usize = 24;
/// What the initiator says in its first message: a timestamp, the suites, the number of shards.
pub(crate) const OFFER_BYTES: usize = 12 + 1 + 1;
/// What the responder answers: the suite, the number of shards.
pub(crate) const CHOICE_BYTES: usize = 1 + 1;
/// The Noise message of an initiation.
pub(crate) const INITIATION_NOISE_BYTES: usize =
    KEY_BYTES + KEY_BYTES + TAG_BYTES + OFFER_BYTES + TAG_BYTES;
/// The Noise message of a response.
pub(crate) const RESPONSE_NOISE_BYTES: usize = KEY_BYTES + CHOICE_BYTES + TAG_BYTES;
/// A whole initiation.
pub(crate) const INITIATION_BYTES: usize = 8 + INITIATION_NOISE_BYTES + 2 * MAC_BYTES;
/// A whole response.
pub(crate) const RESPONSE_BYTES: usize = 12 + RESPONSE_NOISE_BYTES + 2 * MAC_BYTES;
/// A whole answer with a cookie.
pub(crate) const COOKIE_BYTES: usize = 8 + COOKIE_NONCE_BYTES + MAC_BYTES + TAG_BYTES;
/// What stands in front of the sealed part of a data packet.
pub const DATA_HEADER_BYTES: usize = 16;

/// The bits of an index that say which shard has sealed a packet.
pub(crate) const SHARD_BITS: u32 = limits::SHARDS as u32 - 1;

const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
const COOKIE: u8 = 3;
const DATA: u8 = 4;

/// A datagram, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The first message of a handshake.
    Initiation(Initiation<'a>),
    /// Its answer.
    Response(Response<'a>),
    /// What a loaded responder answers instead.
    Cookie(CookieReply<'a>),
    /// A sealed packet.
    Data(Data<'a>),
}

/// The first message of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Initiation<'a> {
    /// By which the initiator wants to be reached; its low four bits are zero.
    pub(crate) sender: u32,
    /// The Noise message: ephemeral key, static key, offer.
    pub(crate) noise: &'a [u8],
    /// All bytes that the two codes stand for, and the codes.
    pub(crate) macs: Macs<'a>,
}

/// The second message of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    /// By which the responder wants to be reached; its low four bits are zero.
    pub(crate) sender: u32,
    /// The initiator's index.
    pub(crate) receiver: u32,
    /// The Noise message: ephemeral key, choice.
    pub(crate) noise: &'a [u8],
    /// All bytes that the two codes stand for, and the codes.
    pub(crate) macs: Macs<'a>,
}

/// What a loaded responder answers: come again with this cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CookieReply<'a> {
    /// The index of whoever sent the message that is answered.
    pub(crate) receiver: u32,
    /// Of the seal.
    pub(crate) nonce: &'a [u8; COOKIE_NONCE_BYTES],
    /// The cookie, sealed.
    pub(crate) sealed: &'a [u8],
}

/// A sealed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    /// The receiver's index; its low four bits say which shard of the sender has sealed it.
    pub(crate) receiver: u32,
    /// The nonce.
    pub(crate) counter: u64,
    /// The sealed packet with its tag.
    pub(crate) sealed: &'a [u8],
}

/// The two codes at the end of a handshake message, and what they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Macs<'a> {
    /// What the first one covers: all in front of it.
    pub(crate) covered: &'a [u8],
    /// Proves that the sender knows whom it speaks to.
    pub(crate) first: &'a [u8; MAC_BYTES],
    /// Proves that the sender is reached at its address; zero if it has no cookie.
    pub(crate) second: &'a [u8; MAC_BYTES],
}

/// Why a datagram is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The first four bytes are of none of the four kinds.
    #[error("no kind of message begins with these four bytes")]
    Kind,
    /// Its kind has another length.
    #[error("a message of this kind has another length than {0} bytes")]
    Length(usize),
    /// Its sender's index leaves no room for the number of a shard.
    #[error("{0:#x} is no index: its low four bits are those of a shard")]
    Index(u32),
}

impl<'a> Message<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// When it has not the layout of one of the four kinds.
    pub(crate) fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let [kind, 0, 0, 0, rest @ ..] = datagram else { return Err(Malformed::Kind) };
        let length = Malformed::Length(datagram.len());
        match *kind {
            INITIATION if datagram.len() == INITIATION_BYTES => Ok(Self::Initiation(Initiation {
                sender: sender(rest)?,
                noise: &datagram[8..8 + INITIATION_NOISE_BYTES],
                macs: Macs::at_end(datagram).ok_or(length)?,
            })),
            RESPONSE if datagram.len() == RESPONSE_BYTES => Ok(Self::Response(Response {
                sender: sender(rest)?,
                receiver: number(&rest[4..]).ok_or(length)?,
                noise: &datagram[12..12 + RESPONSE_NOISE_BYTES],
                macs: Macs::at_end(datagram).ok_or(length)?,
            })),
            COOKIE if datagram.len() == COOKIE_BYTES => {
                let (nonce, sealed) = rest[4..].split_first_chunk().ok_or(length)?;
                Ok(Self::Cookie(CookieReply {
                    receiver: number(rest).ok_or(length)?,
                    nonce,
                    sealed,
                }))
            }
            DATA if datagram.len() >= DATA_HEADER_BYTES + TAG_BYTES => {
                let counter = rest[4..].first_chunk().ok_or(length)?;
                Ok(Self::Data(Data {
                    receiver: number(rest).ok_or(length)?,
                    counter: u64::from_le_bytes(*counter),
                    sealed: &datagram[DATA_HEADER_BYTES..],
                }))
            }
            INITIATION | RESPONSE | COOKIE | DATA => Err(length),
            _ => Err(Malformed::Kind),
        }
    }
}

impl Data<'_> {
    /// The two numbers in front of a sealed packet; none if this is no such packet.
    pub(crate) fn receiver_and_counter(datagram: &[u8]) -> Option<(u32, u64)> {
        match Message::parse(datagram) {
            Ok(Message::Data(data)) => Some((data.receiver, data.counter)),
            Ok(Message::Initiation(_) | Message::Response(_) | Message::Cookie(_)) | Err(_) => None,
        }
    }
}

impl<'a> Macs<'a> {
    fn at_end(message: &'a [u8]) -> Option<Self> {
        let (rest, second) = message.split_last_chunk()?;
        let (covered, first) = rest.split_last_chunk()?;
        Some(Self { covered, first, second })
    }

    /// What the second code covers: all in front of it, the first code included.
    pub(crate) fn covered_by_second(message: &[u8]) -> &[u8] {
        &message[..message.len() - MAC_BYTES]
    }
}

/// Lays out an initiation without its two codes, which are left zero.
pub(crate) fn initiation(sender: u32, noise: &[u8; INITIATION_NOISE_BYTES]) -> Vec<u8> {
    let mut message = header(INITIATION, &[sender]);
    message.extend_from_slice(noise);
    message.resize(INITIATION_BYTES, 0);
    message
}

/// Lays out a response without its two codes, which are left zero.
pub(crate) fn response(sender: u32, receiver: u32, noise: &[u8; RESPONSE_NOISE_BYTES]) -> Vec<u8> {
    let mut message = header(RESPONSE, &[sender, receiver]);
    message.extend_from_slice(noise);
    message.resize(RESPONSE_BYTES, 0);
    message
}

/// Lays out an answer with a cookie.
pub(crate) fn cookie(receiver: u32, nonce: &[u8; COOKIE_NONCE_BYTES], sealed: &[u8]) -> Vec<u8> {
    let mut message = header(COOKIE, &[receiver]);
    message.extend_from_slice(nonce);
    message.extend_from_slice(sealed);
    message
}

/// Writes what stands in front of a sealed packet.
pub(crate) fn write_data_header(into: &mut [u8], receiver: u32, counter: u64) {
    into[..4].copy_from_slice(&[DATA, 0, 0, 0]);
    into[4..8].copy_from_slice(&receiver.to_le_bytes());
    into[8..DATA_HEADER_BYTES].copy_from_slice(&counter.to_le_bytes());
}

fn header(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    for number in numbers {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message
}

/// The index at the beginning of `bytes`, by which a sender wants to be reached.
fn sender(bytes: &[u8]) -> Result<u32, Malformed> {
    let index = number(bytes).ok_or(Malformed::Length(bytes.len()))?;
    if index & SHARD_BITS == 0 { Ok(index) } else { Err(Malformed::Index(index)) }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_as_it_was_written() {
        let noise = [7; INITIATION_NOISE_BYTES];
        let written = initiation(0x1234_5670, &noise);
        let Ok(Message::Initiation(read)) = Message::parse(&written) else { panic!("{written:?}") };
        assert_eq!((read.sender, read.noise), (0x1234_5670, &noise[..]));
        assert_eq!(read.macs.covered.len(), INITIATION_BYTES - 2 * MAC_BYTES);

        let noise = [8; RESPONSE_NOISE_BYTES];
        let written = response(16, 32, &noise);
        let Ok(Message::Response(read)) = Message::parse(&written) else { panic!("{written:?}") };
        assert_eq!((read.sender, read.receiver, read.noise), (16, 32, &noise[..]));

        let written = cookie(48, &[1; COOKIE_NONCE_BYTES], &[2; MAC_BYTES + TAG_BYTES]);
        let Ok(Message::Cookie(read)) = Message::parse(&written) else { panic!("{written:?}") };
        assert_eq!((read.receiver, read.sealed), (48, &[2; MAC_BYTES + TAG_BYTES][..]));

        let mut written = [9; DATA_HEADER_BYTES + TAG_BYTES];
        write_data_header(&mut written, 64, 5);
        let Ok(Message::Data(read)) = Message::parse(&written) else { panic!("{written:?}") };
        assert_eq!((read.receiver, read.counter, read.sealed), (64, 5, &[9; TAG_BYTES][..]));
    }

    #[test]
    fn another_length_or_kind_is_no_message() {
        let whole = initiation(16, &[0; INITIATION_NOISE_BYTES]);
        for length in 0..whole.len() {
            assert!(Message::parse(&whole[..length]).is_err(), "{length} bytes");
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(Message::parse(&longer), Err(Malformed::Length(longer.len())));
        let mut of_a_shard = initiation(0x10, &[0; INITIATION_NOISE_BYTES]);
        of_a_shard[4] = 0x11;
        assert_eq!(Message::parse(&of_a_shard), Err(Malformed::Index(0x11)));
        assert_eq!(Message::parse(&[5, 0, 0, 0, 1, 2, 3, 4]), Err(Malformed::Kind));
        assert_eq!(Message::parse(&[4, 0, 1, 0, 1, 2, 3, 4]), Err(Malformed::Kind));
    }
}
