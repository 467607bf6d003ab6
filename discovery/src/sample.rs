//! Which sightings of a kind are kept where there are more than there is room for: a sample
//! that nobody can choose. Each has a rank, a secret hash of its name, and the lowest stay. So
//! whoever is seen has the same chance, however often and in whatever order it is said, and
//! to turn one away costs nothing, though thousands are published.
//!
//! E. Bortnikov et al., "Brahms: Byzantine resilient random membership sampling", 2009.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt as _;
use rand_chacha::ChaCha12Rng;
use siphasher::sip::SipHasher24;

use crate::limits;
use crate::sighting::{Kind, SightingId, Source};

type Ranked = (u64, SightingId);

#[derive(Debug)]
pub(crate) struct Sample {
    secret: SipHasher24,
    kinds: BTreeMap<Kind, BTreeSet<Ranked>>,
    /// When those are looked for next that nobody has seen for long, monotonic.
    sweep_ms: u64,
}

impl Sample {
    pub(crate) fn new(rng: &mut ChaCha12Rng) -> Self {
        let secret = SipHasher24::new_with_keys(rng.random(), rng.random());
        Self { secret, kinds: BTreeMap::new(), sweep_ms: 0 }
    }

    pub(crate) fn insert(&mut self, id: &SightingId) {
        let rank = self.rank(id);
        self.kinds.entry(id.source.kind()).or_default().insert((rank, id.clone()));
    }

    pub(crate) fn remove(&mut self, id: &SightingId) {
        let rank = self.rank(id);
        if let Some(of_kind) = self.kinds.get_mut(&id.source.kind()) {
            of_kind.remove(&(rank, id.clone()));
        }
    }

    /// Whether another of this kind is one too many.
    pub(crate) fn is_full(&self, kind: Kind) -> bool {
        self.kinds.get(&kind).is_some_and(|of_kind| of_kind.len() >= limits::SIGHTINGS_PER_KIND)
    }

    /// One that nobody has seen for long, the highest in rank: a name that was said once must not
    /// be worth as much as one that is said again and again, as peers' own words are.
    pub(crate) fn stale(
        &self,
        now_ms: u64,
        kind: Kind,
        is_stale: impl Fn(&SightingId) -> bool,
    ) -> Option<&SightingId> {
        let of_kind = self.kinds.get(&kind).filter(|_| kind == Kind::Peer)?;
        if self.sweep_ms > now_ms {
            return None;
        }
        of_kind.iter().rev().find(|(_, id)| is_stale(id)).map(|(_, id)| id)
    }

    /// None was found: for a while none is looked for.
    pub(crate) fn pause(&mut self, now_ms: u64) {
        if self.sweep_ms <= now_ms {
            self.sweep_ms = now_ms + limits::SWEEP_MS;
        }
    }

    /// The one of its kind that makes room for this: the highest in rank of those that may go,
    /// if that is above its own, or in any case if this one is needed.
    pub(crate) fn worst(
        &self,
        id: &SightingId,
        needed: bool,
        may_go: impl Fn(&SightingId) -> bool,
    ) -> Option<&SightingId> {
        let rank = self.rank(id);
        let descending = self.kinds.get(&id.source.kind())?.iter().rev();
        let mut above = descending.take_while(|(other, _)| needed || *other > rank);
        above.find(|(_, id)| may_go(id)).map(|(_, id)| id)
    }

    fn rank(&self, id: &SightingId) -> u64 {
        let name = id.instance.as_bytes();
        match &id.source {
            Source::Peer(key) if name.is_empty() => self.secret.hash(&key.0),
            Source::Peer(key) => self.secret.hash(&[&key.0, name].concat()),
            Source::List | Source::Dns | Source::Lan => self.secret.hash(name),
        }
    }
}
