//! What is bought and what is sold, a row each: how far it is, when it ends, what it has cost.

use askama::Template;
use mercato_broker::Side;
use mercato_protocol::negotiation::State;

use super::super::memory::Picture;
use super::{Frame, Words, clipped, percent};
use crate::admin::Deal;
use crate::limits;
use crate::present::brief;
use crate::present::deal::{billed, hourly, is_running, peer, state};
use crate::present::text::{left, moment, money};

/// The screen of all leases.
#[derive(Template)]
#[template(path = "leases.html")]
pub(in super::super) struct Leases {
    frame: Frame,
    lists: [List; 2],
    /// Whether those that are over are shown as well.
    all: bool,
    over: usize,
    problem: Option<Words>,
}

/// One side of the market.
struct List {
    id: &'static str,
    title: &'static str,
    nothing: &'static str,
    rows: Vec<Row>,
    /// How many there are beyond those.
    more: usize,
}

/// An order, a request or a lease.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) short: String,
    pub(super) side: &'static str,
    pub(super) peer: String,
    pub(super) state: String,
    pub(super) tone: &'static str,
    pub(super) what: String,
    pub(super) node: Option<String>,
    pub(super) left: String,
    pub(super) until: Option<String>,
    pub(super) hour: String,
    pub(super) billed: String,
    pub(super) total: String,
    /// How much of its time has passed, from 0 to 100; none: it is not in force.
    pub(super) time: Option<u64>,
    /// How much of the whole is billed, from 0 to 100.
    pub(super) cost: u64,
    pub(super) waits: Option<&'static str>,
}

/// Shows all of them, or those that are not over.
pub(in super::super) fn leases(picture: &Picture, all: bool, now_ms: u64) -> Leases {
    let problem = picture.deals.as_ref().err().map(Words::of);
    let deals = picture.deals.as_ref().map(|deals| &deals[..]).unwrap_or_default();
    let over = deals.iter().filter(|deal| !is_running(deal)).count();
    let list = |side, id, title, nothing| {
        let mut of: Vec<_> = deals.iter().filter(|deal| deal.side == side).collect();
        of.retain(|deal| all || is_running(deal));
        of.sort_by_key(|deal| (!is_running(deal), deal.until_ms, deal.id));
        let more = of.len().saturating_sub(ROWS);
        let rows = of.into_iter().take(ROWS).map(|deal| row(deal, now_ms)).collect();
        List { id, title, nothing, rows, more }
    };
    let (url, words) = match all {
        true => ("/leases?all=1", "mercato contracts list --all"),
        false => ("/leases", "mercato contracts"),
    };
    let (bought, sold) = ("Nothing is ordered or bought.", "Nothing is asked for or sold.");
    Leases {
        frame: Frame::new("leases", "Leases", url, words.to_owned()),
        lists: [
            list(Side::Consumer, "bought", "Bought", bought),
            list(Side::Provider, "sold", "Sold", sold),
        ],
        all,
        over,
        problem,
    }
}

/// Rows of each of the two lists.
const ROWS: usize = limits::PAGE_ROWS / 2;

/// A deal as a row.
pub(super) fn row(deal: &Deal, now_ms: u64) -> Row {
    let price = &deal.terms.price;
    let runs = is_running(deal);
    let part = deal.billed.zip(deal.total).map(|(part, whole)| percent(part.micros, whole.micros));
    Row {
        id: deal.id.to_string(),
        short: deal.id.short(),
        side: match deal.side {
            Side::Consumer => "from",
            Side::Provider => "to",
        },
        peer: clipped(&peer(deal)),
        state: state(deal),
        tone: tone(deal.state),
        what: clipped(&brief::size(&deal.terms.quantity)),
        node: deal.node.as_deref().map(clipped),
        left: if runs { left(now_ms, deal.until_ms) } else { "-".to_owned() },
        until: deal.until_ms.map(moment),
        hour: money(price, hourly(deal)),
        billed: billed(deal),
        total: money(price, deal.total),
        time: passed(deal, now_ms),
        cost: part.unwrap_or(0),
        waits: waits(deal),
    }
}

/// How much of its term has passed.
fn passed(deal: &Deal, now_ms: u64) -> Option<u64> {
    let in_force = matches!(deal.state, State::Active | State::Suspended | State::Reclaiming);
    let until_ms = deal.until_ms.filter(|_| in_force)?;
    let whole_ms = deal.terms.term_s.saturating_mul(1_000);
    let left_ms = until_ms.saturating_sub(now_ms).min(whole_ms);
    Some(percent(whole_ms - left_ms, whole_ms))
}

/// For whom it waits, and for what.
fn waits(deal: &Deal) -> Option<&'static str> {
    let change = deal.change.as_ref().map(|change| change.state);
    match (deal.side, deal.state, change) {
        (Side::Consumer, State::Offered, _) => Some("an offer waits for your answer"),
        (Side::Provider, State::Review, _) => Some("a request waits for your answer"),
        (Side::Provider, _, Some(State::Review)) => Some("a change waits for your answer"),
        (Side::Consumer, State::Requested | State::Review, _) => Some("waits for the provider"),
        (Side::Consumer, _, Some(State::Requested | State::Review)) => {
            Some("a change waits for the provider")
        }
        _ => None,
    }
}

/// The name of a state, for a style of its own.
fn tone(state: State) -> &'static str {
    match state {
        State::Active => "good",
        State::Requested | State::Review | State::Offered | State::Agreed | State::Pending => {
            "wait"
        }
        State::Suspended | State::Reclaiming => "bad",
        State::Closed | State::Terminated | State::Unknown => "over",
    }
}
