//! The page: one file that needs nothing else.

use std::fmt::Write as _;

use mercato_config::{Seconds, Show as _};

use super::figures::{market_map, prices, queue, refused, spread, times, traffic, utilisation};
use super::plot::bars;
use super::style::CSS;
use super::words::{
    beside_gossipsub, bytes, bytes_per_cluster_hour, core_price, count, escape, incidents, percent,
    rows, share, time, verdict,
};
use crate::explore::federation::Run;
use crate::measure::quantile;

/// The report of one run.
pub(super) fn of_one(run: &Run) -> String {
    let plan = &run.federation.plan;
    let title = format!("{}: {} clusters", plan.name, plan.clusters.len());
    let mut body = heading(&title, &about(run));
    let _ = write!(body, "<p class=\"lead\">{}</p>", verdict(run));
    body += &tiles(run);
    body += "<div class=\"grid\">";
    body += &card("tall", "Who trades with whom", MAP_SAYS, &market_map(run));
    body += &card("", "Processors in use", "Of all that the clusters have.", &utilisation(run));
    body += &card(
        "",
        "From a need to running pods",
        "Each bar from the middle to 99 %; points at 50, 90 and 99 %.",
        &times(run),
    );
    body += &card(
        "",
        "Prices of processors",
        "Each point is a contract; sellers look at their price every ten minutes.",
        &prices(run, false),
    );
    if run.measures.trades.iter().any(|trade| trade.gpu.is_some()) {
        body += &card("", "Prices of GPUs", "Each point is a contract.", &prices(run, true));
    }
    body += &card(
        "",
        "Jobs waiting, leases in use",
        "Jobs that have no running pods yet.",
        &queue(&[run]),
    );
    body += &card(
        "",
        "How fast an advertisement spreads",
        "Share of first arrivals within so long of being signed, over all clusters.",
        &spread(&[run]),
    );
    body += &card("", "Bytes sent", "By each cluster, on average.", &traffic(run));
    body += &card(
        "",
        "Orders that came to nothing, and why",
        "Tries; a job tries again until its people give up.",
        &refused(run),
    );
    body += &card(
        "wide",
        "Beside gossipsub",
        "Gossipsub is how many other peer-to-peer systems spread messages: each whole, to six \
         neighbours. Here a model of libp2p's has the same advertisements over the same lines.",
        &gossipsub(run),
    );
    if !run.measures.gains.is_empty() {
        body += &card(
            "wide",
            "What each attack achieved",
            "Beside the most that the market's limits allow it.",
            &attacks(run),
        );
    }
    body += &card("wide", "Regions", "Contracts by where buyer and seller stand.", &regions(run));
    body += &card(
        "wide",
        "To run it again",
        "The same seed gives the same trace, on any machine.",
        &again("run", &[run]),
    );
    page(&title, &(body + "</div>"))
}

const MAP_SAYS: &str = "A circle for each cluster, as large as it has processors; a line for \
                        each pair that traded, as strong as they traded often.";

/// The report of several runs under one demand.
pub(super) fn of_several(runs: &[&Run]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.federation.plan.name.as_str()).collect();
    let title = format!("Compared: {}", names.join(", "));
    let mut body = heading(
        &title,
        "The same clusters, the same demand, the same faults; what differs is whom each cluster is told of at its start.",
    );
    let mut table = "<div class=\"scroll\"><table><tr><th></th>".to_owned();
    for name in &names {
        let _ = write!(table, "<th>{name}</th>");
    }
    table += "</tr>";
    for (label, cells) in rows(runs) {
        let _ = write!(table, "<tr><td>{label}</td>");
        for cell in cells {
            let _ = write!(table, "<td>{cell}</td>");
        }
        table += "</tr>";
    }
    table += "</table></div>";
    body += "<div class=\"grid\">";
    body += &card("wide", "Side by side", "", &table);
    body += &card("", "Jobs waiting", "Jobs that have no running pods yet.", &queue(runs));
    body += &card(
        "",
        "How fast an advertisement spreads",
        "Share of first arrivals within so long of being signed.",
        &spread(runs),
    );
    let traffic: Vec<_> = runs
        .iter()
        .map(|run| {
            let n = bytes_per_cluster_hour(run);
            (run.federation.plan.name.clone(), n as f64, bytes(n))
        })
        .collect();
    body += &card("", "Bytes sent by each cluster in an hour", "", &bars(&traffic, 1));
    body += &card("wide", "To run it again", "", &again("compare", runs));
    page(&title, &(body + "</div>"))
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{CSS}</style></head><body><main>{body}</main></body></html>\n"
    )
}

