//! ChaCha20-Poly1305 for the handshake, whose keys are erased when another takes their place and
//! when they are dropped; snow's own are not.

use chacha20poly1305::aead::AeadInPlace as _;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit as _, Nonce, Tag};
use snow::Error;
use snow::types::Cipher;
use zeroize::Zeroizing;

use crate::message::TAG_BYTES;

const KEY_BYTES: usize = 32;

/// One key of a handshake.
#[derive(Default)]
pub(crate) struct ErasedCipher {
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl ErasedCipher {
    /// The cipher erases its own copy of the key.
    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(self.key.as_slice().into())
    }
}

/// Four zero bytes, and the number (Noise, section 12.3).
fn nonce_of(number: u64) -> Nonce {
    let mut nonce = Nonce::default();
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

impl Cipher for ErasedCipher {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.key.copy_from_slice(key);
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (sealed, rest) = out.split_at_mut(plaintext.len());
        sealed.copy_from_slice(plaintext);
        let tag = self.cipher().encrypt_in_place_detached(&nonce_of(nonce), authtext, sealed);
        let tag = tag.expect("a message is far below what the cipher seals");
        rest[..TAG_BYTES].copy_from_slice(&tag);
        plaintext.len() + TAG_BYTES
    }

    fn decrypt(
        &self,
        nonce: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let (sealed, tag) = ciphertext.split_last_chunk::<TAG_BYTES>().ok_or(Error::Decrypt)?;
        let opened = out.get_mut(..sealed.len()).ok_or(Error::Decrypt)?;
        opened.copy_from_slice(sealed);
        self.cipher()
            .decrypt_in_place_detached(&nonce_of(nonce), authtext, opened, Tag::from_slice(tag))
            .map_err(|_| Error::Decrypt)?;
        Ok(sealed.len())
    }
}

#[cfg(test)]
mod tests {
    use snow::params::CipherChoice;
    use snow::resolvers::{CryptoResolver as _, DefaultResolver};
    use zeroize::ZeroizeOnDrop;

    use super::*;

    #[test]
    fn it_seals_and_opens_what_snows_own_does() {
        let mut own = DefaultResolver.resolve_cipher(&CipherChoice::ChaChaPoly).unwrap();
        let mut erased = ErasedCipher::default();
        own.set(&[7; KEY_BYTES]);
        erased.set(&[7; KEY_BYTES]);
        assert_eq!(own.name(), erased.name());
        for (nonce, bytes) in [(0, 0), (1, 14), (u64::MAX - 1, 100)] {
            let text = vec![3; bytes];
            let mut sealed = [vec![0; 200], vec![0; 200]];
            let lengths = [
                own.encrypt(nonce, b"with", &text, &mut sealed[0]),
                erased.encrypt(nonce, b"with", &text, &mut sealed[1]),
            ];
            assert_eq!(lengths, [bytes + TAG_BYTES; 2]);
            assert_eq!(sealed[0], sealed[1]);
            let sealed = &mut sealed[0][..lengths[0]];
            let mut opened = vec![0; bytes];
            assert_eq!(erased.decrypt(nonce, b"with", sealed, &mut opened), Ok(bytes));
            assert_eq!(opened, text);
            assert!(erased.decrypt(nonce, b"without", sealed, &mut opened).is_err());
            sealed[bytes] ^= 1;
            assert!(erased.decrypt(nonce, b"with", sealed, &mut opened).is_err());
        }
        assert!(erased.decrypt(0, b"", &[0; TAG_BYTES - 1], &mut [0; 10]).is_err());
        own.rekey();
        erased.rekey();
        let mut sealed = [[0; TAG_BYTES]; 2];
        own.encrypt(0, b"", b"", &mut sealed[0]);
        erased.encrypt(0, b"", b"", &mut sealed[1]);
        assert_eq!(sealed[0], sealed[1]);
    }

    #[test]
    fn keys_are_erased() {
        fn is_erased<T: ZeroizeOnDrop>(_: &T) -> bool {
            true
        }
        let cipher = ErasedCipher::default();
        assert!(is_erased(&cipher.key) && is_erased(&cipher.cipher()));
    }
}
