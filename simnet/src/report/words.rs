//! What came of runs, in words.

use std::fmt::Write as _;

use crate::engine::packet::Kind;
use crate::explore::federation::Run;
use crate::measure::{Spread, quantile};
use crate::plan::Incident;

/// A number with separators of thousands: `1,234`.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in thousandths, written as percent.
pub(super) fn percent(per_mille: u64) -> String {
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

/// What part `part` is of `whole`, written as percent.
pub(super) fn share(part: u64, whole: u64) -> String {
    percent((part * 1_000).checked_div(whole).unwrap_or(0))
}

/// `0.42 s`, `12 s`, `3.5 min`
pub(super) fn time(ms: Option<u64>) -> String {
    match ms {
        None => "never".to_owned(),
        Some(ms @ 0..1_000) => format!("{ms} ms"),
        Some(ms @ 1_000..10_000) => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        Some(ms @ 10_000..120_000) => format!("{} s", ms / 1_000),
        Some(ms) => format!("{}.{} min", ms / 60_000, ms % 60_000 / 6_000),
    }
}

/// A number of bytes in a readable unit: `1.2 MB`.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{}.{} kB", n / 1_000, n % 1_000 / 100),
        1_000_000..1_000_000_000 => format!("{}.{} MB", n / 1_000_000, n % 1_000_000 / 100_000),
        _ => format!("{}.{} GB", n / 1_000_000_000, n % 1_000_000_000 / 100_000_000),
    }
}

/// The middle of what was paid for a core and an hour, in hundredths of a cent.
pub(super) fn core_price(run: &Run) -> String {
    let paid: Vec<u64> = run.measures.trades.iter().map(|trade| trade.cpu_micros).collect();
    let cents = |micros: u64| format!("{}.{:02} ct", micros / 10_000, micros % 10_000 / 100);
    quantile(&paid, 50).map_or("none".to_owned(), cents)
}

/// Bytes that one cluster sent in an hour, on average.
pub(super) fn bytes_per_cluster_hour(run: &Run) -> u64 {
    let all: u64 = run.measures.bytes.totals().iter().sum();
    let clusters = run.federation.plan.clusters.len() as u64;
    (u128::from(all) * 3_600_000 / u128::from(clusters * run.federation.for_ms.max(1))) as u64
}

/// Bytes sent for each advertisement that arrived somewhere for the first time.
pub(super) fn bytes_per_delivery(run: &Run) -> u64 {
    let kinds = [Kind::Announce, Kind::Publication, Kind::Body, Kind::Reconcile];
    let totals = run.measures.bytes.totals();
    let all: u64 = kinds.into_iter().map(|kind| totals[kind as usize]).sum();
    all / run.measures.spread.arrivals().max(1)
}

/// Mercato's gossip beside the model of gossipsub: a label, the one, the other.
pub(super) fn beside_gossipsub(run: &Run) -> Vec<(&'static str, String, String)> {
    let (ours, other) = (&run.measures.spread, &run.gossipsub.spread);
    let at = |spread: &Spread| {
        [time(quantile(&spread.half_ms, 50)), time(quantile(&spread.most_ms, 50))]
    };
    let ([half, most], [other_half, other_most]) = (at(ours), at(other));
    let reached = |spread: &Spread| share(spread.most_ms.len() as u64, spread.publications);
    vec![
        (
            "bytes for each advertisement delivered",
            bytes(bytes_per_delivery(run)),
            bytes(run.gossipsub.bytes_per_delivery),
        ),
        ("until half of the clusters have it", half, other_half),
        ("until 99 % have it", most, other_most),
        ("advertisements that 99 % had within a minute", reached(ours), reached(other)),
    ]
}

/// What came of it, in one sentence or two.
pub(super) fn verdict(run: &Run) -> String {
    let (measures, jobs) = (&run.measures, &run.measures.jobs);
    let (with, without) = measures.utilisation(&run.federation.plan);
    format!(
        "Of {} jobs, {} ran at home and {} on other clusters; {} found no room in time, where \
         without a federation it would have been {}; {} were still waiting at the end. Of all \
         processors {} were in use on average, instead of {}.",
        count(jobs.came),
        count(jobs.at_home),
        count(jobs.away),
        count(jobs.given_up),
        count(run.alone.given_up),
        count(jobs.waiting()),
        percent(with),
        percent(without)
    )
}

