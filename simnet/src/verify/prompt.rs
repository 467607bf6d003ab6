//! How soon a word that was given comes true: what was accepted becomes a lease on both sides, and
//! what has ended on one ends on the other, within seconds once both run, are connected, and
//! nothing goes wrong any more.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::{Deal, Side};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;

use super::{Violation, disk};
use crate::engine::link::pair;
use crate::engine::network::Network;
use crate::engine::site::Site;
use crate::engine::sites::Sites;

/// So soon, in ms; it is looked once a second.
const SOON_MS: u64 = 3_000;

#[derive(Debug, Default)]
pub(crate) struct Prompt {
    /// Since when each pair of places is connected.
    connected_ms: BTreeMap<(usize, usize), u64>,
    /// Since when nothing goes wrong any more; none: something does.
    healed_ms: Option<u64>,
    /// Since when each deal is to come to something.
    open_ms: BTreeMap<NegotiationId, u64>,
}

impl Prompt {
    pub(crate) fn on_connected(&mut self, a: usize, b: usize, at_ms: u64) {
        self.connected_ms.insert(pair(a, b), at_ms);
    }

    /// What was under way has arrived by then.
    pub(crate) fn on_healed(&mut self, at_ms: u64) {
        self.healed_ms = Some(at_ms);
    }

    pub(crate) fn on_trouble(&mut self) {
        self.healed_ms = None;
    }

    /// Checks, once a second, that nothing takes too long.
    pub(crate) fn check(
        &mut self,
        at_ms: u64,
        sites: &Sites,
        network: &Network,
    ) -> Result<(), Violation> {
        let mut open = BTreeMap::new();
        for (at, site) in sites.iter().enumerate() {
            for deal in disk::deals(site.gate.records()) {
                let Some(peer) = sites.place_of(deal.peer()) else { continue };
                if !network.is_connected(at, peer) || !is_well(site) || !is_well(&sites[peer]) {
                    continue;
                }
                if is_open(deal, disk::deal(sites[peer].gate.records(), deal.id())) {
                    open.insert(deal.id(), pair(at, peer));
                }
            }
        }
        self.look(at_ms, open)
    }

    fn look(
        &mut self,
        at_ms: u64,
        open: BTreeMap<NegotiationId, (usize, usize)>,
    ) -> Result<(), Violation> {
        let ids: BTreeSet<_> = open.keys().copied().collect();
        self.open_ms.retain(|id, _| ids.contains(id));
        let Some(healed_ms) = self.healed_ms else {
            self.open_ms.clear();
            return Ok(());
        };
        for (id, link) in open {
            let open_ms = *self.open_ms.entry(id).or_insert(at_ms);
            let connected_ms = self.connected_ms.get(&link).copied().unwrap_or(at_ms);
            let since_ms = open_ms.max(connected_ms).max(healed_ms);
            if at_ms > since_ms + SOON_MS {
                let text = format!("{id:.8} has come to nothing for {} ms", at_ms - since_ms);
                return Err(Violation(text));
            }
        }
        Ok(())
    }
}

/// Whether a cluster can keep its word: it runs, writes its records, and is honest.
pub(super) fn is_well(site: &Site) -> bool {
    let agent = site.agent.as_ref();
    agent.is_some_and(|agent| agent.degraded().is_none()) && site.attack.is_none()
}

/// Whether a deal is to come to something else by itself, without a person's word.
fn is_open(deal: &Deal, other: Option<&Deal>) -> bool {
    let over = |deal: &Deal| deal.end().is_some();
    let is_ended_there = other.is_some_and(over);
    let changes = deal
        .amendment()
        .is_some_and(|change| matches!(change.state(), State::Requested | State::Agreed));
    match deal.state() {
        State::Requested | State::Agreed | State::Pending => true,
        State::Review | State::Offered => is_ended_there,
        State::Active | State::Suspended | State::Reclaiming => {
            is_ended_there || changes && deal.side() == Side::Consumer
        }
        State::Closed | State::Terminated | State::Unknown => {
            other.is_some_and(|other| !over(other))
        }
    }
}
