//! The owner's policy: what is shared, with whom and on what terms. What it comes to in numbers
//! is the offer's.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::Assurance;
use mercato_protocol::contract::Terms;
use mercato_protocol::egress::EgressKind;
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};
use serde::{Deserialize, Serialize};

use super::devices::DevicePolicy;
use super::egress::EgressPolicy;
use super::family;
use super::size;
use super::storage::StoragePolicy;
use crate::catalogue::{Affiliation, Party, Standing, not_a_country};
use crate::limits;
use crate::syntax::{Amount, PriceChange, Show as _};

/// What the owner shares. A resource without an amount is not shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharePolicy {
    /// How much of each resource.
    pub amounts: BTreeMap<Resource, Amount>,
    /// What it says of GPUs that labels of nodes cannot say.
    #[serde(default)]
    pub devices: DevicePolicy,
    /// What it says of the storage that is shared.
    #[serde(default)]
    pub storage: Box<StoragePolicy>,
    /// What it says of the way out to the Internet that guests have.
    #[serde(default)]
    pub egress: Box<EgressPolicy>,
    /// Bytes that the objects of all guests may fill of the cluster's etcd; none: as many as are by
    /// default.
    #[serde(default)]
    pub objects: Option<u64>,
    /// Kept free for home beside what its pods ask for.
    pub keep_free: Resources,
    /// The price that is asked for it.
    pub price: Price,
    /// How firmly it is held.
    pub class: Class,
    /// Nothing is sold unless this is enforced. `None` sells without, and says so.
    pub network_isolation: NetworkIsolation,
    /// The pod-security level of the guest namespaces.
    pub pod_security: PodSecurity,
    /// What becomes of a request that no rule decides.
    pub approve: Approve,
    /// Whose requests are granted without asking, unless a rule says otherwise.
    pub allow: BTreeSet<Party>,
    /// The first that a request is a case of decides.
    #[serde(default)]
    pub rules: Vec<ShareRule>,
    /// Notice before capacity is taken back, in seconds.
    pub reclaim_notice_s: u64,
    /// The longest term, in seconds.
    pub max_term_s: u64,
}

/// What becomes of some requests. What is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ShareRule {
    /// Requests from one of these; empty: from anybody.
    pub buyers: BTreeSet<Party>,
    /// From whom the owner thinks so of.
    pub standing: Option<Standing>,
    /// From one of these countries, as a certificate of the buyer's vouches (its attribute
    /// `jurisdiction`), or the owner says of it. What the buyer says of itself does not count.
    pub jurisdictions: BTreeSet<String>,
    /// For some of these resources.
    pub resources: BTreeSet<Resource>,
    /// Requests for this class; none: for any.
    pub class: Option<Class>,
    /// Requests for a way out that is just so wide; none: for any.
    pub egress: Option<EgressKind>,
    /// For no more than this of each resource that it names.
    pub most: Resources,
    /// For no less than this.
    pub least: Resources,
    /// For no longer than this, in seconds.
    pub longest_s: Option<u64>,
    /// For no shorter than this, in seconds.
    pub shortest_s: Option<u64>,
    /// What becomes of the requests it covers.
    pub then: Approve,
    /// At this price: lines that it does not name are as posted.
    pub price: Option<PriceChange>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Approve {
    /// It is granted without asking.
    Auto,
    /// The owner is asked, and decides.
    #[default]
    Ask,
    /// It is denied without asking.
    Deny,
}

/// The attribute of a certificate that says of which country a cluster is.
const JURISDICTION: &str = "jurisdiction";

/// The countries that the certificates behind an affiliation vouch for.
pub(crate) fn certified_countries(of: &Affiliation) -> impl Iterator<Item = &str> {
    let vouched = of.attributes.iter().filter(|it| it.assurance != Assurance::SelfAsserted);
    vouched.filter(|it| it.name.as_str() == JURISDICTION).map(|it| it.value.as_str())
}

