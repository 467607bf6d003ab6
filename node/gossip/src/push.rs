//! Telling neighbours: what is new by its mark, what ends something whole, and whatever
//! they pull.

use mercato_protocol::gossip::{Message, Publication, Pull};
use mercato_protocol::id::PublicKey;
use mercato_protocol::limits::{ENVELOPE_BYTES, GOSSIP_BYTES, GOSSIP_ITEMS, PUSH_ITEMS};
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;
use rand::RngExt as _;

use crate::gossip::{Gossip, Step};
use crate::item::{ITEM_BYTES, News, size};
use crate::limits;
use crate::neighbour::Neighbour;
use crate::peers::Peers;
use crate::pull::prefix;
use crate::store::Entry;
use crate::table::Place;

impl Gossip {
    /// Who is to be told of what, as things stand now.
    pub(crate) fn audience(&mut self, now: Now) -> Audience {
        if self.later_ms <= now.mono_ms {
            self.later_ms = now.mono_ms + self.rng.random_range(limits::LATER_MS);
        }
        let those = |is: &dyn Fn(&Neighbour) -> bool| {
            let all = self.neighbours.iter();
            all.filter(|(_, neighbour)| is(neighbour)).map(|(peer, _)| peer).collect()
        };
        Audience {
            all: those(&|_| true),
            new: those(&|neighbour| now.mono_ms < neighbour.settled_ms),
            first: those(&|neighbour| !neighbour.is_served()),
            later: those(&|neighbour| neighbour.is_told_later),
            unsettled: now.mono_ms < self.settled_ms,
        }
    }

    /// The neighbours that do not hold it are to be told: of our own word, of what ends
    /// something, and while the neighbours have just changed, all at once; of the rest those
    /// at once that hear of it from us first, and a few of the others later, in one message.
    /// A renewal `on_its_way`, as the last went, goes at once to those alone that took the last
    /// from us, and to new neighbours.
    pub(crate) fn tell_others(&mut self, to: &Audience, place: Place, on_its_way: bool) {
        let Some(slot) = self.store.slot(place) else { return };
        let lack = to.all.without(self.holders.peers(place));
        let own = slot.news.mark().publisher == self.me;
        let at_once = if slot.news.is_urgent() || !on_its_way && (own || to.unsettled) {
            lack
        } else {
            let first = if on_its_way { Peers::default() } else { to.first };
            lack.within(to.new.with(first).with(self.delivered_to.peers(place)))
        };
        let later = lack.without(at_once).within(to.later);
        for peer in at_once.with(later).iter() {
            let Some(neighbour) = self.neighbours.get_mut(peer) else { continue };
            if at_once.has(peer) {
                neighbour.tell_ms = neighbour.tell_ms.min(neighbour.free_ms);
            } else if neighbour.untold.is_empty() {
                neighbour.tell_ms = self.later_ms;
            }
            neighbour.untold.push(place);
            self.tell_ms = self.tell_ms.min(neighbour.tell_ms);
        }
    }

    /// Tells whom it is time to tell. What ends something is hardly larger than its mark,
    /// and its publisher may be about to stop: it goes whole. So does what the neighbour takes.
    pub(crate) fn tell_due(&mut self, step: &mut Step<'_>) {
        let now = step.now;
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
                self.store.slot(*place).is_some_and(Entry::is_held) && !self.holders.has(*place, at)
            };
            untold.retain(lacks);
            let (mut marks, mut whole) = (Vec::with_capacity(untold.len()), Batch::default());
            for (place, slot) in untold.iter().filter_map(|at| Some((*at, self.store.slot(*at)?))) {
                if slot.news.is_urgent() {
                    whole.add(step, peer, &slot.news, None);
                } else if self.delivered_to.has(place, at) {
                    whole.add(step, peer, &slot.news, None);
                    if slot.news.mark().publisher != self.me {
                        neighbour.unpulled = 0;
                    }
                } else {
                    marks.push(*slot.news.mark());
                }
            }
            untold.clear();
            untold.shrink_to(limits::UNTOLD_ROOM);
            neighbour.untold = untold;
            whole.send(step, peer);
            neighbour.unpulled += marks.len();
            in_messages(marks, |marks| step.send(peer, Message::Announce { marks }));
        }
    }

    pub(crate) fn on_pull(&mut self, step: &mut Step<'_>, from: Place, wants: &[Pull]) {
        let Some(neighbour) = self.neighbours.get_mut(from) else { return };
        if wants.iter().any(|want| want.publisher != self.me) {
            neighbour.unpulled = 0;
        }
        let peer = neighbour.key;
        let mut batch = Batch::with_capacity(wants.len());
        let places = step.keys.find_each(wants.iter().map(|want| &want.publisher));
        self.read_ahead(places.iter().flatten().copied());
        for (want, at) in wants.iter().zip(places) {
            let held = at.and_then(|at| Some((at, self.store.slot(at)?)));
            let Some((place, slot)) = held.filter(|(_, slot)| slot.is_held()) else { continue };
            let news = &slot.news;
            let body = news.0.body();
            if body.is_some() {
                self.delivered_to.set(place, from);
            }
            let body = body.filter(|body| want.held != Some(prefix(body.digest())));
            batch.add(step, peer, news, body.map(|body| body.bytes()));
        }
        batch.send(step, peer);
    }
}

/// Neighbours by how they are told.
#[derive(Debug)]
pub(crate) struct Audience {
    all: Peers,
    /// Have just come.
    new: Peers,
    /// Hear of things from us first, mostly.
    first: Peers,
    /// Hear them from others sooner, but are told later all the same.
    later: Peers,
    /// Whether there is one that has just come.
    unsettled: bool,
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
    fn with_capacity(count: usize) -> Self {
        let count = count.min(PUSH_ITEMS);
        let (publications, bodies) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Self { publications, bodies, bytes: 0 }
    }

    /// Adds one, sending first what it would not fit with.
    fn add(&mut self, step: &mut Step<'_>, peer: PublicKey, news: &News, body: Option<&Blob>) {
        let publication = news.publication().publication();
        let size = size(&publication) + body.map_or(0, |body| body.0.len() + ITEM_BYTES);
        if self.publications.len() == PUSH_ITEMS || self.bytes + size > ROOM_BYTES {
            self.send(step, peer);
        }
        self.bytes += size;
        self.publications.push(publication);
        self.bodies.extend(body.cloned());
    }

    fn send(&mut self, step: &mut Step<'_>, peer: PublicKey) {
        let Self { publications, bodies, .. } = std::mem::take(self);
        if !publications.is_empty() {
            step.send(peer, Message::Push { publications, bodies });
        }
    }
}

/// What one message has for its items.
const ROOM_BYTES: usize = GOSSIP_BYTES - ENVELOPE_BYTES;
