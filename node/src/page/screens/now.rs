//! What is now: what needs a person, what is spent and earned, what ends soon, what has happened.

use std::collections::BTreeMap;

use askama::Template;
use mercato_broker::{Side, Standing};
use mercato_protocol::negotiation::State;
use mercato_protocol::price::Money;

use super::super::memory::Picture;
use super::leases::{Row, row};
use super::{Frame, Words, clipped};
use crate::admin::{Attention, Deal, Event, Problem, TunnelLink};
use crate::doctor::{Finding, Verdict};
use crate::limits;
use crate::present::deal::{hourly, is_running};
use crate::present::text::moment;

/// Events that are shown at once.
const LAST: usize = 12;
/// What ends within this time is named.
const SOON_MS: u64 = 86_400_000;

/// The screen that a person sees first.
#[derive(Template)]
#[template(path = "now.html")]
pub(in super::super) struct Now {
    frame: Frame,
    tiles: Vec<Tile>,
    attention: Vec<Item>,
    more: usize,
    ending: Vec<Row>,
    events: Vec<Line>,
    unseen: Vec<Words>,
}

/// A figure with what it is of.
struct Tile {
    figure: String,
    what: String,
    href: &'static str,
}

/// Something that waits for a person.
struct Item {
    text: String,
    commands: Vec<String>,
}

/// Something that happened, in a line.
pub(super) struct Line {
    pub(super) at: String,
    pub(super) text: String,
    pub(super) contract: Option<String>,
}

/// What the doctor has found.
#[derive(Template)]
#[template(path = "doctor.html")]
pub(in super::super) struct Findings {
    findings: Vec<Found>,
    problem: Option<Words>,
}

struct Found {
    verdict: &'static str,
    check: String,
    what: String,
    todo: Vec<String>,
}

/// Shows how things are at this moment.
pub(in super::super) fn now(picture: &Picture, now_ms: u64) -> Now {
    let none = Vec::new();
    let deals = picture.deals.as_ref().map_or(&none, |deals| &**deals);
    let attention = picture.status.as_ref().map(|it| &it.attention[..]).unwrap_or_default();
    let is_ending = |deal: &&Deal| {
        let until_ms = deal.until_ms.filter(|_| is_running(deal));
        until_ms.is_some_and(|ms| ms.saturating_sub(now_ms) < SOON_MS)
    };
    let mut ending: Vec<_> = deals.iter().filter(is_ending).collect();
    ending.sort_by_key(|deal| (deal.until_ms, deal.id));
    let events = picture.events.as_ref().map(|all| all.iter().rev().take(LAST).map(line).collect());
    let errors = [picture.status.as_ref().err(), picture.deals.as_ref().err()];
    let errors = errors.into_iter().chain([picture.events.as_ref().err()]).flatten();
    Now {
        frame: Frame::new("now", "Now", "/", "mercato status".to_owned()),
        tiles: tiles(picture, deals),
        attention: attention.iter().take(limits::PAGE_ROWS).map(item).collect(),
        more: attention.len().saturating_sub(limits::PAGE_ROWS),
        ending: ending.into_iter().take(LAST).map(|deal| row(deal, now_ms)).collect(),
        events: events.unwrap_or_default(),
        unseen: errors.map(Words::of).collect(),
    }
}

fn item(attention: &Attention) -> Item {
    let commands = attention.commands.iter().map(|command| clipped(command)).collect();
    Item { text: clipped(&attention.text), commands }
}

/// An event as a line of a list.
pub(super) fn line(event: &Event) -> Line {
    let contract = event.contract.map(|id| id.to_string());
    let contract = contract.or_else(|| event.order.map(|id| id.to_string()));
    Line { at: moment(event.at_ms), text: clipped(&event.text), contract }
}

fn tiles(picture: &Picture, deals: &[Deal]) -> Vec<Tile> {
    let running = |side| move |deal: &&Deal| deal.side == side && is_billed(deal.state);
    let rate = |side| rate(deals.iter().filter(running(side)));
    let count = |side| deals.iter().filter(running(side)).count();
    let leases = |n| if n == 1 { "1 lease".to_owned() } else { format!("{n} leases") };
    let mut tiles = Vec::new();
    if picture.deals.is_ok() {
        let (bought, sold) = (leases(count(Side::Consumer)), leases(count(Side::Provider)));
        let spent = format!("spent an hour, on {bought}");
        tiles.push(Tile { figure: rate(Side::Consumer), what: spent, href: "/leases" });
        let earned = format!("earned an hour, by {sold}");
        tiles.push(Tile { figure: rate(Side::Provider), what: earned, href: "/leases#sold" });
        let nodes: Vec<_> = deals.iter().filter(running(Side::Consumer)).collect();
        let ready = nodes.iter().filter(|deal| deal.state == State::Active).count();
        let figure = format!("{ready} of {}", nodes.len());
        let what = "virtual nodes with a contract in force".to_owned();
        tiles.push(Tile { figure, what, href: "/leases" });
    }
    if let Ok(peers) = &picture.peers {
        let connected = peers.iter().filter(|peer| peer.connected.is_some()).count();
        let trusted = peers.iter().filter(|peer| peer.standing == Standing::Trusted).count();
        let figure = format!("{connected} of {}", peers.len());
        let what = format!("clusters connected; {trusted} trusted");
        tiles.push(Tile { figure, what, href: "/market" });
    }
    if let Ok(status) = &picture.status
        && status.gateway.enabled
    {
        let up = status.tunnels.iter().filter(|tunnel| tunnel.link == TunnelLink::Up).count();
        let figure = format!("{up} of {}", status.tunnels.len());
        tiles.push(Tile { figure, what: "tunnels are up".to_owned(), href: "/leases" });
    }
    tiles
}

/// Whether its time is paid for.
fn is_billed(state: State) -> bool {
    matches!(state, State::Pending | State::Active | State::Suspended | State::Reclaiming)
}

/// What they cost in an hour, each currency for itself.
fn rate<'a>(deals: impl Iterator<Item = &'a Deal>) -> String {
    let mut sums: BTreeMap<String, Option<Money>> = BTreeMap::new();
    for money in deals.filter_map(hourly) {
        let add = |sum: &mut Option<Money>| *sum = sum.and_then(|sum| sum.checked_add(money).ok());
        sums.entry(money.currency.to_string()).and_modify(add).or_insert(Some(money));
    }
    let each = sums.into_values().map(|sum| sum.map_or("too much".to_owned(), |it| it.to_string()));
    let all: Vec<_> = each.collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" + ") }
}

/// Shows what the doctor says.
pub(in super::super) fn findings(found: Result<Vec<Finding>, Problem>) -> Findings {
    let found = match found {
        Ok(found) => found,
        Err(problem) => {
            return Findings { findings: Vec::new(), problem: Some(Words::of(&problem)) };
        }
    };
    let mut found: Vec<_> = found.into_iter().take(limits::PAGE_ROWS).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let each = found.into_iter().map(|finding| Found {
        verdict: match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        },
        check: clipped(&finding.check),
        what: clipped(&finding.what),
        todo: finding.todo.iter().map(|line| clipped(line)).collect(),
    });
    Findings { findings: each.collect(), problem: None }
}
