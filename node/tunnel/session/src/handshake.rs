//! The Noise handshake, `IKpsk2` as WireGuard uses it, run by `snow`: two messages, after which
//! both ends hold the same two keys. When to begin one, and whom to answer, is the endpoint's.

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize as _, Zeroizing};

use crate::erased_state::ErasedState;
use crate::erasing_rng::Seed;
use crate::keys::{KeyPair, PublicKey, SharedSecret};
use crate::limits;
use crate::message::{CHOICE_BYTES, INITIATION_NOISE_BYTES, OFFER_BYTES, RESPONSE_NOISE_BYTES};
use crate::primitives::Primitives;
use crate::start::Start;
use crate::suite::{Suite, Suites};

const PARAMS: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// Mixed into every handshake, so that it succeeds with nothing but this protocol.
const PROLOGUE: &[u8] = b"mercato tunnel 4";
/// Where `IKpsk2` mixes the shared secret in: after the second message.
const PSK_PLACE: u8 = 2;

/// What an initiator says of itself, sealed, in the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Rises with each initiation of one key: an old one, recorded and sent again, has no effect.
    pub(crate) timestamp: Timestamp,
    /// What it takes.
    pub(crate) suites: Suites,
    /// How many shards it seals with.
    pub(crate) shards: u8,
}

/// What a responder answers, sealed, in the second message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What seals the packets, both ways.
    pub(crate) suite: Suite,
    /// How many shards the responder seals with.
    pub(crate) shards: u8,
}

/// TAI64N, 12 bytes, big endian: ordered as the bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp([u8; 12]);

/// The two keys of a finished handshake, and what was agreed besides. They lie in boxes: moving
/// them would leave copies, in queues for one, that nobody erases.
pub(crate) struct Established {
    /// What we seal with.
    pub(crate) send: Box<Zeroizing<[u8; 32]>>,
    /// What the peer seals with.
    pub(crate) receive: Box<Zeroizing<[u8; 32]>>,
    /// By what.
    pub(crate) suite: Suite,
    /// How many shards the peer seals with.
    pub(crate) peer_shards: u8,
}

/// The first message was sent; the second is awaited.
pub(crate) struct Initiator {
    state: ErasedState,
    suites: Suites,
    /// How many answers to it were not the peer's.
    forgeries: u32,
}

/// The first message was read; the second is to be sent.
pub(crate) struct Responder {
    state: ErasedState,
}

/// A Noise message that was not sealed by whoever it claims to come from, or says what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAuthentic;

impl From<snow::Error> for NotAuthentic {
    fn from(_: snow::Error) -> Self {
        Self
    }
}

impl Timestamp {
    /// That of a start. The label 2^62 stands for 1970 (TAI64); leap seconds do not matter for an
    /// order.
    pub(crate) fn of(start: Start) -> Self {
        let seconds = (1_u64 << 62) + start.to_ms() / 1_000;
        let nanoseconds = ((start.to_ms() % 1_000) * 1_000_000) as u32;
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&seconds.to_be_bytes());
        bytes[8..].copy_from_slice(&nanoseconds.to_be_bytes());
        Self(bytes)
    }

    /// The least one that is greater.
    pub(crate) fn next(self) -> Self {
        let mut number = [0; 16];
        number[4..].copy_from_slice(&self.0);
        let next = u128::from_be_bytes(number).saturating_add(1).to_be_bytes();
        let mut bytes = [0; 12];
        bytes.copy_from_slice(&next[4..]);
        Self(bytes)
    }
}

impl Offer {
    fn to_bytes(self) -> [u8; OFFER_BYTES] {
        let mut bytes = [0; OFFER_BYTES];
        bytes[..12].copy_from_slice(&self.timestamp.0);
        bytes[12] = self.suites.to_byte();
        bytes[13] = self.shards;
        bytes
    }

