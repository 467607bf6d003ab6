//! Offers of the market in words, for the command line and for the page.

use mercato_broker::{Candidate, Excluded};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::NetworkIsolation;
use mercato_protocol::text::shown;

use super::text::{
    called, device, fingerprint, left, name, of, one_pod, round_trip, shown_or_dash, standing,
};

/// All that an offer says, as pairs of a name and a text.
pub(crate) fn rows(offer: &Candidate, now_ms: u64) -> Vec<(&'static str, String)> {
    let terms = &offer.terms;
    let seconds = |seconds| Seconds(seconds).show();
    let dash = || "-".to_owned();
    let word = |said: &Option<String>| shown_or_dash(said.as_deref());
    let platform = &offer.pool.platform;
    let classes: Vec<_> = terms.classes.iter().map(name).collect();
    vec![
        ("pool", format!("{} ({}/{})", offer.pool.id, platform.os, platform.arch)),
        ("free", offer.free.show()),
        ("in all", offer.pool.total.show()),
        ("largest pod", one_pod(&offer.pool.largest_pod)),
        ("gpus", gpus_of(offer)),
        ("storage", storage_of(offer)),
        ("price", offer.price.show()),
        ("class", classes.join(", ")),
        ("term", format!("{} to {}", seconds(terms.min_term_s), seconds(terms.max_term_s))),
        ("reclaim notice", seconds(terms.reclaim_notice_s)),
        ("network isolation", name(offer.network_isolation)),
        ("egress", egress_of(offer)),
        ("jurisdiction", word(&offer.jurisdiction)),
        ("region", word(&offer.region)),
        ("carbon", offer.carbon_g_per_kwh.map_or_else(dash, |grams| format!("{grams} g/kWh"))),
        ("round trip", offer.rtt_us.map_or_else(dash, round_trip)),
        ("expires in", left(now_ms, Some(offer.expires_ms))),
        ("trust", standing(offer.standing).to_owned()),
        ("fingerprint", fingerprint(&offer.provider).join("\n")),
    ]
}

/// Whom guests may reach on the Internet, and what keeps them to it.
fn egress_of(offer: &Candidate) -> String {
    let Some(egress) = &offer.egress else { return "none".to_owned() };
    match offer.network_isolation {
        NetworkIsolation::Required => egress.to_string(),
        // What the network does not enforce keeps nobody in.
        NetworkIsolation::None => format!("{egress}\nkept to it as far as its network enforces"),
    }
}

/// The GPUs of an offer, in a line.
pub(crate) fn devices(offer: &Candidate) -> String {
    let all: Vec<_> = offer.pool.gpus.iter().map(device).collect();
    if all.is_empty() { "-".to_owned() } else { all.join("; ") }
}

/// The offer that comes nearest to what is wanted, and what it lacks.
pub(crate) fn lacking(group: &Excluded) -> String {
    let nearest = &group.nearest;
    let provider = called(Some(&nearest.name), &nearest.provider);
    let lacks: Vec<String> = nearest.lacks.iter().map(ToString::to_string).collect();
    format!("nearest: {provider} {}: {}", nearest.pool, shown(&lacks.join("; ")))
}

/// How much room for volumes the provider has, and its words for it.
fn storage_of(offer: &Candidate) -> String {
    let words = [vec![of(&Resource::Storage, &offer.free)], offer.storage_kinds.clone()].concat();
    shown(&words.join(", ")).into_owned()
}

/// What its GPUs are, each with what comes with one, how many a node has and how they are joined.
fn gpus_of(offer: &Candidate) -> String {
    let each = offer.pool.gpus.iter().map(|gpu| {
        let with = Resources {
            cpu_millis: gpu.cpu_millis_per_unit,
            memory_bytes: gpu.memory_bytes_per_unit,
            ..Resources::default()
        };
        let with = (!with.is_zero()).then(|| format!("; with each {}", with.show()));
        let joined = gpu.interconnect.as_deref().map(|how| format!(", by {}", shown(how)));
        let (with, joined) = (with.unwrap_or_default(), joined.unwrap_or_default());
        format!("{}; {} a node{joined}{with}", device(gpu), gpu.most_per_node)
    });
    let all: Vec<_> = each.collect();
    if all.is_empty() { "-".to_owned() } else { all.join("\n") }
}
