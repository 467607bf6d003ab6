//! Who is connected, and for how long it was while nothing was signed for: whether a buyer that
//! says that it heard of no report could have. It is of this run alone, and bounded by the deals.

use std::collections::BTreeMap;

use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::time::Now;

use crate::deal::{Deal, Link};

/// How long others were connected.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// Those that are connected, or have closed their connection themselves: that is no reason why their
    /// words were not heard.
    up: BTreeMap<ClusterId, Up>,
    /// How long the other side of a lease was connected while nothing was signed for, up to the
    /// last change of that, in milliseconds.
    heard: BTreeMap<NegotiationId, Heard>,
}

#[derive(Clone, Copy, Debug)]
struct Up {
    /// From when on it counts, monotonic, milliseconds.
    since_ms: u64,
    /// They have closed the connection.
    is_closed: bool,
    /// The connection is gone since then.
    is_gone: bool,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    peer: ClusterId,
    /// Before it was connected last.
    before_ms: u64,
    /// From when on the connection of now counts, monotonic, milliseconds.
    from_ms: u64,
}

impl Heard {
    /// As long as that with a connection that began then, if there is one.
    fn at(self, now: Now, up_ms: Option<u64>) -> u64 {
        let of_now = up_ms.map_or(0, |up_ms| now.mono_ms.saturating_sub(up_ms.max(self.from_ms)));
        self.before_ms.saturating_add(of_now)
    }
}

impl Contact {
    pub(super) fn on_connected(&mut self, now: Now, peer: ClusterId) {
        let new = Up { since_ms: now.mono_ms, is_closed: false, is_gone: false };
        let up = self.up.entry(peer).or_insert(new);
        (up.is_closed, up.is_gone) = (false, false);
    }

    /// It closes the connection, which is about to be gone.
    pub(super) fn on_hung_up(&mut self, peer: ClusterId) {
        if let Some(up) = self.up.get_mut(&peer) {
            up.is_closed = true;
        }
    }

    pub(super) fn on_disconnected(&mut self, now: Now, peer: ClusterId) {
        let has_leases = self.heard.values().any(|heard| heard.peer == peer);
        if let Some(up) = self.up.get_mut(&peer).filter(|up| up.is_closed && has_leases) {
            up.is_gone = true;
            return;
        }
        let up_ms = self.up.remove(&peer).map(|up| up.since_ms);
        for heard in self.heard.values_mut().filter(|heard| heard.peer == peer) {
            heard.before_ms = heard.at(now, up_ms);
        }
    }

    /// How well the other side of a deal is reached.
    pub(super) fn link(&self, now: Now, deal: &Deal) -> Link {
        let up = self.up.get(&deal.peer());
        let (up_ms, heard) = (up.map(|up| up.since_ms), self.heard.get(&deal.id()));
        let heard_ms = heard.map_or(0, |heard| heard.at(now, up_ms));
        Link { is_up: up.is_some_and(|up| !up.is_gone), heard_ms }
    }

    /// A deal has changed. What was heard since the last window that is signed for counts on, also where
    /// that is signed late: it is at least what was heard since the window before, less the new one.
    pub(super) fn on_change(&mut self, now: Now, before: Option<&Deal>, deal: &Deal) {
        if !deal.is_leased() {
            self.heard.remove(&deal.id());
            let has_leases = self.heard.values().any(|heard| heard.peer == deal.peer());
            if !has_leases && self.up.get(&deal.peer()).is_some_and(|up| up.is_gone) {
                self.up.remove(&deal.peer());
            }
            return;
        }
        let (from_ms, to_ms) = (before.and_then(unsigned_from_ms), unsigned_from_ms(deal));
        if from_ms == to_ms {
            return;
        }
        let up_ms = self.up.get(&deal.peer()).map(|up| up.since_ms);
        let heard_ms = self.heard.get(&deal.id()).map_or(0, |heard| heard.at(now, up_ms));
        let before_ms = from_ms
            .zip(to_ms)
            .map_or(0, |(from_ms, to_ms)| heard_ms.saturating_sub(to_ms.saturating_sub(from_ms)));
        let heard = Heard { peer: deal.peer(), before_ms, from_ms: now.mono_ms };
        self.heard.insert(deal.id(), heard);
    }

    /// Leases that were restored: nothing is known of their connections before.
    pub(super) fn restored<'d>(leases: impl Iterator<Item = &'d Deal>) -> Self {
        let heard = |deal: &Deal| Heard { peer: deal.peer(), before_ms: 0, from_ms: 0 };
        let leases = leases.filter(|deal| deal.is_leased());
        let heard = leases.map(|deal| (deal.id(), heard(deal))).collect();
        Self { up: BTreeMap::new(), heard }
    }
}

/// From when on nothing is signed for, wall clock.
fn unsigned_from_ms(deal: &Deal) -> Option<u64> {
    let meter = deal.meter()?;
    Some(meter.metered_ms()).filter(|metered_ms| *metered_ms > 0).or(meter.started_ms())
}
