//! Handshakes and timers of all peers of one gateway, as WireGuard has them (sections 5.4 and 6).
//! Datagrams of a handshake and what the shards saw go in; datagrams, keys for the shards and the
//! state of links come out. Sealed packets never pass here: they are a [`Shard`](crate::Shard)'s.
//!
//! Whoever does not know our public key, and whoever we do not know, gets no answer at all.

mod attempt;
mod claims;
mod config;
mod effect;
mod ignored;
mod load;
mod peer;
mod roaming;
mod sessions;
mod state;
mod table;
mod timers;
mod watch;
mod way;

use std::collections::VecDeque;
use std::net::IpAddr;

use mercato_protocol::time::Now;
use rand::Rng as _;
use thiserror::Error;
use zeroize::Zeroizing;

use self::claims::Found;
use self::load::{Asks, Load, Verdict};
use self::peer::{Answer, Peer};
use self::table::PeerTable;
use crate::activity::Activity;
use crate::cookie::Checker;
use crate::erasing_rng::ErasingRng;
use crate::handshake::{Choice, Responder, Timestamp};
use crate::keys::PublicKey;
use crate::limits;
use crate::message::{self, CookieReply, Initiation, Message, Response};
use crate::peer_index::PeerIndex;
use crate::via::Via;

pub use self::config::{Claim, Config, PeerConfig};
pub(crate) use self::effect::Effect;
pub use self::effect::Link;
pub use self::ignored::Ignored;
pub use self::state::PeerState;
pub use self::watch::Lost;

/// There is no room for one more peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is room for {} peers, and all of it is taken", limits::PEERS)]
pub struct NoRoom;

/// Handshakes and timers of all peers of one gateway.
pub(crate) struct Endpoint {
    config: Config,
    checker: Checker,
    peers: PeerTable,
    /// What it gave is never computed again, also not by whoever sees this.
    rng: ErasingRng,
    effects: VecDeque<Effect>,
    /// Of the initiation that was said last.
    said: Timestamp,
    load: Load,
    /// Of the counters of addresses.
    load_key: [u64; 2],
}

impl Endpoint {
    /// A gateway without peers; `seed` is 32 random bytes for it alone. Whoever has them has the
    /// ephemeral keys of all its handshakes: the caller keeps no copy.
    pub(crate) fn new(config: Config, seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        assert!((1..=limits::SHARDS).contains(&usize::from(config.shards)), "from one shard to 16");
        let checker = Checker::new(&config.keys.public());
        let mut rng = ErasingRng::new(&seed);
        let load_key = [rng.next_u64(), rng.next_u64()];
        let (peers, effects, load) = (PeerTable::default(), VecDeque::new(), Load::default());
        let said = Timestamp::of(config.start);
        Self { config, checker, peers, rng, effects, said, load, load_key }
    }

    /// Adds a peer; one with this key that is there already gets the new claims.
    ///
    /// # Errors
    /// When there are [`limits::PEERS`] already.
    pub(crate) fn add_peer(&mut self, now: Now, config: PeerConfig) -> Result<PeerIndex, NoRoom> {
        if let Some(index) = self.peers.by_key(&config.key) {
            let Self { peers, effects, .. } = self;
            peers.with(index, |peer| peer.reconfigure(now.mono_ms, index, config, effects));
            return Ok(index);
        }
        self.peers.add(Peer::new(config, self.config.link_mtu)).ok_or(NoRoom)
    }

    /// Forgets a peer, its sessions and its keys.
    pub(crate) fn remove_peer(&mut self, index: PeerIndex) {
        for session in self.peers.remove(index) {
            self.effects.push_back(Effect::RemoveSession(session));
        }
    }

    /// Begins a handshake with a peer, unless one is under way or there is a young session.
    pub(crate) fn connect(&mut self, now: Now, index: PeerIndex) {
        let is_connected = self.peers.with(index, |peer| peer.has_young_session(now.mono_ms));
        if is_connected == Some(false) {
            self.begin(now, index);
        }
    }

