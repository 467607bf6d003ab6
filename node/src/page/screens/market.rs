//! The market as a price list: what suits, why the rest does not, and a few side by side.

use std::collections::BTreeMap;

use askama::Template;
use mercato_broker::{Candidate, Demand, Excluded, Market};
use mercato_config::Show as _;
use mercato_protocol::price::{Price, Usage};
use mercato_protocol::resources::Resource;

use super::search::{Search, Wrong, pick, toggled};
use super::{Frame, Pair, Words, clipped, pairs, percent};
use crate::admin::Problem;
use crate::limits;
use crate::present::brief;
use crate::present::offer::{lacking, rows};
use crate::present::requirements::Requirements;
use crate::present::text::{called, memory, money, of, round_trip, standing};

/// The length of an hour, in milliseconds.
const HOUR_MS: u64 = 3_600_000;

/// Terms that a click adds to the selector.
const CHIPS: [(&str, &str); 8] = [
    ("H100", "gpu.model=h100"),
    ("A100", "gpu.model=a100"),
    ("80 GiB a GPU", "gpu.mem>=80Gi"),
    ("trusted", "trust=trusted"),
    ("within 30 ms", "rtt<=30ms"),
    ("guests apart", "network-isolation=required"),
    ("reserved", "class=reserved"),
    ("low carbon", "carbon<=200"),
];

/// An address of the market, and what is wanted by it.
pub(in super::super) struct Asked {
    search: Search,
    requirements: Result<Requirements, Wrong>,
}

/// The screen of the market.
#[derive(Template)]
#[template(path = "market.html")]
pub(in super::super) struct MarketScreen {
    frame: Frame,
    search: Search,
    wrong: Option<Wrong>,
    problem: Option<Words>,
    chips: Vec<Chip>,
    seen: usize,
    suiting: usize,
    /// Whether a price is of this demand, rather than of each unit.
    priced: bool,
    /// What is paid for, in a few words.
    demand: String,
    /// Whether any of them sells storage.
    storage: bool,
    rows: Vec<Row>,
    reasons: Vec<Reason>,
    unknown: Vec<String>,
    tray: Vec<Picked>,
    compared: Vec<Compared>,
    links: Links,
}

/// Addresses that lead on from here.
struct Links {
    suits: String,
    why: String,
    side: String,
    list: String,
    none: String,
}

struct Chip {
    label: &'static str,
    is_on: bool,
    href: String,
}

/// A pool that is on sale.
struct Row {
    pick: String,
    is_picked: bool,
    href: String,
    provider: String,
    trust: &'static str,
    pool: String,
    gpus: Vec<Gpus>,
    cpu: String,
    memory: String,
    storage: String,
    place: String,
    round_trip: String,
    score: Option<u64>,
    bar: u64,
    hour: String,
    total: String,
}

/// GPUs of one model that are free.
struct Gpus {
    model: String,
    free: u64,
    memory: String,
}

/// A need that some offers do not meet.
struct Reason {
    by: String,
    offers: usize,
    alone: usize,
    bar: u64,
    nearest: String,
    without: Option<String>,
}

struct Picked {
    called: String,
    without: String,
}

/// A line of the comparison: the same of each offer.
struct Compared {
    name: String,
    cells: Vec<Cell>,
    differs: bool,
}

struct Cell {
    lines: Vec<String>,
    href: Option<String>,
}

impl Asked {
    /// Reads the query of an address.
    pub(in super::super) fn read(query: &str) -> Self {
        let search = Search::read(query);
        let requirements = search.requirements();
        Self { search, requirements }
    }

    /// What the daemon is to look for; none: the search cannot be read.
    pub(in super::super) fn demand(&self) -> Option<Demand> {
        self.requirements.as_ref().ok().map(Requirements::demand)
    }

    /// Whether the reasons are asked for.
    pub(in super::super) fn explains(&self) -> bool {
        self.search.why
    }

    /// The address of it, as it is shown.
    pub(in super::super) fn url(&self) -> String {
        self.search.url()
    }

    fn command(&self) -> String {
        let words = self.requirements.as_ref().map(Requirements::words).unwrap_or_default();
        let explain = if self.search.why { " --explain" } else { "" };
        format!("mercato browse {words}").trim_end().to_owned() + explain
    }
}

