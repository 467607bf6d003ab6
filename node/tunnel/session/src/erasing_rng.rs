//! Randomness that forgets ("fast key erasure"): each draw gives bytes and a new key, which takes
//! the place of the one before. Whoever sees the memory of a gateway learns nothing of what was
//! drawn earlier, as the ephemeral keys of handshakes that are over.
//!
//! Keys lie in boxes, since moving a value leaves a copy where it was.

use std::convert::Infallible;
use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use rand::{TryCryptoRng, TryRng};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
const LABEL: &[u8] = b"mercato tunnel random";

/// Randomness of a seed. What it gave cannot be computed from what it is.
pub(crate) struct ErasingRng {
    key: Box<Zeroizing<[u8; KEY_BYTES]>>,
}

/// 32 random bytes for one handshake alone, which are erased when it is over.
pub(crate) struct Seed(Box<Zeroizing<[u8; KEY_BYTES]>>);

impl ErasingRng {
    /// Begins with 32 random bytes. Erasing other copies of them is the caller's.
    pub(crate) fn new(seed: &[u8; KEY_BYTES]) -> Self {
        let mut key = Box::<Zeroizing<[u8; KEY_BYTES]>>::default();
        key.copy_from_slice(seed);
        Self { key }
    }

    /// Draws the seed of one handshake.
    pub(crate) fn seed(&mut self) -> Seed {
        let mut seed = Box::<Zeroizing<[u8; KEY_BYTES]>>::default();
        self.fill(seed.as_mut_slice());
        Seed(seed)
    }

    /// HKDF-Expand with the key: the first half of what it gives is the next key.
    fn fill(&mut self, into: &mut [u8]) {
        for part in into.chunks_mut(KEY_BYTES) {
            let mut stream = Zeroizing::new([0; 2 * KEY_BYTES]);
            Prk::new_less_safe(HKDF_SHA256, self.key.as_slice())
                .expand(&[LABEL], StreamLength)
                .and_then(|stretched| stretched.fill(stream.as_mut()))
                .expect("64 bytes are within what HKDF gives");
            let (key, drawn) = stream.split_at(KEY_BYTES);
            self.key.copy_from_slice(key);
            part.copy_from_slice(&drawn[..part.len()]);
        }
    }
}

impl Seed {
    /// Takes 32 bytes that a test has chosen.
    #[cfg(test)]
    pub(crate) fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Box::new(Zeroizing::new(bytes)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

struct StreamLength;

impl KeyType for StreamLength {
    fn len(&self) -> usize {
        2 * KEY_BYTES
    }
}

impl TryRng for ErasingRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        self.fill(into);
        Ok(())
    }
}

impl TryCryptoRng for ErasingRng {}

impl fmt::Debug for ErasingRng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErasingRng")
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::Rng as _;
    use zeroize::ZeroizeOnDrop;

    use super::*;

    /// All that a generator is: whoever sees the memory has this, and no more.
    fn state(rng: &ErasingRng) -> [u8; KEY_BYTES] {
        let ErasingRng { key } = rng;
        ***key
    }

    fn drawn(rng: &mut ErasingRng, bytes: usize) -> Vec<u8> {
        let mut drawn = vec![0; bytes];
        rng.fill_bytes(&mut drawn);
        drawn
    }

    #[test]
    fn the_state_after_a_draw_is_of_no_use_for_earlier_ones() {
        let mut rng = ErasingRng::new(&[1; KEY_BYTES]);
        let mut seen = BTreeSet::from([state(&rng).to_vec()]);
        for draw in 0..100 {
            // Outputs and states are all different: no state is kept, and none is given away.
            assert!(seen.insert(drawn(&mut rng, KEY_BYTES)), "output {draw}");
            assert!(seen.insert(state(&rng).to_vec()), "state {draw}");
        }
        // What comes of the state that is seen at last is nothing that came before.
        let mut of_thief = ErasingRng::new(&state(&rng));
        for _ in 0..1_000 {
            assert!(seen.insert(drawn(&mut of_thief, KEY_BYTES)));
        }
    }

    #[test]
    fn the_state_is_the_whole_past() {
        let mut one = ErasingRng::new(&[1; KEY_BYTES]);
        let mut other = ErasingRng::new(&[2; KEY_BYTES]);
        one.next_u32();
        assert_ne!(drawn(&mut one, 100), drawn(&mut other, 100));
        other.key.copy_from_slice(one.key.as_slice());
        assert_eq!(one.next_u32(), other.next_u32());
        assert_eq!(one.next_u64(), other.next_u64());
        assert_eq!(drawn(&mut one, 100), drawn(&mut other, 100));
        assert_eq!(one.seed().as_bytes(), other.seed().as_bytes());
    }

    #[test]
    fn what_is_secret_is_erased_and_never_shown() {
        fn is_erased<T: ZeroizeOnDrop>(_: &T) -> bool {
            true
        }
        let mut rng = ErasingRng::new(&[1; KEY_BYTES]);
        let seed = rng.seed();
        assert!(is_erased(&*rng.key) && is_erased(&*seed.0));
        assert_eq!(format!("{rng:?} {seed:?}"), "ErasingRng Seed");
    }
}
