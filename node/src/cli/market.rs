//! `mercato browse` and `mercato offer`: what others offer, what of it suits, and why the
//! rest does not.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use mercato_broker::{Candidate, Demand, Excluded, Market, Sort};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::egress::{Egress, EgressKind, EgressOffer};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::NetworkIsolation;
use mercato_protocol::text::shown;

use super::demand::Wanted;
use super::global::Format;
use super::global::now_ms;
use super::screen::{Screen, print};
use super::table::{Table, pairs, wrapped};
use super::{lookup, watch};
use crate::admin::{Class, OperatorApi, Problem};
use crate::present::brief;
use crate::present::text::{
    called, device, fingerprint, gpus, left, money, name, of, one_pod, round_trip, standing, text,
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato browse --cpu 8 --memory 32Gi --for 4h --max-price '3 EUR/h'
  mercato browse 'gpu.model in (h100,h200), gpu.mem>=80Gi, rtt<=30ms' --explain

A selector is a list of terms, separated by commas, which must all hold;
docs/selectors.md has the attributes. SCORE (-o wide) goes from 0 to 1000, 1000 is
the best; REPUTATION is the share of good conduct in your own contracts.")]
pub(crate) struct Browse {
    #[command(flatten)]
    wanted: Wanted,
    /// How long it is needed
    #[arg(long = "for", value_name = "DURATION", value_parser = text::<Seconds>)]
    term: Option<Seconds>,
    /// Keep watching: in place on a terminal, line by line in a pipe
    #[arg(short, long, conflicts_with = "explain")]
    watch: bool,
    /// Show what each term excludes, and which offer comes nearest
    #[arg(long)]
    explain: bool,
}

impl Browse {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
        limit: Option<Duration>,
    ) -> Result<String, Problem> {
        let demand = self.wanted.demand(api, self.term).await?;
        if self.watch {
            let look = async || show(api, screen, demand.clone(), false).await;
            return watch::within(limit, watch::watch(screen, look)).await;
        }
        show(api, screen, demand, self.explain).await
    }
}

/// What suits, and why the rest does not, if that is asked for.
pub(crate) async fn show(
    api: &dyn OperatorApi,
    screen: &Screen,
    demand: Demand,
    explain: bool,
) -> Result<String, Problem> {
    let market = api.browse(demand.clone(), explain).await?;
    if market.seen == 0 {
        return Err(Problem::new(Class::NoMatch, "no cluster offers anything now")
            .todo("see which clusters are known and connected: mercato peers"));
    }
    if market.suiting == 0 && !explain {
        let problem = Problem::new(Class::NoMatch, none_suits(&market))
            .todo("see what each of them lacks: add --explain");
        return Err(unmatched(api, demand, problem).await);
    }
    screen.warn(&market.unknown);
    let text = match screen.format {
        Format::Csv => Ok(rows(&market.offers, &demand, true).csv()),
        Format::Name => Ok(names(&market.offers)),
        Format::Table | Format::Wide | Format::Json | Format::Yaml => {
            screen.render(&market, || page(&market, &demand, explain, screen.is_wide()))
        }
    }?;
    if market.suiting > 0 {
        return Ok(text);
    }
    // Programs go by how a command ends, whatever it explained.
    print(&text)?;
    Err(Problem::new(Class::NoMatch, none_suits(&market)))
}

/// Of the offers that do not match, which comes nearest, and what it lacks: put before what else is
/// to be done about it, after names that match nothing.
pub(crate) async fn unmatched(api: &dyn OperatorApi, demand: Demand, problem: Problem) -> Problem {
    let market = api.browse(demand, true).await.unwrap_or_default();
    let nearest = market.excluded.first().map(lacking).filter(|_| market.suiting == 0);
    let unknown = market.unknown.iter().map(ToString::to_string);
    let todo = unknown.chain(nearest).chain(problem.todo).collect();
    Problem { todo, ..problem }
}

fn lacking(group: &Excluded) -> String {
    let nearest = &group.nearest;
    let provider = called(Some(&nearest.name), &nearest.provider);
    let lacks: Vec<String> = nearest.lacks.iter().map(ToString::to_string).collect();
    format!("nearest: {provider} {}: {}", nearest.pool, shown(&lacks.join("; ")))
}

/// Each provider once, as `--from` takes it: the best first.
fn names(offers: &[Candidate]) -> String {
    let mut seen = BTreeSet::new();
    let new = offers.iter().filter(|offer| seen.insert(offer.provider));
    new.map(|offer| format!("{}\n", offer.provider)).collect()
}

