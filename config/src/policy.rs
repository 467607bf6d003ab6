//! What may be bought: as it is written.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::syntax::Seconds;
use mercato_broker::{BurstPolicy, BuyPolicy, Rate, Selector};
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Class;
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
    /// What is bought by itself for pods that find no room here, of namespaces whose NamespaceOffload
    /// says `burst: true`; left out: nothing. Budgets, `trust`, `selector` and `longest` hold for it too.
    pub bursts: Option<Bursts>,
}

/// What is bought by itself for pods that find no room, extended while pods are on it, and given back.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = structural)]
pub struct Bursts {
    /// No unit of a resource may cost more: `cpu=0.05 EUR/h, memory=0.01 EUR/h`. What is not named has to
    /// be free, and nothing is bought in another currency.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "String", length(max = 1024))]
    pub max_price: Price,
    /// The most of each resource that all of it may have together: `cpu=64,memory=256Gi,pods=200`. A
    /// model of GPUs that is not named is not bought.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "String", length(max = 1024))]
    pub most: Resources,
    /// How long a contract is at first, and by how much it is extended: `1h` by default.
    #[serde(default, rename = "for", deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub term: Option<Seconds>,
    /// A pod counts once the scheduler has found no room for it for so long: `30s` by default.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub after: Option<Seconds>,
    /// A contract is cancelled once no pod was on its node for so long: `10m` by default.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub idle: Option<Seconds>,
    /// A provider that has not signed so long after an order is left for the next: `3s` by default.
    #[serde(default, deserialize_with = "some_text")]
    #[schemars(with = "Option<String>", regex(pattern = DURATION), length(max = 32))]
    pub wait: Option<Seconds>,
    /// Every offer that is taken so must match it: `jurisdiction=IT`.
    #[serde(default, deserialize_with = "text")]
    #[schemars(with = "Option<String>", length(max = 4096))]
    pub selector: Selector,
    /// How firmly it is to be held: `reserved` or `spot`; by default however the provider offers it.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("enum" = ["reserved", "spot"]))]
    pub class: Option<Class>,
}

impl Bursts {
    fn policy(&self) -> BurstPolicy {
        let or = |said: Option<Seconds>, usual_s| said.map_or(usual_s, |Seconds(seconds)| seconds);
        BurstPolicy {
            max_price: self.max_price.clone(),
            most: self.most.clone(),
            term_s: or(self.term, 3_600),
            after_s: or(self.after, 30),
            idle_s: or(self.idle, 600),
            wait_s: or(self.wait, 3),
            selector: self.selector.clone(),
            class: self.class,
        }
    }
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
            bursts: self.bursts.as_ref().map(|bursts| Box::new(bursts.policy())),
        }
    }
}

#[cfg(test)]
mod tests {
    use mercato_broker::syntax::{FromText as _, PriceChange};
    use mercato_broker::{Approve, ShareRule, Standing};
    use mercato_protocol::egress::EgressKind;

    use super::*;
    use crate::Settings;

    #[test]
    fn policies_are_written_as_people_speak() {
        let yaml = "
share:
  egress: { to: named, named: [203.0.114.0/24], except: [198.20.0.0/16] }
  rules:
    - { resources: [gpu.h100], standing: stranger, then: deny }
    - { buyers: [org=polito, federation=alps], least: cpu=4, shortest: 7d, price: 'cpu=0.01 EUR/h', then: auto }
    - { jurisdictions: [IT], class: spot, egress: internet, most: 'cpu=8,memory=32Gi', longest: 4h, then: auto }
buy:
  trust: [4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f]
  selector: jurisdiction in (IT,FR), trust=trusted
  budget: 500 EUR/w
  namespaces: { shop: 10 EUR/d }
  longest: 7d
  bursts:
    maxPrice: cpu=0.05 EUR/h, memory=0.01 EUR/h
    most: cpu=64,memory=256Gi,pods=200
    for: 2h
    selector: jurisdiction=IT
";
        let settings = Settings::parse("mercato.yaml", yaml).unwrap();
        let share = settings.share.unwrap().policy();
        assert_eq!(share.egress.to, EgressKind::Named);
        assert_eq!(share.egress.named, ["203.0.114.0/24".parse().unwrap()].into());
        assert_eq!(share.egress.except, ["198.20.0.0/16".parse().unwrap()].into());
        let rules = share.rules;
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
        assert_eq!(rules[2].egress, Some(EgressKind::Internet));
        assert_eq!((rules[2].longest_s, rules[2].then), (Some(14_400), Approve::Auto));
        let buy = settings.buy.unwrap().policy();
        assert_eq!(buy.trust, [ClusterId([0x4f; 32])].into());
        assert_eq!(buy.selector.terms().len(), 2);
        assert_eq!(buy.budget, Some(Rate::from_text("500 EUR/w").unwrap()));
        assert_eq!(buy.namespaces["shop"], Rate::from_text("10 EUR/d").unwrap());
        assert_eq!(buy.longest_s, Some(604_800));
        let bursts = *buy.bursts.unwrap();
        assert_eq!(
            bursts.max_price,
            Price::from_text("cpu=0.05 EUR/h, memory=0.01 EUR/h").unwrap()
        );
        assert_eq!(bursts.most, Resources::from_text("cpu=64,memory=256Gi,pods=200").unwrap());
        let times = [bursts.term_s, bursts.after_s, bursts.idle_s, bursts.wait_s];
        assert_eq!(times, [7_200, 30, 600, 3]);
        assert_eq!((bursts.selector.terms().len(), bursts.class), (1, None));
    }

    #[test]
    fn a_mistake_is_pointed_at() {
        let refused = |yaml| Settings::parse("x", yaml).unwrap_err().to_string();
        let said = refused("buy:\n  selector: gpu.modle=h100\n");
        assert!(said.contains("expected gpu.model") && said.contains("line 2"), "{said}");
        let said = refused("buy:\n  namespaces:\n    shop: 10 EUR\n");
        assert!(said.contains("expected '/' at character 7"), "{said}");
        assert!(refused("share:\n  rules:\n    - standing: stranger\n").contains("then"));
        let said = refused("buy:\n  bursts: { most: 'cpu=1,memory=1Gi,pods=1' }\n");
        assert!(said.contains("maxPrice"), "{said}");
        let said = refused("buy:\n  bursts: { maxPrice: free, most: 'cpu=1', until: 1h }\n");
        assert!(said.contains("until"), "{said}");
    }
}
