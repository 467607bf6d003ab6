//! The handshake of docs/wire.md written a second time, by `snow` alone, for whoever says in it
//! what he likes.

use std::net::SocketAddr;
use std::sync::OnceLock;

use blake2::digest::consts::U16;
use blake2::digest::{Digest as _, FixedOutput as _, KeyInit as _, Update as _};
use blake2::{Blake2s256, Blake2sMac};
use mercato_protocol::id::ClusterId;
use mercato_protocol::time::Now;
use mercato_session::{
    Carrier, Claim, Config, Ignored, KeyPair, Link, Order, PeerConfig, PeerIndex, Say, SessionKeys,
    Shards, SharedSecret, Start, Suite, Suites, Via,
};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

pub(super) const INITIATION_BYTES: usize = 150;
pub(super) const RESPONSE_BYTES: usize = 94;
pub(super) const SHARDS: u8 = 3;
const SECRET: [u8; 32] = [3; 32];
const OWN: [u8; 32] = [1; 32];
const PEER: [u8; 32] = [2; 32];
const PROLOGUE: &[u8] = b"mercato tunnel 4";

/// What time it is when an input begins.
pub(super) const NOW: Now = Now { mono_ms: 5_000, wall_ms: 1_800_000_000_000 };

/// Where the peer is.
pub(super) fn peer_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 7475))
}

fn key_pairs() -> &'static [KeyPair; 2] {
    static PAIRS: OnceLock<[KeyPair; 2]> = OnceLock::new();
    PAIRS.get_or_init(|| [OWN, PEER].map(|secret| KeyPair::from_secret(&secret)))
}

/// A gateway without shards, and what it wants to be done.
pub(super) struct Gateway {
    carrier: Carrier,
    wants: Wants,
}

/// What a gateway wants to be done.
#[derive(Default)]
pub(super) struct Wants {
    orders: Vec<Order>,
    said: Vec<Say>,
    links: Vec<Link>,
    ignored: Option<Ignored>,
}

/// A gateway that knows one peer; `end` 1 is that peer.
pub(super) fn gateway(end: usize) -> (Gateway, PeerIndex) {
    let keys = key_pairs()[end].clone();
    let suites = Suites::new(Suite::ALL);
    let start = Start::from_ms(NOW.wall_ms);
    let config = Config { keys, suites, shards: SHARDS, link_mtu: 1_500, start };
    let mut carrier = Carrier::new(config, [7; 32]);
    let claim = Claim {
        cluster: ClusterId([1; 32]),
        secret: SharedSecret::new(SECRET),
        addresses: vec![peer_address()],
    };
    let peer = PeerConfig { key: key_pairs()[1 - end].public(), claims: vec![claim] };
    let index = carrier.add_peer(NOW, peer).unwrap();
    (Gateway { carrier, wants: Wants::default() }, index)
}

impl Gateway {
    pub(super) fn connect(&mut self, now: Now, peer: PeerIndex) {
        self.carrier.connect(now, peer, &mut self.wants);
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Now,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), Ignored> {
        self.carrier.take_datagram(from.into(), datagram);
        self.carrier.handle_datagrams(now, &mut self.wants);
        self.wants.ignored.take().map_or(Ok(()), Err)
    }

    /// What it wants since this was last taken.
    pub(super) fn take_wants(&mut self) -> Wants {
        std::mem::take(&mut self.wants)
    }
}

impl Wants {
    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.said.is_empty() && self.links.is_empty()
    }

    /// The datagram among them.
    pub(super) fn sent(&self) -> Option<&[u8]> {
        self.said.iter().find_map(|say| match say {
            Say::Datagram(_, datagram) => Some(&datagram[..]),
            Say::Control(..) | Say::Challenge(..) => None,
        })
    }

    /// The peer and the keys of a session among them.
    pub(super) fn installed(self) -> Option<(PeerIndex, SessionKeys)> {
        self.orders.into_iter().find_map(|order| {
            let Order::Install(peer, keys) = order else { return None };
            Some((peer, keys))
        })
    }
}

impl Shards for Wants {
    fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    fn say(&mut self, say: Say) {
        self.said.push(say);
    }

    fn link(&mut self, _: PeerIndex, link: Link, _: ClusterId) {
        self.links.push(link);
    }

    fn ignored(&mut self, _: Via, why: Ignored) {
        self.ignored = Some(why);
    }
}

/// The peer, which begins a handshake.
pub(super) fn initiator() -> HandshakeState {
    let own = key_pairs()[0].public();
    let builder = builder().remote_public_key(own.as_bytes()).unwrap();
    builder.build_initiator().unwrap()
}

/// The peer, which answers one.
pub(super) fn responder() -> HandshakeState {
    builder().build_responder().unwrap()
}

fn builder<'a>() -> Builder<'a> {
    let params = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
    let builder = Builder::with_resolver(params, Box::new(Repeatable));
    let builder = builder.local_private_key(&PEER).unwrap();
    builder.prologue(PROLOGUE).unwrap().psk(2, &SECRET).unwrap()
}

/// The usual primitives, and always the same ephemeral key.
struct Repeatable;

impl Random for Repeatable {
    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), snow::Error> {
        into.fill(0x55);
        Ok(())
    }
}

impl CryptoResolver for Repeatable {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Self))
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

/// Lays out a message whose last 32 bytes are both codes, the first of which is right.
pub(super) fn laid_out(kind: u8, numbers: &[[u8; 4]], noise: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0], &numbers.concat()[..], noise, &[0; 32]].concat();
    stamp(&mut message);
    message
}

/// Writes the first code of a message to the gateway.
pub(super) fn stamp(message: &mut [u8]) {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let own = key_pairs()[0].public();
        let labelled = [b"mercato mac1", own.as_bytes().as_slice()].concat();
        Blake2s256::digest(labelled).into()
    });
    let Some(at) = message.len().checked_sub(32) else { return };
    let mut code = Blake2sMac::<U16>::new_from_slice(key).unwrap();
    code.update(&message[..at]);
    message[at..at + 16].copy_from_slice(&code.finalize_fixed());
}
