//! BLAKE2s for the handshake, which keeps nothing of what it hashed; snow's own does. The
//! chaining key and all keys that are derived of it pass through it.

use std::hint::black_box;

use blake2::Blake2s256;
use blake2::digest::Digest as _;
use snow::types::Hash;
use zeroize::Zeroizing;

const BLOCK_BYTES: usize = 64;
const HASH_BYTES: usize = 32;

type Output = Zeroizing<[u8; HASH_BYTES]>;

/// One hash at a time.
#[derive(Default)]
pub(crate) struct ErasedHash {
    hasher: Blake2s256,
}

impl ErasedHash {
    /// What is in the hasher is the state and one block: both are overwritten. Its type cannot be
    /// erased in another way without unsafe code.
    fn erase(&mut self) {
        self.hasher = Blake2s256::new();
        self.hasher.update([0; BLOCK_BYTES]);
        // Else the compiler sees that nobody reads it, and leaves it out.
        black_box(&mut self.hasher);
        self.hasher = Blake2s256::new();
        black_box(&mut self.hasher);
    }

    /// HMAC (RFC 2104), with a key of at most a block.
    fn code(&mut self, key: &[u8], data: &[&[u8]], out: &mut [u8]) {
        assert!(key.len() <= BLOCK_BYTES, "all keys of Noise are as long as hashes");
        let mut inner = Output::default();
        for (pad, is_last) in [(0x36, false), (0x5c, true)] {
            let mut block = Zeroizing::new([pad; BLOCK_BYTES]);
            block.iter_mut().zip(key).for_each(|(byte, of_key)| *byte ^= of_key);
            self.reset();
            self.input(block.as_slice());
            if is_last {
                self.input(inner.as_slice());
                self.result(out);
            } else {
                data.iter().for_each(|part| self.input(part));
                self.result(inner.as_mut_slice());
            }
        }
    }
}

impl Hash for ErasedHash {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        BLOCK_BYTES
    }

    fn hash_len(&self) -> usize {
        HASH_BYTES
    }

    fn reset(&mut self) {
        self.erase();
    }

    fn input(&mut self, data: &[u8]) {
        self.hasher.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        self.hasher.finalize_into_reset((&mut out[..HASH_BYTES]).into());
        self.erase();
    }

    fn hmac(&mut self, key: &[u8], data: &[u8], out: &mut [u8]) {
        self.code(key, &[data], out);
    }

    /// HKDF, as Noise has it (section 4.3). Up to three outputs, each of the one before.
    fn hkdf(
        &mut self,
        chaining_key: &[u8],
        input_key_material: &[u8],
        outputs: usize,
        out1: &mut [u8],
        out2: &mut [u8],
        out3: &mut [u8],
    ) {
        let mut key = Output::default();
        self.code(chaining_key, &[input_key_material], key.as_mut_slice());
        self.code(key.as_slice(), &[&[1]], out1);
        if outputs > 1 {
            self.code(key.as_slice(), &[&out1[..HASH_BYTES], &[2]], out2);
        }
        if outputs > 2 {
            self.code(key.as_slice(), &[&out2[..HASH_BYTES], &[3]], out3);
        }
    }
}

impl Drop for ErasedHash {
    fn drop(&mut self) {
        self.erase();
    }
}
