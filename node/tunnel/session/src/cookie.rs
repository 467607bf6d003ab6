//! The two codes at the end of a handshake message (WireGuard, section 5.4.7). The first proves
//! that its sender knows our public key; who does not gets no answer. The second proves that the
//! sender is reached at its address; it is asked for under load alone, by a cookie.

use std::net::{IpAddr, SocketAddr};

use blake2::digest::consts::U16;
use blake2::digest::{Digest as _, Mac as _};
use blake2::{Blake2s256, Blake2sMac};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use rand::Rng;
use zeroize::Zeroizing;

use crate::keys::PublicKey;
use crate::limits;
use crate::message::{COOKIE_NONCE_BYTES, CookieReply, MAC_BYTES, Macs};

const FIRST_LABEL: &[u8] = b"mercato mac1";
const COOKIE_LABEL: &[u8] = b"mercato cookie";

type Code = [u8; MAC_BYTES];

/// Checks the codes of messages that come to us, and hands out cookies.
pub(crate) struct Checker {
    first_key: [u8; 32],
    cookie_key: [u8; 32],
    /// Cookies are made of it; another follows after [`limits::COOKIE_SECRET_MS`].
    current: Option<Secret>,
    /// The one before, of which some cookies are still good.
    previous: Option<Secret>,
}

/// What cookies are made of.
struct Secret {
    /// In a box, since one secret takes the place of another.
    bytes: Box<Zeroizing<[u8; 32]>>,
    made_ms: u64,
}

/// Writes the codes of messages to one peer, and keeps its cookie.
pub(crate) struct Stamper {
    first_key: [u8; 32],
    cookie_key: [u8; 32],
    /// The first code of the message that was sent last: a cookie is sealed to it.
    last_first: Option<Code>,
    cookie: Option<(Code, u64)>,
}

impl Checker {
    pub(crate) fn new(own: &PublicKey) -> Self {
        let (first_key, cookie_key) = keys_of(own);
        Self { first_key, cookie_key, current: None, previous: None }
    }

    /// Whether the sender knows our public key.
    pub(crate) fn is_first_right(&self, macs: &Macs<'_>) -> bool {
        is_code(&self.first_key, macs.covered, macs.first)
    }

    /// Whether the sender carries the cookie that its address was given.
    pub(crate) fn is_second_right(
        &mut self,
        message: &[u8],
        macs: &Macs<'_>,
        from: SocketAddr,
        mono_ms: u64,
    ) -> bool {
        self.erase_old(mono_ms);
        let covered = Macs::covered_by_second(message);
        [&self.current, &self.previous]
            .into_iter()
            .flatten()
            .any(|secret| is_code(&secret.cookie_of(from), covered, macs.second))
    }

    /// The cookie of an address, sealed to the message that asked for it: nonce and seal.
    pub(crate) fn give<R: Rng>(
        &mut self,
        rng: &mut R,
        macs: &Macs<'_>,
        from: SocketAddr,
        mono_ms: u64,
    ) -> ([u8; COOKIE_NONCE_BYTES], Vec<u8>) {
        self.erase_old(mono_ms);
        let is_new = |secret: &Secret| mono_ms < secret.made_ms + limits::COOKIE_SECRET_MS;
        if !self.current.as_ref().is_some_and(is_new) {
            self.previous = self.current.take();
        }
        let secret = self.current.get_or_insert_with(|| Secret::draw(rng, mono_ms));
        let cookie = secret.cookie_of(from);
        let mut nonce = [0; COOKIE_NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let payload = Payload { msg: &cookie, aad: macs.first };
        let sealed = XChaCha20Poly1305::new(&self.cookie_key.into())
            .encrypt(XNonce::from_slice(&nonce), payload)
            .expect("16 bytes are within what the cipher seals");
        (nonce, sealed)
    }

    /// Forgets the secrets of which no cookie is good any more.
    fn erase_old(&mut self, mono_ms: u64) {
        for secret in [&mut self.current, &mut self.previous] {
            secret.take_if(|secret| mono_ms >= secret.made_ms + 2 * limits::COOKIE_SECRET_MS);
        }
    }
}

impl Secret {
    fn draw<R: Rng>(rng: &mut R, made_ms: u64) -> Self {
        let mut bytes = Box::<Zeroizing<[u8; 32]>>::default();
        rng.fill_bytes(bytes.as_mut_slice());
        Self { bytes, made_ms }
    }

