//! The latest of each publisher, in a slot at its number. A slot is 16 bytes besides what is
//! shared, and a neighbour's knowledge of it two bits.

use mercato_protocol::gossip::{Fingerprint, Mark, VerifiedPublication};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::{AD_TTL_S, BUCKETS, CLOCK_SKEW_MS};
use mercato_protocol::time::Now;

use crate::gossip::Step;
use crate::interner::Keys;
use crate::item::News;
use crate::limits;
use crate::table::Place;

/// What is known of one publisher.
#[derive(Debug)]
pub(crate) struct Entry {
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

/// How far what is in the store has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not judged yet.
    New,
    /// Told to whoever asks.
    Held,
    /// Over, or refused: only its number counts.
    Over,
}

impl Entry {
    /// Not judged yet.
    pub(crate) fn is_new(&self) -> bool {
        self.state == State::New
    }

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
        self.is_held() && self.news.0.starts_ms <= before_ms
    }

    /// From then on nobody takes anything of this publisher's that came before.
    fn is_forgotten(&self, now: Now) -> bool {
        let longest_ms = u64::from(AD_TTL_S) * 1_000 + 2 * CLOCK_SKEW_MS;
        self.state == State::Over && self.since_ms() + longest_ms < now.mono_ms
    }

    /// A revocation list that was refused since nobody knew its signer for an issuer: once that
    /// one is known it counts.
    fn may_count_now(&self) -> bool {
        let is_list = matches!(self.news.publication(), VerifiedPublication::Revocations(..));
        is_list && self.state == State::Over
    }

    /// Takes what was found to be later; says whether its body is the same.
    fn replace(&mut self, now: Now, news: News, state: State) -> bool {
        const CHANGE_S: u16 = (limits::BODY_DISTANCE_MS / 1_000) as u16;
        let since_ds = tenths(now);
        let rested_s = since_ds.saturating_sub(self.since_ds) / 10;
        self.changes_s = self.changes_s.saturating_sub(rested_s.try_into().unwrap_or(u16::MAX));
        let bodies = (self.news.0.body(), news.0.body());
        let renews = matches!(bodies, (Some(old), Some(new)) if old.digest() == new.digest());
        if !renews && bodies.0.is_some() && bodies.1.is_some() {
            self.changes_s = self.changes_s.saturating_add(CHANGE_S);
        }
        (self.news, self.since_ds, self.state) = (news, since_ds, state);
        renews
    }
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// By number.
    slots: Vec<Option<Entry>>,
    /// How many there are.
    full: usize,
    strangers: usize,
}

impl Store {
    /// See [`Gossip::read_ahead`](crate::gossip::Gossip::read_ahead).
    pub(crate) fn peek(&self, place: Place) -> usize {
        self.slots.get(place as usize).map_or(0, |slot| usize::from(slot.is_some()))
    }

    pub(crate) fn slot(&self, place: Place) -> Option<&Entry> {
        self.slots.get(place as usize)?.as_ref()
    }

    pub(crate) fn slot_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.slots.get_mut(place as usize)?.as_mut()
    }

    /// For how many there is room.
    pub(crate) fn room(&self) -> usize {
        self.slots.capacity()
    }

    /// Every slot with its place.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Place, &Entry)> {
        (0..).zip(&self.slots).filter_map(|(place, slot)| Some((place, slot.as_ref()?)))
    }

    /// How many publishers are known: the others share the lanes.
    pub(crate) fn known(&self) -> usize {
        self.full - self.strangers
    }

    /// Tells strangers from others anew; says what is to be heard again since it is one's who is
    /// no stranger any more.
    pub(crate) fn recount(&mut self, is_known: impl Fn(&PublicKey, Place) -> bool) -> Vec<Place> {
        self.strangers = 0;
        let mut again = Vec::new();
        for (place, slot) in (0..).zip(&mut self.slots) {
            let Some(slot) = slot else { continue };
            let was = slot.stranger;
            slot.stranger = !is_known(&slot.news.mark().publisher, place);
            self.strangers += usize::from(slot.stranger);
            if was && !slot.stranger && slot.may_count_now() {
                again.push(place);
            }
        }
        again
    }

    /// This one is a stranger no more; says whether its word is to be heard again.
    pub(crate) fn acquaint(&mut self, place: Place) -> bool {
        let slot = self.slots.get_mut(place as usize).and_then(Option::as_mut);
        let Some(slot) = slot.filter(|slot| slot.stranger) else { return false };
        slot.stranger = false;
        self.strangers -= 1;
        slot.may_count_now()
    }

    /// Which strangers leave for so many more, if there are too many.
    pub(crate) fn crowded(&self, more: usize) -> Vec<Place> {
        let over = (self.strangers + more).saturating_sub(limits::UNKNOWN_PUBLISHERS);
        if over == 0 {
            return Vec::new();
        }
        let may_leave = self.slots().filter(|(_, slot)| slot.stranger && !slot.is_new());
        let age = |(place, slot): (Place, &Entry)| (slot.is_held(), slot.since_ds, place);
        let mut ages: Vec<(bool, u32, Place)> = may_leave.map(age).collect();
        let count = over.max(limits::UNKNOWN_LEAVE).min(ages.len());
        if count < ages.len() {
            ages.select_nth_unstable(count);
        }
        ages.iter().take(count).map(|(.., place)| *place).collect()
    }

    /// Puts `news`, that was found to be later, in the place of what is at its publisher's
    /// number, if it has one; says where that is and whether it has the same body.
    pub(crate) fn put(
        &mut self,
        step: &mut Step<'_>,
        news: News,
        state: State,
        at: Option<Place>,
        stranger: bool,
    ) -> (Place, bool) {
        let now = step.now;
        if let Some(place) = at
            && let Some(slot) = self.slot_mut(place)
        {
            return (place, slot.replace(now, news, state));
        }
        let slot = Entry { news, since_ds: tenths(now), changes_s: 0, state, stranger };
        (self.insert(&mut step.keys, slot, at), false)
    }

    fn insert(&mut self, keys: &mut Keys, slot: Entry, at: Option<Place>) -> Place {
        let place = keys.hold(slot.news.mark().publisher, at);
        let at = place as usize;
        if self.slots.len() <= at {
            // There may be as many as there are numbers.
            let room = if keys.len() > at + at / 8 { keys.len() } else { at + at / 8 + 64 };
            if self.slots.capacity() <= at {
                self.slots.reserve_exact(room - self.slots.len());
            }
            self.slots.resize_with(at + 1, || None);
        }
        self.full += 1;
        self.strangers += usize::from(slot.stranger);
        self.slots[at] = Some(slot);
        place
    }

    /// Forgets what is there.
    pub(crate) fn remove(&mut self, keys: &mut Keys, place: Place) {
        let slot = self.slots.get_mut(place as usize).and_then(Option::take);
        if let Some(slot) = slot {
            self.full -= 1;
            self.strangers -= usize::from(slot.stranger);
            keys.release(place);
        }
    }

    /// Lets go of what no peer would take any more; says which places became free.
    pub(crate) fn sweep(&mut self, keys: &mut Keys, now: Now) -> Vec<Place> {
        let mut freed = Vec::new();
        for (place, slot) in (0..).zip(&mut self.slots) {
            let Some(slot) = slot else { continue };
            if slot.news.0.ends_ms < now.wall_ms {
                slot.state = State::Over;
                slot.news.strip();
            }
            if slot.is_forgotten(now) {
                freed.push(place);
            }
        }
        freed.iter().for_each(|place| self.remove(keys, *place));
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
