//! Terms that are made of what somebody else has said, and not written by a person. They read as one
//! who writes them would write them.

use mercato_protocol::price::{Currency, Money, UnitPrice};
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::Platform;

use super::attribute::PRICES;
use super::{Attribute, GpuFact, PoolFact, Priced, Selector, Side, Term, Test, Value};
use crate::syntax::{Rate, Show as _, quantity};

impl Selector {
    /// With these terms as well.
    pub(crate) fn and(&self, more: impl IntoIterator<Item = Term>) -> Self {
        Self { terms: self.terms.iter().cloned().chain(more).collect() }
    }
}

impl Term {
    /// A unit of this costs at most that much.
    pub(crate) fn price_at_most(priced: Priced, currency: Currency, most: UnitPrice) -> Self {
        let of = PRICES.iter().find(|(_, it)| *it == priced).map_or("", |(name, _)| name);
        let amount = Money { micros: most.micros, currency };
        let rate = Rate { amount, per_s: most.period_s }.show();
        let text = format!("price.{of}.{currency}<={}", rate.replace(&format!(" {currency}"), ""));
        let attribute = Attribute::Price(priced, currency);
        let value = Value::price(most.micros, most.period_s);
        Self { text, attribute, test: Test::Than(Side::AtMost, value) }
    }

    /// All of it is free.
    pub(crate) fn free() -> Self {
        Self::is("price", Attribute::Pool(PoolFact::Price), "free")
    }

    /// A single pod may ask for so much of a resource.
    pub(crate) fn pod_at_least(resource: &Resource, n: u64) -> Option<Self> {
        let (name, fact) = match resource {
            Resource::Cpu => ("pod.cpu", PoolFact::PodCpu),
            Resource::Memory => ("pod.memory", PoolFact::PodMemory),
            Resource::Pods | Resource::Storage | Resource::Gpu(_) => return None,
        };
        let text = format!("{name}>={}", quantity::show(resource, n));
        Some(Self::at_least(text, Attribute::Pool(fact), n))
    }

    /// A single node has so many of the GPUs.
    pub(crate) fn gpus_at_least(n: u64) -> Self {
        Self::at_least(format!("gpu.per-node>={n}"), Attribute::Gpu(GpuFact::PerNode), n)
    }

    /// The GPUs are of this vendor.
    pub(crate) fn of_vendor(vendor: &str) -> Self {
        Self::is("gpu.vendor", Attribute::Gpu(GpuFact::Vendor), vendor)
    }

    /// The nodes are of this kind.
    pub(crate) fn on(platform: &Platform) -> [Self; 2] {
        [
            Self::is("arch", Attribute::Pool(PoolFact::Arch), platform.arch.as_str()),
            Self::is("os", Attribute::Pool(PoolFact::Os), platform.os.as_str()),
        ]
    }

    fn is(name: &str, attribute: Attribute, word: &str) -> Self {
        let test = Test::OneOf { values: vec![Value::word(word)], not: false };
        Self { text: format!("{name}={word}"), attribute, test }
    }

    fn at_least(text: String, attribute: Attribute, n: u64) -> Self {
        Self { text, attribute, test: Test::Than(Side::AtLeast, Value::number(n)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::FromText as _;

    #[test]
    fn a_term_that_is_made_is_the_one_that_is_written() {
        let platform = Platform { arch: "arm64".parse().unwrap(), os: "linux".parse().unwrap() };
        let [arch, os] = Term::on(&platform);
        let terms = [
            arch,
            os,
            Term::free(),
            Term::pod_at_least(&Resource::Cpu, 1_500).unwrap(),
            Term::pod_at_least(&Resource::Memory, 3 << 30).unwrap(),
            Term::gpus_at_least(2),
            Term::of_vendor("nvidia"),
        ];
        let made = Selector::default().and(terms);
        assert_eq!(Selector::from_text(&made.show()).unwrap(), made, "{}", made.show());
    }
}
