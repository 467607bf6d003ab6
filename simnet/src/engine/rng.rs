//! Seeded chance. Each purpose has a stream of its own, so that one more roll for one
//! does not change what the others get.

use std::ops::RangeInclusive;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

/// One stream of random numbers, which is the same in each run of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(ChaCha12Rng);

impl Rng {
    /// The stream of a run's seed for one purpose.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let stream = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        rng.set_stream(stream);
        Self(rng)
    }

    /// A number in the range.
    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    /// True so many times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.0.random_range(0..1_000) < per_mille
    }

    /// The seed of something else.
    pub(crate) fn seed(&mut self) -> [u8; 32] {
        self.0.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_and_purposes_give_equal_streams() {
        let roll = |seed, purpose| {
            let mut rng = Rng::new(seed, purpose);
            [0; 4].map(|_| rng.within(0..=u64::MAX))
        };
        assert_eq!(roll(1, "links"), roll(1, "links"));
        assert_ne!(roll(1, "links"), roll(1, "faults"));
        assert_ne!(roll(1, "links"), roll(2, "links"));
    }
}
