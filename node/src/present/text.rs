//! Between people and types: what is typed, and how quantities, times and ids are shown.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mercato_broker::{Party, SharePolicy, ShareRule, Standing};
use mercato_config::{FromText, Seconds, Show as _, SyntaxError, amount, quantity};
use mercato_protocol::gpu::{GpuMode, GpuPool, GpuSource};
use mercato_protocol::id::ClusterId;
use mercato_protocol::limits::LABEL_BYTES;
use mercato_protocol::price::{Money, Price};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::shown;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads an option in the syntax that configuration and command line share.
pub(crate) fn text<T: FromText>(text: &str) -> Result<T, SyntaxError> {
    T::from_text(text)
}

/// Reads an option that is one of a few words, by the names that serde has for them.
pub(crate) fn word<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value(word.into()))
}

/// The name of a namespace.
pub(crate) fn label(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = text.bytes().all(|byte| plain(byte) || byte == b'-');
    let ends = text.bytes().next().is_some_and(plain) && text.bytes().last().is_some_and(plain);
    if inner && ends && text.len() <= LABEL_BYTES {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected a namespace's name: a-z, 0-9 and '-', first and last a letter or digit, at most \
         {LABEL_BYTES}, for example shop"
    ))
}

/// The name that serde has for a plain word: `reserved`, `inReview`.
pub(crate) fn name(word: impl Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Why something is over, in plain words: `noCapacity` is *no capacity*, and what the other side
/// said of it follows in brackets.
pub(crate) fn plain_reason(word: &str, said: &str) -> String {
    let mut plain = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !plain.is_empty() {
            plain.push(' ');
        }
        plain.push(c.to_ascii_lowercase());
    }
    // What others wrote cannot steer the terminal.
    let said = said.replace(char::is_control, " ");
    if said.is_empty() { plain } else { format!("{plain} ({said})") }
}

/// What a person compares over the telephone: all digits, in groups, on two lines.
pub(crate) fn fingerprint(cluster: &ClusterId) -> [String; 2] {
    let digits = cluster.to_string();
    let groups: Vec<&str> =
        (0..digits.len()).step_by(4).filter_map(|at| digits.get(at..at + 4)).collect();
    let (first, second) = groups.split_at(groups.len() / 2);
    [first.join(" "), second.join(" ")]
}

/// A name, or the short id of one that has none.
pub(crate) fn called(name: Option<&str>, cluster: &ClusterId) -> String {
    let name = name.filter(|name| !name.is_empty());
    name.map_or_else(|| cluster.short(), |name| shown(name).into_owned())
}

/// What somebody else wrote, as it is shown, or a dash.
pub(crate) fn shown_or_dash(said: Option<&str>) -> String {
    said.map_or_else(|| "-".to_owned(), |said| shown(said).into_owned())
}

/// So much of one resource.
pub(crate) fn of(resource: &Resource, resources: &Resources) -> String {
    match (resource, resources.quantity(resource)) {
        (_, 0) => "-".to_owned(),
        (Resource::Memory | Resource::Storage, n) => memory(n),
        (_, n) => quantity::show(resource, n),
    }
}

/// Bytes in units that can be read, and no more of it than there is.
pub(crate) fn memory(bytes: u64) -> String {
    let unit = [1 << 20, 1 << 10, 1].into_iter().find(|unit| bytes >= *unit).unwrap_or(1);
    quantity::show(&Resource::Memory, bytes - bytes % unit)
}

/// What one pod has, which is no number of pods.
pub(crate) fn one_pod(resources: &Resources) -> String {
    Resources { pods: 0, ..resources.clone() }.show()
}

/// GPUs by model, or a dash.
pub(crate) fn gpus(resources: &Resources) -> String {
    let gpus: Vec<_> = resources.gpus.iter().map(|(model, n)| format!("{model}={n}")).collect();
    if gpus.is_empty() { "-".to_owned() } else { gpus.join(",") }
}

/// An amount of money, or `free`.
pub(crate) fn money(price: &Price, total: Option<Money>) -> String {
    match (price, total) {
        (Price::Free, _) => "free".to_owned(),
        (Price::Posted { .. }, Some(total)) => total.to_string(),
        (Price::Posted { .. }, None) => "-".to_owned(),
    }
}

/// A length of time in whole units, the two largest: `3h59m`.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    let unit = [604_800, 86_400, 3_600, 60, 1].into_iter().find(|unit| seconds >= *unit);
    let second = unit.map_or(1, |unit| match unit {
        604_800 => 86_400,
        86_400 => 3_600,
        3_600 => 60,
        _ => 1,
    });
    Seconds(seconds - seconds % second).show()
}

