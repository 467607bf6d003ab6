//! Which sightings of a kind are kept where there are more than there is room for: a sample
//! that nobody can choose. Each has a rank, a secret hash of its name, and the lowest stay. So
//! whoever is seen has the same chance, however often and in whatever order it is said, and
//! to turn one away costs nothing, though thousands are published.
//!
//! E. Bortnikov et al., "Brahms: Byzantine resilient random membership sampling", 2009.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use rand::RngExt as _;
use rand_chacha::ChaCha12Rng;
use siphasher::sip::SipHasher13;

use crate::contact::Who;
use crate::limits;
use crate::sighting::{Kind, Name, Source};

/// Where a sighting stands among those of its kind, and by what it is found. If two ever have the
/// same, the second is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    kind: Kind,
    hash: u64,
}

impl Rank {
    pub(crate) fn kind(self) -> Kind {
        self.kind
    }
}

/// A hash that nobody outside can foresee.
#[derive(Clone, Debug)]
pub(crate) struct Secret(SipHasher13);

impl Secret {
    pub(crate) fn new(rng: &mut ChaCha12Rng) -> Self {
        Self(SipHasher13::new_with_keys(rng.random(), rng.random()))
    }
}

impl BuildHasher for Secret {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        self.0
    }
}

/// Whose the sightings are that are kept.
#[derive(Debug)]
pub(crate) struct Sample {
    secret: Secret,
    kinds: [OfKind; 4],
    /// When those are looked for next that nobody has seen for long, monotonic.
    sweep_ms: u64,
}

#[derive(Debug, Default)]
struct OfKind {
    /// Who is kept under each hash.
    whose: BTreeMap<u64, Who>,
    /// None above it may go, if that was looked at: who comes with more is turned away at once.
    bar: Option<u64>,
}

impl Sample {
    pub(crate) fn new(rng: &mut ChaCha12Rng) -> Self {
        Self { secret: Secret::new(rng), kinds: Default::default(), sweep_ms: 0 }
    }

    pub(crate) fn rank(&self, name: Name<'_>) -> Rank {
        let instance = name.instance.as_bytes();
        let hash = match &name.source {
            Source::Peer(key) if instance.is_empty() => self.secret.0.hash(&key.0),
            Source::Peer(key) => self.secret.0.hash(&[&key.0, instance].concat()),
            Source::List | Source::Dns | Source::Lan => self.secret.0.hash(instance),
        };
        Rank { kind: name.source.kind(), hash }
    }

    pub(crate) fn whose(&self, rank: Rank) -> Option<&Who> {
        self.kinds[rank.kind as usize].whose.get(&rank.hash)
    }

    /// It is this one's from now on. Says whose it was.
    pub(crate) fn put(&mut self, rank: Rank, who: Who) -> Option<Who> {
        let of_kind = &mut self.kinds[rank.kind as usize];
        of_kind.bar = of_kind.bar.map(|bar| bar.max(rank.hash));
        of_kind.whose.insert(rank.hash, who)
    }

    /// Frees the place, and says whose it was.
    pub(crate) fn remove(&mut self, rank: Rank) -> Option<Who> {
        self.kinds[rank.kind as usize].whose.remove(&rank.hash)
    }

    /// How many of a kind there are.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.kinds[kind as usize].whose.len()
    }

    /// The highest first, but for those of which none may go.
    pub(crate) fn descending(&self, kind: Kind) -> impl Iterator<Item = (Rank, &Who)> {
        let OfKind { whose, bar } = &self.kinds[kind as usize];
        let below = whose.range(..=bar.unwrap_or(u64::MAX)).rev();
        below.map(move |(hash, who)| (Rank { kind, hash: *hash }, who))
    }

    /// Whether those are to be looked for that nobody has seen for long.
    pub(crate) fn sweeps(&self, now_ms: u64, kind: Kind) -> bool {
        kind == Kind::Peer && self.sweep_ms <= now_ms
    }

    /// Whether there is none above this that may go, as was found before.
    pub(crate) fn bars(&self, rank: Rank) -> bool {
        self.kinds[rank.kind as usize].bar.is_some_and(|bar| bar < rank.hash)
    }

    /// Nobody was found that has not been seen for long: the next look is later.
    pub(crate) fn put_off_sweep(&mut self, now_ms: u64) {
        self.sweep_ms = now_ms + limits::SWEEP_MS;
    }

    /// Looks at all again: others may go than before.
    pub(crate) fn lift_bars(&mut self) {
        self.kinds.iter_mut().for_each(|of_kind| of_kind.bar = None);
    }

    /// The one of its kind that makes room for this: the highest in rank of those that may go,
    /// if that is above its own, or in any case if this one is needed.
    pub(crate) fn worst(
        &mut self,
        rank: Rank,
        needed: bool,
        may_go: impl Fn(&Who) -> bool,
    ) -> Option<Rank> {
        let worst = self.descending(rank.kind).find(|(_, who)| may_go(who)).map(|(worst, _)| worst);
        let bar = worst.map_or(0, |worst| worst.hash);
        self.kinds[rank.kind as usize].bar = Some(bar);
        worst.filter(|_| needed || bar > rank.hash)
    }
}
