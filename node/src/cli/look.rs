//! Commands that only look: status, peers, browse, offer, events.

use std::time::Duration;

use clap::Args;
use mercato_broker::{Candidate, Demand, Standing};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::resources::Resource;
use serde::Serialize;

use super::demand::Wanted;
use super::screen::{Screen, print};
use super::table::{Table, pairs};
use super::text::{
    called, exclusion, fingerprint, gpus, left, moment, money, name, of, round_trip, standing, text,
};
use super::{deals, lookup, now_ms};
use crate::admin::{Class, Deal, Desk, Event, Found, Peer, Problem, Share, Status};

/// Between two questions for what is new.
const POLL: Duration = Duration::from_secs(1);

/// All of it on one screen.
#[derive(Serialize)]
struct Overview {
    daemon: Status,
    peers: Vec<Peer>,
    share: Share,
    contracts: Vec<Deal>,
}

/// Identity, links, contracts, and what needs attention.
pub(crate) async fn status(desk: &dyn Desk, screen: &Screen) -> Result<String, Problem> {
    let (daemon, peers) = (desk.status().await?, desk.peers().await?);
    let (share, contracts) = (desk.share().await?, desk.deals().await?);
    let all = Overview { daemon, peers, share, contracts };
    screen.render(&all, || overview(&all, screen.is_wide()))
}

fn overview(all: &Overview, wide: bool) -> String {
    let Overview { daemon, peers, share, contracts } = all;
    let connected = peers.iter().filter(|peer| peer.connected.is_some()).count();
    let trusted = peers.iter().filter(|peer| peer.standing == Standing::Trusted).count();
    let shared = share.policy.as_ref().map_or_else(
        || "nothing; to begin: mercato share set --cpu 30% --memory 30%".to_owned(),
        |policy| format!("{}, {}", super::text::amounts(policy), policy.price.show()),
    );
    let mut text = format!("{} (mercato {})\n", daemon.name, daemon.version);
    text += &pairs(&[
        ("fingerprint", fingerprint(&daemon.cluster).join("\n")),
        ("reachable at", daemon.addresses.join("\n")),
        ("kubernetes", daemon.kubernetes.clone().unwrap_or_else(|| "none".to_owned())),
        ("data", daemon.data_dir.display().to_string()),
        ("peers", format!("{} known, {connected} connected, {trusted} trusted", peers.len())),
        ("shared", shared),
    ]);
    let running: Vec<&Deal> = contracts.iter().filter(|deal| deals::is_running(deal)).collect();
    if !running.is_empty() {
        text += &format!("\n{}", deals::table(&running, now_ms()).render(wide));
    }
    let waiting = contracts.iter().filter(|deal| deals::is_asked(deal)).count();
    let asked = (waiting > 0).then(|| format!("{waiting} wait for your answer: mercato requests"));
    let unsold = (share.policy.is_some() && share.on_sale.is_empty())
        .then(|| "what is shared is not on sale: see why with mercato share show".to_owned());
    let attention: Vec<_> = daemon.attention.iter().cloned().chain(asked).chain(unsold).collect();
    if !attention.is_empty() {
        text += "\nNeeds attention:\n";
        text.extend(attention.iter().map(|line| format!("  {line}\n")));
    }
    text
}

/// Who is known.
pub(crate) async fn peers(desk: &dyn Desk, screen: &Screen) -> Result<String, Problem> {
    let mut peers = desk.peers().await?;
    peers.sort_by_cached_key(|peer| (peer.name.is_none(), peer.name.clone(), peer.cluster));
    screen.render(&peers, || {
        if peers.is_empty() {
            return "nobody is known yet; to connect: mercato peer add HOST:PORT\n".to_owned();
        }
        peers_table(&peers, screen.is_wide())
    })
}

