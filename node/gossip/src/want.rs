//! What is wanted of publishers, at whose word, and when to ask whom next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use mercato_protocol::gossip::Mark;
use mercato_protocol::id::PublicKey;

/// Something later of one publisher, that is on its way here.
#[derive(Debug)]
pub(crate) struct Want {
    /// At whose word first: it counts against that neighbour's room.
    pub(crate) first: PublicKey,
    /// One of each neighbour at most, or those that claim falsely would keep the others out.
    pub(crate) claims: Vec<Claim>,
    /// Who was asked, and when.
    pub(crate) asked: Option<(PublicKey, u64)>,
    /// Whether the body has to come along even if it seems to be here.
    pub(crate) whole: bool,
    /// When to ask, or to ask another.
    due_ms: u64,
}

/// One neighbour's word that it holds this.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) peer: PublicKey,
    pub(crate) mark: Mark,
    /// Whether it was asked for it.
    pub(crate) asked: bool,
}

impl Want {
    pub(crate) fn new(first: PublicKey) -> Self {
        Self { first, claims: Vec::new(), asked: None, whole: false, due_ms: u64::MAX }
    }

    /// `peer` holds `mark`; what it said before it no longer does.
    pub(crate) fn claim(&mut self, peer: PublicKey, mark: Mark) {
        if let Some(claim) = self.claims.iter_mut().find(|claim| claim.peer == peer) {
            if claim.mark != mark {
                *claim = Claim { peer, mark, asked: false };
            }
        } else {
            self.claims.push(Claim { peer, mark, asked: false });
        }
    }

    /// Whether `peer` was asked.
    pub(crate) fn is_asked_of(&self, peer: &PublicKey) -> bool {
        self.claims.iter().any(|claim| claim.peer == *peer && claim.asked)
    }

    /// Whether nobody sees to it until it is scheduled again.
    pub(crate) fn is_parked(&self) -> bool {
        self.due_ms == u64::MAX
    }

    /// Who is to be asked next: whoever said so first.
    pub(crate) fn next(&mut self) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| !claim.asked)
    }
}

/// All that is wanted, by publisher, and by when it is due.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    wants: BTreeMap<PublicKey, Want>,
    /// May hold what is no longer true.
    due: BinaryHeap<Reverse<(u64, PublicKey)>>,
}

impl Wants {
    pub(crate) fn get_mut(&mut self, publisher: &PublicKey) -> Option<&mut Want> {
        self.wants.get_mut(publisher)
    }

    pub(crate) fn insert(&mut self, publisher: PublicKey, want: Want, due_ms: u64) {
        self.wants.insert(publisher, want);
        self.schedule(&publisher, due_ms);
    }

    pub(crate) fn remove(&mut self, publisher: &PublicKey) -> Option<Want> {
        self.wants.remove(publisher)
    }

    /// Sees to this publisher at `due_ms`.
    pub(crate) fn schedule(&mut self, publisher: &PublicKey, due_ms: u64) {
        if let Some(want) = self.wants.get_mut(publisher) {
            want.due_ms = due_ms;
            self.due.push(Reverse((due_ms, *publisher)));
        }
    }

    /// Sees to this publisher when it is scheduled again.
    pub(crate) fn park(&mut self, publisher: &PublicKey) {
        if let Some(want) = self.wants.get_mut(publisher) {
            want.due_ms = u64::MAX;
        }
    }

    /// The next publisher that is due.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<PublicKey> {
        self.next_ms().filter(|due_ms| *due_ms <= now_ms)?;
        self.due.pop().map(|Reverse((_, publisher))| publisher)
    }

    /// When the next is due.
    pub(crate) fn next_ms(&mut self) -> Option<u64> {
        while let Some(Reverse((due_ms, publisher))) = self.due.peek() {
            if self.wants.get(publisher).is_some_and(|want| want.due_ms == *due_ms) {
                return Some(*due_ms);
            }
            self.due.pop();
        }
        None
    }

    /// The same, without tidying up.
    pub(crate) fn wakeup_ms(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ms, _))| *due_ms)
    }

    /// `peer` is gone: what it was asked for is asked of another at once.
    pub(crate) fn lose(&mut self, peer: &PublicKey, now_ms: u64) {
        for (publisher, want) in &mut self.wants {
            let before = want.claims.len();
            want.claims.retain(|claim| claim.peer != *peer);
            if want.claims.len() < before {
                want.asked.take_if(|(asked, _)| asked == peer);
                if want.asked.is_none() {
                    want.due_ms = now_ms;
                    self.due.push(Reverse((now_ms, *publisher)));
                }
            }
        }
    }
}
