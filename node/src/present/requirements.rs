//! What a buyer wants, as it is typed: by options of the command line, or in fields of the page.

use std::collections::BTreeSet;

use mercato_broker::{Demand, Rate, Selector, Sort};
use mercato_config::{Gpus, Seconds, Show as _, quantity};
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ClusterId;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;

use super::text::name;

/// Enough pods for most of what a namespace runs, and few enough for most providers.
pub(crate) const PODS: u64 = 20;

/// What a buyer types. What is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// Of which kind the offers are.
    pub(crate) selector: Option<Selector>,
    /// How many processors, in thousandths.
    pub(crate) cpu: Option<u64>,
    /// How much memory, in bytes.
    pub(crate) memory: Option<u64>,
    /// GPUs by model or family.
    pub(crate) gpu: Option<Gpus>,
    /// Room for volumes, in bytes.
    pub(crate) storage: Option<u64>,
    /// Pods at once; none: [`PODS`].
    pub(crate) pods: Option<u64>,
    /// How long it is needed.
    pub(crate) term: Option<Seconds>,
    /// How firmly it is promised.
    pub(crate) class: Option<Class>,
    /// The most that is paid for all of it together.
    pub(crate) max_price: Option<Rate>,
    /// From this provider and no other.
    pub(crate) from: Option<ClusterId>,
    /// Whom its pods are to reach on the Internet; none: nobody.
    pub(crate) egress: Option<Egress>,
    /// Which of the offers comes first.
    pub(crate) sort: Sort,
}

impl Requirements {
    /// The demand for it. How much and how long is asked for together: a price is of both.
    pub(crate) fn demand(&self) -> Demand {
        let much = self.cpu.is_some() || self.memory.is_some() || self.gpu.is_some();
        let much = much || self.storage.is_some();
        let priced = much || self.max_price.is_some() || self.term.is_some();
        let quantity = Resources {
            cpu_millis: self.cpu.unwrap_or(0),
            memory_bytes: self.memory.unwrap_or(0),
            pods: if priced { self.pods.unwrap_or(PODS) } else { 0 },
            storage_bytes: self.storage.unwrap_or(0),
            gpus: self.gpu.clone().unwrap_or_default().0,
        };
        let Seconds(term_s) = self.term.unwrap_or(Seconds(if priced { 3_600 } else { 0 }));
        Demand {
            selector: self.selector.clone().unwrap_or_default(),
            quantity,
            term_s,
            class: self.class,
            max_price: self.max_price,
            from: self.from,
            namespaces: BTreeSet::new(),
            sort: self.sort,
            egress: self.egress.clone().unwrap_or_default(),
        }
    }

    /// The same as words of the command line, after `mercato browse` or `mercato order`.
    pub(crate) fn words(&self) -> String {
        let mut words = Vec::new();
        let much = |resource: Resource, n: u64| quantity::show(&resource, n);
        words.extend(self.selector.as_ref().map(|selector| quoted(&selector.show())));
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name} {}", quoted(&value))));
        };
        option("cpu", self.cpu.map(|n| much(Resource::Cpu, n)));
        option("memory", self.memory.map(|n| much(Resource::Memory, n)));
        let gpus = |gpus: &Gpus| {
            let all = gpus.0.iter().map(|(model, n)| format!("{model}={n}"));
            all.collect::<Vec<_>>().join(",")
        };
        option("gpu", self.gpu.as_ref().map(gpus));
        option("storage", self.storage.map(|n| much(Resource::Storage, n)));
        option("pods", self.pods.map(|n| n.to_string()));
        option("for", self.term.map(|term| term.show()));
        option("class", self.class.map(name));
        option("max-price", self.max_price.map(|rate| rate.show()));
        option("egress", self.egress.as_ref().map(ToString::to_string));
        option("from", self.from.map(|cluster| format!("{cluster:.12}")));
        option("sort", (self.sort != Sort::default()).then(|| name(self.sort)));
        words.join(" ")
    }
}

/// As a shell takes it for one word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.=:/,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
