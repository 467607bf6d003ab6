//! `mercato contracts statement`: what is billed, of one contract or of all.

use std::collections::BTreeMap;

use clap::Args;
use mercato_broker::{Side, Statement};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::invoice::CreditKind;
use mercato_protocol::negotiation::State;
use mercato_protocol::price::Money;

use super::global::{Format, now_ms};
use super::lookup::{self, CONTRACT};
use super::screen::Screen;
use super::table::{Table, pairs};
use crate::admin::{Class, Deal, OperatorApi, Problem};
use crate::present::brief;
use crate::present::deal::{is_running, peer};
use crate::present::focus::{self, Row, hours};
use crate::present::text::{moment, money};

/// The length of a day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

#[derive(Args, Debug)]
#[command(override_usage = "mercato contracts statement <ID>
       mercato contracts statement --all [OPTIONS]")]
#[command(after_help = "Examples:
  mercato contracts statement 3f2a91bc
  mercato contracts statement --all --from 2026-11-01 --to 2026-11-30 -o csv

With --all each contract counts whole, on the day on which it ended; one that runs counts
today, with what is billed so far. A contract is kept for 90 days after its end.
As json, yaml and csv a statement has the columns of FOCUS 1.3.")]
pub(super) struct Asked {
    /// The beginning of its id
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// All contracts, bought and sold, a line each, and their sums
    #[arg(long, conflicts_with = "id")]
    all: bool,
    /// Those that ended on this day or later, in UTC: 2026-11-01
    #[arg(long, value_name = "DATE", requires = "all", value_parser = day_ms)]
    from: Option<u64>,
    /// Those that ended on this day or before: 2026-11-30
    #[arg(long, value_name = "DATE", requires = "all", value_parser = day_ms)]
    to: Option<u64>,
}

impl Asked {
    pub(super) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        let Some(id) = &self.id else { return self.all(api, screen).await };
        let deal = lookup::deal(api, CONTRACT, id, |_| true).await?;
        let statement = api.statement(deal.id.into()).await?;
        let us = api.status().await?.name;
        let rows = focus::rows(&statement, &deal, &us);
        if screen.format == Format::Csv {
            return Ok(focus::csv(&rows));
        }
        screen.render(&rows, || bill(&statement, &deal, screen.is_wide()))
    }

    async fn all(&self, api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
        let (from_ms, to_ms) = (self.from.unwrap_or(0), self.to.map(|to| to + DAY_MS));
        if to_ms.is_some_and(|to_ms| to_ms <= from_ms) {
            return Err(Problem::new(Class::Usage, "--to is a day before --from"));
        }
        let now_ms = now_ms();
        let within = |deal: &Deal| {
            let at_ms = deal.until_ms.filter(|_| !is_running(deal)).unwrap_or(now_ms);
            at_ms >= from_ms && to_ms.is_none_or(|to_ms| at_ms < to_ms)
        };
        let mut deals = api.deals().await?;
        deals.retain(|deal| is_contract(deal) && within(deal));
        deals.sort_by_key(|deal| (is_running(deal), deal.until_ms, deal.id));
        let table = || sums(&deals, screen.is_wide());
        match screen.format {
            Format::Table | Format::Wide | Format::Name => screen.render(&deals, table),
            Format::Csv => Ok(focus::csv(&rows(api, &deals).await?)),
            Format::Json | Format::Yaml => screen.render(&rows(api, &deals).await?, table),
        }
    }
}

