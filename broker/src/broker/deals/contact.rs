//! Who is connected, and for how long it was while nothing was signed for: whether a buyer that
//! says that it heard of no report could have. It is of this run alone, and bounded by the deals.

use std::collections::BTreeMap;

use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::time::Now;

use crate::deal::{Deal, Link, Meter};

/// How long others were connected.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// Those that are connected, since when: monotonic, milliseconds.
    up: BTreeMap<ClusterId, u64>,
    /// How long the other side of a lease was connected while nothing was signed for, up to the
    /// last change of that, in milliseconds.
    heard: BTreeMap<NegotiationId, Heard>,
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
        self.up.entry(peer).or_insert(now.mono_ms);
    }

    pub(super) fn on_disconnected(&mut self, now: Now, peer: ClusterId) {
        let up_ms = self.up.remove(&peer);
        for heard in self.heard.values_mut().filter(|heard| heard.peer == peer) {
            heard.before_ms = heard.at(now, up_ms);
        }
    }

    /// How well the other side of a deal is reached.
    pub(super) fn link(&self, now: Now, deal: &Deal) -> Link {
        let up_ms = self.up.get(&deal.peer()).copied();
        let heard = self.heard.get(&deal.id());
        Link { is_up: up_ms.is_some(), heard_ms: heard.map_or(0, |heard| heard.at(now, up_ms)) }
    }

    /// A deal has changed: what is signed for is counted from then on.
    pub(super) fn on_change(&mut self, now: Now, before: Option<&Deal>, deal: &Deal) {
        let signed_ms = |deal: &Deal| deal.meter().map(Meter::metered_ms);
        if !deal.is_leased() {
            self.heard.remove(&deal.id());
        } else if before.and_then(signed_ms) != signed_ms(deal) {
            let heard = Heard { peer: deal.peer(), before_ms: 0, from_ms: now.mono_ms };
            self.heard.insert(deal.id(), heard);
        }
    }

    /// Leases that were restored: nothing is known of their connections before.
    pub(super) fn restored<'d>(leases: impl Iterator<Item = &'d Deal>) -> Self {
        let heard = |deal: &Deal| Heard { peer: deal.peer(), before_ms: 0, from_ms: 0 };
        let leases = leases.filter(|deal| deal.is_leased());
        let heard = leases.map(|deal| (deal.id(), heard(deal))).collect();
        Self { up: BTreeMap::new(), heard }
    }
}
