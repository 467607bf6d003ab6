//! What neighbours advertise of one publisher that is later than what is here, and which of them
//! was asked for it.

use mercato_protocol::gossip::{LAST_EPOCH, Mark};
use mercato_protocol::id::Digest;

use crate::index::{NeighbourIndex, PublisherIndex};
use crate::peers::Peers;

/// A later publication of one publisher that is being fetched.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// Who says that it holds one. Each neighbour counts once, or those that lie would keep the
    /// others out.
    advertised_by: Peers,
    /// Who of those was asked.
    pub(super) asked: Peers,
    /// What most of them advertise.
    version: Version,
    /// What the others of them advertise: seldom anything.
    others: Option<Box<Others>>,
    /// When to ask, or to ask another.
    pub(super) due_ms: u64,
    asked_ms: u64,
    pub(super) publisher: PublisherIndex,
    /// The neighbour whose answer is awaited.
    awaited: Option<NeighbourIndex>,
    /// Who advertised it first: it counts against that neighbour's room, while it is one.
    pub(crate) first: Option<NeighbourIndex>,
    /// Whether the body has to come along even if it seems to be here.
    pub(crate) is_whole: bool,
}

/// A [`Mark`] of a publisher that goes without saying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    number: (u64, u64),
    digest: Digest,
}

#[derive(Debug, Default)]
struct Others(Vec<(NeighbourIndex, Version)>);

impl Version {
    pub(super) fn of(mark: &Mark) -> Self {
        Self { number: (mark.epoch, mark.seq), digest: mark.digest }
    }

    fn conflicts(&self, held: &Self) -> bool {
        self.number == held.number && self.digest != held.digest
    }
}

impl Fetch {
    /// A fetch that begins with what `first` advertises.
    pub(super) fn new(
        publisher: PublisherIndex,
        version: Version,
        first: NeighbourIndex,
        due_ms: u64,
    ) -> Self {
        Self {
            advertised_by: Peers::of(first),
            asked: Peers::default(),
            version,
            others: None,
            due_ms,
            asked_ms: 0,
            publisher,
            awaited: None,
            first: Some(first),
            is_whole: false,
        }
    }

    /// `peer` holds `mark`; what it advertised before it no longer does.
    pub(crate) fn advertise(&mut self, peer: NeighbourIndex, mark: &Mark) {
        let version = Version::of(mark);
        if self.advertised_by.has(peer) && *self.version_of(peer) == version {
            return;
        }
        self.retain_others(|other, _| other != peer);
        if version != self.version {
            self.others.get_or_insert_default().0.push((peer, version));
        }
        self.advertised_by.insert(peer);
        self.asked.remove(peer);
    }

    /// What this neighbour advertises, if any.
    fn version_of(&self, peer: NeighbourIndex) -> &Version {
        let other = self.others().iter().find(|(other, _)| *other == peer);
        other.map_or(&self.version, |(_, version)| version)
    }

    fn others(&self) -> &[(NeighbourIndex, Version)] {
        self.others.as_deref().map_or(&[], |others| &others.0)
    }

    fn retain_others(&mut self, is_kept: impl Fn(NeighbourIndex, &Version) -> bool) {
        if let Some(others) = &mut self.others {
            others.0.retain(|(peer, version)| is_kept(*peer, version));
        }
    }

    /// The neighbours that advertise exactly `mark`.
    pub(crate) fn holders(&self, mark: &Mark) -> Peers {
        let version = Version::of(mark);
        let is_most = version == self.version;
        let mut holders = if is_most { self.advertised_by } else { Peers::default() };
        for (peer, other) in self.others() {
            match *other == version {
                true => holders.insert(*peer),
                false => holders.remove(*peer),
            }
        }
        holders
    }

    /// Only what is later than `held`, or contradicts it, is fetched from now on; says whether
    /// anybody advertises such.
    pub(super) fn narrow(&mut self, held: &Version) -> bool {
        let is_wanted = |version: &Version| version.number > held.number || version.conflicts(held);
        for (peer, version) in self.others.iter().flat_map(|others| &others.0) {
            if !is_wanted(version) {
                self.advertised_by.remove(*peer);
            }
        }
        self.retain_others(|_, version| is_wanted(version));
        if !is_wanted(&self.version) {
            self.advertised_by = self.others().iter().map(|(peer, _)| *peer).collect();
            if let Some((_, version)) = self.others().first().copied() {
                self.version = version;
                self.retain_others(|_, other| *other != version);
            }
        }
        self.asked = self.asked.within(self.advertised_by);
        self.first = self.advertised_by.iter().next();
        (self.awaited, self.is_whole) = (None, false);
        self.first.is_some()
    }

    /// Whether anybody advertises what contradicts `held`, of the same publisher.
    pub(crate) fn contradicts(&self, held: &Mark) -> bool {
        let held = Version::of(held);
        self.advertised_by.iter().any(|peer| self.version_of(peer).conflicts(&held))
    }

