//! What `snow` runs the handshake with: the usual primitives with keys that are erased, and
//! randomness that is an argument.

use std::cell::Cell;

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};

use crate::dh::ErasedDh;
use crate::erased_cipher::ErasedCipher;
use crate::erased_hash::ErasedHash;
use crate::erasing_rng::Seed;

/// The primitives of one handshake.
pub(crate) struct Primitives {
    seed: Cell<Option<Seed>>,
}

/// An end of a handshake draws once: its ephemeral key, which is the seed. It is erased as soon as
/// it was drawn.
struct DrawnOnce(Option<Seed>);

impl Primitives {
    /// Of a handshake whose ephemeral secret key is this.
    pub(crate) fn new(seed: Seed) -> Self {
        Self { seed: Cell::new(Some(seed)) }
    }

    /// Of a handshake that draws no key.
    pub(crate) fn without_seed() -> Self {
        Self { seed: Cell::new(None) }
    }
}

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(DrawnOnce(self.seed.take())))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::<ErasedDh>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        (*choice == HashChoice::Blake2s).then(|| Box::<ErasedHash>::default() as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        (*choice == CipherChoice::ChaChaPoly)
            .then(|| Box::<ErasedCipher>::default() as Box<dyn Cipher>)
    }
}

impl Random for DrawnOnce {
    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), snow::Error> {
        let seed = self.0.take().ok_or(snow::Error::Rng)?;
        if into.len() != seed.as_bytes().len() {
            return Err(snow::Error::Rng);
        }
        into.copy_from_slice(seed.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_drawn_once_and_gone() {
        let primitives = Primitives::new(Seed::new([7; 32]));
        let mut random = DrawnOnce(primitives.seed.take());
        assert!(primitives.seed.take().is_none());
        let mut drawn = [0; 32];
        random.try_fill_bytes(&mut drawn).unwrap();
        assert_eq!(drawn, [7; 32]);
        assert!(random.0.is_none(), "it was erased");
        assert!(random.try_fill_bytes(&mut drawn).is_err());
        assert!(DrawnOnce(Some(Seed::new([7; 32]))).try_fill_bytes(&mut [0; 16]).is_err());
    }
}
