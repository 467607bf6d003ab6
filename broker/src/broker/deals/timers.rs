//! What time does to deals: their deadlines, and what is sent again until it is answered.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::NegotiationId;

use crate::deal::Deal;

/// When something is sent again: monotonic, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resend {
    pub(crate) at_ms: u64,
    pub(crate) wait_ms: u64,
}

/// The next deadline of each deal, wall clock, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    first: BTreeSet<(u64, NegotiationId)>,
    of: BTreeMap<NegotiationId, u64>,
}

impl Deadlines {
    /// The deadlines of all these deals.
    pub(super) fn of<'d>(deals: impl IntoIterator<Item = &'d Deal>) -> Self {
        let mut all = Self::default();
        deals.into_iter().for_each(|deal| all.set(deal.id(), deal.deadline_ms()));
        all
    }

    /// That of one deal has changed; none: it has none any more.
    pub(crate) fn set(&mut self, id: NegotiationId, at_ms: Option<u64>) {
        if let Some(before_ms) = self.of.remove(&id) {
            self.first.remove(&(before_ms, id));
        }
        if let Some(at_ms) = at_ms {
            self.first.insert((at_ms, id));
            self.of.insert(id, at_ms);
        }
    }

    /// The earliest of them, wall clock.
    pub(crate) fn first_ms(&self) -> Option<u64> {
        self.first.first().map(|(at_ms, _)| *at_ms)
    }

    pub(super) fn due(&self, now_ms: u64) -> Vec<NegotiationId> {
        self.first.iter().take_while(|(at_ms, _)| *at_ms <= now_ms).map(|(_, id)| *id).collect()
    }
}
