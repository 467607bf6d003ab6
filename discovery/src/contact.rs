//! One party that may be dialled: when it is next due, and how its last dials went.

use mercato_protocol::id::PublicKey;
use rand::RngExt as _;
use rand_chacha::ChaCha12Rng;

use crate::address::{self, Address};
use crate::limits;
use crate::sighting::{Kind, Name, Sighting, SightingId, Source};

/// Whom a sighting speaks of: a key, or whoever answers there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Who {
    /// A cluster by its key, claimed or proven.
    Peer(PublicKey),
    /// Nobody has said so yet.
    Unknown(Box<SightingId>),
}

impl Who {
    pub(crate) fn new(peer: Option<PublicKey>, name: Name<'_>) -> Self {
        let Name { source, instance } = name;
        let unknown = || Box::new(SightingId { source, instance: instance.to_owned() });
        peer.map_or_else(|| Self::Unknown(unknown()), Self::Peer)
    }

    pub(crate) fn key(&self) -> Option<PublicKey> {
        match self {
            Self::Peer(peer) => Some(*peer),
            Self::Unknown(_) => None,
        }
    }
}

/// A sighting that is kept. There are many of them: it is small.
#[derive(Debug)]
pub(crate) struct Seen {
    source: Source,
    /// Whether it names its party. If not, that one proved to be there, or is unknown.
    pub(crate) is_claimed: bool,
    instance: Box<str>,
    addresses: Box<[Address]>,
    /// Last seen or connected, monotonic.
    pub(crate) at_ms: u64,
}

impl Seen {
    pub(crate) fn new(now_ms: u64, sighting: Sighting) -> Self {
        let SightingId { source, instance } = sighting.id;
        Self {
            source,
            is_claimed: sighting.peer.is_some(),
            instance: instance.into(),
            addresses: sighting.addresses.into(),
            at_ms: now_ms,
        }
    }

    pub(crate) fn name(&self) -> Name<'_> {
        Name { source: self.source, instance: &self.instance }
    }

    /// Whether this says no more than that.
    pub(crate) fn says(&self, whose: &Who, sighting: &Sighting) -> bool {
        let claimed = whose.key().filter(|_| self.is_claimed);
        claimed == sighting.peer && *self.addresses == *sighting.addresses
    }
}

#[derive(Debug)]
pub(crate) struct Contact {
    /// Dials that failed, or did not last, since the last that did.
    pub(crate) failures: u32,
    /// When it may be dialled next, on the monotonic clock.
    pub(crate) due_ms: u64,
    /// Until when it is not dialled, whatever is said about it.
    rest_ms: u64,
    /// Those that say where it is, in order: one of most.
    pub(crate) sightings: Vec<Seen>,
}

impl Contact {
    pub(crate) fn new(now_ms: u64, rng: &mut ChaCha12Rng) -> Self {
        let due_ms = now_ms + rng.random_range(0..=limits::FIRST_DIAL_MS);
        Self { failures: 0, due_ms, rest_ms: 0, sightings: Vec::new() }
    }

    /// Whether the owner lists it.
    pub(crate) fn is_listed(&self) -> bool {
        self.kinds().any(|kind| kind == Kind::List)
    }

    /// The kinds of sources that saw it, some more than once.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.sources().map(Source::kind)
    }

    /// Where it was seen: one source for each sighting.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Source> {
        self.sightings.iter().map(|seen| seen.source)
    }

    /// Where to dial it next.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let all: Vec<&[Address]> = self.sightings.iter().map(|seen| &*seen.addresses).collect();
        address::choose(&all, self.failures as usize)
    }

    pub(crate) fn sighting_mut(&mut self, name: Name<'_>) -> Option<&mut Seen> {
        self.sightings.iter_mut().find(|seen| seen.name() == name)
    }

    /// One of the same name goes.
    pub(crate) fn put(&mut self, seen: Seen) {
        match self.sightings.binary_search_by_key(&seen.name(), Seen::name) {
            Ok(at) => self.sightings[at] = seen,
            Err(at) => {
                self.sightings.reserve_exact(1);
                self.sightings.insert(at, seen);
            }
        }
    }

    pub(crate) fn start(&mut self, now_ms: u64) {
        self.rest_ms = now_ms + limits::DIAL_DISTANCE_MS;
    }

    /// Something new was said about it: soon worth a try, whatever failed before.
    pub(crate) fn refresh(&mut self, now_ms: u64, rng: &mut ChaCha12Rng) {
        let soon = now_ms + rng.random_range(0..=limits::FIRST_DIAL_MS);
        self.due_ms = self.due_ms.min(soon.max(self.rest_ms));
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
    pub(crate) fn down(
        &mut self,
        now_ms: u64,
        lasted_ms: u64,
        most_ms: u64,
        rng: &mut ChaCha12Rng,
    ) {
        if lasted_ms < limits::STABLE_MS {
            self.fail(now_ms, most_ms, rng);
        } else {
            self.failures = 0;
            self.due_ms = now_ms + rng.random_range(0..=limits::BACKOFF_MIN_MS);
        }
    }
}
