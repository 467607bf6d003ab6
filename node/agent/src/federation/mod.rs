//! The agent's part in federations: papers, members and revocations to the broker and to
//! gossip, and the registrar's work if it is one. What it asks of other registrars is in
//! `joining`.

pub(crate) mod ask;
pub(crate) mod frauds;
pub(crate) mod joining;
pub(crate) mod membership;
pub(crate) mod papers;
pub(crate) mod rates;
pub(crate) mod registrar;
pub(crate) mod renewal;
pub(crate) mod view;

use std::collections::BTreeMap;

use mercato_broker::Affiliation;
use mercato_gossip::{News, Verdict};
use mercato_protocol::bounded::Rank;
use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::envelope::{Signed, Signers, Trust, Verified};
use mercato_protocol::gossip::VerifiedPublication;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::join::JoinReply;
use mercato_protocol::limits::FEDERATIONS;
use mercato_protocol::time::{Deadline, Now};

use crate::agent::Agent;
use crate::effect::Effect;
use crate::federation::ask::{Answer, Ask, FederationRefusal};
use crate::federation::frauds::Frauds;
use crate::federation::joining::Joining;
use crate::federation::membership::{Gone, Listed, Membership};
use crate::federation::papers::Papers;
use crate::federation::rates::Rates;
use crate::federation::registrar::Note;
use crate::notice::{FederationNews, Notice};
use crate::peers::Keys;
use crate::rank::partners;
use crate::record::{Change, FederationKey, FederationRecord, Record, RecordKey};

/// What the agent keeps of federations.
#[derive(Debug, Default)]
pub(crate) struct Federated {
    pub(crate) memberships: BTreeMap<FederationId, Membership>,
    pub(crate) frauds: Frauds,
    /// How often organisations advertise.
    rates: Rates,
    pub(crate) joining: BTreeMap<FederationId, Joining>,
    /// Records that were not looked at yet, since that takes the time.
    pub(crate) remembered: Vec<FederationRecord>,
    /// What the broker was told.
    told: mercato_broker::Membership,
}

impl Agent {
    /// Becomes what the records say, the papers first: their key is the first of all.
    pub(crate) fn resume_federation(&mut self, now: Now, out: &mut Vec<Effect>) {
        let (us, keys) = (self.config.cluster(), self.config.keys());
        for record in std::mem::take(&mut self.federated.remembered) {
            match record {
                FederationRecord::Papers(papers) => {
                    if let Some(membership) = Membership::new(now, *papers, (us, &keys)) {
                        let of = membership.federation().id();
                        self.federated.memberships.insert(of, membership);
                    }
                }
                FederationRecord::Revocations(of, _, list) => {
                    if let Some(membership) = self.federated.memberships.get_mut(&of)
                        && let Ok(list) = list.open(certified_in(of), now)
                    {
                        membership.revoke(now, list, Rank::Member);
                    }
                }
                FederationRecord::Fraud(key, proof) => {
                    match proof.open(self.config.federation, now) {
                        Ok(proof) => self.keep_out(now, &proof, out),
                        Err(_) => out.push(erase(FederationKey::Fraud(key))),
                    }
                }
                FederationRecord::Registrar(of, record) => {
                    let Some(of) = self.federated.memberships.get_mut(&of) else { continue };
                    match &mut of.registrar {
                        Some(registrar) => registrar.restore(record),
                        None => of.shelved.push(record),
                    }
                }
            }
        }
        let lists = self.federated.memberships.iter().flat_map(|(federation, of)| {
            let lists = of.lists().filter_map(|issuer| of.list(issuer)).cloned();
            lists.map(|list| VerifiedPublication::Revocations(*federation, list))
        });
        for list in lists.collect::<Vec<_>>() {
            self.publish(now, News::plain(list), out);
        }
        self.tell_membership(now, out);
    }

