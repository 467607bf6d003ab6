//! What the owner thinks of each peer. Whoever is not named is a stranger: strangers
//! cost nothing to make, so all of them together count as one organisation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_protocol::ad::Attribute;
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, FederationId};
use mercato_protocol::text::{Slug, is_plain};
use serde::{Deserialize, Serialize};

use crate::limits;

/// What the owner thinks of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// Not accepted: seen, never bought from.
    #[default]
    Stranger,
    /// Accepted by the owner, who saw the fingerprint, or certified by a joined federation.
    Trusted,
    /// Blocked by the owner: never traded with.
    Blocked,
}

/// What certificates and proofs say of clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// What this cluster shows to others.
    pub own: Vec<Signed<Certificate>>,
    /// As good as trusted by the owner, unless the owner says otherwise.
    pub certified: BTreeMap<ClusterId, Vec<Affiliation>>,
    /// Blocked for new deals, whatever the owner says.
    pub barred: BTreeSet<ClusterId>,
}

/// That a cluster belongs to a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affiliation {
    /// The federation that certifies it.
    pub federation: FederationId,
    /// The name that the federation gives itself.
    pub name: Slug,
    /// Whose cluster it is there.
    pub organisation: Option<Slug>,
    /// Whether its certificate lets it sell.
    pub sells: bool,
    /// Whether its certificate lets it buy.
    pub buys: bool,
    /// What its certificate vouches for.
    pub attributes: Arc<[Attribute]>,
}

/// Why the owner's word for a country is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotPlaced {
    /// It has said so of as many clusters as may be.
    TooMany,
    /// The text is none, and why.
    NoCountry(&'static str),
}

/// Why a text names no country, in a rule or of a peer; none: it does.
pub(crate) fn not_a_country(text: &str) -> Option<&'static str> {
    match text.len() {
        0 => Some("a country without a name"),
        1..=limits::COUNTRY_BYTES if text.chars().all(is_plain) => None,
        1..=limits::COUNTRY_BYTES => Some("a country with characters that are not seen"),
        _ => Some("too long a country"),
    }
}

/// Who shares one cap on what is open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Organisation {
    /// All clusters that a federation certifies as this organisation's.
    Certified(FederationId, Slug),
    /// An accepted cluster of no organisation, by itself.
    Of(ClusterId),
    /// All strangers together, who cost nothing to make.
    Strangers,
}

/// The owner's word on peers, and what others prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// Whom the owner named, one by one.
    pub(crate) named: BTreeMap<ClusterId, Standing>,
    /// Of which country the owner says that they are.
    pub(crate) countries: BTreeMap<ClusterId, String>,
    /// Whom the policy on buying trusts.
    pub(crate) policy: BTreeSet<ClusterId>,
    /// What certificates and proofs say.
    pub(crate) membership: Membership,
}

impl Peers {
    /// Takes the owner's word on a cluster; false: it has named as many as may be.
    pub(crate) fn name(&mut self, cluster: ClusterId, standing: Standing) -> bool {
        if !self.named.contains_key(&cluster) && self.named.len() >= limits::PEERS {
            return false;
        }
        self.named.insert(cluster, standing);
        true
    }

    /// Takes the owner's word for the country of a cluster, as rules name it; none: it says none
    /// any more.
    pub(crate) fn place(
        &mut self,
        cluster: ClusterId,
        country: Option<String>,
    ) -> Result<(), NotPlaced> {
        let Some(country) = country else {
            self.countries.remove(&cluster);
            return Ok(());
        };
        if !self.countries.contains_key(&cluster) && self.countries.len() >= limits::PEERS {
            return Err(NotPlaced::TooMany);
        }
        not_a_country(&country).map_or(Ok(()), |wrong| Err(NotPlaced::NoCountry(wrong)))?;
        self.countries.insert(cluster, country);
        Ok(())
    }

    /// What is to be thought of `cluster`: the owner's word, or else the federations'.
    pub(crate) fn standing(&self, cluster: &ClusterId) -> Standing {
        self.standing_as(cluster, |_| true)
    }

    /// The same of one that sells: its certificate has to allow that.
    pub(crate) fn as_provider(&self, cluster: &ClusterId) -> Standing {
        self.standing_as(cluster, |of| of.sells)
    }

    /// The same of one that buys.
    pub(crate) fn as_buyer(&self, cluster: &ClusterId) -> Standing {
        self.standing_as(cluster, |of| of.buys)
    }

    fn standing_as(&self, cluster: &ClusterId, may: fn(&Affiliation) -> bool) -> Standing {
        if self.membership.barred.contains(cluster) {
            return Standing::Blocked;
        }
        let certified = || self.affiliations(cluster).iter().any(may).then_some(Standing::Trusted);
        match self.named.get(cluster) {
            Some(Standing::Blocked) => Standing::Blocked,
            _ if self.policy.contains(cluster) => Standing::Trusted,
            named => named.copied().or_else(certified).unwrap_or_default(),
        }
    }

    /// Whether the owner has not accepted it, and no federation vouches for it.
    pub(crate) fn is_stranger(&self, cluster: &ClusterId) -> bool {
        self.standing(cluster) != Standing::Trusted
    }

    /// Where `cluster` belongs, by certificates of federations that were joined.
    pub(crate) fn affiliations(&self, cluster: &ClusterId) -> &[Affiliation] {
        self.membership.certified.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// With whom `cluster` shares its cap.
    pub(crate) fn organisation(&self, cluster: &ClusterId) -> Organisation {
        if self.standing(cluster) != Standing::Trusted {
            return Organisation::Strangers;
        }
        let certified = self.affiliations(cluster).iter();
        let mut named = certified.filter_map(|of| Some((of.federation, of.organisation.clone()?)));
        named.next().map_or(Organisation::Of(*cluster), |(federation, name)| {
            Organisation::Certified(federation, name)
        })
    }
}