/// Shows what there is; `found` is none where the search cannot be read.
pub(in super::super) fn market(
    asked: Asked,
    found: Option<Result<Market, Problem>>,
    now_ms: u64,
) -> MarketScreen {
    let frame = Frame {
        when: "market",
        ..Frame::new("market", "Market", asked.search.url(), asked.command())
    };
    let (found, problem) = match found {
        Some(Ok(found)) => (found, None),
        Some(Err(problem)) => (Market::default(), Some(Words::of(&problem))),
        None => (Market::default(), None),
    };
    let demand = asked.demand().unwrap_or_default();
    let Asked { search, requirements } = asked;
    let priced = demand.term_s > 0;
    let offers = &found.offers;
    let best = offers.iter().filter_map(|offer| offer.score).max().unwrap_or(0);
    let excluded = found.excluded.iter().take(limits::PAGE_ROWS);
    let unknown = found.unknown.iter().map(|unknown| clipped(&unknown.to_string()));
    MarketScreen {
        frame,
        chips: chips(&search),
        seen: found.seen,
        suiting: found.suiting,
        priced,
        demand: paid_for(&demand),
        storage: offers.iter().any(|offer| offer.free.storage_bytes > 0),
        rows: offers.iter().map(|offer| row(offer, &search, priced, best)).collect(),
        reasons: excluded.map(|group| reason(group, &search, found.seen)).collect(),
        unknown: unknown.collect(),
        tray: tray(&search, offers),
        compared: if search.side { compared(&search, offers, now_ms) } else { Vec::new() },
        links: links(&search),
        wrong: requirements.err(),
        problem,
        search,
    }
}

fn links(search: &Search) -> Links {
    let suits = Search { why: false, side: false, ..search.clone() };
    Links {
        why: Search { why: true, ..suits.clone() }.url(),
        side: Search { side: true, ..suits.clone() }.url(),
        list: suits.url(),
        none: Search { picked: Vec::new(), ..suits.clone() }.url(),
        suits: suits.url(),
    }
}

fn chips(search: &Search) -> Vec<Chip> {
    let selector = search.field("q");
    let known = CHIPS.iter().map(|(label, term)| {
        let other = toggled(selector, term);
        let is_on = other.len() < selector.len();
        let href = Search { why: search.why, ..search.with("q", &other) }.url();
        Chip { label, is_on, href }
    });
    known.collect()
}

/// `8 cpu 64Gi for 4h`, as prices are of it.
fn paid_for(demand: &Demand) -> String {
    let term = mercato_config::Seconds(demand.term_s).show();
    let size = brief::size(&demand.quantity);
    if size.is_empty() { term } else { format!("{size} for {term}") }
}

fn id(offer: &Candidate) -> String {
    format!("{}/{}", offer.provider, offer.pool.id)
}

fn row(offer: &Candidate, search: &Search, priced: bool, best: u64) -> Row {
    let dash = || "-".to_owned();
    let pick = id(offer);
    let place = [offer.jurisdiction.as_deref(), offer.region.as_deref()];
    let place: Vec<_> = place.into_iter().flatten().map(clipped).collect();
    let free = |resource: Resource| of(&resource, &offer.free);
    Row {
        is_picked: search.picked.contains(&pick),
        href: format!("/offer/{}", offer.provider),
        provider: clipped(&called(Some(&offer.name), &offer.provider)),
        trust: standing(offer.standing),
        pool: offer.pool.id.to_string(),
        gpus: gpus(offer),
        cpu: free(Resource::Cpu),
        memory: free(Resource::Memory),
        storage: free(Resource::Storage),
        place: if place.is_empty() { dash() } else { place.join(", ") },
        round_trip: offer.rtt_us.map_or_else(dash, round_trip),
        score: offer.score,
        bar: percent(offer.score.unwrap_or(0), best),
        hour: hour(offer, priced),
        total: money(&offer.price, offer.total),
        pick,
    }
}