    fn from_bytes(bytes: &[u8; OFFER_BYTES]) -> Result<Self, NotAuthentic> {
        let [timestamp @ .., suites, shards] = *bytes;
        let suites = Suites::from_byte(suites);
        Ok(Self { timestamp: Timestamp(timestamp), suites, shards: shards_of(shards)? })
    }
}

impl Choice {
    fn to_bytes(self) -> [u8; CHOICE_BYTES] {
        [self.suite.bit(), self.shards]
    }

    fn from_bytes([suite, shards]: [u8; CHOICE_BYTES]) -> Result<Self, NotAuthentic> {
        let suite = Suite::from_bit(suite).ok_or(NotAuthentic)?;
        Ok(Self { suite, shards: shards_of(shards)? })
    }
}

fn shards_of(number: u8) -> Result<u8, NotAuthentic> {
    if (1..=limits::SHARDS).contains(&usize::from(number)) { Ok(number) } else { Err(NotAuthentic) }
}

impl Initiator {
    /// Begins a handshake; the randomness is for this one alone.
    ///
    /// # Errors
    /// When the peer's public key is one with which nothing secret can be agreed.
    pub(crate) fn begin(
        own: &KeyPair,
        peer: &PublicKey,
        secret: &SharedSecret,
        offer: Offer,
        seed: Seed,
    ) -> Result<(Self, [u8; INITIATION_NOISE_BYTES]), NotAuthentic> {
        let private = own.secret();
        let state = builder(seed)?
            .local_private_key(private.as_ref())?
            .remote_public_key(peer.as_bytes())?
            .psk(PSK_PLACE, secret.as_bytes())?
            .build_initiator()?;
        let mut state = ErasedState::new(state, usize::from(PSK_PLACE));
        let mut message = [0; INITIATION_NOISE_BYTES];
        let written = state.write_message(&offer.to_bytes(), &mut message)?;
        assert_eq!(written, INITIATION_NOISE_BYTES, "IK's first message has a fixed length");
        Ok((Self { state, suites: offer.suites, forgeries: 0 }, message))
    }

    /// Takes the answer. A forged one leaves the handshake as it was; after
    /// [`limits::FORGED_RESPONSES`] of them none is looked at any more.
    ///
    /// # Errors
    /// When it is not the peer's answer to this handshake, or not looked at.
    pub(crate) fn finish(&mut self, noise: &[u8]) -> Result<Established, NotAuthentic> {
        if self.forgeries >= limits::FORGED_RESPONSES {
            return Err(NotAuthentic);
        }
        let established = self.read_answer(noise);
        self.forgeries += u32::from(established.is_err());
        established
    }

    fn read_answer(&mut self, noise: &[u8]) -> Result<Established, NotAuthentic> {
        let mut payload = [0; CHOICE_BYTES];
        let length = self.state.read_message(noise, &mut payload)?;
        let choice = Choice::from_bytes(payload)?;
        if length != CHOICE_BYTES || !self.suites.contains(choice.suite) {
            return Err(NotAuthentic);
        }
        Ok(established(&mut self.state, choice.suite, choice.shards))
    }
}

impl Responder {
    /// Reads the first message of a handshake: who began it, and what it offers.
    ///
    /// # Errors
    /// When it was not sealed for our key by the key that it names.
    pub(crate) fn read(
        own: &KeyPair,
        noise: &[u8],
        seed: Seed,
    ) -> Result<(Self, PublicKey, Offer), NotAuthentic> {
        let private = own.secret();
        let state = builder(seed)?.local_private_key(private.as_ref())?.build_responder()?;
        let mut state = ErasedState::new(state, usize::from(PSK_PLACE));
        let mut payload = [0; OFFER_BYTES];
        let length = state.read_message(noise, &mut payload)?;
        let peer = state.get_remote_static().and_then(|key| key.first_chunk());
        let peer = PublicKey::new(*peer.ok_or(NotAuthentic)?);
        if length != OFFER_BYTES {
            return Err(NotAuthentic);
        }
        Ok((Self { state }, peer, Offer::from_bytes(&payload)?))
    }

