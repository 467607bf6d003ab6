//! Fetching what neighbours have: a publication by the digest that was announced, then
//! the body that it names; from the first that said so, then from the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mercato_protocol::ad::AdLease;
use mercato_protocol::envelope::Verified;
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication};
use mercato_protocol::id::{Digest, PublicKey};
use mercato_protocol::limits::{ENVELOPE_BYTES, GOSSIP_BYTES, GOSSIP_ITEMS, PUSH_ITEMS};
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

use crate::gossip::{Gossip, send};
use crate::limits;
use crate::vocabulary::{Effect, News};

/// A publication that is on its way here.
#[derive(Debug)]
pub(crate) struct Want {
    mark: Mark,
    /// Once it is here: the body is wanted.
    lease: Option<Verified<AdLease>>,
    /// At whose word.
    first: PublicKey,
    /// Who has it and was not asked for what is wanted now.
    sources: VecDeque<PublicKey>,
    /// Who was asked, and when.
    asked: Option<(PublicKey, u64)>,
    /// When to ask, or to ask another.
    pub(crate) due_ms: u64,
}

impl Want {
    /// `peer` has it as well.
    fn add(&mut self, peer: PublicKey) {
        let asked = self.asked.is_some_and(|(asked, _)| asked == peer);
        if !asked && !self.sources.contains(&peer) && self.sources.len() < limits::SOURCES {
            self.sources.push_back(peer);
        }
    }

    /// `peer` is gone, or has nothing: another is asked at once.
    pub(crate) fn lose(&mut self, peer: &PublicKey, now: Now) {
        self.sources.retain(|source| source != peer);
        if self.asked.is_some_and(|(asked, _)| asked == *peer) {
            self.asked = None;
            self.due_ms = now.mono_ms;
        }
    }
}

