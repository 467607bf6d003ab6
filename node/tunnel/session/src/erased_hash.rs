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
    /// Overwrites the state and the block that waits. The hasher cannot be erased in another way
    /// without unsafe code; but for the black box the compiler would leave it out, since nobody
    /// reads what is written.
    fn erase(&mut self) {
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

#[cfg(test)]
mod tests {
    use snow::params::HashChoice;
    use snow::resolvers::{CryptoResolver as _, DefaultResolver};

    use super::*;

    /// What hashes, codes and derived keys of the same things are.
    fn all_of(hash: &mut dyn Hash) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for bytes in [0, 1, 63, 64, 65, 200] {
            let data = vec![5; bytes];
            let mut out = [[0; HASH_BYTES]; 4];
            hash.reset();
            hash.input(&data);
            hash.input(b"and more");
            hash.result(&mut out[0]);
            all.push(out[0].to_vec());
            hash.hmac(&[6; HASH_BYTES], &data, &mut out[0]);
            for outputs in 1..=3 {
                let [_, one, two, three] = &mut out;
                hash.hkdf(&[7; HASH_BYTES], &data, outputs, one, two, three);
                all.push(out.concat());
            }
        }
        all
    }

    #[test]
    fn it_gives_what_snows_own_does() {
        let mut own = DefaultResolver.resolve_hash(&HashChoice::Blake2s).unwrap();
        let mut erased = ErasedHash::default();
        assert_eq!(own.name(), erased.name());
        assert_eq!((own.block_len(), own.hash_len()), (erased.block_len(), erased.hash_len()));
        assert_eq!(all_of(&mut *own), all_of(&mut erased));
    }

    #[test]
    fn what_was_hashed_is_forgotten_before_the_next_hash_and_at_the_end() {
        let hash_of = |erased: &mut ErasedHash| {
            let mut out = [0; HASH_BYTES];
            erased.result(&mut out);
            out
        };
        let mut erased = ErasedHash::default();
        let of_nothing = hash_of(&mut erased);
        erased.input(&[9; 100]);
        erased.erase();
        assert_eq!(hash_of(&mut erased), of_nothing);
        assert!(std::mem::needs_drop::<ErasedHash>());
    }
}