    /// Answers it. The peer's offer says how many shards it seals with.
    ///
    /// # Errors
    /// When the peer's keys are such that nothing secret can be agreed.
    pub(crate) fn respond(
        mut self,
        secret: &SharedSecret,
        choice: Choice,
        peer_shards: u8,
    ) -> Result<([u8; RESPONSE_NOISE_BYTES], Established), NotAuthentic> {
        self.state.set_psk(usize::from(PSK_PLACE), secret.as_bytes())?;
        let mut message = [0; RESPONSE_NOISE_BYTES];
        let written = self.state.write_message(&choice.to_bytes(), &mut message)?;
        assert_eq!(written, RESPONSE_NOISE_BYTES, "IK's second message has a fixed length");
        Ok((message, established(&mut self.state, choice.suite, peer_shards)))
    }
}

fn builder<'a>(seed: Seed) -> Result<Builder<'a>, NotAuthentic> {
    let params: NoiseParams = PARAMS.parse()?;
    Ok(Builder::with_resolver(params, Box::new(Primitives::new(seed))).prologue(PROLOGUE)?)
}

fn established(state: &mut HandshakeState, suite: Suite, peer_shards: u8) -> Established {
    assert!(state.is_handshake_finished(), "keys come of a finished handshake alone");
    let mut split = state.dangerously_get_raw_split();
    let [mut initiators, mut responders] = <[Box<Zeroizing<[u8; 32]>>; 2]>::default();
    initiators.copy_from_slice(&split.0);
    responders.copy_from_slice(&split.1);
    split.zeroize();
    let (send, receive) =
        if state.is_initiator() { (initiators, responders) } else { (responders, initiators) };
    Established { send, receive, suite, peer_shards }
}

#[cfg(test)]
mod tests {
    use snow::params::{CipherChoice, DHChoice, HashChoice};
    use snow::resolvers::{CryptoResolver, DefaultResolver};
    use snow::types::{Cipher, Dh, Hash, Random};

    use super::*;

    /// snow's own primitives, with our randomness.
    struct SnowsOwn(Primitives);

    impl CryptoResolver for SnowsOwn {
        fn resolve_rng(&self) -> Option<Box<dyn Random>> {
            self.0.resolve_rng()
        }

        fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
            DefaultResolver.resolve_dh(choice)
        }

        fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
            DefaultResolver.resolve_hash(choice)
        }

        fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
            DefaultResolver.resolve_cipher(choice)
        }
    }

    #[test]
    fn a_handshake_with_snows_own_primitives_is_the_same() {
        let (home, away) = (pair(1), pair(2));
        let secret = SharedSecret::new([3; 32]);
        let own = SnowsOwn(Primitives::new(Seed::new([4; 32])));
        let private = home.secret();
        let builder = Builder::with_resolver(PARAMS.parse().unwrap(), Box::new(own))
            .prologue(PROLOGUE)
            .and_then(|builder| builder.local_private_key(private.as_ref()))
            .and_then(|builder| builder.psk(PSK_PLACE, secret.as_bytes()));
        let public = away.public();
        let builder = builder.unwrap().remote_public_key(public.as_bytes()).unwrap();
        let mut state = builder.build_initiator().unwrap();
        let mut first = [0; INITIATION_NOISE_BYTES];
        state.write_message(&offer().to_bytes(), &mut first).unwrap();
        let (_, of_ours) =
            Initiator::begin(&home, &public, &secret, offer(), Seed::new([4; 32])).unwrap();
        assert_eq!(first, of_ours);

        let (responder, ..) = Responder::read(&away, &first, Seed::new([5; 32])).unwrap();
        let choice = Choice { suite: Suite::Aes256Gcm, shards: 4 };
        let (second, there) = responder.respond(&secret, choice, 2).unwrap();
        state.read_message(&second, &mut [0; CHOICE_BYTES]).unwrap();
        let (send, receive) = state.dangerously_get_raw_split();
        assert_eq!((send, receive), (**there.receive, **there.send));
    }

    fn pair(number: u8) -> KeyPair {
        KeyPair::from_secret(&[number; 32])
    }

    fn offer() -> Offer {
        Offer {
            timestamp: Timestamp::of(Start::from_ms(1_000)),
            suites: Suites::new(Suite::ALL),
            shards: 2,
        }
    }

    #[test]
    fn both_ends_hold_the_same_two_keys() {
        let (home, away) = (pair(1), pair(2));
        let secret = SharedSecret::new([3; 32]);
        let (mut initiator, first) =
            Initiator::begin(&home, &away.public(), &secret, offer(), Seed::new([4; 32])).unwrap();
        let (responder, peer, heard) = Responder::read(&away, &first, Seed::new([5; 32])).unwrap();
        assert_eq!((peer, heard), (home.public(), offer()));
        let choice = Choice { suite: Suite::Aes256Gcm, shards: 4 };
        let (second, there) = responder.respond(&secret, choice, heard.shards).unwrap();

        let mut forged = second;
        forged[40] ^= 1;
        assert!(initiator.finish(&forged).is_err());
        let here = initiator.finish(&second).unwrap();
        assert_eq!((here.send, here.receive), (there.receive, there.send));
        assert_eq!((here.suite, here.peer_shards, there.peer_shards), (Suite::Aes256Gcm, 4, 2));
    }

    #[test]
    fn after_a_few_forged_answers_to_an_initiation_none_is_looked_at() {
        let (home, away) = (pair(1), pair(2));
        let secret = SharedSecret::new([3; 32]);
        // Whether the genuine answer is taken after so many forged ones.
        let is_taken_after = |forged_answers| {
            let (mut initiator, first) =
                Initiator::begin(&home, &away.public(), &secret, offer(), Seed::new([4; 32]))
                    .unwrap();
            let (responder, ..) = Responder::read(&away, &first, Seed::new([5; 32])).unwrap();
            let choice = Choice { suite: Suite::Aes256Gcm, shards: 1 };
            let (answer, _) = responder.respond(&secret, choice, 2).unwrap();
            let mut forged = answer;
            forged[40] ^= 1;
            for _ in 0..forged_answers {
                assert!(initiator.finish(&forged).is_err());
            }
            initiator.finish(&answer).is_ok()
        };
        assert!(is_taken_after(limits::FORGED_RESPONSES - 1));
        assert!(!is_taken_after(limits::FORGED_RESPONSES), "each would cost two X25519");
    }

    #[test]
    fn another_shared_secret_or_key_agrees_on_nothing() {
        let (home, away) = (pair(1), pair(2));
        let secret = SharedSecret::new([3; 32]);
        let (mut initiator, first) =
            Initiator::begin(&home, &away.public(), &secret, offer(), Seed::new([4; 32])).unwrap();
        assert!(Responder::read(&pair(9), &first, Seed::new([5; 32])).is_err());
        let (responder, ..) = Responder::read(&away, &first, Seed::new([5; 32])).unwrap();
        let choice = Choice { suite: Suite::Aes256Gcm, shards: 1 };
        let (second, _) = responder.respond(&SharedSecret::new([8; 32]), choice, 2).unwrap();
        assert!(initiator.finish(&second).is_err());
    }

    #[test]
    fn keys_of_no_order_agree_on_nothing() {
        let (home, nobody) = (pair(1), PublicKey::new([0; 32]));
        let secret = SharedSecret::new([3; 32]);
        assert!(Initiator::begin(&home, &nobody, &secret, offer(), Seed::new([4; 32])).is_err());
    }

    #[test]
    fn timestamps_are_ordered_as_time_is() {
        let at = |ms| Timestamp::of(Start::from_ms(ms));
        assert!(at(999) < at(1_000) && at(1_000) < at(1_001) && at(1_000) < at(1_000).next());
        assert!(at(1_000).next() < at(1_001));
    }
}
