//! Which sightings of a kind are kept where there are more than there is room for: a sample
//! that nobody can choose. Each has a rank, a secret hash of its name, and the lowest stay. So
//! whoever is seen has the same chance, however often and in whatever order it is said, and
//! to turn one away costs nothing, though thousands are published.
//!
//! E. Bortnikov et al., "Brahms: Byzantine resilient random membership sampling", 2009.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;
use rand::RngExt as _;
use rand_chacha::ChaCha12Rng;
use siphasher::sip::SipHasher13;

use crate::contact::{Seen, Who};
use crate::directory::Directory;
use crate::limits;
use crate::sighting::{Kind, Name, Sighting, Source};
use crate::vocabulary::Effect;

/// Where a sighting stands among those of its kind, and by what it is found. If two ever have the
/// same, the second is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    kind: Kind,
    hash: u64,
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
    /// By hash.
    whose: BTreeMap<u64, Who>,
    /// None above it may go, if that was looked at: who comes with more is turned away at once.
    bar: Option<u64>,
}

impl Sample {
    pub(crate) fn new(rng: &mut ChaCha12Rng) -> Self {
        Self { secret: Secret::new(rng), kinds: Default::default(), sweep_ms: 0 }
    }

    pub(crate) fn rank(&self, (source, instance): Name<'_>) -> Rank {
        let instance = instance.as_bytes();
        let hash = match &source {
            Source::Peer(key) if instance.is_empty() => self.secret.0.hash(&key.0),
            Source::Peer(key) => self.secret.0.hash(&[&key.0, instance].concat()),
            Source::List | Source::Dns | Source::Lan => self.secret.0.hash(instance),
        };
        Rank { kind: source.kind(), hash }
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

    /// Says whose it was.
    pub(crate) fn remove(&mut self, rank: Rank) -> Option<Who> {
        self.kinds[rank.kind as usize].whose.remove(&rank.hash)
    }

    /// The highest first, but for those of which none may go.
    fn descending(&self, kind: Kind) -> impl Iterator<Item = (Rank, &Who)> {
        let OfKind { whose, bar } = &self.kinds[kind as usize];
        let below = whose.range(..=bar.unwrap_or(u64::MAX)).rev();
        below.map(move |(hash, who)| (Rank { kind, hash: *hash }, who))
    }

    /// Whether those are to be looked for that nobody has seen for long.
    fn sweeps(&self, now_ms: u64, kind: Kind) -> bool {
        kind == Kind::Peer && self.sweep_ms <= now_ms
    }

    /// Whether there is none above this that may go, as was found before.
    fn bars(&self, rank: Rank) -> bool {
        self.kinds[rank.kind as usize].bar.is_some_and(|bar| bar < rank.hash)
    }
}

impl Directory {
    /// Whether this peer's own word of where it is may be kept: to be asked before it is
    /// repeated here, where thousands give theirs.
    pub fn listens_to(&self, now: Now, peer: &PublicKey) -> bool {
        let rank = self.sample.rank((Source::Peer(*peer), ""));
        let is_barred = self.is_full(rank.kind) && self.sample.bars(rank);
        // Those above the bar are kept because their peers have room.
        let has_room = || self.has_room(&Who::Peer(*peer));
        !is_barred || self.sample.sweeps(now.mono_ms, rank.kind) || has_room()
    }

