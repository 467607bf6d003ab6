//! One peer: its sessions, the handshake under way, and its timers (WireGuard, section 6).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::attempt::{Attempt, Tries};
use super::config::{Config, PeerConfig};
use super::effect::{Effect, Link};
use super::ignored::Ignored;
use super::roaming::{Moved, Roaming};
use super::sessions::{Session, Sessions};
use super::state::PeerState;
use super::timers::Timers;
use super::watch::Watch;
use super::way::Way;
use crate::activity::Activity;
use crate::control::Control;
use crate::cookie::Stamper;
use crate::erasing_rng::Seed;
use crate::handshake::{Choice, Initiator, NotAuthentic, Offer, Responder, Timestamp};
use crate::keys::{PublicKey, SharedSecret};
use crate::limits;
use crate::message::{self, CookieReply, Response};
use crate::peer_index::PeerIndex;
use crate::session_keys::SessionKeys;
use crate::via::Via;

/// Who began a session replaces it in time when something comes by it so late: the answer may be
/// the last thing that it carries.
const REKEY_ON_RECEIVE_MS: u64 =
    limits::REJECT_AFTER_MS - limits::KEEPALIVE_MS - limits::REKEY_TIMEOUT_MS;
/// All keys are erased when no new session came for so long.
const ERASE_MS: u64 = 3 * limits::REJECT_AFTER_MS;

type Effects = VecDeque<Effect>;

/// One peer of a gateway.
pub(super) struct Peer {
    key: PublicKey,
    secret: SharedSecret,
    stamper: Stamper,
    /// Where it may be; tried in turn while it is not known where it is.
    candidates: Vec<SocketAddr>,
    roaming: Roaming,
    way: Way,
    watch: Watch,
    attempt: Option<Attempt>,
    sessions: Sessions,
    timers: Timers,
    newest_heard: Timestamp,
    heard_ms: Option<u64>,
}

impl Peer {
    pub(super) fn new(config: PeerConfig, link_mtu: usize) -> Self {
        let PeerConfig { key, secret, addresses } = config;
        Self {
            key,
            secret,
            stamper: Stamper::new(&key),
            candidates: addresses,
            roaming: Roaming::default(),
            way: Way::new(link_mtu),
            watch: Watch::default(),
            attempt: None,
            sessions: Sessions::default(),
            timers: Timers::default(),
            newest_heard: Timestamp::default(),
            heard_ms: None,
        }
    }

    /// Takes a new secret and new addresses; sessions that are there go on.
    pub(super) fn reconfigure(&mut self, config: PeerConfig) {
        self.secret = config.secret;
        self.candidates = config.addresses;
    }

    /// Whether there is a session that need not be replaced yet.
    pub(super) fn has_young_session(&self, mono_ms: u64) -> bool {
        let current = self.sessions.current();
        current.is_some_and(|of| of.age_ms(mono_ms) < limits::REKEY_AFTER_MS)
    }

    /// The addresses where it is, or may be.
    pub(super) fn places(&self) -> impl Iterator<Item = IpAddr> {
        let proven = self.roaming.via().into_iter().map(|via| via.to.ip());
        proven.chain(self.candidates.iter().map(|at| at.ip()))
    }

    pub(super) fn key(&self) -> PublicKey {
        self.key
    }

    /// Of its sessions.
    pub(super) fn session_indexes(&self) -> impl Iterator<Item = u32> {
        self.sessions.all().map(|session| session.own_index)
    }

    /// Of its sessions, and of the handshake under way.
    pub(super) fn all_indexes(&self) -> impl Iterator<Item = u32> {
        self.session_indexes().chain(self.attempt.as_ref().map(|attempt| attempt.own_index))
    }

