//! Commands that only look: status, peers, events.

use std::time::Duration;

use clap::Args;
use mercato_broker::Standing;
use mercato_config::Show as _;
use mercato_protocol::text::shown;
use serde::Serialize;

use super::deals;
use super::global::{Format, now_ms};
use super::screen::{Screen, json, print};
use super::table::{Table, WIDTH, pairs, wrapped};
use super::tunnel;
use super::watch::{self, POLL};
use crate::admin::{
    Attention, Bursts, BuyersObjects, Deal, Event, Found, GuestObjects, OperatorApi, Peer, Problem,
    Share, Status, unexpected,
};
use crate::present::deal::is_running;
use crate::present::text::{
    amounts, called, fingerprint, memory, moment, name, round_trip, standing,
};

/// Buyers whose guests fill the most of etcd, that are named without being asked for.
const BUYERS: usize = 4;
/// Namespaces whose pods wait, that are named without being asked for.
const NAMESPACES: usize = 8;

/// All of it on one screen.
#[derive(Serialize)]
struct Overview {
    daemon: Status,
    peers: Vec<Peer>,
    share: Share,
    contracts: Vec<Deal>,
}

/// Identity, links, contracts, and what needs attention.
pub(crate) async fn status(api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
    let (daemon, peers) = (api.status().await?, api.peers().await?);
    let (share, contracts) = (api.share().await?, api.deals().await?);
    let all = Overview { daemon, peers, share, contracts };
    screen.render(&all, || overview(&all, screen.is_wide()))
}

fn overview(all: &Overview, wide: bool) -> String {
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let Overview { daemon, peers, share, contracts } = all;
    let connected = peers.iter().filter(|peer| peer.connected.is_some()).count();
    let trusted = peers.iter().filter(|peer| peer.standing == Standing::Trusted).count();
    let shared = share.policy.as_ref().map_or_else(
        || "nothing; to begin: mercato share set --cpu 30% --memory 30%".to_owned(),
        |policy| format!("{}, {}", amounts(policy), policy.price.show()),
    );
    let mut text = format!("{} (mercato {})\n", shown(&daemon.name), shown(&daemon.version));
    let addresses: Vec<_> = daemon.addresses.iter().map(|at| shown(at)).collect();
    let health = daemon.health.as_ref();
    let data_dir = daemon.data_dir.display().to_string();
    let kubernetes = daemon.kubernetes.as_deref().unwrap_or("none");
    let gateway = &daemon.gateway;
    let isolation = gateway.enabled.then(|| ("isolation", tunnel::isolation(gateway)));
    let rows = [
        ("fingerprint", fingerprint(&daemon.cluster).join("\n")),
        ("reachable at", dash(addresses.join("\n"))),
        ("kubernetes", shown(kubernetes).into_owned()),
        ("gateway", tunnel::gateway(gateway)),
    ];
    let rows = rows.into_iter().chain(isolation).chain([
        ("health", health.map_or("off".to_owned(), |at| format!("http://{}/healthz", shown(at)))),
        ("data", shown(&data_dir).into_owned()),
        ("peers", format!("{} known, {connected} connected, {trusted} trusted", peers.len())),
        ("shared", shared),
    ]);
    let filled = daemon.guest_objects.as_ref().filter(|objects| !objects.buyers.is_empty());
    let rows = rows.chain(filled.map(|objects| ("etcd", guest_objects(objects, wide))));
    let rows = rows.chain(daemon.bursts.as_ref().map(|all| ("bursts", bursts(all, wide))));
    text += &pairs(&rows.collect::<Vec<_>>());
    let running: Vec<&Deal> = contracts.iter().filter(|deal| is_running(deal)).collect();
    if !running.is_empty() {
        text += &format!("\n{}", deals::table(&running, now_ms(), wide).render(wide));
    }
    text += &tunnel::section(&daemon.tunnels, peers, contracts, wide);
    if !daemon.attention.is_empty() {
        text += "\nNeeds attention:\n";
        text.extend(daemon.attention.iter().map(advice));
    }
    text
}

/// What is bought by itself, and for which pods nothing is.
fn bursts(all: &Bursts, wide: bool) -> String {
    let bought = match all.contracts {
        0 => format!("nothing bought of {}", all.most.show()),
        _ => format!("{} bought of {}", all.bought.show(), all.most.show()),
    };
    let waiting: Vec<_> = all.namespaces.iter().filter(|of| of.waiting > 0).collect();
    let lines = if wide { waiting.len() } else { NAMESPACES.min(waiting.len()) };
    let more = waiting.len() - lines;
    let waits = waiting.into_iter().take(lines).map(|of| {
        let why = of.message.as_ref().map(|why| format!(": {}", shown(why))).unwrap_or_default();
        match of.waiting {
            1 => format!("{}: a pod waits without room{why}", shown(&of.namespace)),
            pods => format!("{}: {pods} pods wait without room{why}", shown(&of.namespace)),
        }
    });
    let more = (more > 0).then(|| format!("and {more} namespaces more: mercato status -o wide"));
    std::iter::once(bought).chain(waits).chain(more).collect::<Vec<_>>().join("\n")
}

