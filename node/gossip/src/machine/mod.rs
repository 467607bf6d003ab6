//! How the parts work together: what each input means for the store, the fetches, the
//! announcements, the reconciliations and the penalties.

mod push;

use std::collections::BTreeMap;

use mercato_protocol::gossip::{Mark, Message, Pull};
use mercato_protocol::id::PublicKey;

use crate::announce::Announcer;
use crate::fetch::Fetches;
use crate::index::{NeighbourIndex, PublisherIndex};
use crate::input::{Input, Verdict};
use crate::item::News;
use crate::limits;
use crate::opened::Opened;
use crate::penalties::Penalties;
use crate::reconcile::{self, Reconciler};
use crate::step::Step;
use crate::store::{Relation, State, Store};

/// The parts of gossip, each with its own state.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) store: Store,
    pub(crate) fetches: Fetches,
    pub(crate) announcer: Announcer,
    pub(crate) reconciler: Reconciler,
    pub(crate) penalties: Penalties,
}

impl Machine {
    /// Takes in what happened, then does what is due.
    pub(crate) fn handle(&mut self, step: &mut Step<'_>, input: Input) {
        match input {
            Input::Connected(key) => self.on_connected(step, key),
            Input::Disconnected(key) => {
                if let Some(peer) = step.neighbours.keys.find(&key) {
                    self.leave(step, peer);
                }
            }
            Input::Received { peer, message } => {
                // It may be the last message of one that has gone.
                if let Some(peer) = step.neighbours.keys.find(&peer) {
                    self.on_message(step, peer, message);
                }
            }
            Input::Publish(news) => self.publish(step, news),
            Input::Judged(verdicts) => self.on_judged(step, &verdicts),
            Input::Known(publishers) => self.store.name(step, publishers.iter()),
            Input::AlsoKnown(publisher) => self.store.name_also(step, publisher),
            Input::Tick => {}
        }
        self.ask_due(step);
        self.reconcile_due(step);
        self.announcer.send_due(step, &self.store);
    }

    fn on_connected(&mut self, step: &mut Step<'_>, key: PublicKey) {
        let count = step.neighbours.keys.len();
        if self.penalties.is_banned(step.now, &key) || count == limits::NEIGHBOURS {
            return;
        }
        if count == 0 {
            self.reconciler.begin(step);
        }
        let peer = step.neighbours.keys.insert(key);
        self.penalties.join(peer);
        self.fetches.join(peer);
        self.announcer.join(step.now, &self.store, peer);
        self.store.recount(step);
        self.reconciler.join(step, &self.store, peer);
    }

    /// `peer` is no neighbour any more.
    fn leave(&mut self, step: &mut Step<'_>, peer: NeighbourIndex) {
        if step.neighbours.keys.remove(peer).is_some() {
            self.penalties.leave(peer);
            self.fetches.leave(step.now, peer);
            self.announcer.leave(peer);
            self.reconciler.leave(step.now, peer);
            self.store.leave(step, peer);
        }
    }

    /// Counts this against a neighbour, which leaves once that is too much.
    fn penalize(&mut self, step: &mut Step<'_>, peer: NeighbourIndex, points: u64) {
        if self.penalties.penalize(step, peer, points) {
            self.leave(step, peer);
        }
    }

    fn on_message(&mut self, step: &mut Step<'_>, peer: NeighbourIndex, opened: Opened) {
        let Self { store, announcer, reconciler, .. } = self;
        let forged = opened.forged() as u64;
        match opened.message {
            Message::Announce { marks } => self.on_announced(step, peer, &marks),
            Message::Pull { wants } => announcer.on_pull(step, store, peer, &wants),
            Message::Push { .. } => {
                self.penalize(step, peer, forged * limits::FORGED_POINTS);
                self.on_push(step, peer, opened.carried, opened.unopened);
            }
            Message::Root { session, root } => reconciler.on_root(step, store, peer, session, root),
            Message::Buckets { session, fingerprints } => {
                reconciler.on_buckets(step, store, peer, session, &fingerprints);
            }
            Message::Ids { session, buckets, marks } => {
                if reconciler.is_answered(peer, session) {
                    self.on_ids(step, peer, &buckets, &marks);
                }
            }
        }
    }