fn heading(title: &str, about: &str) -> String {
    format!("<header><h1>{}</h1><p class=\"soft\">{}</p></header>", escape(title), escape(about))
}

fn card(class: &str, title: &str, says: &str, inside: &str) -> String {
    let says =
        if says.is_empty() { String::new() } else { format!("<p class=\"soft\">{says}</p>") };
    format!("<section class=\"card {class}\"><h2>{title}</h2>{says}{inside}</section>")
}

fn about(run: &Run) -> String {
    let plan = &run.federation.plan;
    let (minutes, regions) = (run.federation.for_ms / 60_000, plan.regions().len());
    let cores: u64 = plan.clusters.iter().map(|cluster| cluster.has.cpu_millis / 1_000).sum();
    let sellers = (0..plan.clusters.len()).filter(|at| plan.sells(*at)).count();
    let mut text = format!(
        "{}. {minutes} minutes, {regions} regions, {} processors, {sellers} sellers.",
        capital(&plan.about),
        count(cores)
    );
    for incident in incidents(run) {
        let (from, to) = (incident.at_ms / 60_000, (incident.at_ms + incident.for_ms) / 60_000);
        let _ = write!(text, " Minute {from} to {to}: {}.", incident.describe(plan));
    }
    text
}

/// The text with a capital letter, as a sentence begins.
fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

fn tiles(run: &Run) -> String {
    let measures = &run.measures;
    let (with, without) = measures.utilisation(&run.federation.plan);
    let jobs = &measures.jobs;
    // Of those that do not wait any more.
    let served = |ran: u64, given_up: u64| share(ran, ran + given_up);
    let served_alone = served(run.alone.ran, run.alone.given_up);
    let served = served(jobs.at_home + jobs.away, jobs.given_up);
    let contained = measures.gains.values().filter(|gain| gain.is_contained()).count();
    let mut tiles = vec![
        (served, format!("of jobs found room; alone {served_alone}")),
        (percent(with), format!("of processors in use; alone {}", percent(without))),
        (
            count(measures.trades.len() as u64),
            format!("contracts; a core for an hour at {}", core_price(run)),
        ),
        (
            time(quantile(&measures.contract_ms, 50)),
            format!(
                "from order to contract; 99 % in {}",
                time(quantile(&measures.contract_ms, 99))
            ),
        ),
        (
            time(quantile(&measures.spread.most_ms, 50)),
            "until an advertisement is at 99 % of the clusters".to_owned(),
        ),
        (bytes(bytes_per_cluster_hour(run)), "sent by each cluster in an hour".to_owned()),
    ];
    if !measures.gains.is_empty() {
        tiles.push((
            format!("{contained} of {}", measures.gains.len()),
            "attacks held within their limits".to_owned(),
        ));
    }
    let tile = |(figure, says): &(String, String)| {
        format!("<div class=\"tile\"><b>{figure}</b><span>{says}</span></div>")
    };
    format!("<div class=\"tiles\">{}</div>", tiles.iter().map(tile).collect::<String>())
}

