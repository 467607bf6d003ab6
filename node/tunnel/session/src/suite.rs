//! Which AEAD seals the packets: agreed in the handshake, by what both processors do well.

use aws_lc_rs::aead::{AES_256_GCM, Algorithm, CHACHA20_POLY1305};

/// An AEAD with keys of 32 bytes, nonces of 12 and tags of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// AES-256-GCM, where both processors have instructions for it.
    Aes256Gcm,
    /// ChaCha20-Poly1305, which is fast without.
    ChaCha20Poly1305,
}

/// The suites that one end takes, as one byte of the handshake. Unknown bits are those of
/// later versions, and are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suites(u8);

impl Suite {
    /// All of them, the preferred one first.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::ChaCha20Poly1305];

    pub(crate) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    pub(crate) const fn bit(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(crate) fn from_bit(bit: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.bit() == bit)
    }
}

impl Suites {
    /// These, and ChaCha20-Poly1305, which everybody takes.
    pub fn new(suites: impl IntoIterator<Item = Suite>) -> Self {
        let bits = suites.into_iter().map(Suite::bit);
        Self(bits.fold(Suite::ChaCha20Poly1305.bit(), |all, bit| all | bit))
    }

    pub(crate) fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    pub(crate) fn to_byte(self) -> u8 {
        self.0
    }

    pub(crate) fn contains(self, suite: Suite) -> bool {
        self.0 & suite.bit() != 0
    }

    /// The preferred one of those that both take.
    pub(crate) fn agreed(self, other: Self) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| self.contains(*suite) && other.contains(*suite))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_is_chosen_only_where_both_take_it() {
        let (fast, plain) = (Suites::new(Suite::ALL), Suites::new([]));
        assert_eq!(fast.agreed(fast), Some(Suite::Aes256Gcm));
        assert_eq!(fast.agreed(plain), Some(Suite::ChaCha20Poly1305));
        assert_eq!(fast.agreed(Suites::from_byte(0x80)), None);
    }
}