/// The charges of several contracts.
async fn rows(api: &dyn OperatorApi, deals: &[Deal]) -> Result<Vec<Row>, Problem> {
    let us = api.status().await?.name;
    let mut rows = Vec::new();
    for deal in deals {
        match api.statement(deal.id.into()).await {
            Ok(statement) => rows.extend(focus::rows(&statement, deal, &us)),
            // It was forgotten since.
            Err(problem) if problem.class == Class::NoMatch => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(rows)
}

/// Whether both sides have signed it.
fn is_contract(deal: &Deal) -> bool {
    match deal.state {
        State::Pending | State::Active | State::Suspended | State::Reclaiming | State::Closed => {
            true
        }
        State::Requested
        | State::Review
        | State::Offered
        | State::Agreed
        | State::Terminated
        | State::Unknown => false,
    }
}

/// A day, as the moment at which it begins, wall clock.
fn day_ms(text: &str) -> Result<u64, String> {
    let form = time::macros::format_description!("[year]-[month]-[day]");
    let day = time::Date::parse(text, form).ok();
    let ms = day.and_then(|day| u64::try_from(day.midnight().assume_utc().unix_timestamp()).ok());
    let ms = ms.and_then(|seconds| seconds.checked_mul(1_000));
    ms.ok_or_else(|| "expected a day: year, month, day, for example 2026-11-30".to_owned())
}

/// A line for each contract, and what is bought and sold in all.
fn sums(deals: &[Deal], wide: bool) -> String {
    if deals.is_empty() {
        return "no contract ended or runs then\n".to_owned();
    }
    let mut table = Table::new(["ID", "SIDE", "WITH", "WHAT", "ENDED", "BILLED"])
        .keep(&["ID", "WHAT", "ENDED", "BILLED"]);
    let mut sums: BTreeMap<(&str, String), (usize, Option<Money>)> = BTreeMap::new();
    for deal in deals {
        let (side, done) = match deal.side {
            Side::Provider => ("sells to", "sold"),
            Side::Consumer => ("buys from", "bought"),
        };
        let ended = deal.until_ms.filter(|_| !is_running(deal)).map(moment).unwrap_or_default();
        table.row([
            deal.id.short(),
            side.to_owned(),
            peer(deal),
            brief::size(&deal.terms.quantity),
            ended.split(' ').next().filter(|day| !day.is_empty()).unwrap_or("runs").to_owned(),
            money(&deal.terms.price, deal.billed),
        ]);
        let Some(billed) = deal.billed else { continue };
        let one_more = |(contracts, sum): &mut (usize, Option<Money>)| {
            *contracts += 1;
            *sum = sum.and_then(|sum| sum.checked_add(billed).ok());
        };
        let kind = (done, billed.currency.to_string());
        sums.entry(kind).and_modify(one_more).or_insert((1, Some(billed)));
    }
    let lines = sums.iter().map(|((done, _), (contracts, sum))| {
        let sum = sum.map_or_else(|| "too much to count".to_owned(), |sum| sum.to_string());
        let contracts =
            if *contracts == 1 { "1 contract" } else { &format!("{contracts} contracts") };
        (*done, format!("{sum}, {contracts}"))
    });
    let lines: Vec<_> = lines.collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    format!("{}{gap}{}", table.render(wide), pairs(&lines))
}

fn bill(statement: &Statement, deal: &Deal, wide: bool) -> String {
    let (Some(from_ms), Some(to_ms)) = (statement.from_ms, statement.to_ms) else {
        return unbilled(deal);
    };
    let mut table = Table::new(["RESOURCE", "RESERVED", "AMOUNT"]);
    for (resource, line) in &statement.lines {
        let (hours, unit) = hours(resource, line.counter);
        let reserved = format!("{hours} {unit}");
        let amount = line.amount.map_or_else(|| "included".to_owned(), |money| money.to_string());
        table.row([resource.to_string(), reserved, amount]);
    }
    for credit in &statement.credits {
        let what = match credit.kind {
            CreditKind::Availability => "credit: availability",
            CreditKind::ReclaimNotice => "credit: notice",
        };
        table.row([what.to_owned(), String::new(), format!("-{}", credit.amount)]);
    }
    let total = money(&deal.terms.price, statement.due);
    table.row(["total".to_owned(), String::new(), total]);
    let head = pairs(&[
        ("with", peer(deal)),
        ("from", format!("{} UTC", moment(from_ms))),
        ("to", format!("{} UTC", moment(to_ms))),
        ("price", deal.terms.price.show()),
    ]);
    format!("{}\n{head}\n{}", statement.contract, table.render(wide))
}

/// That nothing is billed, and when something will be.
fn unbilled(deal: &Deal) -> String {
    if !is_running(deal) {
        return "nothing was billed: it ended before both had signed for anything\n".to_owned();
    }
    let each = Seconds(deal.terms.metering_interval_s.into()).show();
    format!("nothing is billed yet: both sides sign what is used each {each}, and at the end\n")
}
