//! Federations, to look at.

use std::collections::BTreeMap;

use mercato_protocol::certificate::Role;
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::{Root, Succession};
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::join::JoinRefusal;
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::federation::membership::Membership;

/// A federation that this cluster belongs to, or goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Joined {
    /// Its fingerprint.
    pub id: FederationId,
    /// What it calls itself.
    pub name: Slug,
    /// The key that speaks for it.
    pub root: PublicKey,
    /// Its first document.
    pub document: Signed<Root>,
    /// The DNS name that tells of its peers.
    pub domain: Option<String>,
    /// Whose this cluster is there.
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
    /// Which cluster.
    pub cluster: ClusterId,
    /// What it calls itself, if it is connected, or us.
    pub name: Option<String>,
    /// Whose it is.
    pub organisation: Option<Slug>,
    /// As what it belongs.
    pub roles: Vec<Role>,
    /// Until when, wall clock.
    pub until_ms: u64,
    /// Whether it belongs no longer; only its registrar remembers.
    pub revoked: bool,
    /// Who signed its certificate, and its number; none: it was not seen.
    pub certificate: Option<(PublicKey, u64)>,
}

impl Agent {
    /// The federations that this cluster goes by.
    pub fn federations(&self) -> Vec<Joined> {
        self.federated.memberships.iter().map(|(id, of)| self.joined(*id, of)).collect()
    }

    fn joined(&self, id: FederationId, of: &Membership) -> Joined {
        let own = of.member(&self.config.cluster());
        let issuer = if of.acts(&self.config.cluster()) {
            Some(self.config.key.public())
        } else {
            of.issuer()
        };
        let list = issuer.and_then(|issuer| of.list(&issuer));
        Joined {
            id,
            name: of.federation().name.clone(),
            root: *of.federation().root(),
            document: of.papers().root.clone(),
            domain: of.papers().domain.clone(),
            organisation: own.and_then(|own| own.organisation.clone()),
            roles: own.map(|own| own.roles.clone()).unwrap_or_default(),
            until_ms: own.map(|own| own.until_ms),
            was_certified: !of.papers().certificates.is_empty(),
            members: of.members().count(),
            list: list.map(|list| (list.number, list.next_update_ms)),
            root_revoked: of
                .list(of.federation().root())
                .map_or_else(Vec::new, |list| list.serials.clone()),
            successions: of.papers().successions.clone(),
            refused: of.renewal.refused.as_ref().map(JoinRefusal::to_string),
        }
    }

    /// Who belongs to a federation, as far as certificates were seen or issued here; none: it
    /// is not known.
    pub fn members(&self, federation: &FederationId, now: Now) -> Option<Vec<Listed>> {
        let of = self.federated.memberships.get(federation)?;
        let connected = self.peers.connected().values();
        let us = self.config.identity.open_identity(now).ok();
        let names: BTreeMap<ClusterId, String> =
            connected.chain(&us).map(|owner| (owner.cluster_id(), owner.name.clone())).collect();
        let name = |cluster: &ClusterId| names.get(cluster).cloned();
        let seen = of.members().map(|member| Listed {
            cluster: member.cluster,
            name: name(&member.cluster),
            organisation: member.organisation.clone(),
            roles: member.roles.clone(),
            until_ms: member.until_ms,
            revoked: false,
            certificate: member.certified_by.first().copied(),
        });
        let issued = of.registrar.iter().flat_map(|registrar| registrar.issued());
        let issued = issued.filter(|(cluster, _)| of.member(cluster).is_none());
        let issued = issued.filter_map(|(cluster, issued)| {
            let until_ms = *issued.serials.values().max()?;
            (until_ms >= now.wall_ms).then(|| Listed {
                cluster: *cluster,
                name: name(cluster),
                organisation: issued.grant.organisation.clone(),
                roles: issued.grant.roles.clone(),
                until_ms,
                revoked: issued.revoked,
                certificate: None,
            })
        });
        let mut all: Vec<Listed> = seen.chain(issued).collect();
        all.sort_by_key(|listed| (listed.organisation.clone(), listed.cluster));
        Some(all)
    }
}
