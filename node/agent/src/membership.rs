//! Who belongs to one federation, as far as certificates and revocations tell, and who is
//! kept out for fraud. Issuing certificates is in `registrar`, asking for one in `joining`;
//! whom to trade with is the broker's, which is told.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::certificate::{Certificate, Member, RevocationList, Revoked, Role};
use mercato_protocol::envelope::{EnvelopeError, Signed, Signers, Trust, Verified};
use mercato_protocol::equivocation::Proven;
use mercato_protocol::federation::{Federation, Root, Succession};
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::joining::Renewal;
use crate::limits;
use crate::registrar::{Registrar, RegistrarRecord};

/// What a cluster knows a federation by, and belongs to it by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Papers {
    /// The federation's first document.
    pub root: Signed<Root>,
    /// Each later one, in order.
    pub successions: Vec<Succession>,
    /// The cluster's certificate, then its registrar's, unless the root signed it. None: the
    /// cluster knows whom the federation certifies, and does not belong to it.
    pub certificates: Vec<Signed<Certificate>>,
    /// Where the registrar can be dialled: multiaddresses.
    pub registrar: Vec<String>,
    /// The DNS name that tells of its peers.
    pub domain: Option<String>,
}

impl Papers {
    /// Of a federation that a domain announces: as yet without a certificate.
    pub fn of_domain(root: Signed<Root>, domain: String) -> Self {
        let (successions, certificates, registrar) = Default::default();
        Self { root, successions, certificates, registrar, domain: Some(domain) }
    }

    /// Of which federation.
    pub fn id(&self) -> FederationId {
        self.root.federation_id()
    }

    /// Whether these go on from where `before` was: a root that was replaced is not gone back to.
    pub(crate) fn follow(&self, before: &Self) -> bool {
        self.successions.starts_with(&before.successions)
    }

    /// The federation under its latest root.
    pub fn federation(&self, now: Now) -> Result<Federation, EnvelopeError> {
        let first = self.root.open_root(now)?;
        if self.successions.len() > limits::SUCCESSIONS {
            return Err(EnvelopeError::NotNext);
        }
        self.successions.iter().try_fold(first, |federation, next| federation.follow(next, now))
    }
}

/// A federation that this cluster joined, or whose certificates it goes by.
#[derive(Debug)]
pub(crate) struct Membership {
    federation: Federation,
    papers: Papers,
    revoked: Revoked,
    members: BTreeMap<ClusterId, Member>,
    /// Whose revocation lists count: the root and the registrars that were seen.
    issuers: BTreeSet<PublicKey>,
    /// The registrar that issued this cluster's certificate.
    above: Option<ClusterId>,
    /// Lists of others: they may turn out to be registrars.
    early: BTreeMap<PublicKey, Verified<RevocationList>>,
    pub(crate) registrar: Option<Registrar>,
    /// What it did as a registrar whose certificate is over: it may get another one.
    pub(crate) shelved: Vec<RegistrarRecord>,
    pub(crate) renewal: Renewal,
    /// When it was last looked at, wall clock.
    reviewed_ms: u64,
    /// Who belonged until a review, and why no longer; until that is told.
    gone: Vec<(ClusterId, Gone)>,
}

/// Why somebody is no member any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Revoked,
    Expired,
}

impl Membership {
    /// What these papers say, of the cluster with those keys, the latest last. None: they are
    /// of no federation. Its certificates may be over: [`is_member`](Self::is_member).
    pub(crate) fn new(now: Now, papers: Papers, us: (ClusterId, &[PublicKey])) -> Option<Self> {
        let federation = papers.federation(now).ok()?;
        let trust = Trust { federation: federation.id(), signers: Signers::Anyone };
        let own = papers.certificates.first().and_then(|own| own.open(trust, now).ok());
        let above = papers.certificates.get(1).and_then(|above| above.open(trust, now).ok());
        let issuers = [*federation.root()].into();
        let chain = papers.certificates.clone();
        let latest = |own: &&Verified<Certificate>| us.1.last() == Some(&own.key);
        // One of a key that was replaced is as good, but for a registrar: the next is due.
        let renewal = Renewal::new(own.as_ref().filter(latest));
        let mut new = Self {
            federation,
            papers,
            revoked: Revoked::default(),
            members: BTreeMap::new(),
            issuers,
            above: above.map(|above| above.cluster),
            early: BTreeMap::new(),
            registrar: None,
            shelved: Vec::new(),
            renewal,
            reviewed_ms: now.wall_ms,
            gone: Vec::new(),
        };
        new.show(now, us.0, us.1, &chain);
        let own = own.filter(|own| latest(&own) && new.is_member(&us.0));
        let rights = own.filter(|own| own.roles.contains(&Role::Registrar));
        new.registrar = rights.map(|own| Registrar::new(trust.federation, own.into_value()));
        Some(new)
    }

    /// The same federation by other papers: what was learned of it still holds.
    pub(crate) fn take_over(&mut self, now: Now, before: Self) {
        let root = *self.federation.root();
        self.renewal.go_on(&before.renewal);
        self.revoked = before.revoked;
        self.early = before.early;
        self.issuers.extend(before.issuers);
        let held = before.members.into_iter();
        let held = held.filter(|(_, of)| of.certified_by.last().is_some_and(|by| by.0 == root));
        for (cluster, member) in held {
            self.members.entry(cluster).or_insert(member);
        }
        match (&mut self.registrar, before.registrar) {
            (Some(registrar), Some(before)) => registrar.take_over(before),
            (Some(registrar), None) => {
                before.shelved.into_iter().for_each(|record| registrar.restore(record));
            }
            (None, _) => self.shelved = before.shelved,
        }
        self.review(now);
    }

