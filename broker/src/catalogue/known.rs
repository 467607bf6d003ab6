//! What is known by name here, and which names in the owner's words match nothing of it: slips, or
//! what is to be known later. Nothing is refused for that; whoever shows it says so.

use std::collections::BTreeSet;
use std::fmt;

use mercato_protocol::gpu::{device, is_a};
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::{GpuModel, shown};
use serde::{Deserialize, Serialize};

use super::buy_policy::BuyPolicy;
use super::countries;
use super::demand::Demand;
use super::nearest::nearest;
use super::party::Party;
use crate::limits;
use crate::sale::SharePolicy;
use crate::selector::Selector;
use crate::syntax::PriceChange;

/// Everything that this cluster knows by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Federations that were joined, or that are gone by.
    pub federations: BTreeSet<String>,
    /// Organisations that a certificate names.
    pub organisations: BTreeSet<String>,
    /// Clusters that were seen, or that the owner named.
    pub clusters: BTreeSet<ClusterId>,
    /// What those who offer something call themselves.
    pub providers: BTreeSet<String>,
    /// Virtual nodes: those that are there, and what those of known providers would be called;
    /// whoever names nodes fills it in.
    pub nodes: BTreeSet<String>,
    /// GPUs that exist: whole devices, by their names on the market.
    pub models: BTreeSet<GpuModel>,
    /// Countries that somebody says, beside the codes of ISO 3166-1.
    pub countries: BTreeSet<String>,
}

/// A name that matches nothing known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    /// What it should be the name of.
    pub kind: Noun,
    /// The name as it was written.
    pub name: String,
    /// The one known name that is closest to it, if one is close.
    pub nearest: Option<String>,
}

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Noun {
    /// A federation, by the name that it gives itself.
    Federation,
    /// An organisation, by its name in certificates.
    Organisation,
    /// A cluster, by its fingerprint.
    Cluster,
    /// A cluster that sells, by its name.
    Provider,
    /// A virtual node, by its name.
    Node,
    /// A GPU, by its name on the market.
    GpuModel,
    /// A country, by its code.
    Country,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = shown(&self.name);
        match self.kind {
            Noun::Federation => write!(f, "{name} is no federation that was joined here"),
            Noun::Organisation => write!(f, "no certificate known here names organisation {name}"),
            Noun::Cluster => write!(f, "cluster {name:.12} was never seen here"),
            Noun::Provider => write!(f, "nobody called {name} offers anything"),
            Noun::Node => write!(f, "{name} is no virtual node, and none of a known provider"),
            Noun::GpuModel => write!(f, "{name} is no GPU that is known here"),
            Noun::Country => write!(f, "{name} is no country's code of two letters"),
        }?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean {}?)", shown(nearest)),
            None => Ok(()),
        }
    }
}

impl Known {
    /// The names in what is shared, and in its rules, that match nothing: each once.
    pub fn unknown_in_share(&self, policy: &SharePolicy) -> Vec<Unknown> {
        let SharePolicy { amounts, devices, keep_free, price, allow, rules, .. } = policy;
        // What the owner calls its own devices is known by that.
        let own: BTreeSet<&GpuModel> = devices.models.values().collect();
        let of_rules = rules.iter().flat_map(|rule| {
            let prices = rule.price.iter().flat_map(PriceChange::lines);
            let prices = prices.filter_map(|(line, _)| gpu(line));
            let bounds = rule.most.gpus.keys().chain(rule.least.gpus.keys());
            rule.resources.iter().filter_map(gpu).chain(prices).chain(bounds)
        });
        let models = amounts.keys().filter_map(gpu).chain(&devices.shared);
        let models = models.chain(keep_free.gpus.keys()).chain(priced(price)).chain(of_rules);
        let models = models.filter(|asked| !own.iter().any(|known| covers(known, asked)));
        let parties = rules.iter().flat_map(|rule| &rule.buyers).chain(allow);
        let countries = rules.iter().flat_map(|rule| &rule.jurisdictions);
        let found = parties.filter_map(|party| self.party(party));
        let found = found.chain(models.filter_map(|model| self.model(model.as_str())));
        once(found.chain(countries.filter_map(|country| self.country(country))))
    }

    /// The same of what may be bought.
    pub fn unknown_in_buy(&self, policy: &BuyPolicy) -> Vec<Unknown> {
        let trusted = policy.trust.iter().filter_map(|cluster| self.cluster(cluster));
        once(trusted.chain(self.in_selector(&policy.selector)))
    }

    /// The same of what a buyer wants.
    pub fn unknown_in_demand(&self, demand: &Demand) -> Vec<Unknown> {
        let Resources { gpus, .. } = &demand.quantity;
        let models = gpus.keys().filter_map(|model| self.model(model.as_str()));
        once(self.in_selector(&demand.selector).chain(models))
    }

