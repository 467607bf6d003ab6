//! One peer: its sessions, the handshake under way, and its timers (WireGuard, section 6).

mod handshakes;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use super::attempt::Attempt;
use super::claims::{Claims, Found};
use super::config::PeerConfig;
use super::effect::{Effect, Link};
use super::roaming::{Moved, Roaming};
use super::sessions::{Session, Sessions};
use super::state::PeerState;
use super::timers::Timers;
use super::watch::Watch;
use super::way::Way;
use crate::activity::Activity;
use crate::control::Control;
use crate::cookie::Stamper;
use crate::handshake::Timestamp;
use crate::keys::PublicKey;
use crate::limits;
use crate::peer_index::PeerIndex;
use crate::session_keys::SessionKeys;
use crate::via::Via;

pub(super) use self::handshakes::Answer;

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
    claims: Claims,
    stamper: Stamper,
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
        let PeerConfig { key, claims } = config;
        let claims = Claims::new(claims);
        Self {
            key,
            timers: Timers { dispute_ms: claims.is_disputed().then_some(0), ..Timers::default() },
            claims,
            stamper: Stamper::new(&key),
            roaming: Roaming::default(),
            way: Way::new(link_mtu),
            watch: Watch::default(),
            attempt: None,
            sessions: Sessions::default(),
            newest_heard: Timestamp::default(),
            heard_ms: None,
        }
    }

    /// Takes other claims, secrets and addresses. Sessions that are there go on, but for those of
    /// clusters that say no more that it is theirs.
    pub(super) fn reconfigure(
        &mut self,
        mono_ms: u64,
        index: PeerIndex,
        config: PeerConfig,
        effects: &mut Effects,
    ) {
        let owner = self.claims.owner();
        if owner.is_some_and(|owner| config.claims.iter().all(|claim| claim.cluster != owner)) {
            self.set_link(mono_ms, index, Link::Down, effects);
            self.roaming = Roaming::default();
        }
        self.claims.replace(config.claims);
        let over = self.sessions.take_others(|by| self.claims.has(by));
        over.into_iter().for_each(|session| remove(Some(session), effects));
        self.attempt.take_if(|attempt| !self.claims.has(attempt.to.by));
        self.timers.dispute_ms = None;
        if self.claims.is_disputed() {
            self.timers.dispute_ms = Some(mono_ms);
            if let Some(attempt) = &mut self.attempt
                && let Some(nth) = self.claims.place_of(self.roaming.via(), attempt.to.by)
            {
                attempt.tries.among_others(mono_ms, nth);
            }
        }
    }

    /// Whether there is a session that need not be replaced yet.
    pub(super) fn has_young_session(&self, mono_ms: u64) -> bool {
        let current = self.sessions.current();
        current.is_some_and(|of| of.age_ms(mono_ms) < limits::REKEY_AFTER_MS)
    }

    /// The addresses where it is, or may be.
    pub(super) fn places(&self) -> impl Iterator<Item = IpAddr> {
        let proven = self.roaming.via().into_iter().map(|via| via.to.ip());
        proven.chain(self.claims.addresses().map(|at| at.ip()))
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

    /// Takes the keys of a handshake that the peer began, and that was answered there by this
    /// cluster's secret. They seal once the peer has used them: before, its initiation may have been
    /// an old one that somebody sent again, or the secret another one than the peer's.
    pub(super) fn install_unconfirmed(
        &mut self,
        index: PeerIndex,
        keys: SessionKeys,
        found: Found,
        mono_ms: u64,
        effects: &mut Effects,
    ) {
        self.sessions.add_unconfirmed(Session::new(&keys, mono_ms, false, found));
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
        found: Found,
        mono_ms: u64,
        effects: &mut Effects,
    ) {
        let session = Session::new(&keys, mono_ms, true, found);
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
        self.claims.prove(session.by);
        self.timers.dispute_ms = None;
        self.prove(session.via, index, effects);
        effects.push_back(Effect::SealWith(index, session.own_index));
        self.watch.connected(mono_ms);
        self.set_link(mono_ms, index, Link::Up, effects);
    }

    /// Before it has shown whose it is, it was never up.
    fn set_link(&mut self, mono_ms: u64, index: PeerIndex, link: Link, effects: &mut Effects) {
        if let Some(owner) = self.claims.owner() {
            self.way.set_link(mono_ms, index, link, owner, effects);
        }
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
        }
        if let Some(number) = activity.ping_came_back {
            self.watch.came_back(mono_ms, number);
        }
        if let Some(ping) = activity.pinged {
            self.watch.pinged(mono_ms, ping);
        }
        // What comes says nothing of what goes, where somebody asks.
        let carries = activity.received_by.is_some() && !self.watch.is_silent(mono_ms);
        if carries && self.sessions.current().is_some() {
            self.set_link(mono_ms, index, Link::Up, effects);
        }
        if let Some((number, via)) = activity.came_back
            && self.roaming.came_back(number, via)
        {
            self.moved(via, index, effects);
        }
        if let Some(via) = activity.came_from {
            self.came_from(mono_ms, via, index, number, effects);
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
            self.set_link(mono_ms, index, Link::Down, effects);
        }
        if self.timers.keepalive_ms.take_if(is_due).is_some() && self.sessions.current().is_some() {
            effects.push_back(Effect::Control(index, Control::Keepalive));
        }
        self.way.probe(mono_ms, index, self.sessions.current().is_some(), effects);
        let is_silent = self.timers.silence_ms.take_if(is_due).is_some();
        if is_silent {
            self.set_link(mono_ms, index, Link::Down, effects);
        }
        let wants_session = self.look(mono_ms, index, effects);
        if self.attempt.take_if(|attempt| attempt.is_lost(mono_ms)).is_some() {
            self.set_link(mono_ms, index, Link::Down, effects);
            return false;
        }
        let is_disputed = self.timers.take_dispute(mono_ms);
        is_silent
            || wants_session
            || is_disputed
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
            self.set_link(mono_ms, index, Link::Down, effects);
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
            lost: self.watch.lost(mono_ms),
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
