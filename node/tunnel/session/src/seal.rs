//! One key each: what seals the packets of one shard in one session, and what opens those of one
//! shard of the peer. No two shards share a key, so no two can use a nonce twice.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::limits;
use crate::message::{DATA_HEADER_BYTES, TAG_BYTES, write_data_header};
use crate::replay::ReplayWindow;
use crate::suite::Suite;

const LABEL: &[u8] = b"mercato tunnel shard";
const KEY_BYTES: usize = 32;

/// Seals the packets of one shard.
pub(crate) struct Sealer {
    key: LessSafeKey,
    /// The peer's index, with this shard's number in its low bits.
    receiver: u32,
    /// Of the next packet.
    counter: u64,
}

/// Opens the packets of one shard of the peer.
pub(crate) struct Opener {
    key: LessSafeKey,
    window: ReplayWindow,
}

/// Why a datagram was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum OpenError {
    /// Its counter was seen, or is too old to tell.
    #[error("a packet that was seen before, or is too old to tell")]
    Replayed,
    /// It was not sealed with this key.
    #[error("a packet that was not sealed with this key")]
    NotAuthentic,
}

impl Sealer {
    pub(crate) fn new(split: &[u8; 32], suite: Suite, receiver: u32, shard: u8) -> Self {
        Self { key: key(split, suite, shard), receiver, counter: 0 }
    }

    /// How many packets it has sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.counter
    }

    /// Makes it have sealed so many packets.
    #[cfg(test)]
    pub(crate) fn set_sealed(&mut self, counter: u64) {
        self.counter = counter;
    }

    /// Seals what stands in the middle of `datagram`, between room for the header and for the
    /// tag. None once the key is used up.
    pub(crate) fn seal(&mut self, datagram: &mut [u8]) -> Option<()> {
        assert!(datagram.len() >= limits::SEALED_BYTES, "room for header and tag");
        if self.counter >= limits::REJECT_AFTER_PACKETS {
            return None;
        }
        let counter = self.counter;
        self.counter += 1;
        let (header, rest) = datagram.split_at_mut(DATA_HEADER_BYTES);
        write_data_header(header, self.receiver, counter);
        let (packet, tag_room) = rest.split_at_mut(rest.len() - TAG_BYTES);
        let tag = self.key.seal_in_place_separate_tag(nonce(counter), Aad::empty(), packet);
        tag_room.copy_from_slice(tag.expect("a packet is far below what an AEAD seals").as_ref());
        Some(())
    }
}

impl Opener {
    pub(crate) fn new(split: &[u8; 32], suite: Suite, shard: u8) -> Self {
        Self { key: key(split, suite, shard), window: ReplayWindow::new() }
    }

    /// Opens a packet with its tag, in its place. The window moves only once the tag was right.
    pub(crate) fn open<'a>(
        &mut self,
        counter: u64,
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        if !self.window.admits(counter) || counter >= limits::REJECT_AFTER_PACKETS {
            return Err(OpenError::Replayed);
        }
        let opened = self.key.open_in_place(nonce(counter), Aad::empty(), sealed);
        let packet = opened.map_err(|_| OpenError::NotAuthentic)?;
        let is_new = self.window.mark(counter);
        assert!(is_new, "it was admitted, and nothing was marked since");
        Ok(packet)
    }
}

/// Four zero bytes, and the counter as it stands in the header (WireGuard, section 5.4.6).
fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

struct KeyLength;

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

/// The key of one shard in one direction: the split's key of that direction is HKDF's PRK.
pub(crate) fn shard_key(split: &[u8; 32], shard: u8) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    Prk::new_less_safe(HKDF_SHA256, split)
        .expand(&[LABEL, &[shard]], KeyLength)
        .and_then(|derived| derived.fill(bytes.as_mut()))
        .expect("32 bytes are within what HKDF gives");
    bytes
}

fn key(split: &[u8; 32], suite: Suite, shard: u8) -> LessSafeKey {
    let key = UnboundKey::new(suite.algorithm(), shard_key(split, shard).as_ref());
    LessSafeKey::new(key.expect("both suites have keys of 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(sealer: &mut Sealer, packet: &[u8]) -> Vec<u8> {
        let mut datagram = [&[0; DATA_HEADER_BYTES], packet, &[0; TAG_BYTES]].concat();
        sealer.seal(&mut datagram).unwrap();
        datagram
    }

    #[test]
    fn what_one_shard_seals_its_opener_alone_opens_once() {
        for suite in Suite::ALL {
            let mut sealer = Sealer::new(&[1; 32], suite, 0x50, 0);
            let first = sealed(&mut sealer, b"first");
            let second = sealed(&mut sealer, b"second");
            let mut opener = Opener::new(&[1; 32], suite, 0);
            let mut open = |datagram: &[u8], counter| {
                let mut rest = datagram[DATA_HEADER_BYTES..].to_vec();
                opener.open(counter, &mut rest).map(|packet| packet.to_vec())
            };
            assert_eq!(open(&second, 1), Ok(b"second".to_vec()));
            assert_eq!(open(&first, 1), Err(OpenError::Replayed));
            assert_eq!(open(&first, 7), Err(OpenError::NotAuthentic), "another nonce");
            assert_eq!(open(&first, 0), Ok(b"first".to_vec()), "a forgery moves no window");
            let mut rest = sealed(&mut sealer, b"third")[DATA_HEADER_BYTES..].to_vec();
            let mut other = Opener::new(&[1; 32], suite, 1);
            assert_eq!(other.open(2, &mut rest), Err(OpenError::NotAuthentic), "another shard");
        }
    }

    #[test]
    fn a_key_that_is_used_up_seals_no_more() {
        let mut sealer = Sealer::new(&[1; 32], Suite::Aes256Gcm, 0x50, 0);
        sealer.set_sealed(limits::REJECT_AFTER_PACKETS - 1);
        let mut datagram = [0; limits::SEALED_BYTES];
        assert_eq!(sealer.seal(&mut datagram), Some(()));
        assert_eq!(sealer.seal(&mut datagram), None);
    }
}