/// What guests fill of etcd: of all buyers, and of those that fill the most.
fn guest_objects(objects: &GuestObjects, wide: bool) -> String {
    let so_much = |used: u64, bound: u64| format!("{} of {}", memory(used), memory(bound));
    let mut buyers: Vec<_> = objects.buyers.iter().collect();
    buyers.sort_by_key(|buyer| (std::cmp::Reverse(buyer.used_bytes), buyer.cluster));
    let shown = if wide { buyers.len() } else { BUYERS.min(buyers.len()) };
    let more = buyers.len() - shown;
    let of = |buyer: &&BuyersObjects| {
        let name = called(buyer.name.as_deref(), &buyer.cluster);
        format!("{name} {}", so_much(buyer.used_bytes, buyer.bound_bytes))
    };
    let all = so_much(objects.used_bytes, objects.bound_bytes);
    let all = format!("guests fill {all}");
    let lines = std::iter::once(all).chain(buyers.iter().take(shown).map(of));
    let more = (more > 0).then(|| format!("and {more} more: mercato status -o wide"));
    lines.chain(more).collect::<Vec<_>>().join("\n")
}

/// What needs attention. A command stands in one line, to be copied.
fn advice(attention: &Attention) -> String {
    let (line, what) = (attention.to_string(), shown(&attention.text));
    if attention.commands.is_empty() || 2 + line.chars().count() <= WIDTH {
        return format!("  {}\n", wrapped(&shown(&line), 4));
    }
    let command = |command: &String| format!("    {}\n", shown(command));
    let commands: String = attention.commands.iter().map(command).collect();
    format!("  {}:\n{commands}", wrapped(&what, 4))
}

/// Lists the clusters and addresses that are known.
pub(crate) async fn peers(api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
    let mut peers = api.peers().await?;
    peers.sort_by_cached_key(|peer| (peer.name.is_none(), peer.name.clone(), peer.cluster));
    screen.render(&peers, || {
        if peers.is_empty() {
            return "nobody is known yet; to connect: mercato peer add HOST:PORT\n".to_owned();
        }
        peers_table(&peers, screen.is_wide())
    })
}

fn peers_table(peers: &[Peer], wide: bool) -> String {
    let headers = ["NAME", "CLUSTER", "TRUST", "FOUND BY", "REACHED", "RTT", "TUNNEL", "ADDRESS"];
    let mut table = Table::new(headers);
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
            tunnel::link(peer.tunnel.as_ref()).to_owned(),
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
  mercato events
  mercato events -w -o json

The last thousand or so are remembered, also over restarts.")]
pub(crate) struct Events {
    /// Go on, and print what happens
    #[arg(short, long)]
    watch: bool,
}

impl Events {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
        limit: Option<Duration>,
    ) -> Result<String, Problem> {
        if self.watch {
            return watch::within(limit, follow(api, screen)).await;
        }
        let events = api.events(0).await?;
        screen.render(&events, || lines(&events, screen))
    }
}

/// Prints what happened, and then what happens.
async fn follow(api: &dyn OperatorApi, screen: &Screen) -> Result<String, Problem> {
    let mut last = 0;
    loop {
        let events = api.events(last).await?;
        last = events.last().map_or(last, |event| event.number);
        if !events.is_empty() {
            print(&match screen.format {
                // A program reads them one by one.
                Format::Json => json_lines(&events)?,
                Format::Table | Format::Wide | Format::Yaml | Format::Csv | Format::Name => {
                    screen.render(&events, || lines(&events, screen))?
                }
            })?;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn json_lines(events: &[Event]) -> Result<String, Problem> {
    let line = |event: &Event| json(event, false);
    events.iter().map(line).collect::<Result<_, _>>().map_err(|error| unexpected(&error))
}

/// A line each; broken between words for whoever reads them on a terminal.
fn lines(events: &[Event], screen: &Screen) -> String {
    let line = |event: &Event| {
        let at = moment(event.at_ms) + "  ";
        screen.fold(&format!("{at}{}", shown(&event.text)), at.len()) + "\n"
    };
    events.iter().map(line).collect()
}