    /// A lease by this peer is in force until then, on the monotonic clock, or none is any more.
    pub(crate) fn watch(&mut self, now: Now, index: PeerIndex, until_ms: Option<u64>) {
        self.peers.with(index, |peer| peer.watch(now.mono_ms, until_ms));
    }

    /// What is known of each peer.
    pub(crate) fn states(&self, now: Now) -> Vec<PeerState> {
        self.peers.iter().map(|peer| peer.state(now.mono_ms)).collect()
    }

    /// Takes a datagram that is part of a handshake.
    ///
    /// # Errors
    /// When it has no effect; the sender is not told.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Now,
        via: impl Into<Via>,
        datagram: &[u8],
    ) -> Result<(), Ignored> {
        let via = via.into();
        match Message::parse(datagram)? {
            Message::Initiation(initiation) => self.on_initiation(now, via, datagram, &initiation),
            Message::Response(response) => self.on_response(now, via, datagram, &response),
            Message::Cookie(cookie) => self.on_cookie(now, &cookie),
            Message::Data(_) => Err(Ignored::Data),
        }
    }

    /// Takes what a shard saw of a peer.
    pub(crate) fn handle_activity(&mut self, now: Now, index: PeerIndex, activity: Activity) {
        let challenge = self.rng.next_u64();
        let wants_handshake = self.peers.with(index, |peer| {
            peer.note(now.mono_ms, index, activity, challenge, &mut self.effects)
        });
        if wants_handshake == Some(true) {
            self.begin(now, index);
        }
    }

    /// Does what has become due.
    pub(crate) fn handle_timeout(&mut self, now: Now) {
        for index in self.peers.due(now.mono_ms) {
            let wants_handshake = self
                .peers
                .with(index, |peer| peer.on_timeout(now.mono_ms, index, &mut self.effects));
            if wants_handshake == Some(true) {
                self.begin(now, index);
            }
        }
    }

    /// When [`Endpoint::handle_timeout`] is to be called at the latest, on the monotonic clock.
    pub(crate) fn wakeup_ms(&self) -> Option<u64> {
        self.peers.wakeup_ms()
    }

    /// What is to be done next.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// How many initiations were looked at with the private key, ever: what a flood costs.
    pub(crate) fn examined_initiations(&self) -> u64 {
        self.load.examined()
    }

    /// The peer with this key.
    pub(crate) fn peer(&self, key: &PublicKey) -> Option<PeerIndex> {
        self.peers.by_key(key)
    }

    /// Random bytes for an address table, which nobody else knows.
    pub(crate) fn table_seed(&mut self) -> [u8; 16] {
        let mut seed = [0; 16];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// Whether a peer is known to be at this address, or may be.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        self.peers.knows(address)
    }

    fn begin(&mut self, now: Now, index: PeerIndex) {
        let own_index = self.peers.free_index(&mut self.rng);
        let seed = self.rng.seed();
        let jitter_ms = self.rng.next_u64() % limits::REKEY_JITTER_MS;
        self.said = self.said.next();
        let attempt = self.peers.with(index, |peer| {
            peer.begin(now.mono_ms, &self.config, own_index, self.said, seed, jitter_ms)
        });
        if let Some((via, message)) = attempt.flatten() {
            self.effects.push_back(Effect::Send(via, message));
        }
    }

    fn on_initiation(
        &mut self,
        now: Now,
        via: Via,
        datagram: &[u8],
        initiation: &Initiation<'_>,
    ) -> Result<(), Ignored> {
        if !self.checker.is_first_right(&initiation.macs) {
            return Err(Ignored::Stranger);
        }
        let has_cookie =
            self.checker.is_second_right(datagram, &initiation.macs, via.to, now.mono_ms);
        let is_known = self.peers.knows(via.to.ip());
        let asks = Asks { from: via.to, has_cookie, is_known };
        match self.load.judge(now.mono_ms, asks, self.load_key) {
            Verdict::Examine => {}
            Verdict::AskForCookie => {
                let given = self.checker.give(&mut self.rng, &initiation.macs, via.to, now.mono_ms);
                let reply = message::cookie(initiation.sender, &given.0, &given.1);
                self.effects.push_back(Effect::Send(via, reply));
                return Ok(());
            }
            Verdict::Refuse => return Err(Ignored::TooSoon),
        }
        let seed = self.rng.seed();
        let (responder, key, offer) = Responder::read(&self.config.keys, initiation.noise, seed)
            .map_err(|_| Ignored::NotAuthentic)?;
        let index = self.peers.by_key(&key).ok_or(Ignored::Unknown)?;
        let Self { peers, config, rng, effects, .. } = self;
        let admitted = peers.with(index, |peer| {
            peer.admit(now.mono_ms, offer.timestamp)?;
            let suite = config.suites.agreed(offer.suites).ok_or(Ignored::NotAuthentic)?;
            Ok::<_, Ignored>((suite, peer.answer_by(|| rng.next_u64(), effects)))
        });
        let (suite, claims) = admitted.ok_or(Ignored::Unknown)??;
        let answer = Answer {
            choice: Choice { suite, shards: config.shards },
            peer_shards: offer.shards,
            peer_index: initiation.sender,
        };
        let mut first = Some(responder);
        for by in claims {
            // The first message says nothing of a secret: one reading is good for one answer.
            let responder = match first.take() {
                Some(responder) => responder,
                None => self.read_again(initiation)?,
            };
            self.answer(now, index, Found { via, by }, responder, answer)?;
        }
        Ok(())
    }

    fn read_again(&mut self, initiation: &Initiation<'_>) -> Result<Responder, Ignored> {
        let read = Responder::read(&self.config.keys, initiation.noise, self.rng.seed());
        Ok(read.map_err(|_| Ignored::NotAuthentic)?.0)
    }

    /// Answers an initiation by the secret of one cluster.
    fn answer(
        &mut self,
        now: Now,
        index: PeerIndex,
        to: Found,
        responder: Responder,
        answer: Answer,
    ) -> Result<(), Ignored> {
        let (own_index, mono_ms) = (self.peers.free_index(&mut self.rng), now.mono_ms);
        let Self { peers, effects, .. } = self;
        let answered = peers.with(index, |peer| {
            let answered = peer.respond(responder, to.by, answer, own_index, mono_ms);
            let (message, keys) = answered.map_err(|_| Ignored::NotAuthentic)?;
            effects.push_back(Effect::Send(to.via, message));
            peer.install_unconfirmed(index, keys, to, mono_ms, effects);
            Ok(())
        });
        answered.unwrap_or(Err(Ignored::Unknown))
    }

    fn on_response(
        &mut self,
        now: Now,
        via: Via,
        datagram: &[u8],
        response: &Response<'_>,
    ) -> Result<(), Ignored> {
        if !self.checker.is_first_right(&response.macs) {
            return Err(Ignored::Stranger);
        }
        debug_assert_eq!(datagram.len(), message::RESPONSE_BYTES, "parsed as such");
        let index = self.peers.by_session(response.receiver).ok_or(Ignored::Unknown)?;
        let challenge = self.rng.next_u64();
        let finished = self.peers.with(index, |peer| {
            let (keys, said_to) = peer.finish(now.mono_ms, response)?;
            // The answer proves that the peer receives there, and not where it came from.
            let is_there = via.to == said_to.via.to;
            let proven = if is_there { Found { via, ..said_to } } else { said_to };
            peer.install_confirmed(index, keys, proven, now.mono_ms, &mut self.effects);
            if !is_there {
                peer.came_from(now.mono_ms, via, index, challenge, &mut self.effects);
            }
            Some(())
        });
        finished.flatten().ok_or(Ignored::NotAuthentic)
    }

    fn on_cookie(&mut self, now: Now, cookie: &CookieReply<'_>) -> Result<(), Ignored> {
        let index = self.peers.by_session(cookie.receiver).ok_or(Ignored::Unknown)?;
        let is_taken = self.peers.with(index, |peer| peer.take_cookie(cookie, now.mono_ms));
        if is_taken != Some(true) {
            return Err(Ignored::NotAuthentic);
        }
        self.begin(now, index);
        Ok(())
    }
}
