//! X25519 for the handshake, whose secret keys are erased when they are dropped (snow's own are
//! not), and which agrees on nothing with a key that leaves no secret (RFC 7748, section 6.1).

use snow::Error;
use snow::types::{Dh, Random};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;

/// One key pair.
#[derive(Default)]
pub(crate) struct ErasedDh {
    secret: Zeroizing<[u8; KEY_BYTES]>,
    public: [u8; KEY_BYTES],
}

impl ErasedDh {
    fn secret(&self) -> StaticSecret {
        StaticSecret::from(*self.secret)
    }
}

impl Dh for ErasedDh {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_BYTES
    }

    fn priv_len(&self) -> usize {
        KEY_BYTES
    }

    fn set(&mut self, privkey: &[u8]) {
        self.secret.copy_from_slice(privkey);
        self.public = PublicKey::from(&self.secret()).to_bytes();
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        rng.try_fill_bytes(self.secret.as_mut())?;
        self.public = PublicKey::from(&self.secret()).to_bytes();
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.secret.as_ref()
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let peer: [u8; KEY_BYTES] = *pubkey.first_chunk().ok_or(Error::Dh)?;
        let shared = self.secret().diffie_hellman(&PublicKey::from(peer));
        if !shared.was_contributory() {
            return Err(Error::Dh);
        }
        out[..KEY_BYTES].copy_from_slice(shared.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_and_nothing_is_agreed_with_a_key_of_small_order() {
        let [mut one, mut other] = [ErasedDh::default(), ErasedDh::default()];
        one.set(&[1; KEY_BYTES]);
        other.set(&[2; KEY_BYTES]);
        let (mut here, mut there) = ([0; KEY_BYTES], [0; KEY_BYTES]);
        one.dh(other.pubkey(), &mut here).unwrap();
        other.dh(one.pubkey(), &mut there).unwrap();
        assert_eq!(here, there);
        for small in [0, 1] {
            let mut key = [0; KEY_BYTES];
            key[0] = small;
            assert!(one.dh(&key, &mut here).is_err());
        }
    }
}
