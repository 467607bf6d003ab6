//! What this cluster thinks of others, by its own contracts with them and by nothing else.
//! What is old counts half as much every thirty days.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::time::Now;

use crate::deal::{Deal, EndCause, EndReason, Mark, Side};
use crate::limits;

const HALF_LIFE_MS: u64 = 30 * 86_400_000;
/// What something that happened just now counts.
const WHOLE: u64 = 1 << 20;

/// In thousandths, of everybody with whom a lease is over or was disputed: one half to begin
/// with, more for each lease that ended as agreed, less for each that did not and for each
/// dispute.
pub(crate) fn reputations<'d>(
    now: Now,
    deals: impl IntoIterator<Item = &'d Deal>,
) -> BTreeMap<ClusterId, u64> {
    let mut sums: BTreeMap<ClusterId, (u64, u64)> = BTreeMap::new();
    for deal in deals {
        let end = end(deal).into_iter();
        let disputes = deal.lease().map_or(&[][..], |lease| lease.settlement().disputes());
        let disputes = disputes.iter().map(|dispute| (dispute.at_ms, false));
        for (at_ms, good) in end.chain(disputes) {
            let counts = weight(now.wall_ms.saturating_sub(at_ms));
            let (sum, all) = sums.entry(deal.peer()).or_default();
            *sum = sum.saturating_add(if good { counts } else { 0 });
            *all = all.saturating_add(counts);
        }
    }
    let share = |(good, all): (u64, u64)| {
        let (good, all) = (u128::from(good), u128::from(all));
        let share = (good * 1_000 + u128::from(WHOLE) * 500) / (all + u128::from(WHOLE));
        u64::try_from(share).unwrap_or(1_000)
    };
    sums.into_iter().map(|(peer, sums)| (peer, share(sums))).collect()
}

/// The providers that lately would not sign what they offer.
pub(crate) fn unfaithful<'d>(
    now: Now,
    deals: impl IntoIterator<Item = &'d Deal>,
) -> BTreeSet<ClusterId> {
    let lately = |at_ms| now.wall_ms.saturating_sub(at_ms) < limits::UNFAITHFUL_MS;
    let deals = deals.into_iter().filter(|deal| not_as_offered(deal).is_some_and(lately));
    deals.map(Deal::peer).collect()
}

/// Whether a buyer has lately cost this provider what nobody pays for, more than once: it kept what
/// it bought and was never ready, or left it unsigned until it was closed.
pub(crate) fn is_careless<'d>(
    now: Now,
    buyer: &ClusterId,
    deals: impl IntoIterator<Item = &'d Deal>,
) -> bool {
    let lately = |at_ms: u64| now.wall_ms.saturating_sub(at_ms) < limits::CARELESS_MS;
    let theirs = deals.into_iter().filter(|deal| deal.peer() == *buyer);
    let mut costly = theirs.filter_map(unpaid_ms).filter(|at_ms| lately(*at_ms));
    costly.nth(limits::FORGIVEN).is_some()
}

/// When a lease that this cluster sold ended, if it was kept and not used, or not signed for.
fn unpaid_ms(deal: &Deal) -> Option<u64> {
    let (end, lease) = (deal.end()?, deal.lease()?);
    let (ending, at_ms) = (end.ending?, end.at_ms);
    let kept_ms = at_ms.saturating_sub(lease.agreements().contract().not_before_ms);
    // What this provider gives up by itself before the time is no fault of the buyer's.
    let most_ms = match ending.by {
        Side::Provider => limits::PROVISION_MS,
        Side::Consumer => limits::NEVER_READY_MS,
    };
    let never_ready = lease.meter().started_ms().is_none() && kept_ms >= most_ms;
    let sold = deal.side() == Side::Provider;
    (sold && (never_ready || ending.cause == EndCause::Unsigned)).then_some(at_ms)
}

/// When this buyer was shown another contract than what was on offer.
fn not_as_offered(deal: &Deal) -> Option<u64> {
    let end = deal.end().filter(|_| deal.side() == Side::Consumer)?;
    let refused = end.reason == EndReason::Terminated(TerminateReason::NotAsOffered);
    refused.then_some(end.at_ms)
}

/// When a lease ended, or came to nothing, and whether the other side did as agreed. None: it
/// has not, or that says nothing of the other side.
fn end(deal: &Deal) -> Option<(u64, bool)> {
    if let Some(at_ms) = not_as_offered(deal) {
        return Some((at_ms, false));
    }
    let ended = deal.end()?;
    Some((ended.at_ms, ended.ending?.mark? == Mark::Good))
}

/// Halved at every half-life, and falling evenly between.
fn weight(age_ms: u64) -> u64 {
    let halvings = u32::try_from(age_ms / HALF_LIFE_MS).unwrap_or(u32::MAX);
    let whole = WHOLE.checked_shr(halvings).unwrap_or(0);
    whole - whole * (age_ms % HALF_LIFE_MS) / (2 * HALF_LIFE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_counts_half_as_much_every_thirty_days() {
        let day = |n: u64| weight(n * 86_400_000);
        assert_eq!([day(0), day(30), day(60), day(90)], [WHOLE, WHOLE / 2, WHOLE / 4, WHOLE / 8]);
        assert_eq!(day(15), WHOLE * 3 / 4);
        assert!((0..400).all(|n| day(n) > day(n + 1)), "it always falls");
        assert_eq!(weight(u64::MAX), 0);
    }
}
