//! The latest of each publisher, found by publisher. Places are small numbers, so that a
//! neighbour's knowledge is one bit for each; a slot is 24 bytes besides what is shared.

use hashbrown::HashTable;
use mercato_protocol::gossip::{Fingerprint, Mark};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::{AD_TTL_S, BUCKETS, CLOCK_SKEW_MS};
use mercato_protocol::time::Now;

use crate::item::News;
use crate::limits;

/// Where a publisher is on the shelf.
pub(crate) type Place = u32;

/// What is known of one publisher.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its latest publication. It stays after its time, or after it was refused, without
    /// its body: what is older could come back.
    pub(crate) news: News,
    /// When it came, monotonic, in tenths of a second.
    since_ds: u32,
    /// Whether it is accepted.
    pub(crate) state: State,
    /// Whether it replaced another body.
    changed: bool,
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

impl Slot {
    pub(crate) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    pub(crate) fn since_ms(&self) -> u64 {
        u64::from(self.since_ds) * 100
    }

    /// When the publisher's next publication is taken.
    pub(crate) fn rested_ms(&self) -> u64 {
        let distance_ms =
            if self.changed { limits::BODY_DISTANCE_MS } else { limits::LEASE_DISTANCE_MS };
        self.since_ms() + distance_ms
    }

    fn is_settled(&self, now: Now) -> bool {
        self.is_held() && self.since_ms() + limits::SETTLED_MS <= now.mono_ms
    }

    /// From then on nobody takes anything of this publisher's that came before.
    fn is_forgotten(&self, now: Now) -> bool {
        let longest_ms = u64::from(AD_TTL_S) * 1_000 + 2 * CLOCK_SKEW_MS;
        self.state == State::Over && self.since_ms() + longest_ms < now.mono_ms
    }
}

#[derive(Debug)]
pub(crate) struct Shelf {
    /// Keeps whoever chooses keys from choosing where they fall.
    seed: u64,
    places: HashTable<Place>,
    slots: Vec<Option<Slot>>,
    free: Vec<Place>,
    strangers: usize,
}

impl Shelf {
    pub(crate) fn new(seed: u64) -> Self {
        let (places, slots, free) = (HashTable::new(), Vec::new(), Vec::new());
        Self { seed, places, slots, free, strangers: 0 }
    }

    pub(crate) fn find(&self, publisher: &PublicKey) -> Option<Place> {
        let is_there = |place: &Place| {
            self.slot(*place).is_some_and(|slot| slot.news.mark().publisher == *publisher)
        };
        self.places.find(hash(self.seed, publisher), is_there).copied()
    }

    pub(crate) fn slot(&self, place: Place) -> Option<&Slot> {
        self.slots.get(place as usize)?.as_ref()
    }

    pub(crate) fn slot_mut(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn of(&self, publisher: &PublicKey) -> Option<&Slot> {
        self.slot(self.find(publisher)?)
    }

    /// Every slot with its place.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Place, &Slot)> {
        (0..).zip(&self.slots).filter_map(|(place, slot)| Some((place, slot.as_ref()?)))
    }

    /// How many publishers are known, and how many share the lanes.
    pub(crate) fn census(&self) -> (usize, usize) {
        (self.places.len() - self.strangers, self.strangers)
    }

    /// Tells strangers from others anew.
    pub(crate) fn recount(&mut self, is_known: impl Fn(&PublicKey) -> bool) {
        self.strangers = 0;
        for slot in self.slots.iter_mut().flatten() {
            slot.stranger = !is_known(&slot.news.mark().publisher);
            self.strangers += usize::from(slot.stranger);
        }
    }

    /// Puts `news`, that was found to be later, in the place of what is there.
    pub(crate) fn put(&mut self, now: Now, news: News, state: State, stranger: bool) -> Place {
        let publisher = news.mark().publisher;
        let since_ds = u32::try_from(now.mono_ms / 100).unwrap_or(u32::MAX);
        if let Some(place) = self.find(&publisher)
            && let Some(slot) = self.slot_mut(place)
        {
            let body = |news: &News| news.body.as_ref().map(|body| *body.digest());
            slot.changed =
                slot.news.body.is_some() && news.body.is_some() && body(&slot.news) != body(&news);
            (slot.news, slot.since_ds, slot.state) = (news, since_ds, state);
            return place;
        }
        let slot = Slot { news, since_ds, state, changed: false, stranger };
        self.strangers += usize::from(stranger);
        let place = self.free.pop().unwrap_or_else(|| {
            if self.slots.len() == self.slots.capacity() {
                self.slots.reserve_exact(self.slots.len() / 16 + 16);
            }
            self.slots.push(None);
            Place::try_from(self.slots.len() - 1).expect("fewer publishers than 2^32")
        });
        self.slots[place as usize] = Some(slot);
        let (seed, slots) = (self.seed, &self.slots);
        let hash_of = |place: &Place| {
            slots[*place as usize]
                .as_ref()
                .map_or(0, |slot| hash(seed, &slot.news.mark().publisher))
        };
        self.places.insert_unique(hash(seed, &publisher), place, hash_of);
        place
    }

    /// Lets go of what no peer would take any more; says which places became free.
    pub(crate) fn sweep(&mut self, now: Now) -> Vec<Place> {
        let mut freed = Vec::new();
        for (place, entry) in (0..).zip(&mut self.slots) {
            let Some(slot) = entry else { continue };
            if slot.news.item.ends_ms() < now.wall_ms {
                slot.state = State::Over;
                slot.news.body = None;
            }
            if slot.is_forgotten(now) {
                let publisher = slot.news.mark().publisher;
                self.strangers -= usize::from(slot.stranger);
                if let Ok(found) =
                    self.places.find_entry(hash(self.seed, &publisher), |other| *other == place)
                {
                    found.remove();
                }
                *entry = None;
                freed.push(place);
            }
        }
        self.free.extend(&freed);
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

/// Keys are points of a curve, evenly spread; the seed makes the place unforeseeable.
fn hash(seed: u64, publisher: &PublicKey) -> u64 {
    let head = publisher.0.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
    let mixed = (head ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}
