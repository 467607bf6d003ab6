//! Who gives way where what is over has a bound. Age over all peers would let one who makes much
//! push out what others left, so whoever has the most gives way first: of organisations, and
//! within one of clusters. How much is kept of what is up to the archive.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mercato_protocol::id::{ClusterId, NegotiationId};

use crate::catalogue::Organisation;
use crate::deal::{Deal, Side};

/// What is kept with one peer on one side.
struct Pile {
    holder: Organisation,
    /// Who leaves first is the last: what waits for no answer, then the oldest.
    rows: Vec<(bool, u64, NegotiationId)>,
}

/// Who answers for a deal that is over. What this cluster bought nobody else could make.
pub(super) fn holder(
    deal: &Deal,
    organisation: impl Fn(&ClusterId) -> Organisation,
) -> Organisation {
    match deal.side() {
        Side::Consumer => Organisation::Of(deal.peer()),
        Side::Provider => organisation(&deal.peer()),
    }
}

/// So many of these deals, which are over: one after the other the oldest of the cluster that has
/// the most, in the organisation that has the most.
pub(super) fn give_way(
    count: usize,
    deals: &[&Deal],
    organisation: impl Fn(&ClusterId) -> Organisation,
) -> Vec<NegotiationId> {
    let mut piles: BTreeMap<(Side, ClusterId), Pile> = BTreeMap::new();
    let mut totals: BTreeMap<Organisation, usize> = BTreeMap::new();
    if count == 0 {
        return Vec::new();
    }
    for deal in deals {
        let Some(end) = deal.end() else { continue };
        let pile = piles
            .entry((deal.side(), deal.peer()))
            .or_insert_with(|| Pile { holder: holder(deal, &organisation), rows: Vec::new() });
        pile.rows.push((deal.conversation().is_waiting(), end.at_ms, deal.id()));
        *totals.entry(pile.holder.clone()).or_default() += 1;
    }
    piles.values_mut().for_each(|pile| pile.rows.sort_unstable_by_key(|row| Reverse(*row)));
    let mut left = Vec::new();
    for _ in 0..count {
        let most = piles.values_mut().max_by_key(|pile| {
            let total = totals.get(&pile.holder).copied().unwrap_or(0);
            let first = pile.rows.last().copied();
            (first.is_some(), total, pile.rows.len(), Reverse(first))
        });
        let Some(pile) = most else { break };
        left.extend(pile.rows.pop().map(|(_, _, id)| id));
        totals.entry(pile.holder.clone()).and_modify(|total| *total = total.saturating_sub(1));
    }
    left
}