    /// The same of where pods may go: of virtual nodes, and of their providers.
    pub fn unknown_in_targets<'a>(
        &self,
        nodes: impl Iterator<Item = &'a str>,
        providers: impl Iterator<Item = &'a ClusterId>,
    ) -> Vec<Unknown> {
        let nodes = nodes.filter_map(|name| self.node(name));
        once(nodes.chain(providers.filter_map(|provider| self.cluster(provider))))
    }

    fn in_selector<'a>(&'a self, selector: &'a Selector) -> impl Iterator<Item = Unknown> + 'a {
        let of_term = |term: &'a crate::selector::Term| {
            let words = term.words().into_iter();
            words.filter_map(|word| match term.name() {
                "federation" => self.federation(word),
                "organisation" => self.organisation(word),
                "provider" => self.provider(word),
                "gpu.model" => self.model(word),
                "jurisdiction" => self.country(word),
                _ => None,
            })
        };
        selector.terms().iter().flat_map(of_term)
    }

    fn party(&self, party: &Party) -> Option<Unknown> {
        match party {
            Party::Cluster(cluster) => self.cluster(cluster),
            Party::Organisation(name) => self.organisation(name.as_str()),
            Party::Federation(name) => self.federation(name.as_str()),
        }
    }

    fn cluster(&self, cluster: &ClusterId) -> Option<Unknown> {
        let kind = Noun::Cluster;
        let name = (!self.clusters.contains(cluster)).then(|| cluster.to_string())?;
        Some(Unknown { kind, name, nearest: None })
    }

    fn federation(&self, name: &str) -> Option<Unknown> {
        unless_in(&self.federations, Noun::Federation, name)
    }

    fn organisation(&self, name: &str) -> Option<Unknown> {
        unless_in(&self.organisations, Noun::Organisation, name)
    }

    fn provider(&self, name: &str) -> Option<Unknown> {
        unless_in(&self.providers, Noun::Provider, name)
    }

    /// Of a provider's name its node is meant: nearer than any other name.
    fn node(&self, name: &str) -> Option<Unknown> {
        let unknown = unless_in(&self.nodes, Noun::Node, name)?;
        let of_provider =
            |node: &&String| node.strip_suffix(name).is_some_and(|it| it.ends_with('-'));
        let own = self.nodes.iter().find(of_provider).filter(|_| !name.is_empty()).cloned();
        Some(Unknown { nearest: own.or(unknown.nearest), ..unknown })
    }

    fn model(&self, name: &str) -> Option<Unknown> {
        let asked: Option<GpuModel> = name.parse().ok();
        let is_known = |asked: &GpuModel| self.models.iter().any(|known| covers(known, asked));
        if asked.as_ref().is_some_and(is_known) {
            return None;
        }
        let families = self.models.iter().map(mercato_protocol::gpu::family);
        let all = self.models.iter().map(GpuModel::as_str).chain(families);
        let nearest = nearest(name, all).map(str::to_owned);
        Some(Unknown { kind: Noun::GpuModel, name: name.to_owned(), nearest })
    }

    fn country(&self, name: &str) -> Option<Unknown> {
        if countries::is_code(name) || self.countries.contains(name) {
            return None;
        }
        let said = self.countries.iter().map(String::as_str);
        let nearest = nearest(name, countries::codes().chain(said)).map(str::to_owned);
        Some(Unknown { kind: Noun::Country, name: name.to_owned(), nearest })
    }
}

/// Whether one who asks so may mean this device or a part of it.
fn covers(known: &GpuModel, asked: &GpuModel) -> bool {
    let whole = |model: &GpuModel| device(model).parse::<GpuModel>().ok();
    match (whole(known), whole(asked)) {
        (Some(known), Some(asked)) => is_a(&known, &asked),
        _ => known == asked,
    }
}

fn gpu(resource: &Resource) -> Option<&GpuModel> {
    match resource {
        Resource::Gpu(model) => Some(model),
        Resource::Cpu | Resource::Memory | Resource::Pods | Resource::Storage => None,
    }
}

fn priced(price: &Price) -> impl Iterator<Item = &GpuModel> {
    let units = match price {
        Price::Free => None,
        Price::Posted { units, .. } => Some(units),
    };
    units.into_iter().flat_map(|units| units.keys()).filter_map(gpu)
}

fn unless_in(known: &BTreeSet<String>, kind: Noun, name: &str) -> Option<Unknown> {
    if known.contains(name) {
        return None;
    }
    let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    Some(Unknown { kind, name: name.to_owned(), nearest })
}