fn attacks(run: &Run) -> String {
    let mut table = "<div class=\"scroll\"><table><tr><th>attack</th><th class=\"text\">what it does</th>\
                     <th>tried</th><th>gained</th><th>limit</th><th class=\"text\">of what</th><th></th></tr>"
        .to_owned();
    for gain in run.measures.gains.values() {
        let (class, held) = if gain.is_contained() { ("good", "held") } else { ("bad", "escaped") };
        let _ = write!(
            table,
            "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"text\">{}</td><td class=\"{class}\">{held}</td></tr>",
            gain.character,
            gain.character.description(),
            count(gain.tried),
            count(gain.gained),
            count(gain.limit),
            gain.what
        );
    }
    table + "</table></div>"
}

fn gossipsub(run: &Run) -> String {
    let mut table =
        "<div class=\"scroll\"><table><tr><th></th><th>Mercato</th><th>gossipsub</th></tr>"
            .to_owned();
    for (label, ours, other) in beside_gossipsub(run) {
        let _ = write!(table, "<tr><td>{label}</td><td>{ours}</td><td>{other}</td></tr>");
    }
    table + "</table></div>"
}

fn regions(run: &Run) -> String {
    let plan = &run.federation.plan;
    let names = plan.regions();
    let region = |at: usize| plan.clusters[at].region.as_str();
    let mut table = "<div class=\"scroll\"><table><tr><th>buyer \\ seller</th>".to_owned();
    for name in &names {
        let _ = write!(table, "<th>{}</th>", escape(name));
    }
    table += "<th>clusters</th><th>processors</th><th>earned EUR/h</th><th>spent EUR/h</th></tr>";
    let hours = run.federation.for_ms as f64 / 3_600_000.0;
    let value = |trade: &crate::measure::Trade| {
        let gpus = trade.gpu.as_ref().map_or(0, |(_, micros)| *micros);
        (trade.cpu_micros as f64 * trade.cpu_millis as f64 / 1_000.0 + gpus as f64) / 1e6
    };
    for name in &names {
        let _ = write!(table, "<tr><td>{}</td>", escape(name));
        for other in &names {
            let n = run.measures.trades.iter();
            let n =
                n.filter(|one| region(one.buyer) == name && region(one.seller) == other).count();
            let _ = write!(table, "<td>{}</td>", count(n as u64));
        }
        let here = plan.clusters.iter().filter(|cluster| cluster.region == *name);
        let cores: u64 = here.clone().map(|cluster| cluster.has.cpu_millis / 1_000).sum();
        let sum = |of: &dyn Fn(&crate::measure::Trade) -> usize| -> f64 {
            let trades = run.measures.trades.iter().filter(|one| region(of(one)) == name);
            trades.map(value).sum::<f64>() / hours.max(1e-6)
        };
        let (earned, spent) = (sum(&|one| one.seller), sum(&|one| one.buyer));
        let _ = write!(
            table,
            "<td>{}</td><td>{}</td><td>{earned:.2}</td><td>{spent:.2}</td></tr>",
            here.count(),
            count(cores)
        );
    }
    table
        + "</table></div><p class=\"soft\">Earned and spent: the hourly rates of the contracts \
             that were made, for each hour of the run.</p>"
}

/// The command that does the same, and the traces that it gives.
fn again(command: &str, runs: &[&Run]) -> String {
    let mut html = format!("<p><code>simnet {command}");
    for run in runs {
        let _ = write!(html, " {}", escape(&run.federation.plan.scenario));
    }
    if let Some(Run { federation, .. }) = runs.first() {
        if let Some(clusters) = federation.plan.asked_clusters {
            let _ = write!(html, " --clusters {clusters}");
        }
        let lasts = Seconds(federation.for_ms / 1_000).show();
        let _ = write!(html, " --seed {} --for {lasts}", federation.seed);
    }
    html += "</code>";
    for run in runs {
        let (steps, messages) = (count(run.steps), count(run.messages));
        let _ = write!(
            html,
            "<br><code>trace {}</code><br><span class=\"soft\">{steps} events, {messages} \
             messages</span>",
            run.trace
        );
    }
    html + "</p>"
}
