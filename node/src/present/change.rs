//! A change of a contract in a few words.

use mercato_config::{Seconds, Show as _, quantity};
use mercato_protocol::contract::Terms;
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::text::shown;

use super::text::{money, name, plain_reason};
use crate::admin::{Change, Deal};

/// What is another under a change: `term 1h -> 4h (+3h), cpu 8 -> 16`.
pub(crate) fn difference(before: &Terms, after: &Terms) -> String {
    let mut lines = Vec::new();
    if before.term_s != after.term_s {
        let by = Seconds(before.term_s.abs_diff(after.term_s)).show();
        let sign = if after.term_s > before.term_s { '+' } else { '-' };
        let [from, to] = [before.term_s, after.term_s].map(|term_s| Seconds(term_s).show());
        lines.push(format!("term {from} -> {to} ({sign}{by})"));
    }
    let all = before.quantity.union(&after.quantity);
    for (resource, _) in all.iter() {
        let amount = |terms: &Terms| terms.quantity.quantity(&resource);
        let [from, to] = [amount(before), amount(after)].map(|n| quantity::show(&resource, n));
        if from != to {
            lines.push(format!("{resource} {from} -> {to}"));
        }
    }
    if lines.is_empty() { "nothing".to_owned() } else { lines.join(", ") }
}

/// What a change would cost, beside what the contract costs without it.
pub(crate) fn cost(deal: &Deal, change: &Change) -> String {
    let price = &deal.terms.price;
    let [after, before] = [change.total, deal.total].map(|total| money(price, total));
    if after == before { after } else { format!("{after} instead of {before}") }
}

/// That the other side does not want it; whoever shows it says why.
pub(crate) fn refused(peer: &str) -> String {
    format!("{peer} refused the change")
}

/// What the change of a contract is, what it costs, and how far it is.
pub(crate) fn line(deal: &Deal, change: &Change) -> String {
    let withdrawn = plain_reason(&name(TerminateReason::Withdrawn), "");
    let reason = change.reason.as_ref().filter(|reason| **reason != withdrawn);
    let is_withdrawn = reason.is_none() && change.reason.is_some();
    let reason = reason.map_or_else(String::new, |reason| format!(" ({})", shown(reason)));
    let how = match change.state {
        State::Terminated if is_withdrawn => withdrawn,
        State::Review => "needs the provider's approval".to_owned(),
        State::Terminated => "refused".to_owned(),
        State::Requested
        | State::Agreed
        | State::Unknown
        | State::Offered
        | State::Pending
        | State::Active
        | State::Suspended
        | State::Reclaiming
        | State::Closed => name(change.state),
    };
    format!("{}, {}: {how}{reason}", shown(&change.what), cost(deal, change))
}