    /// Begins a handshake, or says it again. None if one is under way, or the peer is nowhere to
    /// be found.
    pub(super) fn begin(
        &mut self,
        mono_ms: u64,
        config: &Config,
        own_index: u32,
        timestamp: Timestamp,
        seed: Seed,
        jitter_ms: u64,
    ) -> Option<(Via, Vec<u8>)> {
        let before = self.attempt.take_if(|attempt| attempt.is_due(mono_ms));
        if self.attempt.is_some() {
            return None;
        }
        let tries = before.as_ref().map_or(Tries::first(mono_ms), |before| before.tries);
        let via = self.via_to_try(tries.count)?;
        let offer = Offer { timestamp, suites: config.suites, shards: config.shards };
        let begun = Initiator::begin(&config.keys, &self.key, &self.secret, offer, seed);
        let (initiator, noise) = begun.ok()?;
        let mut message = message::initiation(own_index, &noise);
        self.stamper.stamp(&mut message, mono_ms);
        let places = if self.roaming.via().is_none() { self.candidates.len() } else { 1 };
        let again_ms = mono_ms + tries.patience_ms(places) + jitter_ms;
        let tries = tries.one_more(again_ms);
        self.attempt = Some(Attempt { own_index, initiator, via, tries });
        Some((via, message))
    }

    /// Where it was last, then each candidate, in turn.
    fn via_to_try(&self, tries: usize) -> Option<Via> {
        let of_candidates = self.candidates.iter().map(|to| Via::from(*to));
        let all = || self.roaming.via().into_iter().chain(of_candidates.clone());
        let nth = tries.checked_rem(all().count())?;
        all().nth(nth)
    }

    /// Whether an initiation of the peer's is new, and not too soon.
    pub(super) fn admit(&mut self, mono_ms: u64, timestamp: Timestamp) -> Result<(), Ignored> {
        if timestamp <= self.newest_heard {
            return Err(Ignored::Replayed);
        }
        let soonest = self.heard_ms.map_or(0, |heard| heard + limits::INITIATION_DISTANCE_MS);
        if mono_ms < soonest {
            return Err(Ignored::TooSoon);
        }
        self.newest_heard = timestamp;
        self.heard_ms = Some(mono_ms);
        Ok(())
    }

    /// Answers the peer's initiation: the response, and the keys.
    pub(super) fn respond(
        &mut self,
        responder: Responder,
        choice: Choice,
        peer_shards: u8,
        own_index: u32,
        peer_index: u32,
        mono_ms: u64,
    ) -> Result<(Vec<u8>, SessionKeys), NotAuthentic> {
        let (noise, established) = responder.respond(&self.secret, choice, peer_shards)?;
        let mut message = message::response(own_index, peer_index, &noise);
        self.stamper.stamp(&mut message, mono_ms);
        Ok((message, SessionKeys::new(established, own_index, peer_index, mono_ms)))
    }

    /// Takes the answer to our initiation: the keys, and where the peer has shown that it receives.
    /// None if it is not that.
    pub(super) fn finish(
        &mut self,
        mono_ms: u64,
        response: &Response<'_>,
    ) -> Option<(SessionKeys, Via)> {
        let attempt = self.attempt.as_mut()?;
        if attempt.own_index != response.receiver {
            return None;
        }
        let established = attempt.initiator.finish(response.noise).ok()?;
        let attempt = self.attempt.take()?;
        let keys = SessionKeys::new(established, attempt.own_index, response.sender, mono_ms);
        Some((keys, attempt.via))
    }

    /// Takes a cookie, and says the initiation again with it: at once, but only once before its
    /// time, since whoever sees our initiations can make cookies.
    pub(super) fn take_cookie(&mut self, cookie: &CookieReply<'_>, mono_ms: u64) -> bool {
        let is_taken = self.stamper.take(cookie, mono_ms);
        if is_taken && let Some(attempt) = self.attempt.as_mut() {
            attempt.tries.hurry(mono_ms);
        }
        is_taken
    }

    /// The peer has shown that it receives there.
    fn prove(&mut self, via: Via, index: PeerIndex, effects: &mut Effects) {
        if self.roaming.prove(via) {
            self.moved(via, index, effects);
        }
    }

