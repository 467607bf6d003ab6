//! The Internet checksum (RFC 1071), and its change when some of what it covers changes
//! (RFC 1624), without a look at the rest.

/// The ones' complement sum of bytes that begin at an even place; an odd last byte is followed by
/// a zero.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let words = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair)));
    let last = last.first().map_or(0, |byte| u64::from(*byte) << 8);
    fold(words.sum::<u64>() + last)
}

/// Two sums together.
pub(crate) fn add(one: u16, other: u16) -> u16 {
    fold(u64::from(one) + u64::from(other))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// What must be added to a sum when words that it covers are replaced by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change(u16);

impl Change {
    /// That of `before` to `after`, two fields of one even length.
    pub(crate) fn of(before: &[u8], after: &[u8]) -> Self {
        debug_assert!(before.len() == after.len() && before.len().is_multiple_of(2), "whole words");
        Self(add(!sum(before), sum(after)))
    }

    /// Both changes together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(add(self.0, other.0))
    }

    /// A checksum, the complement of a sum, after the change.
    pub(crate) fn to_checksum(self, checksum: u16) -> u16 {
        !add(!checksum, self.0)
    }

    /// A sum that is not complemented yet, as in a packet whose checksum a device is to finish.
    pub(crate) fn to_partial(self, sum: u16) -> u16 {
        add(sum, self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_change_equals_a_new_sum(
            mut bytes in proptest::collection::vec(any::<u8>(), 8..200),
            at in 0_usize..100,
            field in any::<[u8; 4]>(),
        ) {
            let at = (at * 2 % (bytes.len() - 4)) & !1;
            // A header is never all zero, which has two sums.
            bytes[0] |= 1;
            let checksum = !sum(&bytes);
            let before: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            bytes[at..at + 4].copy_from_slice(&field);
            prop_assume!(bytes.iter().any(|byte| *byte != 0));
            let changed = Change::of(&before, &field).to_checksum(checksum);
            // 0 and 0xffff are the same number.
            prop_assert_eq!(add(changed, sum(&bytes)), 0xffff);
        }
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0x12]), 0x1200);
    }
}
