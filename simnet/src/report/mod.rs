//! What came of runs, for people: a page with plots, tables for spreadsheets, JSON for
//! programs, and some lines for the terminal.

mod data;
mod figures;
mod page;
mod plot;
mod style;
mod words;

use std::fs;
use std::io;
use std::path::Path;

use crate::explore::federation::Run;
use crate::plan::{Cluster, Incident, Plan, What};

pub use words::{comparison, summary};

/// Writes the report of one run, or of several side by side, into a folder: `report.html`,
/// `report.json`, `minutes.csv`, `trades.csv`, `clusters.csv`.
pub fn write(folder: &Path, runs: &[&Run]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let page = match runs {
        [run] => page::of_one(run),
        runs => page::of_several(runs),
    };
    fs::write(folder.join("report.html"), page)?;
    let json = serde_json::to_string_pretty(&data::json(runs))?;
    fs::write(folder.join("report.json"), json + "\n")?;
    fs::write(folder.join("minutes.csv"), data::minutes(runs))?;
    fs::write(folder.join("trades.csv"), data::trades(runs))?;
    fs::write(folder.join("clusters.csv"), data::clusters(runs))
}

/// Makes plans comparable: all get the clusters, the demand and the faults of the first, and
/// keep their own hubs and whom each cluster is told of. All hubs are down for the second
/// quarter of `for_ms`, while the last tenth of the clusters join: that shows what a failed
/// hub costs.
pub fn level(plans: &mut [Plan], for_ms: u64) {
    let Some(first) = plans.first().cloned() else { return };
    let quarter_ms = for_ms / 4;
    for plan in plans {
        plan.crashes_per_mille = first.crashes_per_mille;
        plan.gpu_jobs_percent = first.gpu_jobs_percent;
        plan.incidents =
            vec![Incident { at_ms: quarter_ms, for_ms: quarter_ms, what: What::HubsDown }];
        let early = plan.clusters.len() - plan.clusters.len() / 10;
        for (at, model) in first.clusters.iter().enumerate().take(plan.clusters.len()) {
            let Cluster { hub, knows, .. } = plan.clusters[at].clone();
            let joins_ms = if at < early || hub { 0 } else { quarter_ms + quarter_ms / 4 };
            plan.clusters[at] = Cluster { hub, knows, joins_ms, ..model.clone() };
        }
    }
}