/// Who asks, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buyer<'a> {
    pub(crate) cluster: ClusterId,
    pub(crate) standing: Standing,
    /// It has lately cost this provider what nobody pays for, more than once.
    pub(crate) is_careless: bool,
    /// Of which country the owner says that it is.
    pub(crate) country: Option<&'a str>,
    pub(crate) affiliations: &'a [Affiliation],
}

impl Buyer<'_> {
    fn is(&self, party: &Party) -> bool {
        party.is(&self.cluster, self.affiliations)
    }

    /// Whether somebody else vouches that it is of one of these countries, or the owner says so.
    fn is_of(&self, countries: &BTreeSet<String>) -> bool {
        let certified = self.affiliations.iter().flat_map(certified_countries);
        certified.chain(self.country).any(|it| countries.contains(it))
    }
}

impl SharePolicy {
    /// What the types alone do not say.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (resource, amount) in &self.amounts {
            size::check_amount(resource, *amount).map_err(|error| error.to_string())?;
        }
        let parts = self.amounts.values().all(|amount| match amount {
            Amount::Percent(percent) => *percent <= 100,
            Amount::Exactly(_) => true,
        });
        let mut countries = self.rules.iter().flat_map(|rule| &rule.jurisdictions);
        if let Some(wrong) = countries.find_map(|it| not_a_country(it)) {
            return Err(wrong.to_owned());
        }
        if let Some(wrong) = self.rules.iter().find_map(|rule| rule.wrong_price(&self.price)) {
            return Err(wrong);
        }
        self.egress.check()?;
        let said = [
            (parts, "more than 100 % is shared"),
            (self.price.validate().is_ok(), "a price for no time, or of too many lines"),
            (self.entries() <= limits::SHARE_ENTRIES, "too long a list"),
            (self.devices.is_short(), "too many words on devices, or too long ones"),
            (self.storage.is_short(), "too many kinds of storage, or no word such as ssd"),
            (self.keep_free.storage_bytes == 0, "storage is shared by amount: none is kept free"),
            (self.max_term_s > 0, "shared for no time"),
            (self.objects != Some(0), "no bytes for the objects of guests"),
            (self.rules.len() <= limits::RULES, "too many rules"),
        ];
        said.into_iter().find(|(good, _)| !good).map_or(Ok(()), |(_, wrong)| Err(wrong.to_owned()))
    }

    /// Countries that rules name, of which nobody is: by the certificates of these affiliations, and
    /// by the owner's word, which knows these.
    pub(crate) fn countries_of_nobody<'a>(
        &'a self,
        certified: impl Iterator<Item = &'a Affiliation>,
        said: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = &'a str> {
        let known: BTreeSet<&str> = certified.flat_map(certified_countries).chain(said).collect();
        let named = self.rules.iter().flat_map(|rule| &rule.jurisdictions).map(String::as_str);
        named.filter(move |country| !known.contains(country))
    }

    /// Rules that decide nothing, by their numbers from zero: an earlier one covers all that they
    /// do, as far as their words tell.
    pub fn unreached(&self) -> Vec<usize> {
        let covered = |(n, rule): &(usize, &ShareRule)| {
            self.rules.iter().take(*n).any(|earlier| earlier.covers_all_of(rule))
        };
        self.rules.iter().enumerate().filter(covered).map(|(n, _)| n).collect()
    }

    /// How many entries all lists have together.
    fn entries(&self) -> usize {
        let lines = |price: &Price| match price {
            Price::Free => 0,
            Price::Posted { units, .. } => units.len(),
        };
        let of_rule = |rule: &ShareRule| {
            let quantities = rule.most.gpus.len() + rule.least.gpus.len();
            let whom = rule.buyers.len() + rule.jurisdictions.len();
            let priced = rule.price.iter().flat_map(PriceChange::lines).count();
            whom + rule.resources.len() + quantities + priced
        };
        let ranges = self.egress.named.len() + self.egress.except.len();
        let own = ranges + self.amounts.len() + self.keep_free.gpus.len() + self.allow.len();
        own + lines(&self.price) + self.rules.iter().map(of_rule).sum::<usize>()
    }

    /// What becomes of a request for these terms, and what of the posted price is another one then.
    pub(crate) fn approval(
        &self,
        buyer: Buyer<'_>,
        terms: &Terms,
    ) -> (Approve, Option<&PriceChange>) {
        if buyer.standing == Standing::Blocked {
            return (Approve::Deny, None);
        }
        let rule = self.rules.iter().find(|rule| rule.covers(buyer, terms));
        let allowed = || self.allow.iter().any(|who| buyer.is(who)).then_some(Approve::Auto);
        let then = rule.map(|rule| rule.then).or_else(allowed).unwrap_or(self.approve);
        let then = if buyer.is_careless { then.max(Approve::Ask) } else { then };
        (then, rule.and_then(|rule| rule.price.as_ref()))
    }
}

