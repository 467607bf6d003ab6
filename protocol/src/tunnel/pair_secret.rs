//! The secret of two clusters: said in one frame, shown nowhere, erased when it is dropped.

use std::fmt;

use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::codec::{CodecError, Reader, Wire, Writer};
use crate::id::{ClusterId, Digest};

/// 32 random bytes that two clusters share: what their gateways' handshakes need besides the keys.
///
/// It has no `Clone`, no `Serialize` and says nothing of itself in `Debug`. That of a release is
/// 32 bytes, whoever drew them.
pub struct PairSecret(Box<Zeroizing<[u8; 32]>>);

impl PairSecret {
    /// Takes 32 bytes of good randomness. What the caller has of them is its own to erase.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(Box::new(bytes))
    }

    /// The bytes, for whoever keeps them or hands them to a session.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// What the gateways' handshakes of these two clusters begin with: SHA-256 of
    /// `mercato/1/tunnel-handshake`, a zero byte, the lower cluster, the higher one, and the secret.
    /// One cluster alone draws the secret, and may say the same to two others; that of no other two
    /// is this one.
    pub fn of_handshakes(&self, one: ClusterId, other: ClusterId) -> Zeroizing<[u8; 32]> {
        let mut digest = self.digest(b"mercato/1/tunnel-handshake\0", one, other);
        let mut secret = Zeroizing::new([0; 32]);
        secret.copy_from_slice(&digest);
        digest.zeroize();
        secret
    }

    /// What a side says of its secret to the other, whichever of the two says it: SHA-256 of
    /// `mercato/1/tunnel-secret`, a zero byte, the lower cluster, the higher one, and the secret.
    pub fn hash(&self, one: ClusterId, other: ClusterId) -> Digest {
        Digest(self.digest(b"mercato/1/tunnel-secret\0", one, other))
    }

    fn digest(&self, purpose: &[u8], one: ClusterId, other: ClusterId) -> [u8; 32] {
        let (lower, higher) = (one.min(other), one.max(other));
        let hash = Sha256::new()
            .chain_update(purpose)
            .chain_update(lower.as_bytes())
            .chain_update(higher.as_bytes())
            .chain_update(self.expose());
        hash.finalize().into()
    }
}

impl PartialEq for PairSecret {
    /// Takes as long wherever they differ.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.expose().iter().zip(other.expose());
        pairs.fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

impl Eq for PairSecret {}

impl fmt::Debug for PairSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairSecret(…)")
    }
}

impl Wire for PairSecret {
    fn encode(&self, to: &mut Writer) {
        to.bytes(self.expose());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut secret = Box::new(Zeroizing::new([0; 32]));
        let bytes = from.bytes(secret.len())?;
        if bytes.len() != secret.len() {
            return Err(CodecError::Expected("the length of a secret"));
        }
        secret.copy_from_slice(bytes);
        Ok(Self(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_says_nothing_of_itself_and_its_hash_is_of_the_pair() {
        let secret = |byte| PairSecret::new(Zeroizing::new([byte; 32]));
        assert_eq!(format!("{:?}", secret(7)), "PairSecret(…)");
        let [one, other, third] = [1, 2, 3].map(|byte| ClusterId([byte; 32]));
        assert_eq!(secret(7).hash(one, other), secret(7).hash(other, one));
        assert_ne!(secret(7).hash(one, other), secret(7).hash(one, third));
        assert_ne!(secret(7).hash(one, other), secret(8).hash(one, other));
        assert!(secret(7) == secret(7) && secret(7) != secret(8));
    }

    #[test]
    fn who_says_one_secret_to_two_others_gives_them_none_in_common() {
        let secret = PairSecret::new(Zeroizing::new([7; 32]));
        let [liar, one, other] = [1, 2, 3].map(|byte| ClusterId([byte; 32]));
        let of = |a, b| *secret.of_handshakes(a, b);
        assert_eq!(of(liar, one), of(one, liar));
        assert_ne!(of(liar, one), of(liar, other));
        assert!([of(liar, one), of(liar, other)].iter().all(|it| it != secret.expose()));
        assert_ne!(of(liar, one), secret.hash(liar, one).0, "that one is said");
    }
}
