//! One lease: how far it is, what it costs, what has happened, what was agreed.

use askama::Template;
use mercato_broker::Statement;
use mercato_config::Show as _;
use mercato_protocol::resources::Resource;
use mercato_protocol::text::shown;

use super::super::memory::Picture;
use super::leases::{Row, row};
use super::now::{Line, line};
use super::{Frame, Pair, Words, clipped, pairs, percent};
use crate::admin::{Deal, Problem, TunnelLink};
use crate::limits;
use crate::present::change;
use crate::present::deal::{rows, todo};
use crate::present::focus;
use crate::present::text::{moment, money, name};

/// The screen of one lease.
#[derive(Template)]
#[template(path = "lease.html")]
pub(in super::super) struct LeaseScreen {
    frame: Frame,
    row: Row,
    price: String,
    pods: Option<usize>,
    todo: Vec<String>,
    change: Option<String>,
    tunnel: Option<Tunnel>,
    lines: Vec<Line>,
    rows: Vec<Pair>,
    bill: Option<Bill>,
    unbilled: Option<Words>,
}

struct Tunnel {
    tone: &'static str,
    says: String,
}

/// What is billed so far.
struct Bill {
    from: String,
    to: String,
    lines: Vec<BillLine>,
    credits: Vec<String>,
    due: String,
}

struct BillLine {
    resource: String,
    reserved: String,
    amount: String,
    bar: u64,
}

/// Shows one lease. `statement` is none where there cannot be one yet.
pub(in super::super) fn lease(
    deal: &Deal,
    statement: Option<Result<Statement, Problem>>,
    picture: &Picture,
    now_ms: u64,
) -> LeaseScreen {
    let short = deal.id.short();
    let title = format!("Lease {short}");
    let command = format!("mercato contracts show {short}");
    let events = picture.events.as_ref().map(|all| &**all);
    let is_of = |event: &&crate::admin::Event| {
        event.order == Some(deal.id) || event.contract == Some(deal.contract())
    };
    let lines = events.into_iter().flatten().rev().filter(is_of).take(limits::PAGE_ROWS);
    let (bill, unbilled) = match statement {
        Some(Ok(statement)) => (bill(&statement, deal), None),
        Some(Err(problem)) => (None, Some(Words::of(&problem))),
        None => (None, None),
    };
    LeaseScreen {
        frame: Frame::new("leases", &title, format!("/lease/{}", deal.id), command),
        price: clipped(&deal.terms.price.show()),
        pods: deal.pods,
        todo: todo(deal).map(|text| text.lines().map(clipped).collect()).unwrap_or_default(),
        change: deal.change.as_ref().map(|it| clipped(&change::line(deal, it))),
        tunnel: tunnel(deal, picture),
        lines: lines.map(line).collect(),
        rows: pairs(rows(deal)),
        bill,
        unbilled,
        row: row(deal, now_ms),
    }
}

fn tunnel(deal: &Deal, picture: &Picture) -> Option<Tunnel> {
    let status = picture.status.as_ref().ok()?;
    let tunnel = status.tunnels.iter().find(|tunnel| tunnel.cluster == deal.peer)?;
    let since = tunnel.since_ms.map(|ms| format!(" since {} UTC", moment(ms))).unwrap_or_default();
    let trip = tunnel.round_trip_ms.map(|ms| format!(", round trip {ms} ms")).unwrap_or_default();
    let reason = tunnel.reason.as_deref().map(|why| format!(": {}", shown(why)));
    let says = format!("{}{since}{trip}{}", name(tunnel.link), reason.unwrap_or_default());
    let tone = match tunnel.link {
        TunnelLink::Up => "good",
        TunnelLink::Down => "bad",
        TunnelLink::None => "wait",
    };
    Some(Tunnel { tone, says: clipped(&says) })
}

fn bill(statement: &Statement, deal: &Deal) -> Option<Bill> {
    let (from_ms, to_ms) = statement.from_ms.zip(statement.to_ms)?;
    let whole = statement.total.map_or(0, |total| total.micros);
    let line = |resource: &Resource, line: &mercato_broker::Line| {
        let (hours, unit) = focus::hours(resource, line.counter);
        let amount = line.amount.map_or_else(|| "included".to_owned(), |it| it.to_string());
        let bar = percent(line.amount.map_or(0, |it| it.micros), whole);
        BillLine {
            resource: resource.to_string(),
            reserved: format!("{hours} {unit}"),
            amount,
            bar,
        }
    };
    let credits = statement.credits.iter();
    let credits = credits.map(|credit| format!("{}: -{}", name(credit.kind), credit.amount));
    Some(Bill {
        from: moment(from_ms),
        to: moment(to_ms),
        lines: statement.lines.iter().map(|(resource, of)| line(resource, of)).collect(),
        credits: credits.collect(),
        due: money(&deal.terms.price, statement.due),
    })
}

/// The statement as a file: its rows are those of FOCUS.
pub(in super::super) fn saved(statement: &Statement, deal: &Deal, us: &str) -> String {
    focus::csv(&focus::rows(statement, deal, us))
}