/// Each once, in an order, and not more than anybody reads.
fn once(found: impl Iterator<Item = Unknown>) -> Vec<Unknown> {
    let all: BTreeSet<Unknown> = found.collect();
    all.into_iter().take(limits::UNKNOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::{Approve, DevicePolicy, ShareRule};
    use crate::syntax::{Amount, FromText as _};
    use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};

    fn known() -> Known {
        let words = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Known {
            federations: words(&["italia", "alps"]),
            organisations: words(&["polito"]),
            clusters: [ClusterId([1; 32])].into(),
            providers: words(&["turin", "rome"]),
            nodes: words(&["mercato-turin", "mercato-rome"]),
            models: ["h100-80gb-sxm", "t4", "a10", "a100-80gb-sxm"]
                .map(|it| it.parse().unwrap())
                .into(),
            countries: words(&["Kosovo"]),
        }
    }

    fn policy() -> SharePolicy {
        SharePolicy {
            amounts: [(Resource::Cpu, Amount::Percent(50))].into(),
            devices: DevicePolicy::default(),
            storage: Box::default(),
            egress: Box::default(),
            objects: None,
            keep_free: Resources::default(),
            price: Price::Free,
            class: Class::Reserved,
            network_isolation: NetworkIsolation::None,
            pod_security: PodSecurity::Baseline,
            approve: Approve::Ask,
            allow: BTreeSet::new(),
            rules: Vec::new(),
            reclaim_notice_s: 3_600,
            max_term_s: 3_600,
        }
    }

    fn said(found: &[Unknown]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_that_match_nothing_are_said_with_the_nearest() {
        let demand = |selector: &str| Demand {
            selector: Selector::from_text(selector).unwrap(),
            ..Demand::default()
        };
        let unknown = |selector: &str| said(&known().unknown_in_demand(&demand(selector)));
        for right in [
            "federation=italia, organisation in (polito), provider=turin",
            "gpu.model in (h100, h100-80gb-sxm, h100.1g.10gb, t4.ts4, \"a100\")",
            "jurisdiction notin (IT,FR,Kosovo), region=anything, class=spot, gpu.mem>=80Gi",
            "gpu.model, federation",
        ] {
            assert_eq!(unknown(right), [""; 0], "{right}");
        }
        for (wrong, words) in [
            (
                "federation=itala",
                "itala is no federation that was joined here (did you mean italia?)",
            ),
            (
                "federation in (alps, \"lombardia\")",
                "lombardia is no federation that was joined here",
            ),
            (
                "organisation!=polit",
                "no certificate known here names organisation polit (did you mean polito?)",
            ),
            ("provider=truin", "nobody called truin offers anything (did you mean turin?)"),
            ("gpu.model=h10", "h10 is no GPU that is known here"),
            ("gpu.model=h1000", "h1000 is no GPU that is known here (did you mean h100?)"),
            ("jurisdiction=it", "it is no country's code of two letters (did you mean IT?)"),
            ("jurisdiction=ITA", "ITA is no country's code of two letters (did you mean IT?)"),
        ] {
            assert_eq!(unknown(wrong), [words], "{wrong}");
        }
    }

    #[test]
    fn what_is_shared_is_looked_through_whole() {
        let mut policy = policy();
        let model = |text: &str| text.parse::<GpuModel>().unwrap();
        policy.allow = ["federation=itala", "org=polito"].map(|it| it.parse().unwrap()).into();
        policy.amounts.insert(Resource::Gpu(model("h10")), Amount::Exactly(1));
        policy.devices.models.insert("NVIDIA-B300-SXM6-AC".to_owned(), model("b300"));
        policy.price =
            Price::from_text("gpu.b300=2 EUR/h, gpu.t4=1 EUR/h, gpu.t5=1 EUR/h").unwrap();
        policy.rules = vec![ShareRule {
            buyers: [Party::Cluster(ClusterId([2; 32])), Party::Cluster(ClusterId([1; 32]))].into(),
            jurisdictions: ["IT".to_owned(), "Italy".to_owned()].into(),
            price: Some(PriceChange::from_text("gpu.t6=1 EUR/h, cpu=0").unwrap()),
            then: Approve::Ask,
            ..ShareRule::default()
        }];
        let found = known().unknown_in_share(&policy);
        let names: Vec<&str> =
            found.iter().map(|one| one.name.get(..4).unwrap_or(&one.name)).collect();
        assert_eq!(names, ["ital", "0202", "h10", "t5", "t6", "Ital"]);
        let buy = BuyPolicy {
            trust: [ClusterId([3; 32])].into(),
            selector: Selector::from_text("federation=alpes").unwrap(),
            ..BuyPolicy::default()
        };
        let found = said(&known().unknown_in_buy(&buy));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with("(did you mean alps?)"), "{found:?}");
    }

    #[test]
    fn a_slip_in_where_pods_may_go_is_said_with_the_node_that_is_meant() {
        let of = |name: &'static str| {
            said(&known().unknown_in_targets([name].into_iter(), [ClusterId([1; 32])].iter()))
        };
        assert_eq!(of("mercato-turin"), [""; 0]);
        let none = "is no virtual node, and none of a known provider";
        for (name, meant) in [
            ("mercato-truin", " (did you mean mercato-turin?)"),
            ("turin", " (did you mean mercato-turin?)"),
            ("mercato-lyon", ""),
            ("", ""),
        ] {
            assert_eq!(of(name), [format!("{name} {none}{meant}")]);
        }
        let stranger = [ClusterId([2; 32])];
        let found = said(&known().unknown_in_targets([].into_iter(), stranger.iter()));
        assert_eq!(found, ["cluster 020202020202 was never seen here"]);
    }
}