/// The GPUs of an offer by model, with what of each is free.
fn gpus(offer: &Candidate) -> Vec<Gpus> {
    let memories: BTreeMap<_, _> =
        offer.pool.gpus.iter().map(|gpu| (&gpu.model, gpu.memory_mib)).collect();
    let free = offer.free.gpus.iter().map(|(model, free)| {
        let mib = memories.get(model).copied().unwrap_or(0);
        let memory = memory(mib.saturating_mul(1 << 20));
        Gpus { model: model.to_string(), free: *free, memory }
    });
    free.collect()
}

/// The price of what is wanted for an hour, or else of each unit.
fn hour(offer: &Candidate, priced: bool) -> String {
    if !priced || offer.price == Price::Free {
        return brief::price(&offer.price);
    }
    let usage = Usage::of(&offer.quantity, HOUR_MS);
    let cost = usage.and_then(|usage| offer.price.total(&usage)).ok().flatten();
    money(&offer.price, cost)
}

fn reason(group: &Excluded, search: &Search, seen: usize) -> Reason {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let selector = search.field("q");
    let other = toggled(selector, &group.by);
    let is_term = other.len() < selector.len();
    Reason {
        by: clipped(&group.by),
        offers: group.offers,
        alone: group.alone,
        bar: percent(count(group.offers), count(seen)),
        nearest: clipped(&lacking(group)),
        without: is_term.then(|| search.with("q", &other).url()),
    }
}

/// The offers that were picked, those that do not suit any more included.
fn tray(search: &Search, offers: &[Candidate]) -> Vec<Picked> {
    let each = search.picked.iter().map(|picked| {
        let offer = offers.iter().find(|offer| id(offer) == *picked);
        let unknown = || pick(picked).map_or("?".to_owned(), |(cluster, _)| cluster.short());
        let called = offer.map_or_else(unknown, |offer| {
            let name = called(Some(&offer.name), &offer.provider);
            format!("{} {}", clipped(&name), offer.pool.id)
        });
        let others = search.picked.iter().filter(|other| *other != picked).cloned().collect();
        Picked { called, without: Search { picked: others, ..search.clone() }.url() }
    });
    each.collect()
}

/// All that is said of each offer that was picked, a line for each thing.
fn compared(search: &Search, offers: &[Candidate], now_ms: u64) -> Vec<Compared> {
    let found = search.picked.iter();
    let found: Vec<_> =
        found.filter_map(|picked| offers.iter().find(|offer| id(offer) == *picked)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let heads = found.iter().map(|offer| Cell {
        lines: vec![clipped(&called(Some(&offer.name), &offer.provider))],
        href: Some(format!("/offer/{}", offer.provider)),
    });
    let heads = Compared { name: "offer".to_owned(), cells: heads.collect(), differs: false };
    let priced = found.iter().any(|offer| offer.total.is_some());
    let extra = |name: &str, text: &dyn Fn(&Candidate) -> String| {
        let cell = |offer: &&Candidate| Cell { lines: vec![text(offer)], href: None };
        line(name, found.iter().map(cell).collect())
    };
    let mut lines = vec![heads];
    if priced {
        lines.push(extra("an hour", &|offer| hour(offer, true)));
        lines.push(extra("in all", &|offer| money(&offer.price, offer.total)));
    }
    lines.push(extra("score", &|offer| {
        offer.score.map_or_else(|| "-".to_owned(), |score| score.to_string())
    }));
    let columns: Vec<Vec<Pair>> = found.iter().map(|offer| pairs(rows(offer, now_ms))).collect();
    let names: Vec<_> = columns.iter().flatten().map(|pair| pair.name.clone()).collect();
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    for name in names.into_iter().take(columns.first().map_or(0, ExactSizeIterator::len)) {
        let cells = columns.iter_mut().filter_map(Iterator::next);
        let cells = cells.map(|pair| Cell { lines: pair.lines, href: None }).collect();
        let name = if name == "in all" { "capacity".to_owned() } else { name };
        lines.push(line(&name, cells));
    }
    lines
}

fn line(name: &str, cells: Vec<Cell>) -> Compared {
    let differs = cells.windows(2).any(|two| matches!(two, [a, b] if a.lines != b.lines));
    Compared { name: name.to_owned(), cells, differs }
}
