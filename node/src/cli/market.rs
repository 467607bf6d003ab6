//! `mercato browse` and `mercato offer`: what others offer, what of it suits, and why the
//! rest does not.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use mercato_broker::{Candidate, Demand, Excluded, Market, Sort};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::egress::{Egress, EgressKind, EgressOffer};
use mercato_protocol::resources::Resource;
use mercato_protocol::text::shown;

use super::demand::Wanted;
use super::global::Format;
use super::global::now_ms;
use super::screen::{Screen, print};
use super::table::{Table, pairs, wrapped};
use super::{lookup, watch};
use crate::admin::{Class, OperatorApi, Problem};
use crate::present::brief;
use crate::present::offer::{devices, lacking, rows as offer_rows};
use crate::present::text::{called, gpus, money, name, of, round_trip, standing, text};

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
    let title = called(Some(&offer.name), &offer.provider);
    format!("{title}\n{}", pairs(&offer_rows(offer, now_ms())))
}