    fn moved(&mut self, via: Via, index: PeerIndex, effects: &mut Effects) {
        effects.push_back(Effect::Address(index, via));
        self.way.doubt(index, effects);
    }

    /// Something authentic came from there; the number is for a challenge.
    pub(super) fn came_from(
        &mut self,
        mono_ms: u64,
        via: Via,
        index: PeerIndex,
        number: u64,
        effects: &mut Effects,
    ) {
        match self.roaming.came_from(mono_ms, via, number) {
            Moved::No => {}
            Moved::Ours(via) => effects.push_back(Effect::Address(index, via)),
            Moved::Challenge(via) => effects.push_back(Effect::Challenge(index, via, number)),
        }
    }

    /// Takes the keys of a handshake that the peer began, and that was answered there. They seal
    /// once the peer has used them: before, its initiation may have been an old one that somebody
    /// sent again.
    pub(super) fn install_unconfirmed(
        &mut self,
        index: PeerIndex,
        keys: SessionKeys,
        via: Via,
        mono_ms: u64,
        effects: &mut Effects,
    ) {
        let session = Session::new(&keys, mono_ms, false, via);
        remove(self.sessions.add_unconfirmed(session), effects);
        self.timers.erase_ms = Some(mono_ms + ERASE_MS);
        effects.push_back(Effect::Install(index, keys));
    }

    /// Takes the keys of a handshake that we began: they seal at once, and an empty packet tells
    /// the peer so. Where both began at one moment, the peer seals by the session that it began,
    /// and each opens by both.
    pub(super) fn install_confirmed(
        &mut self,
        index: PeerIndex,
        keys: SessionKeys,
        via: Via,
        mono_ms: u64,
        effects: &mut Effects,
    ) {
        let session = Session::new(&keys, mono_ms, true, via);
        effects.push_back(Effect::Install(index, keys));
        self.timers.erase_ms = Some(mono_ms + ERASE_MS);
        for over in self.sessions.add_confirmed(session) {
            remove(Some(over), effects);
        }
        self.seal_with(mono_ms, index, session, effects);
        effects.push_back(Effect::Control(index, Control::Keepalive));
    }

    fn seal_with(
        &mut self,
        mono_ms: u64,
        index: PeerIndex,
        session: Session,
        effects: &mut Effects,
    ) {
        self.prove(session.via, index, effects);
        effects.push_back(Effect::SealWith(index, session.own_index));
        self.watch.connected(mono_ms);
        self.way.set_link(mono_ms, index, Link::Up, effects);
    }

    /// Takes what a shard saw; the number is for a challenge, if there is to be one. Says whether a
    /// handshake is wanted.
    pub(super) fn note(
        &mut self,
        mono_ms: u64,
        index: PeerIndex,
        activity: Activity,
        number: u64,
        effects: &mut Effects,
    ) -> bool {
        if let Some(own_index) = activity.received_by {
            self.watch.heard(mono_ms);
            if let Some((session, over)) = self.sessions.confirm(own_index) {
                over.into_iter().for_each(|over| remove(Some(over), effects));
                self.seal_with(mono_ms, index, session, effects);
            }
            if self.sessions.current().is_some() {
                self.way.set_link(mono_ms, index, Link::Up, effects);
            }
        }
        if let Some((number, via)) = activity.came_back
            && self.roaming.came_back(number, via)
        {
            self.moved(via, index, effects);
        }
        if let Some(via) = activity.came_from {
            self.came_from(mono_ms, via, index, number, effects);
        }
        if let Some(number) = activity.ping_came_back {
            self.watch.came_back(mono_ms, number);
        }
        self.timers.note(mono_ms, &activity);
        self.way.note(mono_ms, &activity);
        effects.extend(activity.answers().map(|answer| Effect::Control(index, answer)));
        self.way.probe(mono_ms, index, self.sessions.current().is_some(), effects);
        let is_older = |age_ms| {
            let current = self.sessions.current().filter(|session| session.is_ours);
            current.is_some_and(|session| session.age_ms(mono_ms) >= age_ms)
        };
        activity.wants_session
            || (activity.sent_data && is_older(limits::REKEY_AFTER_MS))
            || (activity.received_data && is_older(REKEY_ON_RECEIVE_MS))
    }

