//! What is wanted of publishers, at whose word, and when to ask whom next. Neighbours go by
//! their places.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mercato_protocol::gossip::Mark;
use mercato_protocol::id::PublicKey;

use crate::table::{Keyed, Place, Table};

/// Something later of one publisher, that is on its way here.
#[derive(Debug)]
pub(crate) struct Want {
    /// What was said first to be held of it; most say the same.
    pub(crate) mark: Mark,
    /// At whose word first: it counts against that neighbour's room, while it is one.
    pub(crate) first: Option<Place>,
    /// One of each neighbour at most, or those that claim falsely would keep the others out.
    pub(crate) claims: Vec<Claim>,
    /// Who was asked, and when.
    pub(crate) asked: Option<(Place, u64)>,
    /// Whether the body has to come along even if it seems to be here.
    pub(crate) whole: bool,
    /// When to ask, or to ask another.
    pub(crate) due_ms: u64,
}

/// One neighbour's word that it holds this.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) peer: Place,
    /// Whether it was asked for it.
    pub(crate) asked: bool,
    /// What it holds, if that is something else.
    other: Option<Box<Mark>>,
}

impl Claim {
    /// What it holds, where most hold `mark`.
    pub(crate) fn mark<'a>(&'a self, mark: &'a Mark) -> &'a Mark {
        self.other.as_deref().unwrap_or(mark)
    }
}

impl Keyed for Want {
    fn key(&self) -> &PublicKey {
        &self.mark.publisher
    }
}

impl Want {
    /// `first` holds `mark`.
    pub(crate) fn new(mark: Mark, first: Place, due_ms: u64) -> Self {
        let claims = vec![Claim { peer: first, asked: false, other: None }];
        Self { mark, first: Some(first), claims, asked: None, whole: false, due_ms }
    }

    /// `peer` holds `mark`; what it said before it no longer does.
    pub(crate) fn claim(&mut self, peer: Place, mark: &Mark) {
        let other = (*mark != self.mark).then(|| Box::new(*mark));
        if let Some(claim) = self.claims.iter_mut().find(|claim| claim.peer == peer) {
            if claim.other != other {
                *claim = Claim { peer, asked: false, other };
            }
        } else {
            self.claims.push(Claim { peer, asked: false, other });
        }
    }

    /// Whether `peer` was asked.
    pub(crate) fn is_asked_of(&self, peer: Place) -> bool {
        self.claims.iter().any(|claim| claim.peer == peer && claim.asked)
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
#[derive(Debug)]
pub(crate) struct Wants {
    wants: Table<Want>,
    /// May hold what is no longer true.
    due: BinaryHeap<Reverse<(u64, Place)>>,
}

impl Wants {
    pub(crate) fn new(seed: u64) -> Self {
        Self { wants: Table::new(seed), due: BinaryHeap::new() }
    }

    pub(crate) fn find(&self, publisher: &PublicKey) -> Option<Place> {
        self.wants.find(publisher)
    }

    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut Want> {
        self.wants.get_mut(place)
    }

    /// Nothing is wanted of its publisher yet.
    pub(crate) fn insert(&mut self, want: Want) {
        let due_ms = want.due_ms;
        let place = self.wants.insert(want);
        self.due.push(Reverse((due_ms, place)));
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<Want> {
        self.wants.remove(place)
    }

    /// Sees to this one at `due_ms`.
    pub(crate) fn schedule(&mut self, place: Place, due_ms: u64) {
        if let Some(want) = self.wants.get_mut(place) {
            want.due_ms = due_ms;
            self.due.push(Reverse((due_ms, place)));
        }
    }

    /// Sees to this one when it is scheduled again.
    pub(crate) fn park(&mut self, place: Place) {
        if let Some(want) = self.wants.get_mut(place) {
            want.due_ms = u64::MAX;
        }
    }

    /// The next that is due.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Place> {
        self.next_ms().filter(|due_ms| *due_ms <= now_ms)?;
        self.due.pop().map(|Reverse((_, place))| place)
    }

    /// When the next is due.
    fn next_ms(&mut self) -> Option<u64> {
        while let Some(Reverse((due_ms, place))) = self.due.peek() {
            if self.wants.get(*place).is_some_and(|want| want.due_ms == *due_ms) {
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
    pub(crate) fn lose(&mut self, peer: Place, now_ms: u64) {
        for (place, want) in self.wants.iter_mut() {
            want.first.take_if(|first| *first == peer);
            let before = want.claims.len();
            want.claims.retain(|claim| claim.peer != peer);
            if want.claims.len() < before {
                want.asked.take_if(|(asked, _)| *asked == peer);
                if want.asked.is_none() {
                    want.due_ms = now_ms;
                    self.due.push(Reverse((now_ms, place)));
                }
            }
        }
    }
}
