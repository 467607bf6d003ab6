//! Families of GPUs in what an owner writes: `h100` means each of its models. What is signed, and
//! what is counted, names models alone.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::GpuModel;

/// The line that says something of a resource: its own before that of its family.
pub(crate) fn line<'a, T>(
    lines: &'a BTreeMap<Resource, T>,
    resource: &Resource,
) -> Option<(&'a Resource, &'a T)> {
    let family = || lines.iter().find(|(line, _)| resource.is_a(line));
    lines.get_key_value(resource).or_else(family)
}

/// How much there is of a resource, or of all models of a family.
pub(crate) fn quantity(resources: &Resources, asked: &Resource) -> u64 {
    let meant = resources.iter().filter(|(resource, _)| resource.is_a(asked));
    meant.fold(0, |sum, (_, n)| sum.saturating_add(n))
}

/// Whether who asks for so much may mean as much as this, which names models.
pub(crate) fn may_mean(asked: &Resources, quantity: &Resources) -> bool {
    let least = |(resource, n): (Resource, u64)| {
        let meant = asked.iter().filter(|(name, _)| resource.is_a(name));
        meant.fold(0, |sum: u64, (_, count)| sum.saturating_add(count)) >= n
    };
    quantity.iter().all(least)
}

/// The price with a line for each of these models, in the place of those of their families. None:
/// there are more lines than a price may have.
pub(crate) fn price<'a>(
    price: &Price,
    models: impl IntoIterator<Item = &'a GpuModel>,
) -> Option<Price> {
    let Price::Posted { currency, units } = price else { return Some(price.clone()) };
    let (mut own, mut families) = (units.clone(), BTreeSet::new());
    for model in models {
        let resource = Resource::Gpu(model.clone());
        if let Some((line, unit)) = line(units, &resource) {
            families.extend((*line != resource).then_some(line));
            own.insert(resource, *unit);
        }
    }
    own.retain(|line, _| !families.contains(line));
    Some(Price::Posted { currency: *currency, units: own }).filter(|price| price.validate().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::FromText as _;

    #[test]
    fn who_asks_for_a_family_may_mean_each_of_its_models() {
        let of = |text: &str| Resources::from_text(text).unwrap();
        let refused = of("cpu=8,gpu.h100-80gb-sxm=2");
        for (asked, may) in [
            ("cpu=8,gpu.h100=2", true),
            ("cpu=8,gpu.h100-80gb-sxm=3", true),
            ("cpu=8,gpu.h100=1", false),
            ("cpu=4,gpu.h100=2", false),
            ("cpu=8,gpu.h100-80gb-pcie=2", false),
            ("cpu=8,gpu.h100.1g.10gb=2", false),
        ] {
            assert_eq!(may_mean(&of(asked), &refused), may, "{asked}");
        }
    }

    #[test]
    fn a_price_names_models_and_the_longer_line_wins() {
        let written = "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h, gpu.h100-80gb-pcie=2 EUR/h";
        let written = Price::from_text(written).unwrap();
        let models = ["h100-80gb-sxm", "h100-80gb-pcie", "h100-80gb-sxm.1g.10gb", "l4"];
        let models = models.map(|model| model.parse().unwrap());
        let signed = "cpu=0.02 EUR/h, gpu.h100-80gb-sxm=2.40 EUR/h, gpu.h100-80gb-pcie=2 EUR/h";
        assert_eq!(price(&written, &models), Some(Price::from_text(signed).unwrap()));
        assert_eq!(price(&written, []), Some(written.clone()), "nothing of it is there now");
        let whole = ["h100".parse().unwrap()];
        assert_eq!(price(&written, &whole), Some(written), "a model that is its family");
    }
}
