//! What is known of one publisher, and what may be taken of it next.

use mercato_protocol::gossip::{LAST_EPOCH, Mark, VerifiedPublication};
use mercato_protocol::limits::{AD_TTL_S, CLOCK_SKEW_MS};
use mercato_protocol::time::Now;

use crate::item::News;
use crate::limits;
use crate::opened::{Claim, Kind};

/// The latest publication of one publisher.
#[derive(Debug)]
pub(crate) struct Entry {
    /// It stays after its time, or after it was refused, without its body: what is older could
    /// come back.
    pub(crate) news: News,
    /// When it came, monotonic, in tenths of a second.
    since_ds: u32,
    /// Seconds until what the publisher said is forgotten, from then on.
    said_s: u8,
    /// Seconds until the publisher's changes of its body are forgotten, from then on.
    changes_s: u8,
    pub(super) state: State,
    /// Whether the publisher is unknown, and shares a lane with others.
    pub(super) is_stranger: bool,
}

/// How far a publication has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The application has not given its verdict yet.
    New,
    /// Accepted: it is announced and sent.
    Held,
    /// Expired or refused: only its number counts.
    Over,
}

/// How a mark compares with what is known of its publisher.
pub(crate) enum Relation {
    /// Nothing is known of the publisher.
    New,
    /// It is later, and is fetched when the publisher's rate allows it: monotonic, in
    /// milliseconds.
    Later(u64),
    /// It has the same number and another digest: fetched at once, as a proof.
    Conflict,
    /// It is the very publication that is here.
    Same,
    /// It is older, or nothing more is taken of this publisher.
    Older,
}

impl Entry {
    /// The first publication of a publisher.
    pub(super) fn new(now: Now, news: News, state: State, is_stranger: bool) -> Self {
        Self { news, since_ds: tenths(now), said_s: SAID_S, changes_s: 0, state, is_stranger }
    }

    pub(crate) fn is_new(&self) -> bool {
        self.state == State::New
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// When the publisher's next publication is taken. Whether it has another body is not
    /// known before: there has to be room for one more change.
    pub(crate) fn rested_ms(&self) -> u64 {
        const ROOM_MS: u64 = (limits::BODY_BURST - 1) * limits::BODY_DISTANCE_MS;
        let full_ms = (u64::from(self.changes_s) * 1_000).saturating_sub(ROOM_MS);
        self.renewed_ms().max(self.since_ms() + full_ms)
    }

    /// When the publisher's next header is taken that names the body that is here.
    fn renewed_ms(&self) -> u64 {
        const ROOM_MS: u64 = (limits::LEASE_BURST - 1) * limits::LEASE_DISTANCE_MS;
        let full_ms = (u64::from(self.said_s) * 1_000).saturating_sub(ROOM_MS);
        self.since_ms() + full_ms
    }

    /// Whether it has had time to come everywhere. By what its publisher says and in whole steps,
    /// so that two that compare what they hold leave out the same.
    pub(crate) fn is_settled(&self, now: Now) -> bool {
        const STEP_MS: u64 = limits::SETTLED_MS;
        let before_ms = now.wall_ms.saturating_sub(STEP_MS) / STEP_MS * STEP_MS;
        self.is_held() && self.news.0.starts_ms <= before_ms
    }

    /// How a mark of this publisher compares with what is here.
    pub(super) fn relation(&self, mark: &Mark) -> Relation {
        let held = self.news.mark();
        if mark.digest == held.digest {
            Relation::Same
        } else if mark.supersedes(held) {
            // A proof against the publisher is taken at once.
            Relation::Later(if mark.epoch == LAST_EPOCH { 0 } else { self.rested_ms() })
        } else if mark.conflicts(held) && held.epoch < LAST_EPOCH {
            Relation::Conflict
        } else {
            Relation::Older
        }
    }

    /// The publisher may end its advertisement at any time, but not over and over. It may renew
    /// what is here at the rate of all headers.
    pub(super) fn allows_unasked(&self, now: Now, claim: &Claim) -> bool {
        let body = self.news.0.body();
        match &claim.kind {
            Kind::Header(named) => {
                let renews = body.is_some_and(|body| body.digest() == named);
                let is_rested = self.renewed_ms() <= now.mono_ms;
                renews && is_rested && claim.mark.supersedes(self.news.mark())
            }
            Kind::Proof => true,
            Kind::End => self.rested_ms() <= now.mono_ms || body.is_some(),
        }
    }

    /// From then on nobody takes anything of this publisher that came before.
    pub(super) fn is_forgotten(&self, now: Now) -> bool {
        let longest_ms = u64::from(AD_TTL_S) * 1_000 + 2 * CLOCK_SKEW_MS;
        self.state == State::Over && self.since_ms() + longest_ms < now.mono_ms
    }

    /// Whether it is a revocation list that was refused since nobody knew its signer for an
    /// issuer: once that one is known it counts.
    pub(super) fn may_count_now(&self) -> bool {
        let is_list = matches!(self.news.publication(), VerifiedPublication::Revocations(..));
        is_list && self.state == State::Over
    }

    /// Takes a later publication; says whether its body is the same.
    pub(super) fn replace(&mut self, now: Now, news: News, state: State) -> bool {
        let since_ds = tenths(now);
        let rested_s = since_ds.saturating_sub(self.since_ds) / 10;
        let rested_s = rested_s.try_into().unwrap_or(u8::MAX);
        self.said_s = self.said_s.saturating_sub(rested_s).saturating_add(SAID_S);
        self.changes_s = self.changes_s.saturating_sub(rested_s);
        let bodies = (self.news.0.body(), news.0.body());
        let renews = matches!(bodies, (Some(old), Some(new)) if old.digest() == new.digest());
        if !renews && bodies.0.is_some() && bodies.1.is_some() {
            self.changes_s = self.changes_s.saturating_add(CHANGE_S);
        }
        (self.news, self.since_ds, self.state) = (news, since_ds, state);
        renews
    }

    /// Only its number counts from now on.
    pub(super) fn end(&mut self) {
        self.state = State::Over;
        self.news.strip();
    }

    /// Strangers leave in this order: those whose publication is over, then the oldest.
    pub(super) fn age(&self) -> (bool, u32) {
        (self.is_held(), self.since_ds)
    }

    fn since_ms(&self) -> u64 {
        u64::from(self.since_ds) * 100
    }
}

fn tenths(now: Now) -> u32 {
    u32::try_from(now.mono_ms / 100).unwrap_or(u32::MAX)
}

const SAID_S: u8 = (limits::LEASE_DISTANCE_MS / 1_000) as u8;
const CHANGE_S: u8 = (limits::BODY_DISTANCE_MS / 1_000) as u8;

// A publisher that is taken at its pace owes no more than its bursts, which fits.
const _: () = assert!(limits::LEASE_BURST * limits::LEASE_DISTANCE_MS / 1_000 <= u8::MAX as u64);
const _: () = assert!(limits::BODY_BURST * limits::BODY_DISTANCE_MS / 1_000 <= u8::MAX as u64);
