//! Rules of what is shared with whom, and what may be bought: as they are written.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::syntax::Seconds;
use mercato_broker::{Approve, BuyPolicy, Party, Rate, Selector, ShareRule, Standing};
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;
use serde::Deserialize;

use crate::text::{some_text, text, texts};

/// What becomes of some requests. What is left out does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// From one of these.
    #[serde(default)]
    pub buyers: BTreeSet<Party>,
    /// From whom the owner thinks so of.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// From one of these countries.
    #[serde(default)]
    pub jurisdictions: BTreeSet<String>,
    /// For some of these resources.
    #[serde(default)]
    pub resources: BTreeSet<Resource>,
    /// As firm as this.
    #[serde(default)]
    pub class: Option<Class>,
    /// For no more than this of each resource that is named.
    #[serde(default, deserialize_with = "some_text")]
    pub most: Option<Resources>,
    /// For no less than this.
    #[serde(default, deserialize_with = "some_text")]
    pub least: Option<Resources>,
    /// For no longer than this.
    #[serde(default, deserialize_with = "some_text")]
    pub longest: Option<Seconds>,
    /// For no shorter than this.
    #[serde(default, deserialize_with = "some_text")]
    pub shortest: Option<Seconds>,
    /// At this price, in the place of the posted one.
    #[serde(default, deserialize_with = "some_text")]
    pub price: Option<Price>,
    /// This becomes of them.
    pub then: Approve,
}

/// What may be bought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Buy {
    /// Clusters that are trusted, unless they are blocked.
    pub trust: BTreeSet<ClusterId>,
    /// Every offer that is taken must match it.
    #[serde(deserialize_with = "text")]
    pub selector: Selector,
    /// The most that is committed in any time of this length.
    #[serde(deserialize_with = "some_text")]
    pub budget: Option<Rate>,
    /// The same, for orders on behalf of a namespace.
    #[serde(deserialize_with = "texts")]
    pub namespaces: BTreeMap<String, Rate>,
    /// The longest term.
    #[serde(deserialize_with = "some_text")]
    pub longest: Option<Seconds>,
}

impl Rule {
    /// As the broker takes it.
    pub(crate) fn rule(&self) -> ShareRule {
        ShareRule {
            buyers: self.buyers.clone(),
            standing: self.standing,
            jurisdictions: self.jurisdictions.clone(),
            resources: self.resources.clone(),
            class: self.class,
            most: self.most.clone().unwrap_or_default(),
            least: self.least.clone().unwrap_or_default(),
            longest_s: self.longest.map(|Seconds(seconds)| seconds),
            shortest_s: self.shortest.map(|Seconds(seconds)| seconds),
            price: self.price.clone(),
            then: self.then,
        }
    }
}

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
    use mercato_broker::syntax::FromText as _;

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
        assert_eq!(rules[1].price, Some(Price::from_text("cpu=0.01 EUR/h").unwrap()));
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
