//! The latest of each publisher, found by publisher. A slot is 24 bytes besides what is
//! shared, and a neighbour's knowledge of it one bit.

use mercato_protocol::gossip::{Fingerprint, Mark};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::{AD_TTL_S, BUCKETS, CLOCK_SKEW_MS};
use mercato_protocol::time::Now;

use crate::item::News;
use crate::limits;
use crate::table::{Keyed, Place, Table};

/// What is known of one publisher.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its latest publication. It stays after its time, or after it was refused, without
    /// its body: what is older could come back.
    pub(crate) news: News,
    /// When it came, monotonic, in tenths of a second.
    since_ds: u32,
    /// Seconds until the publisher's changes of its body are forgotten, from then on.
    changes_s: u16,
    /// Whether it is accepted.
    pub(crate) state: State,
    /// Whether the publisher is of those that share a lane.
    pub(crate) stranger: bool,
}

/// How far what is on the shelf has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not judged yet.
    New,
    /// Told to whoever asks.
    Held,
    /// Over, or refused: only its number counts.
    Over,
}

impl Keyed for Slot {
    fn key(&self) -> &PublicKey {
        &self.news.mark().publisher
    }
}

impl Slot {
    pub(crate) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    pub(crate) fn since_ms(&self) -> u64 {
        u64::from(self.since_ds) * 100
    }

    /// When the publisher's next publication is taken. Whether it has another body is not
    /// known before: there has to be room for one more change.
    pub(crate) fn rested_ms(&self) -> u64 {
        const ROOM_MS: u64 = (limits::BODY_BURST - 1) * limits::BODY_DISTANCE_MS;
        let full_ms = (u64::from(self.changes_s) * 1_000).saturating_sub(ROOM_MS);
        self.since_ms() + full_ms.max(limits::LEASE_DISTANCE_MS)
    }

    /// Whether it has had time to come everywhere. By what its publisher says and in whole steps,
    /// so that two that compare what they hold leave out the same.
    pub(crate) fn is_settled(&self, now: Now) -> bool {
        const STEP_MS: u64 = limits::SETTLED_MS;
        let before_ms = now.wall_ms.saturating_sub(STEP_MS) / STEP_MS * STEP_MS;
        self.is_held() && self.news.item.starts_ms <= before_ms
    }

    /// From then on nobody takes anything of this publisher's that came before.
    fn is_forgotten(&self, now: Now) -> bool {
        let longest_ms = u64::from(AD_TTL_S) * 1_000 + 2 * CLOCK_SKEW_MS;
        self.state == State::Over && self.since_ms() + longest_ms < now.mono_ms
    }

    /// Takes what was found to be later; says whether its body is the same.
    fn replace(&mut self, now: Now, news: News, state: State) -> bool {
        const CHANGE_S: u16 = (limits::BODY_DISTANCE_MS / 1_000) as u16;
        let since_ds = tenths(now);
        let rested_s = since_ds.saturating_sub(self.since_ds) / 10;
        self.changes_s = self.changes_s.saturating_sub(rested_s.try_into().unwrap_or(u16::MAX));
        let bodies = (self.news.body.as_deref(), news.body.as_deref());
        let renews = matches!(bodies, (Some(old), Some(new)) if old.digest() == new.digest());
        if !renews && bodies.0.is_some() && bodies.1.is_some() {
            self.changes_s = self.changes_s.saturating_add(CHANGE_S);
        }
        (self.news, self.since_ds, self.state) = (news, since_ds, state);
        renews
    }
}

#[derive(Debug)]
pub(crate) struct Shelf {
    slots: Table<Slot>,
    strangers: usize,
}

impl Shelf {
    pub(crate) fn new(seed: u64) -> Self {
        Self { slots: Table::new(seed), strangers: 0 }
    }

    /// What is known of `publisher`, and where.
    pub(crate) fn find(&self, publisher: &PublicKey) -> Option<(Place, &Slot)> {
        let place = self.slots.find(publisher)?;
        Some((place, self.slot(place)?))
    }

    pub(crate) fn slot(&self, place: Place) -> Option<&Slot> {
        self.slots.get(place)
    }

    pub(crate) fn slot_mut(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(place)
    }

    /// Every slot with its place.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Place, &Slot)> {
        self.slots.iter()
    }

    /// How many publishers are known, and how many share the lanes.
    pub(crate) fn census(&self) -> (usize, usize) {
        (self.slots.len() - self.strangers, self.strangers)
    }

    /// Tells strangers from others anew.
    pub(crate) fn recount(&mut self, is_known: impl Fn(&PublicKey) -> bool) {
        self.strangers = 0;
        for (_, slot) in self.slots.iter_mut() {
            slot.stranger = !is_known(slot.key());
            self.strangers += usize::from(slot.stranger);
        }
    }

    /// This one is a stranger no more.
    pub(crate) fn acquaint(&mut self, publisher: &PublicKey) {
        let slot = self.slots.find(publisher).and_then(|place| self.slots.get_mut(place));
        if let Some(slot) = slot.filter(|slot| slot.stranger) {
            slot.stranger = false;
            self.strangers -= 1;
        }
    }

    /// Puts `news`, that was found to be later, in the place of what is there; says whether it
    /// has the same body.
    pub(crate) fn put(
        &mut self,
        now: Now,
        news: News,
        state: State,
        is_known: impl Fn(&PublicKey) -> bool,
    ) -> (Place, bool) {
        if let Some(place) = self.slots.find(&news.mark().publisher)
            && let Some(slot) = self.slot_mut(place)
        {
            return (place, slot.replace(now, news, state));
        }
        let stranger = !is_known(&news.mark().publisher);
        self.strangers += usize::from(stranger);
        let slot = Slot { news, since_ds: tenths(now), changes_s: 0, state, stranger };
        (self.slots.insert(slot), false)
    }

    /// Lets go of what no peer would take any more; says which places became free.
    pub(crate) fn sweep(&mut self, now: Now) -> Vec<Place> {
        let mut freed = Vec::new();
        for (place, slot) in self.slots.iter_mut() {
            if slot.news.item.ends_ms < now.wall_ms {
                slot.state = State::Over;
                slot.news.body = None;
            }
            if slot.is_forgotten(now) {
                freed.push(place);
            }
        }
        for slot in freed.iter().filter_map(|place| self.slots.remove(*place)) {
            self.strangers -= usize::from(slot.stranger);
        }
        freed
    }

    /// Over all that is settled.
    pub(crate) fn root(&self, now: Now, session: u64) -> Fingerprint {
        Fingerprint::of(session, self.settled(now))
    }

    /// The same for each bucket.
    pub(crate) fn buckets(&self, now: Now, session: u64) -> Vec<Fingerprint> {
        let mut buckets = vec![Fingerprint::default(); BUCKETS];
        for mark in self.settled(now) {
            buckets[mark.bucket() as usize].add(session, mark);
        }
        buckets
    }

    fn settled(&self, now: Now) -> impl Iterator<Item = &Mark> {
        self.slots().filter(move |(_, slot)| slot.is_settled(now)).map(|(_, slot)| slot.news.mark())
    }
}

fn tenths(now: Now) -> u32 {
    u32::try_from(now.mono_ms / 100).unwrap_or(u32::MAX)
}
