//! One party that may be dialled: when it is next due, and how its last dials went.

use std::collections::BTreeSet;

use mercato_protocol::id::PublicKey;
use rand::RngExt as _;
use rand_chacha::ChaCha12Rng;

use crate::limits;
use crate::sighting::{Kind, Sighting, SightingId};

/// Whom a sighting speaks of: a key, or whoever answers there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    /// Claimed or proven.
    Peer(PublicKey),
    /// Nobody has said so yet.
    Unknown(SightingId),
}

impl Who {
    /// The longest pause between dials to it, where leases need these.
    pub(crate) fn longest_pause(&self, kept: &BTreeSet<PublicKey>) -> u64 {
        match self {
            Self::Peer(peer) if kept.contains(peer) => limits::BACKOFF_MAX_KEPT_MS,
            Self::Peer(_) | Self::Unknown(_) => limits::BACKOFF_MAX_MS,
        }
    }
}

/// A sighting that is kept.
pub(crate) struct Seen {
    pub(crate) sighting: Sighting,
    /// Who proved to be there, where the sighting names nobody.
    pub(crate) proven: Option<PublicKey>,
    /// Last seen or connected, monotonic.
    pub(crate) at_ms: u64,
}

impl Seen {
    pub(crate) fn who(&self) -> Who {
        match self.sighting.peer.or(self.proven) {
            Some(peer) => Who::Peer(peer),
            None => Who::Unknown(self.sighting.id.clone()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Contact {
    /// Dials that failed, or did not last, since the last that did.
    pub(crate) failures: u32,
    /// When it may be dialled next, on the monotonic clock.
    pub(crate) due_ms: u64,
    /// When it was last dialled.
    dialled_ms: Option<u64>,
    /// Since when it is connected.
    pub(crate) up_ms: Option<u64>,
    /// Those that say where it is, in order: one of most.
    pub(crate) sightings: Vec<SightingId>,
}

impl Contact {
    pub(crate) fn new(now_ms: u64, rng: &mut ChaCha12Rng) -> Self {
        let due_ms = now_ms + rng.random_range(0..=limits::FIRST_DIAL_MS);
        Self { failures: 0, due_ms, dialled_ms: None, up_ms: None, sightings: Vec::new() }
    }

    /// Whether the owner lists it.
    pub(crate) fn is_listed(&self) -> bool {
        self.kinds().any(|kind| kind == Kind::List)
    }

    /// The kinds of sources that saw it, some more than once.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.sightings.iter().map(|id| id.source.kind())
    }

    pub(crate) fn sighted(&mut self, id: &SightingId) {
        if let Err(at) = self.sightings.binary_search(id) {
            self.sightings.reserve_exact(1);
            self.sightings.insert(at, id.clone());
        }
    }

    pub(crate) fn start(&mut self, now_ms: u64) {
        self.dialled_ms = Some(now_ms);
    }

    /// Something new was said about it: soon worth a try, whatever failed before.
    pub(crate) fn refresh(&mut self, now_ms: u64, rng: &mut ChaCha12Rng) {
        let distance = self.dialled_ms.map_or(0, |at| at + limits::DIAL_DISTANCE_MS);
        let soon = now_ms + rng.random_range(0..=limits::FIRST_DIAL_MS);
        self.due_ms = self.due_ms.min(soon.max(distance));
    }

    /// A dial failed: the pause doubles up to this bound, give or take a quarter.
    pub(crate) fn fail(&mut self, now_ms: u64, most_ms: u64, rng: &mut ChaCha12Rng) {
        let doubled = limits::BACKOFF_MIN_MS.saturating_mul(1 << self.failures.min(20));
        let pause = doubled.min(most_ms);
        self.due_ms = now_ms + rng.random_range(pause * 3 / 4..=pause * 5 / 4);
        self.failures += 1;
    }

    /// Somebody answered. The connection itself is reported apart.
    pub(crate) fn answered(&mut self, now_ms: u64) {
        self.due_ms = now_ms + limits::DIAL_DISTANCE_MS;
    }

    /// The connection is gone: another is dialled soon, unless it did not last, as when the
    /// other side has no room for us.
    pub(crate) fn down(&mut self, now_ms: u64, most_ms: u64, rng: &mut ChaCha12Rng) {
        let lasted_ms = self.up_ms.take().map_or(0, |since_ms| now_ms - since_ms);
        if lasted_ms < limits::STABLE_MS {
            self.fail(now_ms, most_ms, rng);
        } else {
            self.failures = 0;
            self.due_ms = now_ms + rng.random_range(0..=limits::BACKOFF_MIN_MS);
        }
    }
}
