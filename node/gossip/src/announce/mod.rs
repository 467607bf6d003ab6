//! Telling neighbours what is new: by its mark (IHAVE, lazy push), or whole (eager push) if it
//! ends something, or renews what the neighbour had from us. What they ask for (IWANT) is sent.

mod batch;

use mercato_protocol::gossip::{Message, Pull};
use mercato_protocol::time::Now;
use rand::RngExt as _;

use crate::index::{NeighbourIndex, PublisherIndex};
use crate::limits;
use crate::peers::Peers;
use crate::step::Step;
use crate::store::{Entry, Store};
use crate::table::Column;

use batch::Batch;

/// What each neighbour is yet to be told, and when.
#[derive(Debug)]
pub(crate) struct Announcer {
    backlogs: Column<NeighbourIndex, Backlog>,
    /// Nobody is told anything before, monotonic.
    next_ms: u64,
    /// Until then nobody counts as served: what is known of that is of before the last neighbour
    /// came. Monotonic.
    settled_ms: u64,
    /// When those are told next that others tell sooner, monotonic.
    later_ms: u64,
}

/// What one neighbour is yet to be told.
#[derive(Debug)]
struct Backlog {
    untold: Vec<PublisherIndex>,
    /// Marks that it was told since it last took from us what is not our own.
    unpulled: usize,
    /// Whether it is told what others tell it sooner, in case they do not.
    is_told_later: bool,
    /// Until then it is told everything at once, monotonic.
    settled_ms: u64,
    /// When it is told next, where there is something to tell.
    due_ms: u64,
    /// When it may be told next, monotonic.
    free_ms: u64,
}

/// Neighbours by how they are told.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    all: Peers,
    /// Those that have just come.
    new: Peers,
    /// Those that mostly hear of things from us first.
    first: Peers,
    /// Those that are told later, even if others tell them sooner.
    later: Peers,
    /// Whether a neighbour has just come.
    is_unsettled: bool,
}

impl Default for Announcer {
    fn default() -> Self {
        Self { backlogs: Column::default(), next_ms: u64::MAX, settled_ms: 0, later_ms: 0 }
    }
}

impl Announcer {
    /// A new neighbour is told at once of all that has not had time to come everywhere.
    pub(crate) fn join(&mut self, now: Now, store: &Store, peer: NeighbourIndex) {
        let young = store.held().filter(|(_, entry)| !entry.is_settled(now));
        let untold = young.map(|(publisher, _)| publisher).collect();
        let settled_ms = now.mono_ms + limits::UNSETTLED_MS;
        let backlog =
            Backlog { untold, unpulled: 0, is_told_later: true, settled_ms, due_ms: 0, free_ms: 0 };
        self.backlogs.set(peer, backlog);
        (self.next_ms, self.settled_ms) = (0, settled_ms);
    }

    pub(crate) fn leave(&mut self, peer: NeighbourIndex) {
        self.backlogs.take(peer);
    }

    /// When [`send_due`](Self::send_due) is next needed; never is `u64::MAX`.
    pub(crate) fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Draws anew which neighbours are told what others tell them sooner.
    pub(crate) fn draw(&mut self, step: &mut Step<'_>) {
        let count = step.neighbours.keys.len() as u32;
        for (_, backlog) in self.backlogs.iter_mut() {
            backlog.is_told_later = step.rng.random_ratio(limits::TOLD_LATER.min(count), count);
        }
    }

    /// Who is to be told of what, as things stand now.
    pub(crate) fn audience(&mut self, step: &mut Step<'_>) -> Audience {
        let now_ms = step.now.mono_ms;
        if self.later_ms <= now_ms {
            self.later_ms = now_ms + step.rng.random_range(limits::LATER_MS);
        }
        let is_unsettled = now_ms < self.settled_ms;
        let mut audience = Audience { is_unsettled, ..Audience::default() };
        for (peer, backlog) in self.backlogs.iter() {
            audience.all.insert(peer);
            if now_ms < backlog.settled_ms {
                audience.new.insert(peer);
            }
            if backlog.unpulled < limits::UNPULLED {
                audience.first.insert(peer);
            }
            if backlog.is_told_later {
                audience.later.insert(peer);
            }
        }
        audience
    }

