//! What earlier purchases say of the next: whom to leave aside, and for whom to buy nothing for a
//! while. All of it is in the records of the deals, so that a restart forgets nothing.

use std::collections::BTreeMap;

use mercato_protocol::id::ClusterId;

use super::news::BurstWord;
use crate::deal::{BurstKey, Deal, EndCause, EndReason, Side};
use crate::limits;

/// Why a contract of a burst is ended, as its record has it.
pub(crate) const IDLE: &str = "burst: no pod was on it any more";
/// The same, where it took none of the pods for which it was bought.
pub(crate) const IN_VAIN: &str = "burst: bought in vain, no pod was bound to it";

/// Providers that are left aside, with the time until which they are, wall clock: those that did not
/// sign, or did not provide, longer each time until they do.
pub(crate) fn aside<'d>(
    now_ms: u64,
    deals: impl Iterator<Item = &'d Deal> + Clone,
) -> BTreeMap<ClusterId, u64> {
    let bursts = deals.filter(|deal| deal.order().burst.is_some());
    let mut provided_ms: BTreeMap<ClusterId, u64> = BTreeMap::new();
    for deal in bursts.clone().filter(|deal| failed_ms(deal).is_none()) {
        let started_ms = deal.meter().and_then(|meter| meter.started_ms());
        let last_ms = provided_ms.entry(deal.peer()).or_default();
        *last_ms = started_ms.unwrap_or(0).max(*last_ms);
    }
    let mut failures: BTreeMap<ClusterId, (u32, u64)> = BTreeMap::new();
    for deal in bursts {
        let provided_ms = provided_ms.get(&deal.peer()).copied().unwrap_or(0);
        let failed_ms = failed_ms(deal).filter(|at_ms| {
            let is_old = now_ms.saturating_sub(*at_ms) >= 2 * limits::BURST_ASIDE_MOST_MS;
            !is_old && *at_ms > provided_ms
        });
        if let Some(at_ms) = failed_ms {
            let (count, last_ms) = failures.entry(deal.peer()).or_default();
            (*count, *last_ms) = (*count + 1, at_ms.max(*last_ms));
        }
    }
    let until = |(count, last_ms): (u32, u64)| {
        let doubled = 1u64.checked_shl(count.saturating_sub(1)).unwrap_or(u64::MAX);
        let wait_ms = limits::BURST_ASIDE_MS.saturating_mul(doubled);
        last_ms.saturating_add(wait_ms.min(limits::BURST_ASIDE_MOST_MS))
    };
    let all = failures.into_iter().map(|(provider, of)| (provider, until(of)));
    all.filter(|(_, until_ms)| *until_ms > now_ms).collect()
}

/// When a purchase came to nothing, or what was bought was not to be had.
fn failed_ms(deal: &Deal) -> Option<u64> {
    let end = deal.end()?;
    match end.reason {
        EndReason::Terminated(_) => Some(end.at_ms),
        EndReason::Closed(cause) => match cause {
            EndCause::ProvisioningFailed | EndCause::NotDelivered | EndCause::EndedByProvider => {
                Some(end.at_ms)
            }
            EndCause::Expired | EndCause::Cancelled | EndCause::Reclaimed | EndCause::Unsigned => {
                None
            }
        },
    }
}

/// Those for whom nothing is bought now, with the time until which that is so, wall clock, and why.
pub(crate) fn resting<'d>(
    now_ms: u64,
    deals: impl Iterator<Item = &'d Deal>,
) -> BTreeMap<&'d BurstKey, (u64, BurstWord)> {
    let mut resting = BTreeMap::new();
    for (key, deal) in deals.filter_map(|deal| Some((deal.order().burst.as_ref()?, deal))) {
        let Some(end) = deal.end() else { continue };
        let is_ours = end.ending.is_some_and(|ending| ending.by == Side::Consumer);
        let (rest_ms, word) = match end.text {
            IN_VAIN if is_ours => (limits::BURST_VAIN_REST_MS, BurstWord::BoughtInVain),
            IDLE if is_ours => (limits::BURST_IDLE_REST_MS, BurstWord::GivenBack),
            _ => continue,
        };
        let until_ms = end.at_ms.saturating_add(rest_ms);
        if until_ms > now_ms {
            let longest = resting.entry(key).or_insert((until_ms, word));
            *longest = (*longest).max((until_ms, word));
        }
    }
    resting
}