fn none_suits(market: &Market) -> String {
    mercato_broker::Refusal::NoMatch { seen: market.seen }.to_string()
}

fn page(market: &Market, demand: &Demand, explain: bool, wide: bool) -> String {
    let Market { seen, suiting, offers, excluded, .. } = market;
    let others = seen - suiting;
    let mut text = match offers.is_empty() {
        true => format!("{}\n", none_suits(market)),
        false => rows(offers, demand, wide).render(wide),
    };
    if offers.len() < *suiting {
        text += &format!("\nthe best {} of {suiting} that match\n", offers.len());
    }
    if explain && others > 0 {
        text += &format!("\nWhy {others} of {seen} offers do not match:\n");
        text.extend(excluded.iter().map(reason));
    } else if others > 0 {
        text += &format!("\n{others} of {seen} offers do not match; to see why: --explain\n");
    }
    text
}

/// One column: its header, and what stands in it.
type Column<'a> = (&'static str, Box<dyn Fn(&Candidate) -> String + 'a>);

fn rows(offers: &[Candidate], demand: &Demand, wide: bool) -> Table {
    fn column<'a>(header: &'static str, cell: impl Fn(&Candidate) -> String + 'a) -> Column<'a> {
        (header, Box::new(cell))
    }
    let dash = || "-".to_owned();
    let plain = |resource: Resource| move |offer: &Candidate| of(&resource, &offer.free);
    let shown = |sort: Sort| wide || demand.sort == sort;
    let mut columns = vec![
        column("PROVIDER", |offer| called(Some(&offer.name), &offer.provider)),
        column("POOL", |offer| offer.pool.id.to_string()),
        column("CPU", plain(Resource::Cpu)),
        column("MEMORY", plain(Resource::Memory)),
        column("PODS", plain(Resource::Pods)),
    ];
    if wide || demand.quantity.storage_bytes > 0 {
        columns.push(column("STORAGE", plain(Resource::Storage)));
    }
    columns.extend([
        column("GPUS", |offer| gpus(&offer.free)),
        column("CLASS", |offer| offer.terms.classes.iter().map(name).collect::<Vec<_>>().join(",")),
        column("TRUST", |offer| standing(offer.standing).to_owned()),
    ]);
    if wide {
        columns.push(column("LAW", |offer| offer.jurisdiction.clone().unwrap_or_else(dash)));
        columns.push(column("REGION", |offer| offer.region.clone().unwrap_or_else(dash)));
    }
    if wide || demand.egress != Egress::None {
        columns.push(column("EGRESS", |offer| {
            offer.egress.as_ref().map_or(EgressKind::None, EgressOffer::kind).word().to_owned()
        }));
    }
    if shown(Sort::Rtt) {
        columns.push(column("RTT", |offer| offer.rtt_us.map_or_else(dash, round_trip)));
    }
    if shown(Sort::Carbon) {
        let grams =
            |offer: &Candidate| offer.carbon_g_per_kwh.map_or_else(dash, |g| format!("{g}g"));
        columns.push(column("CARBON", grams));
    }
    if wide {
        let of_thousand = |n: u64| format!("{}%", n / 10);
        columns.push(column("REPUTATION", move |offer| {
            offer.reputation.map_or_else(dash, of_thousand)
        }));
        columns.push(column("SCORE", |offer| {
            offer.score.map_or_else(dash, |score| score.to_string())
        }));
        columns.push(column("DEVICES", devices));
    }
    columns.push(match demand.term_s {
        0 => column("PRICE", move |offer| match wide {
            true => offer.price.show(),
            false => brief::price(&offer.price),
        }),
        _ => column("TOTAL", |offer| money(&offer.price, offer.total)),
    });
    let mut table = Table::new(columns.iter().map(|(header, _)| *header))
        .keep(&["CPU", "MEMORY", "STORAGE", "GPUS", "PRICE", "TOTAL"])
        .spare(&["PODS", "POOL", "CLASS", "TRUST"]);
    for offer in offers {
        table.row(columns.iter().map(|(_, cell)| cell(offer)));
    }
    table
}

