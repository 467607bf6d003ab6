//! What may be bought: as it is written.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::syntax::Seconds;
use mercato_broker::{BuyPolicy, Rate, Selector};
use mercato_protocol::id::ClusterId;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::text::{some_text, text, texts};
use crate::written::{DURATION, structural, validation};

/// What may be bought, and of whom.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = structural)]
pub struct Buy {
    /// Fingerprints of the clusters that are bought from, besides those that were trusted
    /// by command. Compare them with what their owners see in their own MarketPolicy's
    /// `status.fingerprint`. Nothing is ever bought from others.
    #[schemars(with = "Vec<String>", length(max = 256), inner(length(max = 64)))]
    #[schemars(extend("x-kubernetes-validations" = [validation(FINGERPRINTS, NO_FINGERPRINT)]))]
    pub trust: BTreeSet<ClusterId>,
    /// Every offer that is taken must match it.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "Option<String>", length(max = 4096))]
    pub selector: Selector,
    /// The most that is committed in any hour, day or week: `500 EUR/w`.
    #[serde(deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", length(max = 64))]
    pub budget: Option<Rate>,
    /// The same for the orders of a namespace.
    #[serde(deserialize_with = "texts")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub namespaces: BTreeMap<String, Rate>,
    /// The longest term of an order.
    #[serde(deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub longest: Option<Seconds>,
}

const FINGERPRINTS: &str = "self.all(one, one.matches('^[0-9a-f]{64}$'))";
const NO_FINGERPRINT: &str = "a fingerprint is 64 hexadecimal digits";

impl Buy {
    /// As the broker takes it.
    pub fn policy(&self) -> BuyPolicy {
        BuyPolicy {
            trust: self.trust.clone(),
            selector: self.selector.clone(),
            budget: self.budget,
            namespaces: self.namespaces.clone(),
            longest_s: self.longest.map(|Seconds(seconds)| seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use mercato_broker::syntax::{FromText as _, PriceChange};
    use mercato_broker::{Approve, ShareRule, Standing};
    use mercato_protocol::resources::Resources;

    use super::*;
    use crate::Settings;

    #[test]
    fn policies_are_written_as_people_speak() {
        let yaml = "
share:
  rules:
    - { resources: [gpu.h100], standing: stranger, then: deny }
    - { buyers: [org=polito, federation=alps], least: cpu=4, shortest: 7d, price: 'cpu=0.01 EUR/h', then: auto }
    - { jurisdictions: [IT], class: spot, most: 'cpu=8,memory=32Gi', longest: 4h, then: auto }
buy:
  trust: [4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f]
  selector: jurisdiction in (IT,FR), trust=trusted
  budget: 500 EUR/w
  namespaces: { shop: 10 EUR/d }
  longest: 7d
";
        let settings = Settings::parse("mercato.yaml", yaml).unwrap();
        let rules = settings.share.unwrap().policy().rules;
        let h100 = "gpu.h100".parse().unwrap();
        let first = ShareRule {
            resources: [h100].into(),
            standing: Some(Standing::Stranger),
            then: Approve::Deny,
            ..ShareRule::default()
        };
        assert_eq!(rules[0], first);
        let buyers: Vec<String> = rules[1].buyers.iter().map(ToString::to_string).collect();
        assert_eq!(buyers, ["org=polito", "federation=alps"]);
        assert_eq!((rules[1].least.cpu_millis, rules[1].shortest_s), (4_000, Some(604_800)));
        assert_eq!(rules[1].price, Some(PriceChange::from_text("cpu=0.01 EUR/h").unwrap()));
        assert_eq!(rules[2].most, Resources::from_text("cpu=8,memory=32Gi").unwrap());
        assert_eq!((rules[2].longest_s, rules[2].then), (Some(14_400), Approve::Auto));
        let buy = settings.buy.unwrap().policy();
        assert_eq!(buy.trust, [ClusterId([0x4f; 32])].into());
        assert_eq!(buy.selector.terms().len(), 2);
        assert_eq!(buy.budget, Some(Rate::from_text("500 EUR/w").unwrap()));
        assert_eq!(buy.namespaces["shop"], Rate::from_text("10 EUR/d").unwrap());
        assert_eq!(buy.longest_s, Some(604_800));
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        let refused = |yaml| Settings::parse("x", yaml).unwrap_err().to_string();
        let said = refused("buy:\n  selector: gpu.modle=h100\n");
        assert!(said.contains("expected gpu.model") && said.contains("line 2"), "{said}");
        let said = refused("buy:\n  namespaces:\n    shop: 10 EUR\n");
        assert!(said.contains("expected '/' at character 7"), "{said}");
        assert!(refused("share:\n  rules:\n    - standing: stranger\n").contains("then"));
    }
}
