//! What decides beside the offers themselves: what this cluster knows of others, and what its
//! owner allows.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::ad::Attribute as Claim;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::price::Money;
use mercato_protocol::text::Slug;

use crate::catalogue::buy_policy::BuyPolicy;
use crate::catalogue::trust::{Affiliation, Peers, Standing};
use crate::selector::{AdFact, TRUST, Value};

/// Whose offers are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Anyone,
    Trusted,
}

/// All that decides beside the offers themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuyerContext<'a> {
    pub(crate) peers: &'a Peers,
    /// The last round trip in microseconds, by key.
    pub(crate) round_trips: &'a BTreeMap<PublicKey, u64>,
    pub(crate) policy: Option<&'a BuyPolicy>,
    pub(crate) inputs: &'a SearchInputs,
}

/// The part of it that is worked out for each search.
#[derive(Clone, Debug)]
pub(crate) struct SearchInputs {
    /// By provider, in thousandths of the best.
    pub(crate) reputation: BTreeMap<ClusterId, u64>,
    /// Those that lately would not sign what they offer.
    pub(crate) unfaithful: BTreeSet<ClusterId>,
    /// Those that refused as much of what they still offer.
    pub(crate) refused: BTreeSet<ClusterId>,
    /// What is left of every budget that is bought from.
    pub(crate) budgets: Vec<Money>,
}

/// What is known of one provider.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProviderFacts<'a> {
    pub(crate) standing: Standing,
    pub(crate) affiliations: &'a [Affiliation],
    pub(crate) rtt_us: Option<u64>,
    pub(crate) reputation: Option<u64>,
    /// It lately would not sign what it offers.
    pub(crate) unfaithful: bool,
    /// It refused as much of what it still offers.
    pub(crate) refused: bool,
}

impl<'a> BuyerContext<'a> {
    /// What is known of a provider, which signs with this key.
    pub(crate) fn of(&self, provider: &ClusterId, key: &PublicKey) -> ProviderFacts<'a> {
        ProviderFacts {
            standing: self.peers.as_provider(provider),
            affiliations: self.peers.affiliations(provider),
            rtt_us: self.round_trips.get(key).copied(),
            reputation: self.inputs.reputation.get(provider).copied(),
            unfaithful: self.inputs.unfaithful.contains(provider),
            refused: self.inputs.refused.contains(provider),
        }
    }
}

impl<'a> ProviderFacts<'a> {
    /// What others vouch for: nothing but certificates of federations that were joined says so.
    pub(super) fn certified(&self) -> impl Iterator<Item = &'a Claim> {
        self.affiliations.iter().flat_map(|of| of.attributes.iter())
    }

    /// What it has to say to a term, in words: where the provider belongs.
    pub(super) fn words(&self, asked: AdFact) -> impl Iterator<Item = &str> {
        self.affiliations.iter().filter_map(move |of| match asked {
            AdFact::Organisation => of.organisation.as_ref().map(Slug::as_str),
            AdFact::Federation => Some(of.name.as_str()),
            AdFact::Provider
            | AdFact::Jurisdiction
            | AdFact::Region
            | AdFact::Carbon
            | AdFact::Reclaim
            | AdFact::Term
            | AdFact::NetworkIsolation
            | AdFact::PodSecurity
            | AdFact::Class
            | AdFact::Isolation
            | AdFact::StorageKind
            | AdFact::Service
            | AdFact::Egress
            | AdFact::Trust
            | AdFact::Reputation
            | AdFact::Rtt => None,
        })
    }

    /// What it has to say to a term, if that is one value.
    pub(super) fn value(&self, asked: AdFact) -> Option<Value> {
        match asked {
            AdFact::Trust => Some(Value::word(TRUST[self.standing as usize])),
            AdFact::Rtt => self.rtt_us.map(Value::number),
            AdFact::Reputation => self.reputation.map(Value::number),
            AdFact::Provider
            | AdFact::Jurisdiction
            | AdFact::Region
            | AdFact::Carbon
            | AdFact::Reclaim
            | AdFact::Term
            | AdFact::NetworkIsolation
            | AdFact::PodSecurity
            | AdFact::Class
            | AdFact::Isolation
            | AdFact::StorageKind
            | AdFact::Organisation
            | AdFact::Federation
            | AdFact::Service
            | AdFact::Egress => None,
        }
    }
}