fn peers_table(peers: &[Peer], wide: bool) -> String {
    let mut table =
        Table::new(["NAME", "CLUSTER", "TRUST", "FOUND BY", "REACHED", "RTT", "ADDRESS"]);
    for peer in peers {
        let id = |id: String| if wide { id } else { id.chars().take(8).collect() };
        let reached = if peer.connected.is_some() { "direct" } else { "-" };
        let address = peer.connected.as_ref().or(peer.addresses.first());
        table.row([
            peer.name.clone().unwrap_or_else(|| "-".to_owned()),
            peer.cluster.map_or_else(|| "-".to_owned(), |cluster| id(cluster.to_string())),
            standing(peer.standing).to_owned(),
            found(&peer.found),
            reached.to_owned(),
            peer.rtt_us.map_or_else(|| "-".to_owned(), round_trip),
            address.cloned().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.render(wide)
}

fn found(by: &[Found]) -> String {
    let by: Vec<String> = by.iter().map(name).collect();
    if by.is_empty() { "-".to_owned() } else { by.join(",") }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato browse
  mercato browse --cpu 8 --memory 32Gi --for 4h --max-price '3 EUR/h'")]
pub(crate) struct Browse {
    #[command(flatten)]
    wanted: Wanted,
    /// For how long
    #[arg(long = "for", value_name = "DURATION", value_parser = text::<Seconds>)]
    term: Option<Seconds>,
}

impl Browse {
    pub(crate) async fn perform(self, desk: &dyn Desk, screen: &Screen) -> Result<String, Problem> {
        let demand = self.wanted.demand(desk, self.term).await?;
        let offers = desk.browse(demand.clone()).await?;
        if offers.is_empty() {
            return Err(nothing_on_offer());
        }
        screen.render(&offers, || offers_table(&offers, demand.as_ref(), screen.is_wide()))
    }
}

pub(crate) fn nothing_on_offer() -> Problem {
    Problem::new(Class::NoMatch, "nobody that is known offers anything")
        .todo("see who is known, and connected: mercato peers")
}

/// What suits, then what does not and why.
pub(crate) fn offers_table(offers: &[Candidate], demand: Option<&Demand>, wide: bool) -> String {
    let (good, bad): (Vec<_>, Vec<_>) = offers.iter().partition(|offer| offer.excluded.is_none());
    let cost = if demand.is_some() { "TOTAL" } else { "PRICE" };
    let headers = ["PROVIDER", "POOL", "CPU", "MEMORY", "PODS", "GPUS", "CLASS", "TRUST", cost];
    let mut table = Table::new(headers);
    for offer in good {
        let cost = match demand {
            Some(_) => money(&offer.price, offer.total),
            None => offer.price.show(),
        };
        table.row([
            called(Some(&offer.name), &offer.provider),
            offer.pool.id.to_string(),
            of(&Resource::Cpu, &offer.free),
            of(&Resource::Memory, &offer.free),
            of(&Resource::Pods, &offer.free),
            gpus(&offer.free),
            offer.terms.classes.iter().map(name).collect::<Vec<_>>().join(","),
            standing(offer.standing).to_owned(),
            cost,
        ]);
    }
    let mut text = if table.is_empty() { String::new() } else { table.render(wide) };
    if !bad.is_empty() {
        let mut table = Table::new(["PROVIDER", "POOL", "DOES NOT SUIT BECAUSE"]);
        for offer in bad {
            let why = offer.excluded.as_ref().map(|why| exclusion(why, demand));
            table.row([
                called(Some(&offer.name), &offer.provider),
                offer.pool.id.to_string(),
                why.unwrap_or_default(),
            ]);
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        text = format!("{text}{gap}{}", table.render(wide));
    }
    text
}

/// One provider's whole offer.
pub(crate) async fn offer(
    desk: &dyn Desk,
    screen: &Screen,
    provider: &str,
) -> Result<String, Problem> {
    let known = lookup::cluster(desk, provider).await?;
    let mut offers = desk.browse(None).await?;
    offers.retain(|offer| offer.provider == known.cluster);
    if offers.is_empty() {
        return Err(Problem::new(Class::NoMatch, format!("{} offers nothing now", known.called()))
            .todo("see what others offer: mercato browse"));
    }
    screen.render(&offers, || offers.iter().map(offer_page).collect::<Vec<_>>().join("\n"))
}

fn offer_page(offer: &Candidate) -> String {
    let terms = &offer.terms;
    let seconds = |seconds| Seconds(seconds).show();
    let platform = &offer.pool.platform;
    let classes: Vec<_> = terms.classes.iter().map(name).collect();
    let title = called(Some(&offer.name), &offer.provider);
    let page = pairs(&[
        ("pool", format!("{} ({}/{})", offer.pool.id, platform.os, platform.arch)),
        ("free", offer.free.show()),
        ("in all", offer.pool.total.show()),
        ("largest pod", offer.pool.largest_pod.show()),
        ("price", offer.price.show()),
        ("class", classes.join(", ")),
        ("term", format!("{} to {}", seconds(terms.min_term_s), seconds(terms.max_term_s))),
        ("reclaim notice", seconds(terms.reclaim_notice_s)),
        ("network isolation", name(offer.network_isolation)),
        ("region", offer.region.clone().unwrap_or_else(|| "-".to_owned())),
        ("expires in", left(now_ms(), Some(offer.expires_ms))),
        ("trust", standing(offer.standing).to_owned()),
        ("fingerprint", fingerprint(&offer.provider).join("\n")),
    ]);
    format!("{title}\n{page}")
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato events
  mercato events -w")]
pub(crate) struct Events {
    /// Go on, and print what happens
    #[arg(short, long)]
    watch: bool,
}

impl Events {
    pub(crate) async fn perform(self, desk: &dyn Desk, screen: &Screen) -> Result<String, Problem> {
        let mut last = 0;
        loop {
            let events = desk.events(last).await?;
            last = events.last().map_or(last, |event| event.number);
            let text = screen.render(&events, || lines(&events))?;
            if !self.watch {
                return Ok(text);
            }
            if !events.is_empty() {
                print(&text)?;
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn lines(events: &[Event]) -> String {
    let line = |event: &Event| {
        format!("{}  {}\n", moment(event.at_ms), event.text.replace(char::is_control, " "))
    };
    events.iter().map(line).collect()
}
