//! `mercato bench`: what this machine can carry.

use std::time::Duration;

use clap::{Args, Subcommand};
use mercato_config::Seconds;
use mercato_tunnel::{Offload, Offloads, default_shards};

use super::screen::Screen;
use super::table::Table;
use crate::admin::Problem;
use crate::bench::{self, Case, Figures, Plan, Rival, Through, Wire};
use crate::present::text::text;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato bench tunnel
  mercato bench tunnel --rounds 5 --each 10s")]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Bring up two ends of a tunnel on this machine, and load them
    #[command(after_help = "Examples:
  mercato bench tunnel --wire segments,gro --beside wireguard-go,boringtun
  mercato bench tunnel --through nodes --shards 1 --without udp-gso -o json

Needs root and the program ip. It works in network namespaces of its own, which
end with it. --wire gro needs ethtool. Kernel WireGuard takes part where there
is one, and the program wg.")]
    Tunnel(Tunnel),
}

#[derive(Args, Debug)]
struct Tunnel {
    /// How often all is measured, in turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// How long each load lasts
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = text::<Seconds>)]
    each: Seconds,
    /// What is measured [default: all]: one-stream, four-streams, 100-streams,
    /// 64-byte-packets, flooded-stream, round-trip, idle-peer
    #[arg(long, value_name = "LOAD", value_delimiter = ',')]
    load: Vec<Case>,
    /// How packets go over the cable between the two: large ones whole, or cut before
    /// and put together behind it
    #[arg(long, value_name = "WIRE", value_delimiter = ',', default_value = "segments")]
    wire: Vec<WireName>,
    /// Where the load of each tunnel begins and ends: at its gateways, or in pods of other
    /// nodes, with the overlay between nodes on both sides
    #[arg(long, value_name = "WAY", default_value = "gateways")]
    through: ThroughName,
    /// Other tunnels that take turns with ours: wireguard-go, boringtun; NAME=FILE says
    /// where a program is that is not on PATH
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    beside: Vec<String>,
    /// Shards of each of our gateways [default: one for each core, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    shards: Option<u8>,
    /// Offloads that ours does without: checksum, tso4, tso6, uso, gro4, gro6, gro-udp,
    /// udp-gso, udp-gro
    #[arg(long, value_name = "OFFLOAD", value_delimiter = ',')]
    without: Vec<Offload>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum WireName {
    Segments,
    Gro,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ThroughName {
    Gateways,
    Nodes,
}

impl Bench {
    pub(crate) async fn perform(self, screen: &Screen) -> Result<String, Problem> {
        let What::Tunnel(tunnel) = self.what;
        let plan = tunnel.plan()?;
        let measure = move || bench::tunnel(&plan, |told| eprintln!("{told}"));
        let measured = tokio::task::spawn_blocking(measure).await;
        let figures = measured
            .map_err(|error| Problem::failed(error.to_string()))?
            .map_err(|error| Problem::failed(format!("{error:#}")))?;
        screen.render(&figures, || table(&figures).render(screen.is_wide()))
    }
}

impl Tunnel {
    fn plan(self) -> Result<Plan, Problem> {
        let Self { rounds, each, load, wire, through, beside, shards, without } = self;
        let wires = wire.into_iter().map(|wire| match wire {
            WireName::Segments => Wire::Segments,
            WireName::Gro => Wire::Gro,
        });
        let beside = beside.iter().map(|word| Rival::find(word));
        Ok(Plan {
            rounds: rounds.into(),
            cases: if load.is_empty() { Case::ALL.to_vec() } else { load },
            each: Duration::from_secs(each.0),
            wires: wires.collect(),
            through: match through {
                ThroughName::Gateways => Through::Gateways,
                ThroughName::Nodes => Through::Nodes,
            },
            beside: beside
                .collect::<Result<_, _>>()
                .map_err(|error| Problem::failed(format!("{error:#}")))?,
            shards: shards.unwrap_or_else(default_shards),
            offloads: without.into_iter().fold(Offloads::ALL, Offloads::without),
        })
    }
}

const HEADERS: [&str; 9] =
    ["WIRE", "LOAD", "PATH", "MEDIAN", "LEAST", "MOST", "UNIT", "CPU-S/GB", "OURS"];

/// No figure is cut. Where there is no room for all columns, that of the wire goes, if there was
/// but one; else the extremes.
fn table(figures: &[Figures]) -> Table {
    let is_one_wire = figures.windows(2).all(|pair| pair[0].wire == pair[1].wire);
    let spare: &[_] = if is_one_wire { &["WIRE", "MOST", "LEAST"] } else { &["MOST", "LEAST"] };
    let mut table = Table::new(HEADERS).keep(&HEADERS).spare(spare);
    for one in figures {
        let scale = Scale::of(one.unit);
        table.row([
            one.wire.to_owned(),
            one.case.to_owned(),
            one.path.clone(),
            scale.amount(one.median),
            scale.amount(one.least),
            scale.amount(one.most),
            scale.unit.to_owned(),
            one.cpu_ms_per_gigabyte.map_or_else(dash, |cpu| format!("{:.2}", cpu as f64 / 1e3)),
            one.ours_percent.map_or_else(dash, |ours| format!("{:.2}x", ours as f64 / 1e2)),
        ]);
    }
    table
}

fn dash() -> String {
    "-".to_owned()
}

/// How a figure is shown: in which unit, of how many of those that were measured, with how many
/// decimals.
struct Scale {
    unit: &'static str,
    per: f64,
    decimals: usize,
}

impl Scale {
    fn of(measured: &str) -> Self {
        let (unit, per, decimals) = match measured {
            "bit/s" => ("Gbit/s", 1e9, 2),
            "packets/s" => ("k/s", 1e3, 0),
            "ns" => ("µs", 1e3, 1),
            _ => ("MiB", 1_048_576.0, 3),
        };
        Self { unit, per, decimals }
    }

    fn amount(&self, measured: u64) -> String {
        format!("{:.*}", self.decimals, measured as f64 / self.per)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_whole_in_80_columns() {
        let figures = |case, unit, most| Figures {
            wire: "segments",
            case,
            path: "wireguard-go".to_owned(),
            unit,
            median: most,
            least: most,
            most,
            cpu_ms_per_gigabyte: Some(12_345),
            ours_percent: Some(1_234),
        };
        let mut all = [
            figures("100-streams", "bit/s", 154_500_000_000),
            figures("64-byte-packets", "packets/s", 12_345_000),
            figures("round-trip", "ns", 1_234_500),
            figures("idle-peer", "bytes", 1 << 20),
        ];
        for wire in ["segments", "gro"] {
            all[0].wire = wire;
            let text = table(&all).render(false);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            for whole in ["154.50", "Gbit/s", "12345", "64-byte-packets", "12.34x"] {
                assert!(text.contains(whole), "{whole}: {text}");
            }
            assert_eq!(text.contains("WIRE"), wire == "gro", "{text}");
        }
    }
}
