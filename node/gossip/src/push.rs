//! Telling neighbours: what is new by its mark, what ends something whole, and whatever
//! they pull.

use mercato_protocol::gossip::{Message, Publication, Pull};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::{ENVELOPE_BYTES, GOSSIP_BYTES, GOSSIP_ITEMS, PUSH_ITEMS};
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;
use rand::RngExt as _;

use crate::gossip::{Gossip, Turn};
use crate::item::{ITEM_BYTES, News, size};
use crate::limits;
use crate::pull::prefix;
use crate::shelf::Slot;
use crate::table::Place;

impl Gossip {
    /// The neighbours that do not hold it are to be told: of our own word, of what ends
    /// something, and while the neighbours have just changed, all at once; of the rest those
    /// at once that hear of it from us first, and a few of the others later, in one message.
    /// A renewal `on_its_way`, as the last went, goes at once to those alone that took the last
    /// from us, and to new neighbours.
    pub(crate) fn tell_others(&mut self, now: Now, place: Place, on_its_way: bool) {
        let Some(slot) = self.shelf.slot(place) else { return };
        let own = slot.news.mark().publisher == self.me;
        let unsettled = now.mono_ms < self.settled_ms;
        let hurry = slot.news.is_urgent() || !on_its_way && (own || unsettled);
        if self.later_ms <= now.mono_ms {
            self.later_ms = now.mono_ms + self.rng.random_range(limits::LATER_MS);
        }
        let (holders, takers) = (self.holders.peers(place), self.takers.peers(place));
        for (peer, neighbour) in self.neighbours.iter_mut() {
            if holders.has(peer) {
                continue;
            }
            let new = now.mono_ms < neighbour.settled_ms;
            let first = takers.has(peer) || !on_its_way && !neighbour.is_served();
            if hurry || new || first {
                neighbour.tell_ms = neighbour.tell_ms.min(neighbour.free_ms);
            } else if !neighbour.is_told_later {
                continue;
            } else if neighbour.untold.is_empty() {
                neighbour.tell_ms = self.later_ms;
            }
            neighbour.untold.push(place);
            self.tell_ms = self.tell_ms.min(neighbour.tell_ms);
        }
    }

    /// Tells whom it is time to tell. What ends something is hardly larger than its mark,
    /// and its publisher may be about to stop: it goes whole. So does what the neighbour takes.
    pub(crate) fn tell_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        if now.mono_ms < self.tell_ms {
            return;
        }
        self.tell_ms = u64::MAX;
        let due = self.neighbours.iter().map(|(_, neighbour)| neighbour);
        let due = due.filter(|neighbour| neighbour.tell_ms <= now.mono_ms);
        // Most are to be told the same.
        if let Some(longest) = due.max_by_key(|neighbour| neighbour.untold.len()) {
            self.read_ahead(longest.untold.iter().copied());
        }
        for (at, neighbour) in self.neighbours.iter_mut() {
            if neighbour.untold.is_empty() {
                continue;
            }
            if neighbour.tell_ms > now.mono_ms {
                self.tell_ms = self.tell_ms.min(neighbour.tell_ms);
                continue;
            }
            neighbour.free_ms = now.mono_ms + limits::ANNOUNCE_MS;
            neighbour.tell_ms = neighbour.free_ms;
            let peer = neighbour.key;
            let mut untold = std::mem::take(&mut neighbour.untold);
            untold.sort_unstable();
            untold.dedup();
            let lacks = |place: &Place| {
                self.shelf.slot(*place).is_some_and(Slot::is_held) && !self.holders.has(*place, at)
            };
            untold.retain(lacks);
            let (mut marks, mut whole) = (Vec::with_capacity(untold.len()), Batch::default());
            for (place, slot) in untold.iter().filter_map(|at| Some((*at, self.shelf.slot(*at)?))) {
                if slot.news.is_urgent() {
                    whole.add(turn, peer, &slot.news, None);
                } else if self.takers.has(place, at) {
                    whole.add(turn, peer, &slot.news, None);
                    if slot.news.mark().publisher != self.me {
                        neighbour.unpulled = 0;
                    }
                } else {
                    marks.push(*slot.news.mark());
                }
            }
            whole.send(turn, peer);
            neighbour.unpulled += marks.len();
            in_messages(marks, |marks| turn.send(peer, Message::Announce { marks }));
        }
    }

    pub(crate) fn on_pull(&mut self, turn: &mut Turn<'_>, from: Place, wants: &[Pull]) {
        let Some(neighbour) = self.neighbours.get_mut(from) else { return };
        if wants.iter().any(|want| want.publisher != self.me) {
            neighbour.unpulled = 0;
        }
        let peer = neighbour.key;
        let mut batch = Batch::default();
        let places = turn.keys.find_each(wants.iter().map(|want| &want.publisher));
        self.read_ahead(places.iter().flatten().copied());
        for (want, at) in wants.iter().zip(places) {
            let held = at.and_then(|at| Some((at, self.shelf.slot(at)?)));
            let Some((place, slot)) = held.filter(|(_, slot)| slot.is_held()) else { continue };
            let news = &slot.news;
            if news.body.is_some() {
                self.takers.set(place, from);
            }
            let body = news.body.as_ref();
            let body = body.filter(|body| want.held != Some(prefix(body.digest())));
            batch.add(turn, peer, news, body.map(|body| body.bytes()));
        }
        batch.send(turn, peer);
    }
}

/// As many as go into one message at a time.
pub(crate) fn in_messages<T>(mut items: Vec<T>, mut send: impl FnMut(Vec<T>)) {
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(GOSSIP_ITEMS));
        send(std::mem::replace(&mut items, rest));
    }
}

/// A push that is being filled.
#[derive(Default)]
struct Batch {
    publications: Vec<Publication>,
    bodies: Vec<Blob>,
    bytes: usize,
}

impl Batch {
    /// Adds one, sending first what it would not fit with.
    fn add(&mut self, turn: &mut Turn<'_>, peer: PublicKey, news: &News, body: Option<&Blob>) {
        let publication = news.publication().publication();
        let size = size(&publication) + body.map_or(0, |body| body.0.len() + ITEM_BYTES);
        if self.publications.len() == PUSH_ITEMS || self.bytes + size > ROOM_BYTES {
            self.send(turn, peer);
        }
        self.bytes += size;
        self.publications.push(publication);
        self.bodies.extend(body.cloned());
    }

    fn send(&mut self, turn: &mut Turn<'_>, peer: PublicKey) {
        let Self { publications, bodies, .. } = std::mem::take(self);
        if !publications.is_empty() {
            turn.send(peer, Message::Push { publications, bodies });
        }
    }
}

/// What one message has for its items.
const ROOM_BYTES: usize = GOSSIP_BYTES - ENVELOPE_BYTES;