    pub(crate) fn on_ask(&mut self, now: Now, to: u64, ask: Ask, out: &mut Vec<Effect>) {
        let answer = match ask {
            Ask::Enter(papers) => Some(self.on_enter(now, *papers, None, out)),
            Ask::Join(token) => self.on_token_to_join(now, to, *token, out),
            Ask::Leave(federation) => Some(self.on_leave(now, federation, out)),
            Ask::Token { federation, secret, grant, addresses } => {
                Some(self.on_token(now, federation, (secret, grant, addresses), out))
            }
            Ask::Admit { peer, request } => {
                let reply = self.admit(now, peer, &request, out);
                Some(Answer::Join(Box::new(reply.unwrap_or_else(JoinReply::Refused))))
            }
            Ask::Publish(federation, list) => Some(self.on_publish(now, federation, &list, out)),
            Ask::Revoke(federation, cluster) => Some(self.on_revoke(now, federation, cluster, out)),
        };
        out.extend(answer.map(|answer| Effect::Federation(to, Box::new(answer))));
    }

    /// Shows the certificates of a peer that has proven `key`.
    pub(crate) fn on_papers(
        &mut self,
        now: Now,
        cluster: ClusterId,
        key: PublicKey,
        shown: &[Signed<Certificate>],
        out: &mut Vec<Effect>,
    ) {
        if self.federated.memberships.is_empty() {
            return;
        }
        let keys = self.peers.keys(&cluster).map_or_else(|| vec![key], Keys::all);
        let mut changed = false;
        for (of, membership) in &mut self.federated.memberships {
            let is_partner = partners(&self.peers, &self.broker);
            changed |= membership.show(now, cluster, &keys, shown, &is_partner);
            let lists = membership.unsaved().into_iter();
            out.extend(lists.map(|list| keep_list(*of, &list)));
            if membership.hints(now, shown) {
                membership.renewal.hint(now);
            }
        }
        if changed {
            self.keep_keys(&cluster, out);
            self.tell_membership(now, out);
            // Who is a member may be trusted only once gossip brings its registrar's list.
            self.known_changed = true;
        }
    }

    /// Whether an advertisement of this cluster's is taken now, as one of its organisation's.
    pub(crate) fn may_advertise(&mut self, now: Now, cluster: &ClusterId) -> bool {
        let Federated { memberships, rates, .. } = &mut self.federated;
        let mut of = memberships.iter().filter_map(|(of, all)| Some((*of, all.member(cluster)?)));
        of.all(|(federation, member)| rates.admit(now, federation, member))
    }

    /// Of what this cluster shows to others: none while it belongs to no federation.
    pub fn certificates(&self) -> &[Signed<Certificate>] {
        &self.federated.told.own
    }

    /// Lists of federations that this cluster does not go by it does not judge.
    pub(crate) fn on_revocations(
        &mut self,
        now: Now,
        of: FederationId,
        list: Verified<RevocationList>,
        out: &mut Vec<Effect>,
    ) -> Verdict {
        let rank = self.rank_of_key(list.key());
        let Some(membership) = self.federated.memberships.get_mut(&of) else {
            return Verdict::Ignore;
        };
        match membership.revoke(now, list.clone(), rank) {
            Listed::Early => return Verdict::Ignore,
            // What is on disk is at least as late.
            Listed::Older => {}
            Listed::Latest => {
                out.push(keep_list(of, &list));
                self.tell_membership(now, out);
            }
        }
        Verdict::Accept
    }

    /// What holds no longer, by the root's word; an older word is not taken.
    fn on_publish(
        &mut self,
        now: Now,
        of: FederationId,
        list: &Signed<RevocationList>,
        out: &mut Vec<Effect>,
    ) -> Answer {
        let Some(membership) = self.federated.memberships.get(&of) else {
            return Answer::Refused(FederationRefusal::Unknown);
        };
        let root = *membership.federation().root();
        let held = membership.list(&root).map_or(0, |held| held.number);
        let list = list.open(certified_in(of), now).ok();
        let list = list.filter(|list| *list.key() == root && list.number > held);
        let Some(list) = list else { return Answer::Refused(FederationRefusal::Papers) };
        self.on_revocations(now, of, list.clone(), out);
        let news = News::plain(VerifiedPublication::Revocations(of, list));
        self.publish(now, news, out);
        Answer::Done
    }