    /// `peer` holds these. Those that we hold, too, it has of somebody else.
    fn on_announced(&mut self, step: &mut Step<'_>, peer: NeighbourIndex, marks: &[Mark]) {
        let publishers = step.keys.find_each(marks.iter().map(|mark| &mark.publisher));
        self.prefetch(publishers.iter().flatten().copied());
        for (mark, at) in marks.iter().zip(publishers) {
            let here = self.fetches.on_advertised(step, &mut self.store, peer, mark, at);
            if let Some(publisher) = here {
                self.store.delivered_to.clear(publisher, peer);
            }
        }
    }

    /// These marks are all that `peer` holds in these buckets, whatever it said before.
    fn on_ids(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        buckets: &[u32],
        marks: &[Mark],
    ) {
        let ours = self.store.in_buckets(buckets);
        ours.iter().for_each(|(publisher, _)| self.store.holders.clear(*publisher, peer));
        let publishers = step.keys.find_each(marks.iter().map(|mark| &mark.publisher));
        for (mark, at) in marks.iter().zip(publishers) {
            self.fetches.on_advertised(step, &mut self.store, peer, mark, at);
        }
        self.announcer.catch_up(peer, reconcile::lacking(&ours, marks));
    }

    /// What this cluster publishes itself needs no verdict.
    fn publish(&mut self, step: &mut Step<'_>, news: News) {
        let at = step.keys.find(&news.mark().publisher);
        let held = at.and_then(|at| self.store.entry(at)).map(|entry| entry.news.mark());
        if held.is_none_or(|held| news.mark().supersedes(held)) {
            let publisher = self.store.put(step, news, State::Held, at);
            let renews = self.store.delivered_to.any(publisher);
            let audience = self.announcer.audience(step);
            self.announcer.announce(step, &self.store, &audience, publisher, renews);
        }
    }

    /// What was accepted is announced.
    fn on_judged(&mut self, step: &mut Step<'_>, verdicts: &[(Mark, Verdict)]) {
        let audience = self.announcer.audience(step);
        for (mark, verdict) in verdicts {
            let Some(judged) = self.store.judge(&step.keys, mark, *verdict) else { continue };
            let (publisher, is_unasked) = (judged.publisher, judged.is_unasked);
            match (verdict, judged.peer) {
                (Verdict::Accept, _) => {
                    self.announcer.announce(step, &self.store, &audience, publisher, is_unasked);
                }
                (Verdict::Reject, Some(peer)) => {
                    self.penalize(step, peer, limits::REJECTED_POINTS);
                }
                (Verdict::Reject, None) | (Verdict::Ignore, _) => {}
            }
        }
    }

    /// Asks for whatever is due. Who did not answer is penalized.
    fn ask_due(&mut self, step: &mut Step<'_>) {
        let mut pulls: BTreeMap<NeighbourIndex, Vec<Pull>> = BTreeMap::new();
        while self.fetches.next_ms() <= step.now.mono_ms {
            let (due, late) = self.fetches.take_due(step.now);
            late.into_iter().for_each(|peer| self.penalize(step, peer, limits::EMPTY_POINTS));
            self.fetches.ask(step, &self.store, &due, &mut pulls);
        }
        for (peer, wants) in pulls {
            step.send_list(peer, wants, |wants| Message::Pull { wants });
        }
    }

    /// Opens a reconciliation now and then; also forgets what is over.
    fn reconcile_due(&mut self, step: &mut Step<'_>) {
        if self.reconciler.take_due(step) {
            self.store.sweep(step);
            self.announcer.draw(step);
            self.reconciler.open_any(step, &self.store);
        }
    }

    /// Reads what is kept of these publishers before it is worked on.
    fn prefetch(&self, publishers: impl Iterator<Item = PublisherIndex> + Clone) {
        self.store.prefetch(publishers.clone());
        let unknown = publishers.filter(|publisher| self.store.entry(*publisher).is_none());
        self.fetches.prefetch(unknown);
    }

    /// How a mark compares with what is here. What is the same or older is worth nothing.
    fn is_news(&self, mark: &Mark, at: Option<PublisherIndex>) -> bool {
        !matches!(self.store.relation(mark, at), Relation::Same | Relation::Older)
    }
}
