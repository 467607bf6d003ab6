//! The keys of a gateway: its own pair, the other side's public one, the secret that a pair of
//! clusters shares. What is secret is erased when it is dropped and is never shown.

use std::fmt;

use rand::{CryptoRng, Rng};
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

/// A gateway's X25519 public key, as the signed contract names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A gateway's own pair of X25519 keys.
#[derive(Clone)]
pub struct KeyPair {
    secret: StaticSecret,
    public: PublicKey,
}

/// 32 bytes that two clusters agreed upon over their peer connection: an attacker who one day
/// breaks X25519 needs them as well.
#[derive(Clone)]
pub struct SharedSecret(Box<Zeroizing<[u8; 32]>>);

impl PublicKey {
    /// Takes the 32 bytes of a key.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl KeyPair {
    /// Draws a new pair.
    pub fn generate<R: Rng + CryptoRng>(rng: &mut R) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(secret.as_mut());
        Self::from_secret(&secret)
    }

    /// Takes a secret key of 32 random bytes.
    pub fn from_secret(secret: &[u8; 32]) -> Self {
        let secret = StaticSecret::from(*secret);
        let public = PublicKey(x25519_dalek::PublicKey::from(&secret).to_bytes());
        Self { secret, public }
    }

    /// The half that others may know.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.secret.to_bytes())
    }
}

impl SharedSecret {
    /// Takes 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Box::new(Zeroizing::new(bytes)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({:?})", self.public)
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret")
    }
}