    /// When somebody may be no member any more, the next list is due, or our certificate is.
    pub(crate) fn federation_wakeup(&self) -> Option<Deadline> {
        let memberships = self.federated.memberships.values();
        let reviews = memberships.filter_map(|of| of.review_ms());
        let reviews = reviews.chain(self.federated.frauds.review_ms()).map(|at_ms| at_ms + 1);
        let lists = self.federated.memberships.values().filter_map(|of| self.list_due_ms(of));
        let walls = reviews.chain(lists).map(Deadline::Wall);
        Deadline::earliest(self.last(), walls.chain(self.renewal_wakeup()).map(Some))
    }

    pub(crate) fn federation_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        let ended = self.federated.frauds.review(now);
        out.extend(ended.into_iter().map(|key| erase(FederationKey::Fraud(key))));
        self.federated.memberships.values_mut().for_each(|of| of.review(now));
        for federation in self.federated.memberships.keys().copied().collect::<Vec<_>>() {
            self.publish_due(now, federation, out);
        }
        self.renewals_due(now, out);
        self.tell_membership(now, out);
    }

    pub(crate) fn on_enter(
        &mut self,
        now: Now,
        mut papers: Papers,
        revocations: Option<&Signed<RevocationList>>,
        out: &mut Vec<Effect>,
    ) -> Answer {
        // Whoever belongs already, and now learns the domain, goes on to belong.
        if let (true, Some(before)) =
            (papers.certificates.is_empty(), self.federated.memberships.get(&papers.id()))
        {
            papers = Papers { domain: papers.domain, ..before.papers().clone() };
        }
        let (us, keys) = (self.config.cluster(), self.config.keys());
        if !papers.fit() {
            return Answer::Refused(FederationRefusal::Papers);
        }
        let follows = papers.certificates.is_empty();
        let new = Membership::new(now, papers.clone(), (us, &keys));
        let new = new.filter(|new| follows || new.is_member(&us));
        let before = self.federated.memberships.get(&papers.id());
        let new = new.filter(|_| before.is_none_or(|before| papers.follow(before.papers())));
        let news = match before.map(Membership::papers) {
            None if follows => Some(FederationNews::Followed),
            Some(before) if before.certificates == papers.certificates => None,
            Some(before) if !before.certificates.is_empty() => Some(FederationNews::Renewed),
            None | Some(_) => Some(FederationNews::Joined),
        };
        let Some(mut new) = new else { return Answer::Refused(FederationRefusal::Papers) };
        let of = new.federation().id();
        match self.federated.memberships.remove(&of) {
            Some(before) => new.take_over(now, before),
            None if self.federated.memberships.len() >= FEDERATIONS => {
                return Answer::Refused(FederationRefusal::TooMany);
            }
            None => {}
        }
        out.extend(new.unsaved().iter().map(|list| keep_list(of, list)));
        self.federated.memberships.insert(of, new);
        out.push(keep(FederationRecord::Papers(Box::new(papers))));
        if let Some(news) = news {
            self.tell_federation(of, news, out);
        }
        if let Some(Ok(list)) = revocations.map(|list| list.open(certified_in(of), now)) {
            self.on_revocations(now, of, list, out);
        }
        self.publish_due(now, of, out);
        self.look_again(now, of, out);
        self.tell_membership(now, out);
        Answer::Done
    }

    /// Providers whose certificates came before they meant anything here.
    fn look_again(&mut self, now: Now, of: FederationId, out: &mut Vec<Effect>) {
        let Some(membership) = self.federated.memberships.get_mut(&of) else { return };
        let is_partner = partners(&self.peers, &self.broker);
        for news in self.gossip.news() {
            if let Some(Ok(ad)) = news.as_ad() {
                let (keys, shown) = (Keys::of_ad(&ad).all(), &ad.body.certificates);
                membership.show(now, ad.lease.provider, &keys, shown, &is_partner);
            }
        }
        out.extend(membership.unsaved().iter().map(|list| keep_list(of, list)));
    }

    fn on_leave(&mut self, now: Now, of: FederationId, out: &mut Vec<Effect>) -> Answer {
        let Some(membership) = self.federated.memberships.get(&of) else {
            return Answer::Refused(FederationRefusal::Unknown);
        };
        if membership.registrar.is_some() {
            return Answer::Refused(FederationRefusal::Registrar);
        }
        out.push(erase(FederationKey::Papers(of)));
        out.extend(membership.lists().map(|by| erase(FederationKey::Revocations(of, *by))));
        self.tell_federation(of, FederationNews::Left, out);
        self.federated.memberships.remove(&of);
        self.tell_membership(now, out);
        Answer::Done
    }

    /// Tells people of a federation, as long as this cluster goes by it.
    pub(crate) fn tell_federation(
        &self,
        federation: FederationId,
        news: FederationNews,
        out: &mut Vec<Effect>,
    ) {
        if let Some(of) = self.federated.memberships.get(&federation) {
            let name = of.federation().name.clone();
            out.push(Effect::Notice(Notice::Federation { federation, name, news }));
        }
    }

    /// Tells people who belongs no longer.
    fn tell_gone(&mut self, out: &mut Vec<Effect>) {
        let us = self.config.cluster();
        let all = self.federated.memberships.iter_mut();
        let gone: Vec<_> = all.map(|(of, membership)| (*of, membership.take_gone())).collect();
        for (of, gone) in gone {
            for (cluster, why) in gone {
                let news = match (cluster == us, why) {
                    (true, Gone::Revoked) => FederationNews::Revoked,
                    (true, Gone::Expired) => FederationNews::Expired,
                    (false, Gone::Revoked) => FederationNews::MemberRevoked(cluster),
                    (false, Gone::Expired) => FederationNews::MemberExpired(cluster),
                };
                self.tell_federation(of, news, out);
            }
        }
    }

    /// Tells the broker and gossip who belongs and who is kept out, if that has changed.
    pub(crate) fn tell_membership(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.tell_gone(out);
        let us = self.config.cluster();
        let mut told = mercato_broker::Membership::default();
        for (of, membership) in &self.federated.memberships {
            if membership.is_member(&us) {
                told.own.extend(membership.papers().certificates.iter().cloned());
            }
            for member in membership.certified(now).filter(|member| member.cluster != us) {
                let affiliation = Affiliation {
                    federation: *of,
                    name: membership.federation().name.clone(),
                    organisation: member.organisation.clone(),
                    sells: member.roles.contains(&Role::Provider),
                    buys: member.roles.contains(&Role::Consumer),
                };
                told.certified.entry(member.cluster).or_default().push(affiliation);
            }
        }
        told.barred = self.peers.clusters(|key| self.federated.frauds.contains(key));
        if told.own != self.federated.told.own {
            out.push(Effect::Introduce);
        }
        if told != self.federated.told {
            self.for_broker.push_back(mercato_broker::Input::Membership(told.clone()));
            self.federated.told = told;
            self.known_changed = true;
        }
    }
}

/// Certificates and lists say themselves who signed them; whether it may is checked apart.
pub(crate) fn certified_in(federation: FederationId) -> Trust<'static> {
    Trust { federation, signers: Signers::Anyone }
}

/// The latest list of its issuer, on disk.
pub(crate) fn keep_list(of: FederationId, list: &Verified<RevocationList>) -> Effect {
    keep(FederationRecord::Revocations(of, *list.key(), list.signed().clone()))
}

pub(crate) fn note(of: FederationId, notes: Vec<Note>, out: &mut Vec<Effect>) {
    out.extend(notes.into_iter().map(|note| match note {
        Note::Keep(record) => keep(FederationRecord::Registrar(of, record)),
        Note::Spent(digest) => erase(FederationKey::Token(of, digest)),
        Note::Forgotten(cluster) => erase(FederationKey::Issued(of, cluster)),
    }));
}

pub(crate) fn keep(record: FederationRecord) -> Effect {
    Effect::Persist(Change::Put(Record::Federation(record)))
}

pub(crate) fn erase(key: FederationKey) -> Effect {
    Effect::Persist(Change::Erase(RecordKey::Federation(key)))
}
