//! The same figures for programs: JSON, and tables for spreadsheets.

use serde_json::{Value, json};

use super::words::bytes_per_delivery;
use crate::engine::packet::Kind;
use crate::explore::federation::Run;
use crate::measure::quantile;

/// Everything that is counted, of each run.
pub(super) fn json(runs: &[&Run]) -> Value {
    runs.iter().map(|run| one(run)).collect()
}

fn one(run: &Run) -> Value {
    let (plan, measures) = (&run.federation.plan, &run.measures);
    let times = |values: &[u64]| {
        json!({ "count": values.len(), "p50": quantile(values, 50), "p90": quantile(values, 90),
            "p99": quantile(values, 99) })
    };
    let (with, without) = measures.utilisation(plan);
    let bytes = Kind::ALL.iter().zip(measures.bytes.totals());
    let bytes: Value = bytes
        .map(|(kind, bytes)| (kind.name().to_owned(), json!(bytes)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let gains = measures.gains.values().map(|gain| {
        json!({ "attack": gain.character.to_string(), "tried": gain.tried, "gained": gain.gained,
            "limit": gain.limit, "what": gain.what, "contained": gain.is_contained() })
    });
    json!({
        "name": plan.name, "clusters": plan.clusters.len(), "seed": run.federation.seed,
        "forMs": run.federation.for_ms, "trace": run.trace.to_string(), "events": run.steps,
        "messages": run.messages, "jobs": measures.jobs,
        "alone": { "ran": run.alone.ran, "givenUp": run.alone.given_up },
        "utilisationPerMille": { "with": with, "without": without },
        "findMs": times(&measures.find_ms), "contractMs": times(&measures.contract_ms),
        "runMs": times(&measures.run_ms), "refused": measures.refused, "bytes": bytes,
        "spread": {
            "publications": measures.spread.publications, "overtaken": measures.spread.overtaken,
            "halfMs": times(&measures.spread.half_ms), "mostMs": times(&measures.spread.most_ms),
        },
        "bytesPerDelivery": bytes_per_delivery(run),
        "gossipsub": {
            "bytesPerDelivery": run.gossipsub.bytes_per_delivery,
            "copiesPerMille": run.gossipsub.copies_per_mille,
            "followed": run.gossipsub.spread.publications,
            "overtaken": run.gossipsub.spread.overtaken,
            "halfMs": times(&run.gossipsub.spread.half_ms),
            "mostMs": times(&run.gossipsub.spread.most_ms),
        },
        "attacks": gains.collect::<Vec<_>>(), "minutes": measures.samples, "trades": measures.trades,
    })
}

/// A row for each minute.
pub(super) fn minutes(runs: &[&Run]) -> String {
    let kinds: Vec<String> =
        Kind::ALL.iter().map(|kind| format!("bytes_{}", kind.name())).collect();
    let mut csv = format!(
        "federation,minute,up,connections,cores_home,cores_away,cores_without,waiting,leases,{}\n",
        kinds.join(",")
    );
    for run in runs {
        for sample in &run.measures.samples {
            let minute = (sample.at_ms / 60_000) as usize;
            let bytes = run.measures.bytes.minutes.get(minute.saturating_sub(1));
            let bytes = bytes.copied().unwrap_or_default().map(|bytes| bytes.to_string());
            csv += &format!(
                "{},{minute},{},{},{},{},{},{},{},{}\n",
                run.federation.plan.name,
                sample.up,
                sample.connections,
                sample.home_millis / 1_000,
                sample.away_millis / 1_000,
                sample.alone_millis / 1_000,
                sample.waiting,
                sample.leases,
                bytes.join(",")
            );
        }
    }
    csv
}

/// A row for each contract.
pub(super) fn trades(runs: &[&Run]) -> String {
    let mut csv =
        "federation,second,buyer,seller,cores,eur_per_core_hour,gpu,eur_per_gpu_hour\n".to_owned();
    for run in runs {
        let name = |at: usize| &run.federation.plan.clusters[at].name;
        for trade in &run.measures.trades {
            let (model, micros) = trade.gpu.clone().unwrap_or_default();
            csv += &format!(
                "{},{},{},{},{},{},{model},{}\n",
                run.federation.plan.name,
                trade.at_ms / 1_000,
                name(trade.buyer),
                name(trade.seller),
                trade.cpu_millis / 1_000,
                euro(trade.cpu_micros),
                if micros > 0 { euro(micros) } else { String::new() }
            );
        }
    }
    csv
}

fn euro(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A row for each cluster.
pub(super) fn clusters(runs: &[&Run]) -> String {
    let mut csv =
        "federation,cluster,region,cores,shared_percent,contracts_sold,contracts_bought\n"
            .to_owned();
    for run in runs {
        for (at, cluster) in run.federation.plan.clusters.iter().enumerate() {
            let trades = || run.measures.trades.iter();
            csv += &format!(
                "{},{},{},{},{},{},{}\n",
                run.federation.plan.name,
                cluster.name,
                cluster.region,
                cluster.has.cpu_millis / 1_000,
                cluster.shares_percent,
                trades().filter(|trade| trade.seller == at).count(),
                trades().filter(|trade| trade.buyer == at).count()
            );
        }
    }
    csv
}
