//! What one side has on record of a lease that ends now. What follows from it is the ending's.

use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::DisputeReason;

use super::conversation::Kind;
use super::ending::{Facts, Provisioned, Stage};
use super::exchange::Exchange;
use super::lease::Lease;
use super::meter::{MeterState, unsigned_window_ms};
use super::order::Side;
use crate::limits;

/// What this side has on record of a running lease.
pub(super) fn facts(lease: &Lease, exchange: &Exchange<'_, '_>) -> Facts {
    let (side, contract) = (exchange.side(), lease.agreements.contract());
    let signed_ms = contract.not_before_ms.saturating_add(limits::PROVISION_MS);
    let unanswered = side == Side::Consumer && exchange.awaits(Kind::Ready);
    let (stage, ready_by_ms) = match lease.meter.state() {
        MeterState::Pending { until_ms } => (Stage::Pending, until_ms),
        MeterState::Running { .. } if unanswered => (Stage::Pending, signed_ms),
        MeterState::Running { .. } | MeterState::Ended { .. } => (Stage::Running, signed_ms),
        MeterState::Suspended { .. } => (Stage::Suspended, signed_ms),
    };
    Facts {
        side,
        stage,
        provisioned: Provisioned::Wordless,
        ready_by_ms,
        not_after_ms: contract.not_after_ms,
        notice: lease.settlement.notice(),
        promised_ms: contract.terms.reclaim_notice_s.saturating_mul(1_000),
        unsigned: match side {
            Side::Provider => lease.meter.is_overdue(exchange.now_ms(), &lease.agreements),
            Side::Consumer => left_unsigned(lease, exchange),
        },
        withheld: false,
    }
}

/// Consumer: whether so many windows are unsigned that the provider may close the lease, and this
/// side refused a report of them, or could hardly hear one.
fn left_unsigned(lease: &Lease, exchange: &Exchange<'_, '_>) -> bool {
    let Some(from_ms) = lease.meter.unsigned_from_ms(exchange.now_ms(), &lease.agreements) else {
        return false;
    };
    let disputes = lease.settlement.disputes().iter();
    let mut refused = disputes.filter(|dispute| dispute.reason == DisputeReason::Usage);
    let since = |at_ms: u64| at_ms.saturating_add(CLOCK_SKEW_MS) >= from_ms;
    let window_ms = unsigned_window_ms(&lease.agreements);
    let heard_by_ms = window_ms.max(limits::RESEND_MOST_MS) + CLOCK_SKEW_MS;
    refused.any(|dispute| since(dispute.at_ms))
        || lease.amendments.is_in_doubt(exchange.side())
        || exchange.link().heard_ms < heard_by_ms
}