/// What its GPUs are, in a line.
fn devices(offer: &Candidate) -> String {
    let all: Vec<_> = offer.pool.gpus.iter().map(device).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

/// How much room for volumes the provider has, and its words for it.
fn storage_of(offer: &Candidate) -> String {
    let words = [vec![of(&Resource::Storage, &offer.free)], offer.storage_kinds.clone()].concat();
    shown(&words.join(", ")).into_owned()
}

/// Whom guests may reach on the Internet, and what keeps them to it.
fn egress_of(offer: &Candidate) -> String {
    let Some(egress) = &offer.egress else { return "none".to_owned() };
    match offer.network_isolation {
        NetworkIsolation::Required => egress.to_string(),
        // What the network does not enforce keeps nobody in.
        NetworkIsolation::None => format!("{egress}\nkept to it as far as its network enforces"),
    }
}

/// What its GPUs are, each with what comes with one, how many a node has and how they are joined.
fn gpus_of(offer: &Candidate) -> String {
    let each = offer.pool.gpus.iter().map(|gpu| {
        let with = Resources {
            cpu_millis: gpu.cpu_millis_per_unit,
            memory_bytes: gpu.memory_bytes_per_unit,
            ..Resources::default()
        };
        let with = (!with.is_zero()).then(|| format!("; with each {}", with.show()));
        let joined = gpu.interconnect.as_deref().map(|how| format!(", by {}", shown(how)));
        let (with, joined) = (with.unwrap_or_default(), joined.unwrap_or_default());
        format!("{}; {} a node{joined}{with}", device(gpu), gpu.most_per_node)
    });
    let all: Vec<_> = each.collect();
    if all.is_empty() { "-".to_owned() } else { all.join("\n") }
}

/// What one need excludes, and what comes nearest.
fn reason(group: &Excluded) -> String {
    let Excluded { by, offers, alone, .. } = group;
    let alone = match alone {
        0 => String::new(),
        _ => format!(", {alone} by itself"),
    };
    let by = wrapped(&format!("{}: excludes {offers}{alone}", shown(by)), 4);
    format!("  {by}\n    {}\n", wrapped(&lacking(group), 6))
}

/// Shows the whole offer of one provider.
pub(crate) async fn offer(
    api: &dyn OperatorApi,
    screen: &Screen,
    provider: &str,
) -> Result<String, Problem> {
    let known = lookup::cluster(api, provider).await?;
    let demand = Demand { from: Some(known.cluster), sort: Sort::Price, ..Demand::default() };
    let offers = api.browse(demand, false).await?.offers;
    if offers.is_empty() {
        return Err(Problem::new(Class::NoMatch, format!("{} offers nothing now", known.called()))
            .todo("see what others offer: mercato browse"));
    }
    screen.render(&offers, || offers.iter().map(offer_page).collect::<Vec<_>>().join("\n"))
}

fn offer_page(offer: &Candidate) -> String {
    let terms = &offer.terms;
    let seconds = |seconds| Seconds(seconds).show();
    let dash = || "-".to_owned();
    let word =
        |said: &Option<String>| said.as_deref().map_or_else(dash, |said| shown(said).into_owned());
    let platform = &offer.pool.platform;
    let classes: Vec<_> = terms.classes.iter().map(name).collect();
    let title = called(Some(&offer.name), &offer.provider);
    let page = pairs(&[
        ("pool", format!("{} ({}/{})", offer.pool.id, platform.os, platform.arch)),
        ("free", offer.free.show()),
        ("in all", offer.pool.total.show()),
        ("largest pod", one_pod(&offer.pool.largest_pod)),
        ("gpus", gpus_of(offer)),
        ("storage", storage_of(offer)),
        ("price", offer.price.show()),
        ("class", classes.join(", ")),
        ("term", format!("{} to {}", seconds(terms.min_term_s), seconds(terms.max_term_s))),
        ("reclaim notice", seconds(terms.reclaim_notice_s)),
        ("network isolation", name(offer.network_isolation)),
        ("egress", egress_of(offer)),
        ("jurisdiction", word(&offer.jurisdiction)),
        ("region", word(&offer.region)),
        ("carbon", offer.carbon_g_per_kwh.map_or_else(dash, |grams| format!("{grams} g/kWh"))),
        ("round trip", offer.rtt_us.map_or_else(dash, round_trip)),
        ("expires in", left(now_ms(), Some(offer.expires_ms))),
        ("trust", standing(offer.standing).to_owned()),
        ("fingerprint", fingerprint(&offer.provider).join("\n")),
    ]);
    format!("{title}\n{page}")
}