impl Gossip {
    /// `peer` holds these.
    pub(crate) fn on_marks(&mut self, now: Now, peer: PublicKey, marks: &[Mark]) {
        let mut room = limits::WANTS_PER_NEIGHBOUR
            .saturating_sub(self.wants.values().filter(|want| want.first == peer).count());
        for mark in marks {
            if let Some(want) = self.wants.get_mut(&mark.digest) {
                want.add(peer);
            } else if room > 0 && self.shelf.is_news(mark) && self.admits(now, &peer, mark) {
                room -= 1;
                let rested = |since_ms| since_ms + limits::LEASE_DISTANCE_MS;
                let slot = self.shelf.slot(&mark.publisher);
                let due_ms = slot.map_or(0, |slot| rested(slot.since_ms)).max(now.mono_ms);
                let (lease, asked, sources) = (None, None, VecDeque::from([peer]));
                let want = Want { mark: *mark, lease, first: peer, sources, asked, due_ms };
                self.wants.insert(mark.digest, want);
            } else if self.shelf.slot(&mark.publisher).is_none() {
                continue;
            }
            if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                neighbour.holds(mark);
            }
        }
    }

    /// Whether there is room for this publisher, and in the lane if nobody knows it.
    fn admits(&mut self, now: Now, peer: &PublicKey, mark: &Mark) -> bool {
        if self.shelf.slot(&mark.publisher).is_some() {
            return true;
        }
        let known = self.is_known(&mark.publisher);
        let kept = self.shelf.slots().filter(|slot| self.is_known(&slot.mark.publisher) == known);
        let most = if known { limits::KNOWN_PUBLISHERS } else { limits::UNKNOWN_PUBLISHERS };
        let room = kept.count() < most;
        let lane = self.neighbours.get_mut(peer);
        room && (known || lane.is_some_and(|neighbour| neighbour.admit(now.mono_ms)))
    }

    fn is_known(&self, publisher: &PublicKey) -> bool {
        *publisher == self.me
            || self.known.contains(publisher)
            || self.neighbours.contains_key(publisher)
    }

    /// Asks for whatever is due, each of the next that has it.
    pub(crate) fn ask_due(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let mut pulls: BTreeMap<PublicKey, Vec<Digest>> = BTreeMap::new();
        let shelf = &self.shelf;
        self.wants.retain(|digest, want| {
            if !shelf.is_news(&want.mark) {
                return false;
            }
            if want.due_ms > now.mono_ms {
                return true;
            }
            if let Some((late, _)) = want.asked.take()
                && let Some(neighbour) = self.neighbours.get_mut(&late)
            {
                neighbour.slow();
            }
            let Some(peer) = want.sources.pop_front() else { return false };
            let patience_ms = self.neighbours.get(&peer).map_or(0, |other| other.patience_ms());
            want.asked = Some((peer, now.mono_ms));
            want.due_ms = now.mono_ms + patience_ms;
            match &want.lease {
                Some(lease) => {
                    effects.push(send(peer, Message::BodyRequest { digest: lease.body }));
                }
                None => pulls.entry(peer).or_default().push(*digest),
            }
            true
        });
        for (peer, digests) in pulls {
            let pulls = digests.chunks(GOSSIP_ITEMS).map(|digests| digests.to_vec());
            effects.extend(pulls.map(|digests| send(peer, Message::Pull { digests })));
        }
    }

    pub(crate) fn on_pull(&self, peer: PublicKey, digests: &[Digest], effects: &mut Vec<Effect>) {
        let asked = digests.iter().filter_map(|digest| {
            let slot = self.shelf.find(digest).filter(|slot| slot.mark.digest == *digest)?;
            slot.news.as_ref()
        });
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let push = |publications| send(peer, Message::Push { publications });
        for publication in asked.map(News::publication) {
            let size = size(&publication);
            if batch.len() == PUSH_ITEMS || bytes + size > GOSSIP_BYTES - ENVELOPE_BYTES {
                effects.push(push(std::mem::take(&mut batch)));
                bytes = 0;
            }
            bytes += size;
            batch.push(publication);
        }
        if !batch.is_empty() {
            effects.push(push(batch));
        }
    }

    /// What was not asked for is dropped, but for a withdrawal: of what we hold it is taken,
    /// of anything else it is as good as announced.
    pub(crate) fn on_publication(
        &mut self,
        now: Now,
        peer: PublicKey,
        publication: VerifiedPublication,
        effects: &mut Vec<Effect>,
    ) {
        let mark = publication.mark();
        let wanted = self.wants.get(&mark.digest).is_some_and(|want| want.mark == mark);
        match publication {
            VerifiedPublication::Withdraw(end) => {
                if wanted || self.may_end(now, &mark) {
                    if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                        neighbour.holds(&mark);
                    }
                    self.learn(now, News::End(end), effects);
                } else {
                    self.on_marks(now, peer, &[mark]);
                }
            }
            VerifiedPublication::Lease(lease) if wanted => {
                let held = self.shelf.slot(&mark.publisher);
                if let Some(body) = held.and_then(|slot| slot.body(&lease.body)).cloned() {
                    self.answered(now, peer, &mark.digest);
                    self.learn(now, News::Ad { lease, body }, effects);
                } else {
                    self.want_body(now, peer, lease);
                }
            }
            VerifiedPublication::Lease(_) => {}
        }
    }

    /// A publisher that we hold may end its lease at any time, but not over and over.
    fn may_end(&self, now: Now, mark: &Mark) -> bool {
        self.shelf.slot(&mark.publisher).is_some_and(|slot| {
            let rested = slot.since_ms + limits::LEASE_DISTANCE_MS <= now.mono_ms;
            mark.supersedes(&slot.mark) && (rested || matches!(slot.news, Some(News::Ad { .. })))
        })
    }

    fn want_body(&mut self, now: Now, peer: PublicKey, lease: Verified<AdLease>) {
        let digest = lease.digest();
        if self.wants.get(&digest).is_some_and(|want| want.lease.is_some()) {
            return;
        }
        self.answered(now, peer, &digest);
        let rested = |since_ms| since_ms + limits::BODY_DISTANCE_MS;
        let slot = self.shelf.slot(lease.key()).filter(|slot| slot.news.is_some());
        let rested_ms = slot.map_or(0, |slot| rested(slot.body_since_ms));
        if let Some(want) = self.wants.get_mut(&digest) {
            want.due_ms = rested_ms.max(now.mono_ms);
            want.lease = Some(lease);
            want.sources.retain(|source| *source != peer);
            want.sources.push_front(peer);
        }
    }

    pub(crate) fn on_body_request(
        &self,
        peer: PublicKey,
        digest: Digest,
        effects: &mut Vec<Effect>,
    ) {
        let body = self.shelf.find(&digest).and_then(|slot| slot.body(&digest));
        let body = body.map(|body| Blob(body.to_vec()));
        effects.push(send(peer, Message::BodyReply { digest, body }));
    }

    /// Only a body that was asked for is taken, and only of whom it was asked.
    pub(crate) fn on_body(
        &mut self,
        now: Now,
        peer: PublicKey,
        digest: Digest,
        body: Option<Blob>,
        effects: &mut Vec<Effect>,
    ) {
        let asked = |want: &Want| {
            want.asked.is_some_and(|(asked, _)| asked == peer)
                && want.lease.as_ref().is_some_and(|lease| lease.body == digest)
        };
        let Some(id) = self.wants.iter().find(|(_, want)| asked(want)).map(|(id, _)| *id) else {
            return;
        };
        match body.filter(|body| Digest::of(&body.0) == digest) {
            None => {
                if let Some(want) = self.wants.get_mut(&id) {
                    want.lose(&peer, now);
                }
            }
            Some(body) => {
                self.answered(now, peer, &id);
                let lease = self.wants.remove(&id).and_then(|want| want.lease);
                if let Some(lease) = lease {
                    self.learn(now, News::Ad { lease, body: Arc::from(body.0) }, effects);
                }
            }
        }
    }

    fn learn(&mut self, now: Now, news: News, effects: &mut Vec<Effect>) {
        self.wants.remove(&news.mark().digest);
        if self.shelve(now, news.clone()) {
            effects.push(Effect::Learned(news));
        }
    }

    /// Measures how long `peer` took, if it was the one that was asked.
    fn answered(&mut self, now: Now, peer: PublicKey, id: &Digest) {
        let asked = self.wants.get_mut(id).and_then(|want| want.asked.take_if(|(p, _)| *p == peer));
        if let Some((_, asked_ms)) = asked
            && let Some(neighbour) = self.neighbours.get_mut(&peer)
        {
            neighbour.measure(now.mono_ms.saturating_sub(asked_ms));
        }
    }
}

/// In a push: the signed bytes, a list of two, a number and the head of a byte string.
fn size(publication: &Publication) -> usize {
    let signed = match publication {
        Publication::Lease(lease) => lease.as_bytes(),
        Publication::Withdraw(end) => end.as_bytes(),
    };
    signed.len() + 8
}