/// What came of a run, for the terminal.
pub fn summary(run: &Run) -> String {
    let (plan, measures) = (&run.federation.plan, &run.measures);
    let minutes = run.federation.for_ms / 60_000;
    let mut text = format!(
        "{}: {} clusters, {minutes} minutes, seed {}\n{}\n",
        plan.name,
        plan.clusters.len(),
        run.federation.seed,
        verdict(run)
    );
    let row = |name: &str, values: &[u64]| {
        let at = |percent| time(quantile(values, percent));
        format!("  {name:<22} {:>9} {:>9} {:>9}\n", at(50), at(90), at(99))
    };
    let _ = write!(text, "\n  {:<22} {:>9} {:>9} {:>9}\n", "time", "half", "90 %", "99 %");
    text += &row("to find an offer", &measures.find_ms);
    text += &row("order to contract", &measures.contract_ms);
    text += &row("job to running pods", &measures.run_ms);
    text += &row("ad to 99 % of clusters", &measures.spread.most_ms);
    let (trades, price) = (measures.trades.len() as u64, core_price(run));
    let _ = write!(
        text,
        "\n  {} contracts, a core for an hour at {price} in the middle\n",
        count(trades)
    );
    let sent = Kind::ALL.iter().zip(measures.bytes.totals());
    let sent: Vec<String> = sent.map(|(kind, n)| format!("{} {}", kind.name(), bytes(n))).collect();
    let each = bytes(bytes_per_cluster_hour(run));
    let _ = writeln!(text, "  {each} sent by each cluster in an hour ({})", sent.join(", "));
    for (what, ours, other) in beside_gossipsub(run) {
        let _ = writeln!(text, "  {what}: {ours}; over gossipsub {other}");
    }
    for (why, n) in &measures.refused {
        let _ = writeln!(text, "  refused {:>6} times: {why}", count(*n));
    }
    for gain in measures.gains.values() {
        let held = if gain.is_contained() { "held" } else { "ESCAPED" };
        let _ = writeln!(
            text,
            "  {:<18} tried {:>7}, gained {} of at most {} {}: {held}",
            gain.character.to_string(),
            count(gain.tried),
            gain.gained,
            gain.limit,
            gain.what
        );
    }
    text + "\n"
}

/// Several runs side by side, for the terminal.
pub fn comparison(runs: &[&Run]) -> String {
    let mut text = format!("{:<24}", "");
    for run in runs {
        let _ = write!(text, " {:>14}", run.federation.plan.name);
    }
    text.push('\n');
    for (label, cells) in rows(runs) {
        let _ = write!(text, "{label:<24}");
        for cell in cells {
            let _ = write!(text, " {cell:>14}");
        }
        text.push('\n');
    }
    text
}

/// What is compared: a label, and a cell for each run.
pub(super) fn rows(runs: &[&Run]) -> Vec<(&'static str, Vec<String>)> {
    let row =
        |label, cell: &dyn Fn(&Run) -> String| (label, runs.iter().map(|run| cell(run)).collect());
    let at = |values: &[u64], percent| time(quantile(values, percent));
    vec![
        row("jobs", &|run| count(run.measures.jobs.came)),
        row("found no room", &|run| share(run.measures.jobs.given_up, run.measures.jobs.came)),
        row("  without a federation", &|run| share(run.alone.given_up, run.measures.jobs.came)),
        row("processors in use", &|run| percent(run.measures.utilisation(&run.federation.plan).0)),
        row("  without a federation", &|run| {
            percent(run.measures.utilisation(&run.federation.plan).1)
        }),
        row("contracts", &|run| count(run.measures.trades.len() as u64)),
        row("time to find, half", &|run| at(&run.measures.find_ms, 50)),
        row("time to find, 99 %", &|run| at(&run.measures.find_ms, 99)),
        row("time to contract, half", &|run| at(&run.measures.contract_ms, 50)),
        row("time to contract, 99 %", &|run| at(&run.measures.contract_ms, 99)),
        row("ad to 99 % of clusters", &|run| at(&run.measures.spread.most_ms, 50)),
        row("a core for an hour", &core_price),
        row("bytes a cluster and hour", &|run| bytes(bytes_per_cluster_hour(run))),
        row("waiting while hubs fail", &|run| waiting_in_incident(run)),
    ]
}

/// The most jobs that waited at once during the first incident.
pub(super) fn waiting_in_incident(run: &Run) -> String {
    let Some(incident) = incidents(run).next() else { return "-".to_owned() };
    let during = incident.at_ms..incident.at_ms + incident.for_ms;
    let samples = run.measures.samples.iter().filter(|one| during.contains(&one.at_ms));
    samples.map(|one| one.waiting).max().map_or("-".to_owned(), count)
}

/// What befell a federation while it was tried out.
pub(super) fn incidents(run: &Run) -> impl Iterator<Item = &Incident> {
    run.federation.plan.incidents.iter().filter(|one| one.at_ms < run.federation.for_ms)
}

/// A text as it stands in a page.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_said_as_people_say_them() {
        assert_eq!([count(7), count(1_234), count(1_234_567)], ["7", "1,234", "1,234,567"]);
        assert_eq!(percent(612), "61.2 %");
        assert_eq!([time(None), time(Some(420)), time(Some(4_200))], ["never", "420 ms", "4.2 s"]);
        assert_eq!([time(Some(42_000)), time(Some(150_000))], ["42 s", "2.5 min"]);
        assert_eq!([bytes(1), bytes(1_540), bytes(2_000_000)], ["1 B", "1.5 kB", "2.0 MB"]);
    }
}
