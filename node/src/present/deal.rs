//! Orders and contracts in a few words.

use mercato_broker::Side;
use mercato_config::{Seconds, Show as _};
use mercato_protocol::negotiation::State;
use mercato_protocol::price::{Money, Usage};
use mercato_protocol::text::shown;

use super::change::line;
use super::leaving::still_to_go;
use super::text::{called, fingerprint, moment, money, name};
use crate::admin::Deal;

/// Whether it, or a change of it, waits for the answer of this cluster's owner.
pub(crate) fn is_asked(deal: &Deal) -> bool {
    let change = deal.change.as_ref().is_some_and(|change| change.state == State::Review);
    deal.side == Side::Provider && (deal.state == State::Review || change)
}

/// Whether it is not over.
pub(crate) fn is_running(deal: &Deal) -> bool {
    !matches!(deal.state, State::Closed | State::Terminated | State::Unknown)
}

/// Who the other side is.
pub(crate) fn peer(deal: &Deal) -> String {
    called(deal.peer_name.as_deref(), &deal.peer)
}

/// How far it is, in a word.
pub(crate) fn state(deal: &Deal) -> String {
    if deal.state == State::Review { "in review".to_owned() } else { name(deal.state) }
}

/// What an hour of it costs; none where it is free or the amount overflows.
pub(crate) fn hourly(deal: &Deal) -> Option<Money> {
    let hour = Usage::of(&deal.terms.quantity, HOUR_MS).ok()?;
    deal.terms.price.total(&hour).ok().flatten()
}

/// The length of an hour, in milliseconds.
const HOUR_MS: u64 = 3_600_000;

/// All that was agreed and has come of it, as pairs of a name and a text.
pub(crate) fn rows(deal: &Deal) -> Vec<(&'static str, String)> {
    let terms = &deal.terms;
    let side = match deal.side {
        Side::Provider => "sold to",
        Side::Consumer => "bought from",
    };
    let reason =
        deal.reason.as_ref().map_or_else(String::new, |reason| format!(" ({})", shown(reason)));
    let mut lines = vec![
        (side, format!("{}\n{}", peer(deal), fingerprint(&deal.peer).join("\n"))),
        ("state", format!("{}{reason}", state(deal))),
        ("what", terms.quantity.show()),
        ("class", name(terms.class)),
        ("price", terms.price.show()),
        ("term", Seconds(terms.term_s).show()),
        ("total", money(&terms.price, deal.total)),
    ];
    lines.extend(deal.asked.as_ref().map(|asked| {
        let total = money(&asked.price, asked.total);
        ("asked", format!("{}\n{}\n{total}", asked.quantity.show(), asked.price.show()))
    }));
    lines.extend(
        deal.limit
            .map(|limit| ("at most", format!("{limit}\nan offer up to that is taken at once"))),
    );
    lines.push(("billed", billed(deal)));
    lines.extend(deal.until_ms.map(|ms| ("until", format!("{} UTC", moment(ms)))));
    lines.extend(deal.change.as_ref().map(|it| ("change", line(deal, it))));
    lines.extend(todo(deal).map(|todo| ("to do", todo)));
    lines.extend(deal.disputed.then(|| ("disputed", "yes".to_owned())));
    lines.push(("reclaim notice", Seconds(terms.reclaim_notice_s).show()));
    lines.push(("network isolation", name(terms.network_isolation)));
    lines.push(("egress", terms.egress.to_string()));
    lines.push(("pod security", name(terms.pod_security)));
    lines.extend(deal.node.as_deref().map(|node| ("node", shown(node).into_owned())));
    lines.extend(
        deal.burst
            .as_deref()
            .map(|it| ("burst", format!("bought by itself for pods of {}", shown(it)))),
    );
    let pods = deal.pods.filter(|pods| *pods > 0);
    lines.extend(pods.map(|pods| ("pods", pods.to_string())));
    lines.extend(still_to_go(&deal.left).map(|text| ("leaving", text)));
    let spaces = deal.namespaces.iter().map(|(home, guest)| format!("{home} as {guest}"));
    let spaces: Vec<_> = spaces.collect();
    lines.extend((!spaces.is_empty()).then(|| ("namespaces", spaces.join("\n"))));
    lines.extend((!deal.note.is_empty()).then(|| ("note", shown(&deal.note).into_owned())));
    lines
}

/// What is to be paid, and what of it was taken off.
pub(crate) fn billed(deal: &Deal) -> String {
    let due = money(&deal.terms.price, deal.billed);
    match deal.credits {
        Some(credits) => format!("{due}, after {credits} of credits"),
        None => due,
    }
}

/// What its owner can do about what waits for an answer.
pub(crate) fn todo(deal: &Deal) -> Option<String> {
    let short = deal.id.short();
    let change = deal.change.as_ref().map(|change| change.state);
    match (deal.side, deal.state, change) {
        (Side::Consumer, State::Offered, _) => Some(format!(
            "to take it: mercato order --offer {short}\nto decline it: mercato contracts cancel {short}"
        )),
        (Side::Consumer, _, Some(State::Review | State::Requested)) => {
            Some(format!("to withdraw the change: mercato contracts withdraw {short}"))
        }
        (Side::Provider, _, _) if is_asked(deal) => Some(format!(
            "to approve: mercato requests accept {short}\n\
             to refuse: mercato requests deny {short} --reason TEXT"
        )),
        _ => None,
    }
}
