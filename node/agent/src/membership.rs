//! Who belongs to the federation that this cluster joined, as far as certificates and
//! revocations tell, and who is kept out for fraud. Issuing certificates is in `registrar`;
//! whom to trade with is the broker's, which is told both sets.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::certificate::{Certificate, Member, RevocationList, Revoked, Role};
use mercato_protocol::envelope::{EnvelopeError, Signed, Verified};
use mercato_protocol::equivocation::Proven;
use mercato_protocol::federation::{Federation, Root, Succession};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::limits;

/// The papers of a cluster that belongs to a federation: what it shows, and what it checks
/// others by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Papers {
    /// The federation's first document.
    pub root: Signed<Root>,
    /// Each later one, in order.
    pub successions: Vec<Succession>,
    /// The cluster's certificate, then its registrar's.
    pub certificates: Vec<Signed<Certificate>>,
}

impl Papers {
    /// The federation under its latest root.
    pub fn federation(&self, now: Now) -> Result<Federation, EnvelopeError> {
        let first = self.root.open_root(now)?;
        self.successions.iter().try_fold(first, |federation, next| federation.follow(next, now))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Membership {
    federation: Option<Federation>,
    papers: Option<Papers>,
    revoked: Revoked,
    members: BTreeMap<ClusterId, Member>,
    /// Whose revocation lists count: the root and the registrars that were seen.
    issuers: BTreeSet<PublicKey>,
    /// Lists of others: they may turn out to be registrars.
    early: BTreeMap<PublicKey, Verified<RevocationList>>,
    /// Keys that equivocated, and until when they are kept out, wall clock.
    frauds: BTreeMap<PublicKey, u64>,
}

impl Membership {
    /// Belongs to what these papers say from now on, or to no federation.
    pub(crate) fn enter(&mut self, now: Now, papers: Option<Papers>) {
        self.federation = papers.as_ref().and_then(|papers| papers.federation(now).ok());
        self.members.clear();
        self.issuers = self.federation.iter().map(|federation| *federation.root()).collect();
        self.papers = papers;
    }

    pub(crate) fn federation(&self) -> Option<&Federation> {
        self.federation.as_ref()
    }

    pub(crate) fn papers(&self) -> Option<&Papers> {
        self.papers.as_ref()
    }

    /// `cluster`, which speaks with `key`, shows these; whether that changes what it is.
    pub(crate) fn show(
        &mut self,
        now: Now,
        cluster: ClusterId,
        key: PublicKey,
        chain: &[Signed<Certificate>],
    ) -> bool {
        let Some(federation) = &self.federation else { return false };
        let Ok(member) = federation.admit(chain, &self.revoked, now) else { return false };
        let room = self.members.len() < limits::CLUSTERS || self.members.contains_key(&cluster);
        if (member.cluster, member.key) != (cluster, key) || !room {
            return false;
        }
        // Who signed for it issues certificates; a registrar may itself.
        let mut issuers: Vec<PublicKey> = member.certified_by.iter().map(|(of, _)| *of).collect();
        issuers.extend(member.roles.contains(&Role::Registrar).then_some(key));
        let changed = self.members.insert(cluster, member.clone()) != Some(member);
        for issuer in issuers {
            self.issuers.insert(issuer);
            if let Some(list) = self.early.remove(&issuer) {
                self.revoke(now, list);
            }
        }
        changed
    }

    pub(crate) fn is_member(&self, cluster: &ClusterId) -> bool {
        self.members.contains_key(cluster)
    }

    /// A revocation list came; whether its signer issues certificates here.
    pub(crate) fn revoke(&mut self, now: Now, list: Verified<RevocationList>) -> bool {
        let counts = self.issuers.contains(list.key());
        if counts {
            self.revoked.learn(list);
            self.review(now);
        } else if self.early.len() < limits::EARLY_LISTS {
            self.early.insert(*list.key(), list);
        }
        counts
    }

    /// Keeps a fraud out.
    pub(crate) fn quarantine(&mut self, proof: &Proven) {
        if self.frauds.len() < limits::FRAUDS {
            self.frauds.insert(*proof.publisher(), proof.validity_ms().1);
        }
    }

    /// Lets go of whoever is no member, or no fraud, any more.
    pub(crate) fn review(&mut self, now: Now) {
        let revoked = &self.revoked;
        self.members.retain(|_, member| {
            member.until_ms >= now.wall_ms && revoked.revokes(member).is_none()
        });
        self.frauds.retain(|_, until_ms| *until_ms >= now.wall_ms);
    }

    /// When the next review is due, wall clock.
    pub(crate) fn review_ms(&self) -> Option<u64> {
        let members = self.members.values().map(|member| member.until_ms);
        let stale = self.issuers.iter().filter_map(|issuer| self.revoked.of(issuer));
        let stale = stale.map(|list| list.next_update_ms);
        members.chain(stale).chain(self.frauds.values().copied()).min()
    }

    /// The latest list of `issuer`.
    pub(crate) fn list(&self, issuer: &PublicKey) -> Option<&Verified<RevocationList>> {
        self.revoked.of(issuer)
    }

    /// All whose certificates hold.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Those with whom something new may be agreed: whoever certified them says regularly
    /// whom it no longer certifies.
    pub(crate) fn certified(&self, now: Now) -> BTreeSet<ClusterId> {
        let fresh = |member: &&Member| {
            let issuer = member.certified_by.first();
            issuer.is_some_and(|(issuer, _)| !self.revoked.is_stale(issuer, now))
        };
        self.members.values().filter(fresh).map(|member| member.cluster).collect()
    }

    /// Whether this key equivocated.
    pub(crate) fn is_fraud(&self, key: &PublicKey) -> bool {
        self.frauds.contains_key(key)
    }

    /// Publishers that gossip is to know: members, and the lists of those who certify them.
    pub(crate) fn publishers(&self) -> impl Iterator<Item = PublicKey> {
        let lists = self.issuers.iter().map(RevocationList::series);
        self.members.values().map(|member| member.key).chain(lists)
    }
}
