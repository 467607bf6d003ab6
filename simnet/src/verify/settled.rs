//! What leases came to, by the records of an honest cluster and the contracts alone: whatever its
//! agent thinks that it should be. The rules are written here a second time, as bounds.

use mercato_broker::{Deal, EndCause, Side};
use mercato_protocol::invoice::Invoice;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::price::Usage;

use super::{Violation, disk, ensure};
use crate::engine::site::Site;

/// Looks at all leases of a cluster that are over; how many have a bill of both.
pub(crate) fn check(site: &Site) -> Result<usize, Violation> {
    let mut settled = 0;
    for deal in disk::deals(site.gate.records()) {
        nothing_after_the_end(deal)?;
        if let Some(bill) = bill_of_both(deal) {
            settled += 1;
            match deal.side() {
                Side::Consumer => not_too_dear(deal, bill)?,
                Side::Provider => not_too_cheap(deal, bill)?,
            }
        }
    }
    Ok(settled)
}

fn bill_of_both(deal: &Deal) -> Option<&Invoice> {
    let signed = deal.lease()?.settlement().invoice()?;
    signed.consumer.as_ref().map(|_| &signed.invoice)
}

/// A buyer signs for nothing after its own record of the end.
fn nothing_after_the_end(deal: &Deal) -> Result<(), Violation> {
    let last = deal.meter().and_then(|meter| meter.signed()).map(|signed| signed.receipt.to_ms);
    let end = deal.end().filter(|_| deal.side() == Side::Consumer);
    let (Some(to_ms), Some(end)) = (last, end) else { return Ok(()) };
    ensure(to_ms <= end.at_ms + CLOCK_SKEW_MS, || {
        let beyond_ms = to_ms - end.at_ms;
        format!("{:.8}: {beyond_ms} ms after the end are signed for", deal.id())
    })
}

/// Whether it ended neither with its term nor with a notice whose time has come, by this clock.
fn is_early(deal: &Deal) -> bool {
    let Some((lease, end)) = deal.lease().zip(deal.end()) else { return false };
    let contract = &lease.agreements().current().contract;
    let until_ms = lease.settlement().reclaim().map_or(u64::MAX, |notice| notice.until_ms);
    end.at_ms + CLOCK_SKEW_MS < contract.not_after_ms.min(until_ms)
}

/// The other side ended it early: its bill lacks what the whole notice would have cost.
fn not_too_dear(deal: &Deal, bill: &Invoice) -> Result<(), Violation> {
    let ending = deal.end().and_then(|end| end.ending);
    if ending.is_some_and(|it| it.cause == EndCause::Unsigned) {
        unsigned_for_long(deal)?;
    }
    // What its buyer has left unsigned a provider may close.
    let by_provider =
        ending.is_some_and(|it| it.by == Side::Provider && it.cause != EndCause::Unsigned);
    let (Some(amount), Some(due)) = (bill.amount, bill.due) else { return Ok(()) };
    if !by_provider || !is_early(deal) {
        return Ok(());
    }
    let Some(lease) = deal.lease() else { return Ok(()) };
    let contract = &lease.agreements().current().contract;
    let Some(last) = lease.meter().signed() else { return Ok(()) };
    let rest_ms = contract.not_after_ms.saturating_sub(last.receipt.to_ms);
    let missing_ms = contract.terms.reclaim_notice_s.saturating_mul(1_000).min(rest_ms);
    let missing = Usage::of(&contract.terms.quantity, missing_ms);
    let missing = missing.and_then(|usage| contract.terms.price.total(&usage));
    let missing = missing.map_err(|error| Violation(error.to_string()))?;
    let least = missing.map_or(0, |money| money.micros).min(amount.micros);
    let off = amount.micros - due.micros;
    ensure(off >= least, || {
        format!("{:.8}: {off} is taken off for an early end, {least} is due", deal.id())
    })
}

/// It was closed over what this buyer has not signed: for six minutes at least, whatever a window is.
fn unsigned_for_long(deal: &Deal) -> Result<(), Violation> {
    let Some((end, meter)) = deal.end().zip(deal.meter()) else { return Ok(()) };
    let signed_ms = meter.signed().map(|signed| signed.receipt.to_ms).or(meter.started_ms());
    let open_ms = end.at_ms.saturating_sub(signed_ms.unwrap_or(end.at_ms));
    ensure(open_ms + CLOCK_SKEW_MS >= UNSIGNED_MS, || {
        format!("{:.8}: {open_ms} ms without a signature close it without a credit", deal.id())
    })
}

/// The other side ended it early: that is paid in full.
fn not_too_cheap(deal: &Deal, bill: &Invoice) -> Result<(), Violation> {
    let early = is_early(deal) && was_closed_by_buyer(deal);
    ensure(!early || bill.credits.is_empty(), || {
        format!("{:.8}: its buyer ended it, and has {:?} for it", deal.id(), bill.credits)
    })
}

/// By the words of the conversation: this provider has not closed it, as its own text would say.
fn was_closed_by_buyer(deal: &Deal) -> bool {
    deal.end().is_some_and(|end| end.text == BUYERS_TEXT)
}

/// So long a provider bears at least that nothing is signed, in ms.
const UNSIGNED_MS: u64 = 6 * 60_000;

/// What buyers of a trial say when they end a lease.
pub(crate) const BUYERS_TEXT: &str = "the buyer leaves";
