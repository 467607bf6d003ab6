//! The state of a handshake, erased when it is dropped. snow erases neither the chaining key, of
//! which the keys of the session come, nor the shared secret.

use std::hint::black_box;
use std::ops::{Deref, DerefMut};

use snow::{Builder, Error, HandshakeState};

use crate::primitives::Primitives;

/// A pattern without keys: building a state of it costs no multiplication.
const BLANK_PARAMS: &str = "Noise_NN_25519_ChaChaPoly_BLAKE2s";
/// As long is a shared secret.
const SECRET_BYTES: usize = 32;

/// The state of one end of one handshake. It lies in a box from the start, since moving it would
/// leave a copy.
pub(crate) struct ErasedState {
    state: Box<HandshakeState>,
    /// Where the shared secret is.
    secret_place: usize,
}

impl ErasedState {
    /// Takes a state to which no message has come yet.
    pub(crate) fn new(state: HandshakeState, secret_place: usize) -> Self {
        Self { state: Box::new(state), secret_place }
    }

    /// Writes another state in its place, which has all bytes of both hashes in it. Its ciphers,
    /// hash and keys erase themselves.
    fn erase(&mut self) {
        // In a state without a secret its bytes would stay.
        let is_erased = self.state.set_psk(self.secret_place, &[0; SECRET_BYTES]);
        black_box(&mut *self.state);
        *self.state = blank().expect("a pattern without keys is complete");
        // Else the compiler sees that nobody reads it, and leaves it out.
        black_box(&mut *self.state);
        is_erased.expect("it has a place for this secret");
    }
}

fn blank() -> Result<HandshakeState, Error> {
    let primitives = Box::new(Primitives::without_seed());
    Builder::with_resolver(BLANK_PARAMS.parse()?, primitives).build_initiator()
}

impl Deref for ErasedState {
    type Target = HandshakeState;

    fn deref(&self) -> &HandshakeState {
        &self.state
    }
}

impl DerefMut for ErasedState {
    fn deref_mut(&mut self) -> &mut HandshakeState {
        &mut self.state
    }
}

impl Drop for ErasedState {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erasing_rng::Seed;

    #[test]
    fn the_keys_of_a_session_do_not_come_of_what_is_left() {
        let own = [1; 32];
        let peer = crate::KeyPair::from_secret(&[2; 32]).public();
        let params = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
        let primitives = Box::new(Primitives::new(Seed::new([4; 32])));
        let builder = Builder::with_resolver(params, primitives)
            .local_private_key(&own)
            .and_then(|builder| builder.remote_public_key(peer.as_bytes()))
            .and_then(|builder| builder.psk(2, &[3; 32]));
        let mut state = ErasedState::new(builder.unwrap().build_initiator().unwrap(), 2);
        state.write_message(&[], &mut [0; 200]).unwrap();
        let left = |state: &mut HandshakeState| {
            (state.dangerously_get_raw_split(), state.get_handshake_hash().to_vec())
        };
        let before = left(&mut state);
        let address = &raw const *state.state;
        state.erase();
        assert_eq!(&raw const *state.state, address, "in the same place");
        let after = left(&mut state);
        assert!(before.0 != after.0 && before.1 != after.1);
        assert_eq!(after, left(&mut blank().unwrap()));
        assert!(std::mem::needs_drop::<ErasedState>());
    }
}