    /// Does what is due. Says whether a handshake is wanted.
    pub(super) fn on_timeout(
        &mut self,
        mono_ms: u64,
        index: PeerIndex,
        effects: &mut Effects,
    ) -> bool {
        let is_due = |at_ms: &mut u64| *at_ms <= mono_ms;
        if self.timers.erase_ms.take_if(is_due).is_some() {
            self.sessions.take_all().for_each(|session| remove(Some(session), effects));
            self.way.set_link(mono_ms, index, Link::Down, effects);
        }
        if self.timers.keepalive_ms.take_if(is_due).is_some() && self.sessions.current().is_some() {
            effects.push_back(Effect::Control(index, Control::Keepalive));
        }
        self.way.probe(mono_ms, index, self.sessions.current().is_some(), effects);
        let is_silent = self.timers.silence_ms.take_if(is_due).is_some();
        if is_silent {
            self.way.set_link(mono_ms, index, Link::Down, effects);
        }
        let wants_session = self.look(mono_ms, index, effects);
        if self.attempt.take_if(|attempt| attempt.is_lost(mono_ms)).is_some() {
            self.way.set_link(mono_ms, index, Link::Down, effects);
            return false;
        }
        is_silent
            || wants_session
            || self.attempt.as_ref().is_some_and(|attempt| attempt.is_due(mono_ms))
    }

    /// A lease by this peer is in force until then, or none is any more.
    pub(super) fn watch(&mut self, mono_ms: u64, until_ms: Option<u64>) {
        self.watch.set(mono_ms, until_ms);
    }

    /// Looks whether it is there, while a lease by it is in force. Says whether a handshake is
    /// wanted: it goes on for as long as the link is down, and no session ends before there is
    /// another.
    fn look(&mut self, mono_ms: u64, index: PeerIndex, effects: &mut Effects) -> bool {
        let is_lost = self.way.link() == Link::Up && self.watch.is_silent(mono_ms);
        if is_lost {
            self.way.set_link(mono_ms, index, Link::Down, effects);
        }
        if !self.watch.take_ask(mono_ms) {
            return is_lost;
        }
        let Some(session) = self.sessions.current() else { return true };
        effects.push_back(Effect::Control(index, Control::Ping(self.watch.ping(mono_ms))));
        let most_ms = if session.is_ours { limits::REKEY_AFTER_MS } else { REKEY_ON_RECEIVE_MS };
        self.way.link() == Link::Down || session.age_ms(mono_ms) >= most_ms
    }

    /// What is known of it.
    pub(super) fn state(&self, mono_ms: u64) -> PeerState {
        let since = |since_ms| Duration::from_millis(mono_ms.saturating_sub(since_ms));
        PeerState {
            key: self.key,
            link: self.way.link(),
            since: self.way.since_ms().map(since),
            address: self.roaming.via().map(|via| via.to),
            round_trip: self.watch.round_trip_ms().map(Duration::from_millis),
            path: self.way.path(),
            sessions: self.sessions.all().count(),
        }
    }

    /// When something becomes due.
    pub(super) fn wakeup_ms(&self) -> Option<u64> {
        let again_ms = self.attempt.as_ref().map(|attempt| attempt.tries.again_ms);
        let probe_ms = self.sessions.current().and_then(|_| self.way.probe_ms());
        let look_ms = self.watch.next_ms(self.way.link() == Link::Up);
        [self.timers.next_ms(), again_ms, probe_ms, look_ms].into_iter().flatten().min()
    }
}

fn remove(session: Option<Session>, effects: &mut Effects) {
    effects.extend(session.map(|session| Effect::RemoveSession(session.own_index)));
}
