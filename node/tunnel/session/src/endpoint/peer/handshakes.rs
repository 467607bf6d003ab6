//! The handshakes of one peer: those that are begun with it, and the answers to those that it begins.

use mercato_protocol::id::ClusterId;

use super::{Effects, Peer, remove};
use crate::endpoint::attempt::{Attempt, Tries};
use crate::endpoint::claims::Found;
use crate::endpoint::config::Config;
use crate::endpoint::ignored::Ignored;
use crate::erasing_rng::Seed;
use crate::handshake::{Choice, Initiator, NotAuthentic, Offer, Responder, Timestamp};
use crate::limits;
use crate::message::{self, CookieReply, Response};
use crate::session_keys::SessionKeys;
use crate::via::Via;

/// How an initiation is answered, by whichever secret.
#[derive(Clone, Copy)]
pub(in crate::endpoint) struct Answer {
    pub(in crate::endpoint) choice: Choice,
    /// How many shards the peer seals with.
    pub(in crate::endpoint) peer_shards: u8,
    /// The peer's index of the session.
    pub(in crate::endpoint) peer_index: u32,
}

impl Peer {
    /// Begins a handshake, or says it again. None if one is under way, or the peer is nowhere to
    /// be found.
    pub(in crate::endpoint) fn begin(
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
        // The jitter is drawn, too, and serves for both.
        let first = Tries::first(mono_ms, jitter_ms as usize);
        let tries = before.as_ref().map_or(first, |before| before.tries);
        let last = self.roaming.via();
        let (claim, via) = self.claims.to_try(last, tries.lot, tries.count)?;
        let offer = Offer { timestamp, suites: config.suites, shards: config.shards };
        let begun = Initiator::begin(&config.keys, &self.key, &claim.secret, offer, seed);
        let (initiator, noise) = begun.ok()?;
        let mut message = message::initiation(own_index, &noise);
        self.stamper.stamp(&mut message, mono_ms);
        let places = if last.is_none() { self.claims.tries(last) } else { 1 };
        let again_ms = mono_ms + tries.patience_ms(places) + jitter_ms;
        let (to, tries) = (Found { via, by: claim.cluster }, tries.one_more(again_ms));
        self.attempt = Some(Attempt { own_index, initiator, to, tries });
        Some((via, message))
    }

    /// Whether an initiation of the peer's is new, and not too soon.
    pub(in crate::endpoint) fn admit(
        &mut self,
        mono_ms: u64,
        timestamp: Timestamp,
    ) -> Result<(), Ignored> {
        if timestamp <= self.newest_heard {
            return Err(Ignored::Replayed);
        }
        let soonest = self.heard_ms.map_or(0, |heard| heard + limits::INITIATION_DISTANCE_MS);
        if mono_ms < soonest {
            return Err(Ignored::TooSoon);
        }
        self.newest_heard = timestamp;
        self.heard_ms = Some(mono_ms);
        // It is there, though its answer may be what never arrives.
        self.watch.heard(mono_ms);
        Ok(())
    }

    /// By whose secrets an initiation of the peer's is answered. What it began before is over.
    pub(in crate::endpoint) fn answer_by(
        &mut self,
        draw: impl FnOnce() -> u64,
        effects: &mut Effects,
    ) -> Vec<ClusterId> {
        self.sessions.take_unconfirmed().into_iter().for_each(|over| remove(Some(over), effects));
        self.claims.to_answer(draw)
    }

    /// Answers the peer's initiation by the secret of this cluster: the response, and the keys.
    pub(in crate::endpoint) fn respond(
        &mut self,
        responder: Responder,
        by: ClusterId,
        answer: Answer,
        own_index: u32,
        mono_ms: u64,
    ) -> Result<(Vec<u8>, SessionKeys), NotAuthentic> {
        let Answer { choice, peer_shards, peer_index } = answer;
        let claim = self.claims.of(by).ok_or(NotAuthentic)?;
        let (noise, established) = responder.respond(&claim.secret, choice, peer_shards)?;
        let mut message = message::response(own_index, peer_index, &noise);
        self.stamper.stamp(&mut message, mono_ms);
        Ok((message, SessionKeys::new(established, own_index, peer_index, mono_ms)))
    }

    /// Takes the answer to our initiation: the keys, where the peer has shown that it receives, and
    /// by whose secret. None if it is not that.
    pub(in crate::endpoint) fn finish(
        &mut self,
        mono_ms: u64,
        response: &Response<'_>,
    ) -> Option<(SessionKeys, Found)> {
        let attempt = self.attempt.as_mut()?;
        if attempt.own_index != response.receiver {
            return None;
        }
        let established = attempt.initiator.finish(response.noise).ok()?;
        let attempt = self.attempt.take()?;
        let keys = SessionKeys::new(established, attempt.own_index, response.sender, mono_ms);
        Some((keys, attempt.to))
    }

    /// Takes a cookie, and says the initiation again with it: at once, but only once before its
    /// time, since whoever sees our initiations can make cookies.
    pub(in crate::endpoint) fn take_cookie(
        &mut self,
        cookie: &CookieReply<'_>,
        mono_ms: u64,
    ) -> bool {
        let is_taken = self.stamper.take(cookie, mono_ms);
        if is_taken && let Some(attempt) = self.attempt.as_mut() {
            attempt.tries.hurry(mono_ms);
        }
        is_taken
    }
}
