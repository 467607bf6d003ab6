//! Federations, to look at.

use std::collections::BTreeMap;

use mercato_broker::Config;
use mercato_protocol::certificate::Role;
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::{Root, Succession};
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use super::Membership;

/// A federation that this cluster belongs to, or goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Joined {
    /// The fingerprint of its first document.
    pub id: FederationId,
    /// What the federation calls itself.
    pub name: Slug,
    /// The key that speaks for it.
    pub root: PublicKey,
    /// The document that founded it.
    pub document: Signed<Root>,
    /// The DNS name that tells of its peers.
    pub domain: Option<String>,
    /// The organisation that this cluster is of.
    pub organisation: Option<Slug>,
    /// As what it belongs: as nothing, if it only goes by the federation's certificates.
    pub roles: Vec<Role>,
    /// Until when, wall clock; none: it does not belong, or not any more.
    pub until_ms: Option<u64>,
    /// It was let in once. If it does not belong any more, its certificate was revoked or has
    /// expired.
    pub was_certified: bool,
    /// How many are known to belong.
    pub members: usize,
    /// The number of the revocation list that counts for this cluster's certificate, and until
    /// when it is fresh, wall clock; as a registrar, of its own list.
    pub list: Option<(u64, u64)>,
    /// What the root revoked, by number.
    pub root_revoked: Vec<u64>,
    /// The documents by which the root was replaced.
    pub successions: Vec<Succession>,
    /// Why the membership is not renewed.
    pub refused: Option<String>,
}

/// A member of a federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// The cluster that is a member.
    pub cluster: ClusterId,
    /// What it calls itself, if it is connected, or us.
    pub name: Option<String>,
    /// The organisation that it is of.
    pub organisation: Option<Slug>,
    /// What it may do as a member.
    pub roles: Vec<Role>,
    /// When its certificate ends, wall clock.
    pub until_ms: u64,
    /// Whether it belongs no longer; only its registrar remembers.
    pub revoked: bool,
    /// Who signed its certificate, and its number; none: it was not seen.
    pub certificate: Option<(PublicKey, u64)>,
}

impl Membership {
    /// How this cluster stands in the federation.
    pub(crate) fn joined(&self, config: &Config) -> Joined {
        let own = self.member(&config.cluster());
        let issuer = match self.acts(&config.cluster()) {
            true => Some(config.key.public()),
            false => self.issuer(),
        };
        let list = issuer.and_then(|issuer| self.list(&issuer));
        let root_list = self.list(self.federation.root());
        Joined {
            id: self.federation.id(),
            name: self.federation.name.clone(),
            root: *self.federation.root(),
            document: self.papers.root.clone(),
            domain: self.papers.domain.clone(),
            organisation: own.and_then(|own| own.organisation.clone()),
            roles: own.map(|own| own.roles.clone()).unwrap_or_default(),
            until_ms: own.map(|own| own.until_ms),
            was_certified: !self.papers.certificates.is_empty(),
            members: self.members.len(),
            list: list.map(|list| (list.number, list.next_update_ms)),
            root_revoked: root_list.map_or_else(Vec::new, |list| list.serials.clone()),
            successions: self.papers.successions.clone(),
            refused: self.renewal.refused().map(|refusal| refusal.to_string()),
        }
    }

    /// Who belongs, as far as certificates were seen or issued here.
    pub(crate) fn listed(&self, now: Now, names: &BTreeMap<ClusterId, String>) -> Vec<Listed> {
        let seen = self.members().map(|member| Listed {
            cluster: member.cluster,
            name: names.get(&member.cluster).cloned(),
            organisation: member.organisation.clone(),
            roles: member.roles.clone(),
            until_ms: member.until_ms,
            revoked: false,
            certificate: member.certified_by.first().copied(),
        });
        let issued = self.registrar.iter().flat_map(|registrar| registrar.issued());
        let issued = issued.filter(|(cluster, _)| self.member(cluster).is_none());
        let issued = issued.filter_map(|(cluster, issued)| {
            let until_ms = *issued.serials.values().max()?;
            (until_ms >= now.wall_ms).then(|| Listed {
                cluster: *cluster,
                name: names.get(cluster).cloned(),
                organisation: issued.grant.organisation.clone(),
                roles: issued.grant.roles.clone(),
                until_ms,
                revoked: issued.revoked,
                certificate: None,
            })
        });
        let mut all: Vec<Listed> = seen.chain(issued).collect();
        all.sort_by_key(|listed| (listed.organisation.clone(), listed.cluster));
        all
    }
}
