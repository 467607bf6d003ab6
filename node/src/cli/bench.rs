//! `mercato bench`: what this machine can carry.

use std::time::Duration;

use clap::{Args, Subcommand};
use mercato_config::Seconds;

use super::screen::Screen;
use super::table::Table;
use super::text::text;
use crate::admin::Problem;
use crate::bench::{self, Figures, Plan};

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
  mercato bench tunnel
  mercato bench tunnel --rounds 5 --each 10s --no-offloads -o json

Needs root and the program ip. It works in network namespaces of its own, which end
with it; --no-offloads needs ethtool.")]
    Tunnel {
        /// How often all is measured, in turn
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
        rounds: u8,
        /// How long each load lasts
        #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = text::<Seconds>)]
        each: Seconds,
        /// Let the cable between the two cut and put together nothing
        #[arg(long)]
        no_offloads: bool,
    },
}

impl Bench {
    pub(crate) async fn perform(self, screen: &Screen) -> Result<String, Problem> {
        let What::Tunnel { rounds, each, no_offloads } = self.what;
        let plan = Plan {
            rounds: rounds.into(),
            each: Duration::from_secs(each.0),
            offloads: !no_offloads,
        };
        let measure = move || bench::tunnel(plan, |told| eprintln!("{told}"));
        let measured = tokio::task::spawn_blocking(measure).await;
        let figures = measured
            .map_err(|error| Problem::failed(error.to_string()))?
            .map_err(|error| Problem::failed(format!("{error:#}")))?;
        screen.render(&figures, || table(&figures).render(screen.is_wide()))
    }
}

fn table(figures: &[Figures]) -> Table {
    let mut table = Table::new(["PATH", "ONE STREAM", "LEAST", "MOST", "CPU-S/GB", "ROUND TRIP"]);
    for one in figures {
        table.row([
            one.path.to_owned(),
            rate(one.bits_per_second),
            rate(one.spread[0]),
            rate(one.spread[1]),
            format!("{:.2}", one.cpu_ms_per_gigabyte as f64 / 1e3),
            format!("{} µs", one.round_trip_us),
        ]);
    }
    table
}

fn rate(bits_per_second: u64) -> String {
    format!("{:.2} Gbit/s", bits_per_second as f64 / 1e9)
}