    /// Neighbours that do not hold it are to be told: of our own publication, of what ends
    /// something, and while neighbours have just changed, all at once; of the rest those at once
    /// that hear of it from us first, and a few of the others later, in one message. A renewal
    /// that is on its way, as the last went, goes at once only to those that had the last from
    /// us, and to new neighbours.
    pub(crate) fn announce(
        &mut self,
        step: &Step<'_>,
        store: &Store,
        audience: &Audience,
        publisher: PublisherIndex,
        is_on_its_way: bool,
    ) {
        let Some(entry) = store.entry(publisher) else { return };
        let lacking = audience.all.without(store.holders.peers(publisher));
        let is_own = entry.news.mark().publisher == step.neighbours.me;
        let to_all = !is_on_its_way && (is_own || audience.is_unsettled);
        let at_once = if to_all || entry.news.is_urgent() {
            lacking
        } else {
            let first = if is_on_its_way { Peers::default() } else { audience.first };
            let takers = store.delivered_to.peers(publisher);
            lacking.within(audience.new.with(first).with(takers))
        };
        let later = lacking.without(at_once).within(audience.later);
        for peer in at_once.with(later).iter() {
            let Some(backlog) = self.backlogs.get_mut(peer) else { continue };
            if at_once.has(peer) {
                backlog.due_ms = backlog.due_ms.min(backlog.free_ms);
            } else if backlog.untold.is_empty() {
                backlog.due_ms = self.later_ms;
            }
            backlog.untold.push(publisher);
            self.next_ms = self.next_ms.min(backlog.due_ms);
        }
    }

    /// A reconciliation has shown that `peer` lacks these: nobody told it in time.
    pub(crate) fn catch_up(
        &mut self,
        peer: NeighbourIndex,
        lacking: impl Iterator<Item = PublisherIndex>,
    ) {
        let Some(backlog) = self.backlogs.get_mut(peer) else { return };
        let before = backlog.untold.len();
        backlog.untold.extend(lacking);
        if backlog.untold.len() > before {
            backlog.unpulled = 0;
        }
        self.next_ms = self.next_ms.min(backlog.due_ms);
    }

    /// Tells whom it is time to tell. What ends something is hardly larger than its mark,
    /// and its publisher may be about to stop: it goes whole. So do renewals of what the
    /// neighbour had from us.
    pub(crate) fn send_due(&mut self, step: &mut Step<'_>, store: &Store) {
        let now_ms = step.now.mono_ms;
        if now_ms < self.next_ms {
            return;
        }
        self.next_ms = u64::MAX;
        let due = self.backlogs.iter().filter(|(_, backlog)| backlog.due_ms <= now_ms);
        // Most are to be told the same.
        if let Some((_, longest)) = due.max_by_key(|(_, backlog)| backlog.untold.len()) {
            store.prefetch(longest.untold.iter().copied());
        }
        for (peer, backlog) in self.backlogs.iter_mut() {
            if backlog.untold.is_empty() {
                continue;
            }
            if backlog.due_ms > now_ms {
                self.next_ms = self.next_ms.min(backlog.due_ms);
                continue;
            }
            backlog.free_ms = now_ms + limits::ANNOUNCE_MS;
            backlog.due_ms = backlog.free_ms;
            backlog.send(step, store, peer);
        }
    }

    /// Sends what `peer` asks for, of what is held.
    pub(crate) fn on_pull(
        &mut self,
        step: &mut Step<'_>,
        store: &mut Store,
        peer: NeighbourIndex,
        wants: &[Pull],
    ) {
        let Some(backlog) = self.backlogs.get_mut(peer) else { return };
        if wants.iter().any(|want| want.publisher != step.neighbours.me) {
            backlog.unpulled = 0;
        }
        let mut batch = Batch::with_capacity(wants.len());
        let publishers = step.keys.find_each(wants.iter().map(|want| &want.publisher));
        store.prefetch(publishers.iter().flatten().copied());
        for (want, at) in wants.iter().zip(publishers) {
            let held = at.and_then(|at| Some((at, store.entry(at)?)));
            let Some((at, entry)) = held.filter(|(_, entry)| entry.is_held()) else { continue };
            let body = entry.news.0.body();
            let sent = body.filter(|body| want.held != Some(body.prefix()));
            batch.add(step, peer, &entry.news, sent.map(|body| body.bytes()));
            if body.is_some() {
                store.delivered_to.set(at, peer);
            }
        }
        batch.send(step, peer);
    }
}

impl Backlog {
    /// Tells the neighbour all of it.
    fn send(&mut self, step: &mut Step<'_>, store: &Store, peer: NeighbourIndex) {
        let mut untold = std::mem::take(&mut self.untold);
        untold.sort_unstable();
        untold.dedup();
        let is_held = |at: PublisherIndex| store.entry(at).is_some_and(Entry::is_held);
        untold.retain(|at| is_held(*at) && !store.holders.has(*at, peer));
        let (mut marks, mut whole) = (Vec::with_capacity(untold.len()), Batch::default());
        for (at, entry) in untold.iter().filter_map(|at| Some((*at, store.entry(*at)?))) {
            let news = &entry.news;
            if news.is_urgent() {
                whole.add(step, peer, news, None);
            } else if store.delivered_to.has(at, peer) {
                whole.add(step, peer, news, None);
                if news.mark().publisher != step.neighbours.me {
                    self.unpulled = 0;
                }
            } else {
                marks.push(*news.mark());
            }
        }
        untold.clear();
        untold.shrink_to(limits::UNTOLD_ROOM);
        self.untold = untold;
        whole.send(step, peer);
        self.unpulled += marks.len();
        step.send_list(peer, marks, |marks| Message::Announce { marks });
    }
}
