//! What this cluster thinks of a provider, by what it bought there itself and by nothing
//! else. What is old counts half as much every thirty days.

use std::collections::BTreeMap;

use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::CloseReason;
use mercato_protocol::time::Now;

use crate::deal::{Deal, Side, Stage};

const HALF_LIFE_MS: u64 = 30 * 86_400_000;
/// What a lease that ended just now counts.
const WHOLE: u64 = 1 << 20;

/// In thousandths, of every provider that this cluster had a lease with that is over: one
/// half to begin with, more for each that ended as agreed, less for each that did not.
pub(crate) fn reputations<'d>(
    now: Now,
    deals: impl IntoIterator<Item = &'d Deal>,
) -> BTreeMap<ClusterId, u64> {
    let mut sums: BTreeMap<ClusterId, (u64, u64)> = BTreeMap::new();
    for deal in deals.into_iter().filter(|deal| deal.side() == Side::Consumer) {
        let Stage::Closed { reason, at_ms, .. } = deal.stage() else { continue };
        let halvings = now.wall_ms.saturating_sub(*at_ms) / HALF_LIFE_MS;
        let counts = WHOLE.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0);
        let (good, all) = sums.entry(deal.peer()).or_default();
        match reason {
            CloseReason::Expired | CloseReason::Cancelled => {
                *good = good.saturating_add(counts);
                *all = all.saturating_add(counts);
            }
            CloseReason::EndedByProvider
            | CloseReason::ProvisioningFailed
            | CloseReason::Breach => *all = all.saturating_add(counts),
            // Taken back with notice as agreed, or this cluster's own fault.
            CloseReason::Reclaimed | CloseReason::Unsigned => {}
        }
    }
    let share = |(good, all): (u64, u64)| {
        let (good, all) = (u128::from(good), u128::from(all));
        let share = (good * 1_000 + u128::from(WHOLE) * 500) / (all + u128::from(WHOLE));
        u64::try_from(share).unwrap_or(1_000)
    };
    sums.into_iter().map(|(provider, sums)| (provider, share(sums))).collect()
}