/// What is left until then.
pub(crate) fn left(now_ms: u64, until_ms: Option<u64>) -> String {
    until_ms.map_or_else(|| "-".to_owned(), |until_ms| span(until_ms.saturating_sub(now_ms)))
}

/// The wall clock, in milliseconds since 1970-01-01 UTC.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A moment of the wall clock, in UTC.
pub(crate) fn moment(ms: u64) -> String {
    let form = time::macros::format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    let moment = time::OffsetDateTime::from_unix_timestamp(seconds);
    moment.ok().and_then(|moment| moment.format(form).ok()).unwrap_or_else(|| "-".to_owned())
}

/// A moment, as programs read it: RFC 3339, in UTC.
pub(crate) fn timestamp(ms: u64) -> String {
    moment(ms).replace(' ', "T") + "Z"
}

/// A round trip: `12ms`, `0.3ms`.
pub(crate) fn round_trip(us: u64) -> String {
    match us {
        0..10_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}ms", us / 1_000),
    }
}

/// What the owner thinks of somebody.
pub(crate) fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Stranger => "stranger",
        Standing::Trusted => "trusted",
        Standing::Blocked => "blocked",
    }
}

/// How much is shared, in a line.
pub(crate) fn amounts(policy: &SharePolicy) -> String {
    let each = |(resource, share): (&Resource, &_)| {
        format!("{resource}={}", amount::show(resource, *share))
    };
    policy.amounts.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// So much, as it is typed, with room to break the line.
pub(crate) fn spaced(quantity: &Resources) -> String {
    quantity.show().replace(',', ", ")
}

/// Whom a rule is about: a cluster by its short id.
pub(crate) fn party(party: &Party) -> String {
    match party {
        Party::Cluster(cluster) => cluster.short(),
        Party::Organisation(_) | Party::Federation(_) => party.to_string(),
    }
}

/// What a kind of GPU is, and how it is cut: `h100-80gb-sxm 80Gi whole, hardware`.
pub(crate) fn device(gpu: &GpuPool) -> String {
    let named = |how: &str, name: &str| format!("{how} {}", shown(name));
    let cut = match &gpu.mode {
        GpuMode::Exclusive => "whole".to_owned(),
        GpuMode::Mig { profile } => named("part", profile),
        GpuMode::Vgpu { profile } => named("vGPU", profile),
        GpuMode::Timeslice { replicas } => format!("time-slice 1/{replicas}"),
        GpuMode::Mps { percent, .. } => format!("MPS {percent}%"),
    };
    let memory = memory(gpu.memory_mib.saturating_mul(1 << 20));
    // What labels say is read from devices.
    let by = if gpu.source == GpuSource::Manual { ", its owner's word" } else { "" };
    format!("{} {memory} {cut}, {}{by}", gpu.model, name(gpu.isolation))
}

/// A rule of what is shared at this price, in a line: `deny: stranger, gpu.h100 or gpu.l4`. Of its own
/// price the whole is said, with the lines that stay as posted.
pub(crate) fn rule(rule: &ShareRule, posted: &Price) -> String {
    let ShareRule { buyers, standing: of, jurisdictions, resources, class, .. } = rule;
    let ShareRule { egress, most, least, longest_s, shortest_s, then, price, .. } = rule;
    let any_of = |these: Vec<String>| (!these.is_empty()).then(|| these.join(" or "));
    let mut cases: Vec<String> = Vec::new();
    cases.extend(any_of(buyers.iter().map(party).collect()));
    cases.extend(of.map(|of| standing(of).to_owned()));
    cases.extend(any_of(jurisdictions.iter().cloned().collect()));
    cases.extend(any_of(resources.iter().map(ToString::to_string).collect()));
    cases.extend(class.map(name));
    cases.extend(egress.map(|kind| format!("egress {}", kind.word())));
    cases.extend((!most.is_zero()).then(|| format!("at most {}", spaced(most))));
    cases.extend((!least.is_zero()).then(|| format!("at least {}", spaced(least))));
    cases.extend(longest_s.map(|seconds| format!("no longer than {}", Seconds(seconds).show())));
    cases.extend(shortest_s.map(|seconds| format!("no shorter than {}", Seconds(seconds).show())));
    let cases = if cases.is_empty() { "everybody".to_owned() } else { cases.join(", ") };
    let whole = price.as_ref().map(|change| match change.over(posted, []) {
        Ok(price) => format!(", at {}", price.show()),
        Err(wrong) => format!(", at {} ({wrong})", change.show()),
    });
    let price = whole.unwrap_or_default();
    format!("{}{price}: {cases}", name(then))
}

/// A cell of CSV, quoted where it has to be.
pub(crate) fn csv_cell(cell: &str) -> String {
    if cell.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use mercato_broker::syntax::PriceChange;
    use mercato_protocol::egress::EgressKind;
    use mercato_protocol::gpu::GpuIsolation;

    use super::*;

    #[test]
    fn a_device_says_how_it_is_cut_and_whose_word_that_is() {
        let whole = GpuPool::whole("h100-80gb-sxm".parse().unwrap(), 8, 81_920);
        assert_eq!(device(&whole), "h100-80gb-sxm 80Gi whole, hardware, its owner's word");
        let of = |model: &str, mode, isolation| {
            let gpu = GpuPool { source: GpuSource::Labels, mode, isolation, ..whole.clone() };
            device(&GpuPool { model: model.parse().unwrap(), memory_mib: 4_096, ..gpu })
        };
        let (mps, mig) = (GpuMode::Mps { memory_mib: 4_096, percent: 25 }, "1g.5gb".to_owned());
        let mig = of("a100.1g.5gb", GpuMode::Mig { profile: mig }, GpuIsolation::Hardware);
        assert_eq!(mig, "a100.1g.5gb 4Gi part 1g.5gb, hardware");
        let vgpu = GpuMode::Vgpu { profile: "4C".to_owned() };
        let vgpu = of("v100.4c", vgpu, GpuIsolation::Hardware);
        assert_eq!(vgpu, "v100.4c 4Gi vGPU 4C, hardware");
        let turns = of("t4.ts4", GpuMode::Timeslice { replicas: 4 }, GpuIsolation::None);
        assert_eq!(turns, "t4.ts4 4Gi time-slice 1/4, none");
        assert_eq!(of("t4.mps4", mps, GpuIsolation::Limit), "t4.mps4 4Gi MPS 25%, limit");
    }

    #[test]
    fn times_are_shown_in_two_units() {
        for (ms, shown) in [
            (0, "0s"),
            (59_999, "59s"),
            (14_399_000, "3h59m"),
            (14_400_000, "4h"),
            (90_061_000, "1d1h"),
        ] {
            assert_eq!(span(ms), shown);
        }
        assert_eq!((round_trip(340), round_trip(12_900)), ("0.3ms".into(), "12ms".into()));
        assert_eq!(moment(1_795_161_600_000), "2026-11-20 08:00:00");
    }

    #[test]
    fn memory_is_in_whole_units() {
        let cases = [(10_307_921_510, "9830Mi"), (64 << 30, "64Gi"), (3 << 10, "3Ki"), (5, "5")];
        for (bytes, shown) in cases {
            assert_eq!(memory(bytes), shown);
        }
    }

    #[test]
    fn a_reason_is_plain_words() {
        assert_eq!(plain_reason("noCapacity", ""), "no capacity");
        let denied = "denied by owner (not today)";
        assert_eq!(plain_reason("DeniedByOwner", "not today"), denied);
    }

    #[test]
    fn a_fingerprint_is_whole_and_fits() {
        let lines = fingerprint(&ClusterId([0x4f; 32]));
        assert!(lines.iter().all(|line| line.len() == 39));
        assert_eq!(lines.concat().replace(' ', ""), "4f".repeat(32));
    }

    #[test]
    fn a_rule_is_a_line() {
        let all = ShareRule::default();
        let posted = Price::from_text("cpu=1 EUR/h, memory=0.01 EUR/h").unwrap();
        let rule = |of: &ShareRule| rule(of, &posted);
        assert_eq!(rule(&all), "ask: everybody");
        for (price, said) in [
            ("cpu=0.50 EUR/h", "cpu=0.50 EUR/h, memory=0.01 EUR/h"),
            ("cpu=0.50 EUR/h, memory=0", "cpu=0.50 EUR/h"),
            ("free", "free"),
        ] {
            let price = Some(PriceChange::from_text(price).unwrap());
            let own = ShareRule { price, then: mercato_broker::Approve::Auto, ..all.clone() };
            assert_eq!(rule(&own), format!("auto, at {said}: everybody"));
        }
        let some = ShareRule {
            standing: Some(Standing::Stranger),
            resources: ["gpu.h100".parse().unwrap()].into(),
            most: Resources::from_text("cpu=8").unwrap(),
            longest_s: Some(14_400),
            egress: Some(EgressKind::Named),
            then: mercato_broker::Approve::Deny,
            ..all
        };
        let said = "deny: stranger, gpu.h100, egress named, at most cpu=8, no longer than 4h";
        assert_eq!(rule(&some), said);
    }
}