    /// Whether anybody advertises a proof against the publisher.
    pub(crate) fn is_proof(&self) -> bool {
        self.advertised_by.iter().any(|peer| self.version_of(peer).number.0 == LAST_EPOCH)
    }

    /// What this neighbour advertises no longer counts; says whether it did.
    fn withdraw(&mut self, peer: NeighbourIndex) -> bool {
        let had = self.advertised_by.has(peer);
        self.advertised_by.remove(peer);
        self.asked.remove(peer);
        self.retain_others(|other, _| other != peer);
        self.first.take_if(|first| *first == peer);
        had
    }

    /// `peer` is gone; says whether another has to be asked now.
    pub(super) fn leave(&mut self, peer: NeighbourIndex) -> bool {
        let had = self.withdraw(peer);
        if had {
            self.awaited.take_if(|awaited| *awaited == peer);
        }
        had && self.awaited.is_none()
    }

    pub(crate) fn is_asked_of(&self, peer: NeighbourIndex) -> bool {
        self.asked.has(peer)
    }

    /// `peer` is asked, and another at `due_ms`.
    pub(super) fn ask(&mut self, peer: NeighbourIndex, now_ms: u64, due_ms: u64) {
        self.asked.insert(peer);
        (self.awaited, self.asked_ms, self.due_ms) = (Some(peer), now_ms, due_ms);
    }

    /// The same neighbour is to be asked once more.
    pub(crate) fn ask_again(&mut self, peer: NeighbourIndex) {
        self.asked.remove(peer);
    }

    /// No answer is awaited any more; says whose was.
    pub(crate) fn give_up(&mut self) -> Option<NeighbourIndex> {
        self.awaited.take()
    }

    /// `peer` answers; says when it was asked, if its answer was awaited.
    pub(crate) fn answer(&mut self, peer: NeighbourIndex) -> Option<u64> {
        self.awaited.take_if(|awaited| *awaited == peer).map(|_| self.asked_ms)
    }

    /// Whether nothing happens to it until it is scheduled again.
    pub(crate) fn is_parked(&self) -> bool {
        self.due_ms == u64::MAX
    }

    /// Who is to be asked next: who advertised it first, then the others all around.
    pub(crate) fn next(&self) -> Option<NeighbourIndex> {
        let start = self.first.unwrap_or(NeighbourIndex(0));
        self.advertised_by.without(self.asked).next_from(start)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_protocol::id::PublicKey;
    use proptest::prelude::*;

    use super::*;

    fn mark(seq: u64, digest: u8) -> Mark {
        let (publisher, digest) = (PublicKey([7; 32]), Digest([digest; 32]));
        Mark { publisher, epoch: 1, seq, digest }
    }

    proptest! {
        /// Each neighbour advertises one version, the last; it is asked once for each.
        #[test]
        fn each_has_its_last_version(
            steps in prop::collection::vec((0_u8..4, 0_u32..6, 0_u64..3, 0_u8..2), 0..60),
        ) {
            let first = NeighbourIndex(0);
            let mut fetch = Fetch::new(PublisherIndex(0), Version::of(&mark(0, 0)), first, 0);
            let mut model = BTreeMap::from([(first, (mark(0, 0), false))]);
            for (kind, peer, seq, digest) in steps {
                let (peer, said) = (NeighbourIndex(peer), mark(seq, digest));
                match kind {
                    0 => {
                        prop_assert_eq!(fetch.withdraw(peer), model.remove(&peer).is_some());
                    }
                    1 => {
                        let next = fetch.next();
                        let unasked = model.iter().filter(|(_, (_, asked))| !asked);
                        prop_assert_eq!(next.is_some(), unasked.count() > 0);
                        if let Some(next) = next {
                            fetch.asked.insert(next);
                            prop_assert!(!std::mem::replace(&mut model.get_mut(&next).unwrap().1, true));
                        }
                    }
                    2 => {
                        let wanted = |is: &Mark| is.supersedes(&said) || is.conflicts(&said);
                        model.retain(|_, (is, _)| wanted(is));
                        prop_assert_eq!(fetch.narrow(&Version::of(&said)), !model.is_empty());
                    }
                    _ => {
                        fetch.advertise(peer, &said);
                        let same = model.get(&peer).is_some_and(|(is, _)| *is == said);
                        if !same {
                            model.insert(peer, (said, false));
                        }
                    }
                }
                for (seq, digest) in (0..3).flat_map(|seq| [(seq, 0), (seq, 1)]) {
                    let said = mark(seq, digest);
                    let holders: Vec<_> = fetch.holders(&said).iter().collect();
                    let held = model.iter().filter(|(_, (is, _))| *is == said);
                    prop_assert_eq!(holders, held.map(|(peer, _)| *peer).collect::<Vec<_>>());
                    let contradicts = model.values().any(|(is, _)| is.conflicts(&said));
                    prop_assert_eq!(fetch.contradicts(&said), contradicts);
                }
            }
        }
    }
}
