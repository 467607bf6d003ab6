//! A hash of the numbers by which this gateway knows its sessions and peers. It chooses them
//! itself: nobody else can make many of them fall into one place, so that one multiplication is
//! enough. Whatever others choose is hashed with a key, as in the address table.

use std::hash::{BuildHasherDefault, Hasher};

/// 2^64 divided by the golden ratio, made odd: neighbours fall far from each other (D. Knuth, "The
/// Art of Computer Programming", volume 3, section 6.4).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes the hasher of one number.
pub(crate) type BuildNumberHasher = BuildHasherDefault<NumberHasher>;

/// The hash of one `u32`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers of 32 bits");
    }

    fn write_u32(&mut self, number: u32) {
        let product = u64::from(number).wrapping_mul(FACTOR);
        // The map looks at the lowest bits and the highest: an index ends with four zero bits.
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn numbers_of_both_kinds_spread() {
        let peers: Vec<u32> = (0..1_000).collect();
        let indexes: Vec<u32> = (0..1_000_u32).map(|nth| nth.wrapping_mul(0x0123_4570)).collect();
        for numbers in [peers, indexes] {
            let hash = |number: &u32| BuildNumberHasher::default().hash_one(number);
            let low: BTreeSet<_> = numbers.iter().map(|number| hash(number) % 1_024).collect();
            let high: BTreeSet<_> = numbers.iter().map(|number| hash(number) >> 57).collect();
            assert!(low.len() > 550 && high.len() > 120, "{} and {}", low.len(), high.len());
        }
    }
}
