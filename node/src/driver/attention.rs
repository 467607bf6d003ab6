//! What of orders, contracts, links and budgets needs the owner's attention: a line each, with
//! what to do. What of federations and the Kubernetes cluster does is said by others.

use std::collections::BTreeMap;

use mercato_broker::deal::Stage;
use mercato_broker::{Deal, Side};
use mercato_config::Show as _;
use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::{CloseReason, State, TerminateReason};

use super::{Driver, view};
use crate::cli::text::{called, money, plain_reason, span};
use crate::kubernetes::LeaseHandle;
use crate::limits;

/// All of it, the most pressing first.
pub(super) fn lines(driver: &Driver) -> Vec<String> {
    let (now_ms, names) = (driver.now().wall_ms, view::names(driver));
    let broker = driver.agent().broker();
    let approvals = broker.deals().filter(|deal| waits_for_approval(deal)).count();
    let approvals = match approvals {
        0 => None,
        1 => Some("1 request needs your approval: mercato requests".to_owned()),
        n => Some(format!("{n} requests need your approval: mercato requests")),
    };
    let mut deals: Vec<(u64, String)> =
        broker.deals().filter_map(|deal| of_deal(deal, &names, now_ms)).collect();
    deals.sort();
    let more = deals.len().saturating_sub(limits::ATTENTION_DEALS);
    let more = (more > 0).then(|| format!("{more} more: mercato contracts list --all"));
    let deals = deals.into_iter().take(limits::ATTENTION_DEALS).map(|(_, line)| line);
    let links = driver.leases.values().filter_map(unreached);
    let budgets = broker.budgets(driver.now()).into_iter().filter_map(|(namespace, rate, left)| {
        let of =
            namespace.map_or_else(|| "the budget".to_owned(), |ns| format!("the budget of {ns}"));
        let reached = left.micros <= rate.amount.micros / limits::BUDGET_PART;
        reached.then(|| format!("{of} is used up: {left} of {} is left", rate.show()))
    });
    approvals.into_iter().chain(deals).chain(more).chain(links).chain(budgets).collect()
}

fn waits_for_approval(deal: &Deal) -> bool {
    let change = deal.change().is_some_and(|change| change.state() == State::Review);
    deal.side() == Side::Provider && (deal.state() == State::Review || change)
}

/// A line about a deal, and how pressing it is: the moment by which something is to be done, or
/// at which it happened.
fn of_deal(deal: &Deal, names: &BTreeMap<ClusterId, String>, now_ms: u64) -> Option<(u64, String)> {
    let peer = called(names.get(&deal.peer()).map(String::as_str), &deal.peer());
    let short = deal.id().short();
    let left = |until_ms: u64| span(until_ms.saturating_sub(now_ms));
    let lately = |at_ms: u64| at_ms.saturating_add(limits::ATTENTION_MS) > now_ms;
    match (deal.side(), deal.stage()) {
        (Side::Consumer, Stage::Offered) => {
            let held_ms = deal.agreement()?.contract.commit_by_ms;
            let total = money(&deal.terms().price, deal.total().ok().flatten());
            let asked = money(&deal.request().terms.price, deal.posted().ok().flatten());
            let line = format!(
                "{short}: {peer} offers {} for {total}, asked {asked}, for another {}: \
                 mercato order --offer {short}, or mercato contracts cancel {short}",
                deal.terms().quantity.show(),
                left(held_ms)
            );
            Some((held_ms, line))
        }
        (Side::Consumer, Stage::Terminated { reason, text, at_ms })
            if *reason != TerminateReason::Withdrawn && deal.rfq().is_none() && lately(*at_ms) =>
        {
            let why = plain_reason(&format!("{reason:?}"), text);
            Some((*at_ms, format!("{short}: the order to {peer} came to nothing: {why}")))
        }
        (side, Stage::Closed { reason, text, at_ms })
            if lately(*at_ms) && is_early(side, *reason) =>
        {
            let why = plain_reason(&format!("{reason:?}"), text);
            Some((*at_ms, format!("{short}: the contract with {peer} ended early: {why}")))
        }
        (_, Stage::Suspended) => {
            let line = format!("{short}: {peer}: usage is not signed for, nothing new is admitted");
            Some((now_ms, line))
        }
        (Side::Consumer, Stage::Pending { until_ms })
            if until_ms.saturating_sub(limits::NODE_SLOW_MS) < now_ms =>
        {
            Some((*until_ms, format!("{short}: the node for {peer} is not Ready yet")))
        }
        (Side::Consumer, Stage::Active) => running(deal, &short, &peer, now_ms),
        (
            _,
            Stage::Requested { .. }
            | Stage::Review { .. }
            | Stage::Offered
            | Stage::Agreed
            | Stage::Pending { .. }
            | Stage::Active
            | Stage::Closed { .. }
            | Stage::Terminated { .. },
        ) => None,
    }
}

/// A contract in use: it is taken back, a change came to nothing, or its end is near.
fn running(deal: &Deal, short: &str, peer: &str, now_ms: u64) -> Option<(u64, String)> {
    let ends_ms = deal.ends_ms()?;
    let left = span(ends_ms.saturating_sub(now_ms));
    if deal.reclaim().is_some() {
        return Some((ends_ms, format!("{short}: {peer} takes it back in {left}")));
    }
    let change = deal.change().and_then(|change| Some((change.refused()?, change.refused_ms()?)));
    if let Some(((reason, text), at_ms)) = change
        && reason != TerminateReason::Withdrawn
        && at_ms.saturating_add(limits::ATTENTION_MS) > now_ms
    {
        let why = plain_reason(&format!("{reason:?}"), text);
        return Some((at_ms, format!("{short}: {peer} refused the change: {why}")));
    }
    let soon_ms =
        (deal.terms().term_s.saturating_mul(1_000) / limits::ENDS_PART).min(limits::ENDS_SOON_MS);
    let line = || {
        let todo = format!("mercato contracts extend {short} --for 2h");
        format!("{short}: the contract with {peer} ends in {left}; to go on: {todo}")
    };
    (ends_ms.saturating_sub(soon_ms) < now_ms).then(|| (ends_ms, line()))
}

/// Whether a contract ended otherwise than with its term, and not by this side's own wish.
fn is_early(side: Side, reason: CloseReason) -> bool {
    match reason {
        CloseReason::Expired | CloseReason::Reclaimed => false,
        CloseReason::Cancelled => side == Side::Provider,
        CloseReason::EndedByProvider => side == Side::Consumer,
        CloseReason::Unsigned | CloseReason::ProvisioningFailed | CloseReason::Breach => true,
    }
}

/// Whose link is down though a lease needs it.
fn unreached(lease: &LeaseHandle) -> Option<String> {
    let desire = lease.desire();
    let peer = desire.peer_name.clone().unwrap_or_else(|| lease.peer().short());
    let pods = match desire.side {
        Side::Consumer => "pods there",
        Side::Provider => "its guests",
    };
    let contract = desire.contract.id.short();
    let what = format!("{peer} is not reached: {pods} run on as they are ({contract})");
    (!desire.reachable).then_some(what)
}