    /// The cookie of an address.
    fn cookie_of(&self, from: SocketAddr) -> Code {
        let mut mac = keyed(self.bytes.as_slice());
        match from.ip() {
            IpAddr::V4(ip) => mac.update(&ip.octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        mac.update(&from.port().to_be_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl Stamper {
    pub(crate) fn new(peer: &PublicKey) -> Self {
        let (first_key, cookie_key) = keys_of(peer);
        Self { first_key, cookie_key, last_first: None, cookie: None }
    }

    /// Writes both codes at the end of a message that was laid out with room for them.
    pub(crate) fn stamp(&mut self, message: &mut [u8], mono_ms: u64) {
        let end = message.len();
        let (second_at, first_at) = (end - MAC_BYTES, end - 2 * MAC_BYTES);
        let first = code(&self.first_key, &message[..first_at]);
        message[first_at..second_at].copy_from_slice(&first);
        self.last_first = Some(first);
        if let Some((cookie, _)) = self.cookie.filter(|(_, until_ms)| mono_ms < *until_ms) {
            let second = code(&cookie, &message[..second_at]);
            message[second_at..].copy_from_slice(&second);
        }
    }

    /// Takes a cookie for the message that was sent last. Says whether it was one.
    pub(crate) fn take(&mut self, reply: &CookieReply<'_>, mono_ms: u64) -> bool {
        let Some(last_first) = self.last_first else { return false };
        let payload = Payload { msg: reply.sealed, aad: &last_first };
        let opened = XChaCha20Poly1305::new(&self.cookie_key.into())
            .decrypt(XNonce::from_slice(reply.nonce), payload);
        let Some(cookie) = opened.ok().and_then(|cookie| Code::try_from(cookie).ok()) else {
            return false;
        };
        // One answer for each message: a second may be a recorded one.
        self.last_first = None;
        self.cookie = Some((cookie, mono_ms + limits::COOKIE_MS));
        true
    }
}

fn keys_of(key: &PublicKey) -> ([u8; 32], [u8; 32]) {
    (labelled(FIRST_LABEL, key), labelled(COOKIE_LABEL, key))
}

fn labelled(label: &[u8], key: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update(label).chain_update(key.as_bytes()).finalize().into()
}

fn keyed(key: &[u8]) -> Blake2sMac<U16> {
    <Blake2sMac<U16> as blake2::digest::Mac>::new_from_slice(key)
        .expect("16 and 32 bytes are within BLAKE2s' keys")
}

fn code(key: &[u8], covered: &[u8]) -> Code {
    keyed(key).chain_update(covered).finalize().into_bytes().into()
}

/// Compares in constant time.
fn is_code(key: &[u8], covered: &[u8], claimed: &Code) -> bool {
    keyed(key).chain_update(covered).verify_slice(claimed).is_ok()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::message::{self, INITIATION_NOISE_BYTES, Message};

    const OWN: PublicKey = PublicKey::new([6; 32]);

    fn stamped(stamper: &mut Stamper, mono_ms: u64) -> Vec<u8> {
        let mut initiation = message::initiation(16, &[1; INITIATION_NOISE_BYTES]);
        stamper.stamp(&mut initiation, mono_ms);
        initiation
    }

    fn macs(message: &[u8]) -> Macs<'_> {
        let Ok(Message::Initiation(initiation)) = Message::parse(message) else { panic!() };
        initiation.macs
    }

    #[test]
    fn a_cookie_is_good_for_one_address_and_a_while() {
        let (mut checker, mut stamper) = (Checker::new(&OWN), Stamper::new(&OWN));
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let here: SocketAddr = "192.0.2.1:7475".parse().unwrap();
        let elsewhere: SocketAddr = "192.0.2.1:7476".parse().unwrap();

        let first = stamped(&mut stamper, 0);
        assert!(checker.is_first_right(&macs(&first)));
        assert!(!checker.is_second_right(&first, &macs(&first), here, 0));
        let (nonce, sealed) = checker.give(&mut rng, &macs(&first), here, 0);
        let reply = message::cookie(16, &nonce, &sealed);
        let Ok(Message::Cookie(reply)) = Message::parse(&reply) else { panic!() };
        assert!(stamper.take(&reply, 5));
        assert!(!stamper.take(&reply, 6), "a recorded answer");

        let second = stamped(&mut stamper, 10);
        assert!(checker.is_second_right(&second, &macs(&second), here, 20));
        assert!(!checker.is_second_right(&second, &macs(&second), elsewhere, 20));
        assert!(!checker.is_second_right(
            &second,
            &macs(&second),
            here,
            2 * limits::COOKIE_SECRET_MS
        ));
        let late = stamped(&mut stamper, 5 + limits::COOKIE_MS);
        assert_eq!(macs(&late).second, &[0; MAC_BYTES], "an old cookie is not shown");
    }

    #[test]
    fn a_cookie_of_a_secrets_last_moment_is_good_for_as_long_as_any_other() {
        let (mut checker, mut stamper) = (Checker::new(&OWN), Stamper::new(&OWN));
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let here: SocketAddr = "192.0.2.1:7475".parse().unwrap();
        let asking = stamped(&mut stamper, 0);
        checker.give(&mut rng, &macs(&asking), here, 0);
        let given_ms = limits::COOKIE_SECRET_MS - 1;
        let (nonce, sealed) = checker.give(&mut rng, &macs(&asking), here, given_ms);
        let reply = message::cookie(16, &nonce, &sealed);
        let Ok(Message::Cookie(reply)) = Message::parse(&reply) else { panic!() };
        let taken_ms = given_ms + limits::REKEY_TIMEOUT_MS;
        assert!(stamper.take(&reply, taken_ms));
        checker.give(&mut rng, &macs(&asking), here, given_ms + 1);
        let shown_ms = taken_ms + limits::COOKIE_MS - 1;
        let showing = stamped(&mut stamper, shown_ms);
        let is_right = |checker: &mut Checker, mono_ms| {
            checker.is_second_right(&showing, &macs(&showing), here, mono_ms)
        };
        assert!(is_right(&mut checker, shown_ms));
        assert!(!is_right(&mut checker, 2 * limits::COOKIE_SECRET_MS));
        assert!(checker.previous.is_none(), "it was erased");
        assert!(checker.current.is_some());
        assert!(!is_right(&mut checker, 4 * limits::COOKIE_SECRET_MS));
        assert!(checker.current.is_none(), "so was the one after");
    }

    #[test]
    fn who_does_not_know_our_key_is_told_apart() {
        let checker = Checker::new(&OWN);
        let mut stranger = Stamper::new(&PublicKey::new([7; 32]));
        assert!(!checker.is_first_right(&macs(&stamped(&mut stranger, 0))));
        let mut changed = stamped(&mut Stamper::new(&OWN), 0);
        changed[20] ^= 1;
        assert!(!checker.is_first_right(&macs(&changed)));
    }
}
