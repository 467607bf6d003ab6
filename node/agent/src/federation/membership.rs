//! Who belongs to one federation, as far as certificates and revocations tell, and who is
//! kept out for fraud. Issuing certificates is in `registrar`, asking for one in `joining`;
//! whom to trade with is the broker's, which is told.

mod issuing;
pub(crate) mod view;

use mercato_broker::Config;
use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::certificate::{Certificate, Member, RevocationList, Revoked, Role};
use mercato_protocol::envelope::{Signed, Signers, Trust, Verified};
use mercato_protocol::federation::Federation;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::join::JoinRefusal;
use mercato_protocol::time::Now;

use crate::context::Turn;
use crate::federation::issued::RegistrarRecord;
use crate::federation::papers::Papers;
use crate::federation::registrar::Registrar;
use crate::federation::renewal::Renewal;
use crate::limits;
use crate::record::FederationRecord;

/// A list of one who is not known to issue certificates, and what its signer is worth.
#[derive(Debug)]
struct Early {
    list: Verified<RevocationList>,
    rank: Rank,
}

/// A federation that this cluster joined, or whose certificates it goes by.
#[derive(Debug)]
pub(crate) struct Membership {
    federation: Federation,
    papers: Papers,
    revoked: Revoked,
    members: Bounded<ClusterId, Member>,
    /// Whose revocation lists count: the root and the registrars that were seen.
    issuers: Bounded<PublicKey, ()>,
    /// The registrar that issued this cluster's certificate.
    above: Option<ClusterId>,
    /// Lists of others: they may turn out to be registrars.
    early: Bounded<PublicKey, Early>,
    /// Lists that count since their issuer was shown, and are not on disk.
    unsaved: Vec<Verified<RevocationList>>,
    registrar: Option<Registrar>,
    /// What it did as a registrar whose certificate is over: it may get another one.
    shelved: Vec<RegistrarRecord>,
    renewal: Renewal,
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
    pub(crate) fn new(now: Now, papers: Papers, config: &Config) -> Option<Self> {
        let (us, keys) = (config.cluster(), config.keys());
        let federation = papers.federation(now).ok()?;
        let trust = Trust { federation: federation.id(), signers: Signers::Anyone };
        let own = papers.certificates.first().and_then(|own| own.open(trust, now).ok());
        let above = papers.certificates.get(1).and_then(|above| above.open(trust, now).ok());
        let chain = papers.certificates.clone();
        let latest = |own: &&Verified<Certificate>| keys.last() == Some(&own.key);
        // One of a key that was replaced is as good, but for a registrar: the next is due.
        let renewal = Renewal::new(own.as_ref().filter(latest));
        let mut new = Self {
            federation,
            papers,
            revoked: Revoked::default(),
            members: Bounded::new(limits::MEMBERS),
            issuers: Bounded::new(limits::ISSUERS),
            above: above.map(|above| above.cluster),
            early: Bounded::new(limits::EARLY_LISTS),
            unsaved: Vec::new(),
            registrar: None,
            shelved: Vec::new(),
            renewal,
            reviewed_ms: now.wall_ms,
            gone: Vec::new(),
        };
        let root = *new.federation.root();
        new.add_issuer(root);
        new.show(now, us, &keys, &chain, &|_| true);
        let own = own.filter(|own| latest(&own) && new.is_member(&us));
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
        self.unsaved.extend(before.unsaved);
        before.issuers.keys().for_each(|issuer| self.add_issuer(*issuer));
        let held = before.members.iter();
        let held = held.filter(|(_, of)| of.certified_by.last().is_some_and(|by| by.0 == root));
        for (cluster, member) in held {
            if !self.members.contains_key(cluster) {
                self.put_member(now, member.clone(), &|_| false);
            }
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

    /// Certificates and lists say themselves who signed them; whether it may is checked apart.
    pub(crate) fn trust(&self) -> Trust<'static> {
        Trust { federation: self.federation.id(), signers: Signers::Anyone }
    }

    /// The latest list of its issuer, on disk.
    pub(crate) fn keep_list(&self, list: &Verified<RevocationList>) -> FederationRecord {
        let (of, issuer) = (self.federation.id(), *list.key());
        FederationRecord::Revocations(of, issuer, list.signed().clone())
    }

    /// Looks whether certificates that others show are of this cluster's registrar, under a root
    /// that is not known here: the registrar may have the succession, and is asked soon.
    pub(crate) fn take_hint(&mut self, now: Now, shown: &[Signed<Certificate>]) {
        let (trust, root) = (self.trust(), *self.federation.root());
        let Some(issuer) = self.issuer() else { return };
        let is_of_issuer = |one: &Signed<Certificate>| {
            let by = one.claimed_key().filter(|by| *by != issuer && *by != root);
            let top = by.and_then(|_| one.open(trust, now).ok());
            top.is_some_and(|top| top.roles.contains(&Role::Registrar) && top.key == issuer)
        };
        if shown.iter().any(is_of_issuer) {
            self.renewal.hint(now);
        }
    }

    pub(crate) fn federation(&self) -> &Federation {
        &self.federation
    }

    pub(crate) fn papers(&self) -> &Papers {
        &self.papers
    }

    /// `cluster`, with these keys, the latest last, shows these, of whichever federations;
    /// whether that changes what it is here. A certificate of an earlier key is as good: its
    /// owner has proven that it goes on with the latest. Where there is no room a member is
    /// forgotten that is no partner. An earlier certificate than is known changes nothing: an
    /// advertisement that was made with it may come later.
    pub(crate) fn show(
        &mut self,
        now: Now,
        cluster: ClusterId,
        keys: &[PublicKey],
        shown: &[Signed<Certificate>],
        is_partner: &dyn Fn(&ClusterId) -> bool,
    ) -> bool {
        let Some(member) = Member::among(&self.federation, shown, &self.revoked, now) else {
            return false;
        };
        if member.cluster != cluster || !keys.contains(&member.key) {
            return false;
        }
        if self.members.get(&cluster).is_some_and(|held| is_before(&member, held, now)) {
            return false;
        }
        let key = member.key;
        // Who signed for it issues certificates; a registrar may itself.
        let mut issuers: Vec<PublicKey> = member.certified_by.iter().map(|(of, _)| *of).collect();
        issuers.extend(member.roles.contains(&Role::Registrar).then_some(key));
        let changed = self.members.get(&cluster) != Some(&member);
        let is_here = self.put_member(now, member, is_partner);
        for issuer in issuers {
            self.add_issuer(issuer);
            if let Some(Early { list, rank }) = self.early.remove(&issuer)
                && self.revoke(now, list.clone(), rank)
            {
                self.unsaved.push(list);
            }
        }
        changed && is_here
    }

    /// Whether there is room for it.
    fn put_member(
        &mut self,
        now: Now,
        member: Member,
        is_partner: &dyn Fn(&ClusterId) -> bool,
    ) -> bool {
        let rank = |cluster: &ClusterId, member: &Member| match () {
            () if member.until_ms < now.wall_ms => Rank::Over,
            () if is_partner(cluster) => Rank::Partner,
            () => Rank::Member,
        };
        self.members.put(member.cluster, member, rank).is_ok()
    }

    /// This one's lists count from now on, if there is room.
    fn add_issuer(&mut self, issuer: PublicKey) {
        let (root, own, revoked) = (*self.federation.root(), self.issuer(), &self.revoked);
        let rank = |of: &PublicKey, (): &()| match () {
            () if *of == root || Some(*of) == own || revoked.of(of).is_some() => Rank::Kept,
            () => Rank::Member,
        };
        // One that finds no room is shown again, and its lists are stale until then.
        let _ = self.issuers.put(issuer, (), rank);
    }

    /// Whether it issues certificates here.
    pub(crate) fn is_issuer(&self, key: &PublicKey) -> bool {
        self.issuers.contains_key(key)
    }

    /// Lists that count by now are written.
    pub(crate) fn keep_unsaved(&mut self, turn: &mut Turn<'_>) {
        let lists = std::mem::take(&mut self.unsaved);
        turn.note(lists.iter().map(|list| self.keep_list(list)));
    }

    pub(crate) fn member(&self, cluster: &ClusterId) -> Option<&Member> {
        self.members.get(cluster)
    }

    pub(crate) fn is_member(&self, cluster: &ClusterId) -> bool {
        self.members.contains_key(cluster)
    }

    /// A revocation list came, of a signer that is worth so much; whether it is the latest of one
    /// who issues certificates here, as far as is known.
    pub(crate) fn revoke(&mut self, now: Now, list: Verified<RevocationList>, rank: Rank) -> bool {
        let signer = *list.key();
        if !self.issuers.contains_key(&signer) {
            let held = self.early.get(&signer);
            if held.is_none_or(|held| held.list.number < list.number) {
                // One that finds no room gossip asks for again, once its signer is known.
                let _ = self.early.put(signer, Early { list, rank }, |_, of| of.rank);
            }
            return false;
        }
        let is_latest = self.revoked.learn(list);
        if is_latest {
            self.review(now);
        }
        is_latest
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
        let stale = self.issuers.keys().filter_map(|issuer| self.revoked.of(issuer));
        // One that is stale already was looked at when it became so.
        let stale =
            stale.map(|list| list.next_update_ms).filter(|at_ms| *at_ms >= self.reviewed_ms);
        members.chain(stale).min()
    }

    /// The latest list of `issuer`.
    pub(crate) fn list(&self, issuer: &PublicKey) -> Option<&Verified<RevocationList>> {
        self.revoked.of(issuer)
    }

    /// All clusters whose certificates hold now.
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

    /// The registrar was asked in vain; whether that is new.
    pub(crate) fn not_renewed(&mut self, now: Now, refused: Option<JoinRefusal>) -> bool {
        self.renewal.fail(now, refused)
    }

    /// When the registrar is asked for another certificate and its latest list, wall clock.
    /// None: no registrar issued one.
    pub(crate) fn renew_ms(&self) -> Option<u64> {
        let issuer = self.issuer()?;
        let list = self.list(&issuer);
        let list_ms = list.map_or(0, |list| list.issued_ms / 4 + list.next_update_ms / 4 * 3);
        Some(self.renewal.at_ms(list_ms))
    }

    /// The issuers of which a revocation list is kept.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &PublicKey> {
        self.issuers.keys().filter(|issuer| self.revoked.of(issuer).is_some())
    }

    /// Publishers that gossip is to know: members, and the lists of those who certify them.
    pub(crate) fn publishers(&self) -> impl Iterator<Item = PublicKey> {
        let of = self.federation.id();
        let lists = self.issuers.keys().map(move |issuer| RevocationList::series(of, issuer));
        self.members.values().map(|member| member.key).chain(lists)
    }
}

/// Whether a registrar issued this certificate before the one that is held, which is not over. By
/// the ends first: a registrar that goes on from a copy of its records counts from there again.
fn is_before(shown: &Member, held: &Member, now: Now) -> bool {
    let issuer = |of: &Member| of.certified_by.first().map(|(issuer, _)| *issuer);
    let order = |of: &Member| (of.until_ms, of.certified_by.first().map(|(_, serial)| *serial));
    held.until_ms >= now.wall_ms && issuer(shown) == issuer(held) && order(shown) < order(held)
}

#[cfg(test)]
mod tests;
