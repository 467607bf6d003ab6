//! The plots of a report: what of a run goes into which.

use super::plot::{Axes, Series, Spot, areas, bars, dots, lines, map, ranges};
use super::words::{count, escape, incidents};
use crate::engine::packet::Kind;
use crate::explore::federation::Run;
use crate::measure::{Sample, Spread, quantile};

pub(super) fn market_map(run: &Run) -> String {
    let (plan, trades) = (&run.federation.plan, &run.measures.trades);
    let mut places: Vec<_> =
        plan.clusters.iter().map(|one| (one.place.lat, one.place.lon)).collect();
    places.sort_unstable();
    places.dedup();
    let on_map = places.len() * 2 > plan.clusters.len();
    let n = plan.clusters.len() as f64;
    let spots: Vec<Spot> = plan
        .clusters
        .iter()
        .enumerate()
        .map(|(at, cluster)| {
            let angle = at as f64 / n * std::f64::consts::TAU;
            let east = f64::from(cluster.place.lon) * 0.731;
            Spot {
                name: escape(&cluster.name),
                at: if on_map {
                    (east, f64::from(cluster.place.lat))
                } else {
                    (angle.sin(), angle.cos())
                },
                size: (cluster.has.cpu_millis as f64 / 1_000.0).sqrt() * 0.42 + 1.5,
                class: match cluster.character {
                    Some(_) => "fbad",
                    None if cluster.hub => "f4",
                    None if cluster.shares_percent > 0 => "f3",
                    None => "f2",
                },
                named: plan.clusters.len() <= 24 || at < 12,
            }
        })
        .collect();
    let mut pairs = std::collections::BTreeMap::<(usize, usize), f64>::new();
    for trade in trades {
        *pairs.entry((trade.buyer, trade.seller)).or_default() += 1.0;
    }
    let links: Vec<_> = pairs.into_iter().map(|((a, b), weight)| (a, b, weight)).collect();
    let key = [
        ("k3", "sells"),
        ("k2", "only buys"),
        ("k4", "hub"),
        ("k1", "contracts"),
        ("kbad", "hostile"),
    ];
    let has_hostile = plan.clusters.iter().any(|cluster| cluster.character.is_some());
    let has_hubs = plan.clusters.iter().any(|cluster| cluster.hub);
    let shown = key.iter().filter(|(class, _)| match *class {
        "kbad" => has_hostile,
        "k4" => has_hubs,
        _ => true,
    });
    let key: String = shown
        .map(|(class, name)| format!("<span><i class=\"{class}\"></i>{name}</span>"))
        .collect();
    format!("<div class=\"key\">{key}</div>{}", map(&spots, &links))
}

/// Beginning and end of each incident, in minutes.
fn bands(run: &Run) -> Vec<(f64, f64)> {
    let end = run.federation.for_ms as f64 / 60_000.0;
    let minute = |ms: u64| (ms as f64 / 60_000.0).min(end);
    incidents(run).map(|one| (minute(one.at_ms), minute(one.at_ms + one.for_ms))).collect()
}

fn over_time(run: &Run, of: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    run.measures.samples.iter().map(|one| (one.at_ms as f64 / 60_000.0, of(one))).collect()
}

pub(super) fn utilisation(run: &Run) -> String {
    let has: u64 = run.federation.plan.clusters.iter().map(|one| one.has.cpu_millis).sum();
    let percent = |millis: u64| millis as f64 * 100.0 / has.max(1) as f64;
    let axes = Axes { x: "min", y: "percent", bands: &bands(run), least_top: 10.0 };
    let mut alone =
        Series::new("without a federation", 2, over_time(run, |one| percent(one.alone_millis)));
    alone.dashed = true;
    lines(
        &axes,
        &[
            Series::new(
                "with the federation",
                1,
                over_time(run, |one| percent(one.home_millis + one.away_millis)),
            ),
            alone,
            Series::new(
                "of these on other clusters",
                3,
                over_time(run, |one| percent(one.away_millis)),
            ),
        ],
    )
}

pub(super) fn times(run: &Run) -> String {
    let measures = &run.measures;
    let row = |name: &str, values: &[u64]| {
        let at = [50, 90, 99].into_iter().filter_map(|percent| quantile(values, percent));
        (name.to_owned(), at.map(|ms| ms as f64 / 1_000.0).collect())
    };
    ranges(&[
        row("find an offer", &measures.find_ms),
        row("get a contract", &measures.contract_ms),
        row("pods running", &measures.run_ms),
        row("ad at 99 %", &measures.spread.most_ms),
    ])
}