    /// Whether one more sighting may be kept. The oldest by the same peer's word gives way, or
    /// whoever the sample can do without.
    pub(crate) fn make_room(
        &mut self,
        now_ms: u64,
        rank: Rank,
        sighting: &Sighting,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let by_witness = || self.by_witness(sighting.id.name());
        if by_witness().count() >= limits::SIGHTINGS_PER_WITNESS {
            let may_go = by_witness().filter(|(who, seen)| self.may_expire(who, seen));
            let oldest = may_go.min_by_key(|(_, seen)| seen.at_ms);
            let oldest = oldest.map(|(_, seen)| self.sample.rank(seen.name()));
            oldest.into_iter().for_each(|oldest| self.remove(oldest, effects));
            return oldest.is_some();
        }
        if !self.is_full(rank.kind) {
            return true;
        }
        let needed = sighting.peer.is_some_and(|peer| self.has_room(&Who::Peer(peer)));
        let sweeps = self.sample.sweeps(now_ms, rank.kind);
        if self.sample.bars(rank) && !sweeps && !needed {
            return false;
        }
        let stale = sweeps.then(|| self.stale(now_ms)).flatten();
        let gives_way = stale.or_else(|| self.worst(rank, needed));
        gives_way.into_iter().for_each(|rank| self.remove(rank, effects));
        gives_way.is_some() || needed
    }

    /// How many of this kind there is room for. Peers that have it in any case do not take it from
    /// others, or those that connect to us would be all that we know.
    fn capacity(&self, kind: Kind) -> usize {
        let besides = match kind {
            Kind::Peer => self.connected.len() + self.kept.len() + self.released.len(),
            Kind::List | Kind::Dns | Kind::Lan => 0,
        };
        kind.limit() + besides
    }

    fn is_full(&self, kind: Kind) -> bool {
        self.sample.kinds[kind as usize].whose.len() >= self.capacity(kind)
    }

    /// Others may be needed than before: those that there is no room for any more give way.
    pub(crate) fn trim(&mut self, effects: &mut Vec<Effect>) {
        self.sample.kinds.iter_mut().for_each(|of_kind| of_kind.bar = None);
        let count = self.sample.kinds[Kind::Peer as usize].whose.len();
        let over = count.saturating_sub(self.capacity(Kind::Peer));
        let may_go = self.sample.descending(Kind::Peer).filter(|(_, who)| !self.has_room(who));
        let worst: Vec<Rank> = may_go.take(over).map(|(rank, _)| rank).collect();
        worst.into_iter().for_each(|rank| self.remove(rank, effects));
    }

    /// Words of the same peer about others.
    fn by_witness(&self, (source, instance): Name<'_>) -> impl Iterator<Item = (&Who, &Seen)> {
        let is_witness = source.kind() == Kind::Peer && !instance.is_empty();
        let all = is_witness.then(|| self.seen()).into_iter().flatten();
        all.filter(move |(_, seen)| seen.name().0 == source && !seen.name().1.is_empty())
    }

    /// One that nobody has seen for long, the highest in rank: a name that was said once must not
    /// be worth as much as one that is said again and again, as peers' own words are.
    fn stale(&mut self, now_ms: u64) -> Option<Rank> {
        let is_stale = |(rank, who): &(Rank, &Who)| {
            let mut seen = self.contacts.get(*who).into_iter().flat_map(|of| &of.sightings);
            let seen = seen.find(|seen| self.sample.rank(seen.name()) == *rank);
            seen.is_some_and(|seen| seen.at_ms + limits::STALE_MS < now_ms) && !self.has_room(who)
        };
        let stale = self.sample.descending(Kind::Peer).find(is_stale).map(|(rank, _)| rank);
        if stale.is_none() {
            self.sample.sweep_ms = now_ms + limits::SWEEP_MS;
        }
        stale
    }

    /// The one of its kind that makes room for this: the highest in rank of those that may go,
    /// if that is above its own, or in any case if this one is needed.
    fn worst(&mut self, rank: Rank, needed: bool) -> Option<Rank> {
        let may_go = |(_, who): &(Rank, &Who)| rank.kind != Kind::List && !self.has_room(who);
        let worst = self.sample.descending(rank.kind).find(may_go).map(|(worst, _)| worst);
        let bar = worst.map_or(0, |worst| worst.hash);
        self.sample.kinds[rank.kind as usize].bar = Some(bar);
        worst.filter(|_| needed || bar > rank.hash)
    }
}