/// The price of so much by a rule, where this one is posted. None: it cannot be, and the owner is asked.
pub(crate) fn ruled(change: &PriceChange, posted: &Price, quantity: &Resources) -> Option<Price> {
    let price = change.over(posted, quantity.gpus.keys()).ok();
    price.filter(|price| price.validate().is_ok())
}

impl ShareRule {
    /// What of its price cannot be, where this is the posted one.
    fn wrong_price(&self, posted: &Price) -> Option<String> {
        let change = self.price.as_ref()?;
        if self.then != Approve::Auto {
            return Some("a rule's price of what it does not grant: write auto".to_owned());
        }
        let price = match change.over(posted, []) {
            Ok(price) => price,
            Err(wrong) => return Some(format!("the price of a rule, {}: {wrong}", change.show())),
        };
        let wrong = price.validate().is_err();
        wrong.then(|| "a rule's price for no time, or of too many lines".to_owned())
    }

    /// Whether each request that the other covers is one of this as well: each of its cases is left
    /// out here, or as wide.
    fn covers_all_of(&self, other: &Self) -> bool {
        fn wide<T: Ord>(these: &BTreeSet<T>, those: &BTreeSet<T>) -> bool {
            these.is_empty() || (!those.is_empty() && those.is_subset(these))
        }
        fn same<T: PartialEq>(this: &Option<T>, that: &Option<T>) -> bool {
            this.is_none() || this == that
        }
        wide(&self.buyers, &other.buyers)
            && wide(&self.jurisdictions, &other.jurisdictions)
            && wide(&self.resources, &other.resources)
            && same(&self.standing, &other.standing)
            && same(&self.class, &other.class)
            && same(&self.egress, &other.egress)
            && (self.most.is_zero() || self.most == other.most)
            && (self.least.is_zero() || self.least == other.least)
            && self.longest_s.is_none_or(|all| other.longest_s.is_some_and(|s| s <= all))
            && self.shortest_s.is_none_or(|all| other.shortest_s.is_some_and(|s| s >= all))
    }

    fn covers(&self, buyer: Buyer<'_>, terms: &Terms) -> bool {
        let asked = &terms.quantity;
        (self.buyers.is_empty() || self.buyers.iter().any(|who| buyer.is(who)))
            && self.standing.is_none_or(|standing| standing == buyer.standing)
            && (self.jurisdictions.is_empty() || buyer.is_of(&self.jurisdictions))
            && (self.resources.is_empty()
                || self.resources.iter().any(|r| family::quantity(asked, r) > 0))
            && self.class.is_none_or(|class| class == terms.class)
            && self.egress.is_none_or(|kind| kind == terms.egress.kind())
            && self.most.iter().all(|(resource, most)| family::quantity(asked, &resource) <= most)
            && self
                .least
                .iter()
                .all(|(resource, least)| family::quantity(asked, &resource) >= least)
            && self.shortest_s.is_none_or(|shortest_s| terms.term_s >= shortest_s)
            && self.longest_s.is_none_or(|longest_s| terms.term_s <= longest_s)
    }
}
