//! What is bought, and for what, as a table of 80 columns has room for it, here and in
//! `kubectl get`. At length it is in other fields and columns.

use mercato_broker::{Amount, SharePolicy};
use mercato_config::{Show as _, amount, quantity};
use mercato_protocol::price::{Money, Price};
use mercato_protocol::resources::{Resource, Resources};

use super::text::{memory, moment};

const HOUR_S: u32 = 3_600;

/// `8 cpu 64Gi+100Gi 2 h100`: storage is written behind the memory; how many pods is not said.
pub(crate) fn size(quantity: &Resources) -> String {
    let plain =
        |(resource, _): &(Resource, u64)| !matches!(resource, Resource::Pods | Resource::Storage);
    words(quantity.iter().filter(plain).map(|(resource, n)| match resource {
        Resource::Cpu => format!("{} cpu", cores(n)),
        Resource::Memory if quantity.storage_bytes > 0 => {
            format!("{}+{}", memory(n), memory(quantity.storage_bytes))
        }
        Resource::Memory => memory(n),
        Resource::Pods | Resource::Storage | Resource::Gpu(_) => {
            format!("{n} {}", called(&resource))
        }
    }))
}

/// `30% cpu 64Gi 2 h100`; how many pods is not said.
pub(crate) fn shares(policy: &SharePolicy) -> String {
    let all = policy.amounts.iter().filter(|(resource, _)| **resource != Resource::Pods);
    words(all.map(|(resource, share)| match (resource, share) {
        (Resource::Cpu, Amount::Exactly(n)) => format!("{} cpu", cores(*n)),
        (Resource::Memory, Amount::Exactly(n)) => quantity::show(resource, *n),
        _ => format!("{} {}", amount::show(resource, *share), called(resource)),
    }))
}

/// `0.60/cpu 2.40/h100 EUR/h`; in full where it is not all by the hour.
pub(crate) fn price(price: &Price) -> String {
    let Price::Posted { currency, units } = price else { return price.show() };
    if units.is_empty() || units.values().any(|unit| unit.period_s != HOUR_S) {
        return price.show();
    }
    let each = units.iter().map(|(resource, unit)| {
        let of = if *resource == Resource::Memory { "GiB".to_owned() } else { called(resource) };
        let amount = Money { micros: unit.micros, currency: *currency }.to_string();
        format!("{}/{of}", amount.split(' ').next().unwrap_or(&amount))
    });
    format!("{} {currency}/h", words(each))
}

/// A moment as `11-21 16:00`, in UTC.
pub(crate) fn moment_of(ms: u64) -> String {
    let whole = moment(ms);
    whole.get(5..16).unwrap_or(&whole).to_owned()
}

fn called(resource: &Resource) -> String {
    match resource {
        Resource::Gpu(model) => model.to_string(),
        Resource::Cpu | Resource::Memory | Resource::Pods | Resource::Storage => {
            resource.to_string()
        }
    }
}

fn words(all: impl Iterator<Item = String>) -> String {
    all.collect::<Vec<_>>().join(" ")
}

/// With no more decimals than it takes.
fn cores(millis: u64) -> String {
    let whole = format!("{}.{:03}", millis / 1_000, millis % 1_000);
    whole.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_config::{FromText as _, Share};
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_and_prices_are_short() {
        let gpus = BTreeMap::from([("h100".parse().unwrap(), 2)]);
        let mut quantity = Resources {
            cpu_millis: 8_000,
            memory_bytes: 64 << 30,
            pods: 20,
            storage_bytes: 100 << 30,
            gpus,
        };
        assert_eq!(size(&quantity), "8 cpu 64Gi+100Gi 2 h100");
        quantity.storage_bytes = 0;
        quantity.gpus.clear();
        quantity.cpu_millis = 1_050;
        assert_eq!(size(&quantity), "1.05 cpu 64Gi");
        let all = "cpu=0.6 EUR/h, memory=0.05 EUR/h, gpu.h100=12 EUR/h";
        let read = |text| Price::from_text(text).unwrap();
        assert_eq!(price(&read(all)), "0.60/cpu 0.05/GiB 12.00/h100 EUR/h");
        assert_eq!(price(&read("cpu=0.60 EUR/d")), "cpu=0.60 EUR/d");
        assert_eq!(price(&Price::Free), "free");
    }

    #[test]
    fn shares_are_short() {
        let share = json!({ "cpu": "1500m", "memory": "30%", "pods": "40", "storage": "500Gi",
            "gpu": "h100=2" });
        let policy = serde_json::from_value::<Share>(share).unwrap().policy();
        assert_eq!(shares(&policy), "1.5 cpu 30% memory 500Gi storage 2 h100");
    }

    #[test]
    fn moments_are_short() {
        assert_eq!(moment_of(1_795_276_800_000), "11-21 16:00");
    }
}