pub(super) fn prices(run: &Run, gpus: bool) -> String {
    let trades = &run.measures.trades;
    let mut series: Vec<Series> = Vec::new();
    let minute = |at_ms: u64| at_ms as f64 / 60_000.0;
    if gpus {
        for trade in trades {
            let Some((model, micros)) = &trade.gpu else { continue };
            let at = series.iter().position(|one| one.name == *model).unwrap_or_else(|| {
                let colour = series.len() % 6 + 1;
                series.push(Series::new(model, colour, Vec::new()));
                series.len() - 1
            });
            series[at].points.push((minute(trade.at_ms), *micros as f64 / 1e6));
        }
    } else {
        let points = trades.iter().map(|one| (minute(one.at_ms), one.cpu_micros as f64 / 1e4));
        series.push(Series::new("a core for an hour", 1, points.collect()));
    }
    let unit = if gpus { "EUR for a GPU and an hour" } else { "cents for a core and an hour" };
    dots(&Axes { x: "min", y: unit, bands: &bands(run), least_top: 0.0 }, &series)
}

pub(super) fn queue(runs: &[&Run]) -> String {
    let bands = runs.first().map_or(Vec::new(), |run| bands(run));
    let axes = Axes { x: "min", y: "count", bands: &bands, least_top: 4.0 };
    let waiting = |run: &Run| over_time(run, |one| one.waiting as f64);
    if let [run] = runs {
        return lines(
            &axes,
            &[
                Series::new("jobs waiting", 2, waiting(run)),
                Series::new("leases in use", 1, over_time(run, |one| one.leases as f64)),
            ],
        );
    }
    let series = runs.iter().enumerate();
    let series =
        series.map(|(nth, run)| Series::new(&run.federation.plan.name, nth % 6 + 1, waiting(run)));
    lines(&axes, &series.collect::<Vec<_>>())
}

pub(super) fn spread(runs: &[&Run]) -> String {
    let last = |spread: &Spread| (1..=200).find(|tenth| spread.within(tenth * 100) >= 980);
    let last = |spread: &Spread| last(spread).unwrap_or(200);
    let last = runs.iter().map(|run| last(&run.measures.spread)).max().unwrap_or(0).max(5);
    let curve = |spread: &Spread| {
        let at = |nth: u64| {
            let ms = last * nth;
            (ms as f64 / 1_000.0, spread.within(ms) as f64 / 10.0)
        };
        (0..=100).map(at).collect()
    };
    let series = runs.iter().enumerate().map(|(nth, run)| {
        let name = if runs.len() == 1 { "Mercato" } else { &run.federation.plan.name };
        Series::new(name, nth % 6 + 1, curve(&run.measures.spread))
    });
    let mut series: Vec<Series> = series.collect();
    if let [run] = runs {
        let mut other = Series::new("gossipsub", 2, curve(&run.gossipsub.spread));
        other.dashed = true;
        series.push(other);
    }
    lines(&Axes { x: "s", y: "percent", bands: &[], least_top: 100.0 }, &series)
}

pub(super) fn traffic(run: &Run) -> String {
    let clusters = run.federation.plan.clusters.len() as f64;
    let last = (run.federation.for_ms / 60_000) as usize;
    let series = Kind::ALL.into_iter().enumerate().map(|(nth, kind)| {
        let minutes = run.measures.bytes.minutes.iter().take(last).enumerate();
        let rate = |bytes: u64| bytes as f64 / 60.0 / clusters / 1_000.0;
        let points = minutes.map(|(minute, bytes)| (minute as f64, rate(bytes[kind as usize])));
        Series::new(kind.name(), nth + 1, points.collect())
    });
    let axes = Axes { x: "min", y: "kB a second", bands: &bands(run), least_top: 0.0 };
    areas(&axes, &series.collect::<Vec<_>>())
}

pub(super) fn refused(run: &Run) -> String {
    let mut rows: Vec<_> = run
        .measures
        .refused
        .iter()
        .map(|(why, n)| ((*why).to_owned(), *n as f64, count(*n)))
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    if rows.is_empty() { "<p>None.</p>".to_owned() } else { bars(&rows, 2) }
}