    /// Whether these certificates are of this cluster's registrar, under a root that is not
    /// known here: it may have the succession.
    pub(crate) fn hints(&self, now: Now, shown: &[Signed<Certificate>]) -> bool {
        let trust = Trust { federation: self.federation.id(), signers: Signers::Anyone };
        let issuer = self.issuer();
        let of_issuer = |top: &Verified<Certificate>| {
            top.roles.contains(&Role::Registrar) && Some(top.key) == issuer
        };
        let others = shown.iter().filter(|one| {
            let by = one.claimed_key();
            by.is_some() && by != issuer && by.as_ref() != Some(self.federation.root())
        });
        issuer.is_some()
            && others.filter_map(|one| one.open(trust, now).ok()).any(|top| of_issuer(&top))
    }

    /// Whether this cluster is a registrar that may act.
    pub(crate) fn acts(&self, us: &ClusterId) -> bool {
        self.registrar.is_some() && self.is_member(us)
    }

    /// Its registrar, as long as this cluster belongs: the root may have revoked it.
    pub(crate) fn acting(&mut self, us: &ClusterId) -> Option<&mut Registrar> {
        let belongs = self.is_member(us);
        self.registrar.as_mut().filter(|_| belongs)
    }

    pub(crate) fn federation(&self) -> &Federation {
        &self.federation
    }

    pub(crate) fn papers(&self) -> &Papers {
        &self.papers
    }

    /// `cluster`, with these keys, the latest last, shows these, of whichever federations;
    /// whether that changes what it is here. A certificate of an earlier key is as good: its
    /// owner has proven that it goes on with the latest.
    pub(crate) fn show(
        &mut self,
        now: Now,
        cluster: ClusterId,
        keys: &[PublicKey],
        shown: &[Signed<Certificate>],
    ) -> bool {
        let Some(member) = self.federation.member_among(shown, &self.revoked, now) else {
            return false;
        };
        let room = self.members.len() < limits::CLUSTERS || self.members.contains_key(&cluster);
        if member.cluster != cluster || !keys.contains(&member.key) || !room {
            return false;
        }
        let key = member.key;
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

    pub(crate) fn member(&self, cluster: &ClusterId) -> Option<&Member> {
        self.members.get(cluster)
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

    /// Lets go of whoever is no member any more.
    pub(crate) fn review(&mut self, now: Now) {
        self.reviewed_ms = now.wall_ms;
        let (revoked, gone) = (&self.revoked, &mut self.gone);
        self.members.retain(|cluster, member| {
            let why = match () {
                () if revoked.revokes(member).is_some() => Gone::Revoked,
                () if member.until_ms < now.wall_ms => Gone::Expired,
                () => return true,
            };
            gone.push((*cluster, why));
            false
        });
    }

    /// Who belonged until a review, each once.
    pub(crate) fn take_gone(&mut self) -> Vec<(ClusterId, Gone)> {
        std::mem::take(&mut self.gone)
    }

    /// When the next review is due, wall clock.
    pub(crate) fn review_ms(&self) -> Option<u64> {
        let members = self.members.values().map(|member| member.until_ms);
        let stale = self.issuers.iter().filter_map(|issuer| self.revoked.of(issuer));
        // One that is stale already was looked at when it became so.
        let stale =
            stale.map(|list| list.next_update_ms).filter(|at_ms| *at_ms >= self.reviewed_ms);
        members.chain(stale).min()
    }

    /// The latest list of `issuer`.
    pub(crate) fn list(&self, issuer: &PublicKey) -> Option<&Verified<RevocationList>> {
        self.revoked.of(issuer)
    }

    /// All whose certificates hold.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Those with whom something new may be agreed: the registrar that certified them says
    /// regularly whom it no longer certifies. The root, which is offline, need not.
    pub(crate) fn certified(&self, now: Now) -> impl Iterator<Item = &Member> {
        let root = *self.federation.root();
        self.members.values().filter(move |member| {
            let issuer = member.certified_by.first();
            issuer.is_some_and(|(by, _)| *by == root || !self.revoked.is_stale(by, now))
        })
    }

    /// Who issued this cluster's certificate, unless the root did.
    pub(crate) fn issuer(&self) -> Option<PublicKey> {
        let own = self.papers.certificates.first().and_then(Signed::claimed_key);
        own.filter(|issuer| issuer != self.federation.root())
    }

    /// The cluster that issued it.
    pub(crate) fn registrar_cluster(&self) -> Option<ClusterId> {
        self.above
    }

    /// Whose lists are kept.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &PublicKey> {
        self.issuers.iter().filter(|issuer| self.revoked.of(issuer).is_some())
    }

    /// Publishers that gossip is to know: members, and the lists of those who certify them.
    pub(crate) fn publishers(&self) -> impl Iterator<Item = PublicKey> {
        let of = self.federation.id();
        let lists = self.issuers.iter().map(move |issuer| RevocationList::series(of, issuer));
        self.members.values().map(|member| member.key).chain(lists)
    }
}

/// Keys that equivocated, and until when they are kept out, wall clock.
#[derive(Debug, Default)]
pub(crate) struct Frauds(BTreeMap<PublicKey, u64>);

impl Frauds {
    /// Keeps one out.
    pub(crate) fn quarantine(&mut self, proof: &Proven) {
        if self.0.len() < limits::FRAUDS {
            self.0.insert(*proof.publisher(), proof.validity_ms().1);
        }
    }

    /// Whether this key equivocated.
    pub(crate) fn contains(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key)
    }

    /// Lets go of those whose time is over.
    pub(crate) fn review(&mut self, now: Now) {
        self.0.retain(|_, until_ms| *until_ms >= now.wall_ms);
    }

    /// When the next review is due, wall clock.
    pub(crate) fn review_ms(&self) -> Option<u64> {
        self.0.values().copied().min()
    }
}
