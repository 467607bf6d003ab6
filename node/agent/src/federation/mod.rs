//! Federation membership: papers, members, revocations and frauds, and the registrar's work if this
//! cluster is one. What it asks of other registrars is in `joining`. Whom to trade with is the
//! broker's, and what spreads is gossip's: both are told.

pub(crate) mod ask;
mod frauds;
pub(crate) mod issued;
mod joining;
pub(crate) mod membership;
mod notify;
pub(crate) mod papers;
mod queries;
mod rates;
mod registrar;
mod renewal;

use std::collections::BTreeMap;

use mercato_broker::Config;
use mercato_protocol::bounded::Rank;
use mercato_protocol::certificate::{Certificate, RevocationList};
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::equivocation::Proven;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest};
use mercato_protocol::limits::FEDERATIONS;
use mercato_protocol::time::{Deadline, Now};

use crate::context::Turn;
use crate::effect::Effect;
use crate::input::FederationInput;
use crate::notice::FederationNews;
use crate::peers::Keys;
use crate::record::{FederationKey, FederationRecord};
use crate::request::Request;

use ask::{Answer, Ask, FederationRefusal};
use frauds::Frauds;
use membership::Membership;
use papers::Papers;
use rates::Rates;
use renewal::Joining;

/// The federations that this cluster goes by.
pub(crate) struct Federations {
    config: Config,
    memberships: BTreeMap<FederationId, Membership>,
    frauds: Frauds,
    /// How much each organisation may still advertise.
    rates: Rates,
    joining: BTreeMap<FederationId, Joining>,
    /// The records cannot be written: what is asked for is refused, and nothing is issued.
    rests: bool,
    /// Records that were not looked at yet, since that takes the time.
    remembered: Vec<FederationRecord>,
    /// What the broker was told last.
    told: mercato_broker::Membership,
}

impl Federations {
    pub(crate) fn new(config: Config, remembered: Vec<FederationRecord>, rests: bool) -> Self {
        Self {
            config,
            memberships: BTreeMap::new(),
            frauds: Frauds::default(),
            rates: Rates::default(),
            joining: BTreeMap::new(),
            rests,
            remembered,
            told: mercato_broker::Membership::default(),
        }
    }

    /// Becomes what the records say, the papers first: their key is the first of all.
    pub(crate) fn start(&mut self, turn: &mut Turn<'_>) {
        for record in std::mem::take(&mut self.remembered) {
            match record {
                FederationRecord::Papers(papers) => {
                    if let Some(membership) = Membership::new(turn.now, *papers, &self.config) {
                        let of = membership.federation().id();
                        self.memberships.insert(of, membership);
                    }
                }
                FederationRecord::Revocations(of, _, list) => {
                    if let Some(membership) = self.memberships.get_mut(&of)
                        && let Ok(list) = list.open(membership.trust(), turn.now)
                    {
                        membership.revoke(turn.now, list, Rank::Member);
                    }
                }
                FederationRecord::Fraud(key, proof) => {
                    match proof.open(self.config.federation, turn.now) {
                        Ok(proof) => self.keep_out(&proof, turn),
                        Err(_) => turn.note([FederationKey::Fraud(key)]),
                    }
                }
                FederationRecord::Registrar(of, record) => {
                    if let Some(membership) = self.memberships.get_mut(&of) {
                        membership.restore(record);
                    }
                }
            }
        }
        for of in self.memberships.values() {
            of.lists().filter_map(|by| of.list(by)).for_each(|list| of.spread(list, turn));
        }
        self.notify(turn);
    }

    pub(crate) fn handle(&mut self, input: FederationInput, turn: &mut Turn<'_>) {
        match input {
            FederationInput::Ask(to, ask) => {
                let answer = self.on_ask(to, ask, turn);
                turn.extend(answer.map(|answer| Effect::Federation(to, Box::new(answer))));
            }
            FederationInput::Joined(federation, reply) => {
                self.on_joined(federation, reply.map(|reply| *reply), turn);
            }
            FederationInput::Papers { peer, certificates } => {
                if let Some(owner) = turn.context.peers.connected().get(&peer) {
                    self.show(owner.cluster_id(), peer, &certificates, turn);
                }
            }
        }
    }

    /// Answers at once, but what a registrar is asked for.
    fn on_ask(&mut self, to: u64, ask: Ask, turn: &mut Turn<'_>) -> Option<Answer> {
        if self.rests {
            return Some(refused_at_rest(&ask));
        }
        let done = match ask {
            Ask::Enter(papers) => self.enter(*papers, None, turn),
            Ask::Join(token) => match self.join(to, *token, turn) {
                Ok(()) => return None,
                Err(refusal) => Err(refusal),
            },
            Ask::Leave(federation) => self.leave(federation, turn),
            Ask::Token { federation, secret, grant, addresses } => {
                let registrar = self.memberships.get_mut(&federation);
                let token = registrar
                    .ok_or(FederationRefusal::NoRegistrar)
                    .and_then(|of| of.hand_out(&self.config, secret, grant, addresses, turn));
                return Some(token.map_or_else(Answer::Refused, Answer::Token));
            }
            Ask::Admit { peer, request } => {
                let reply = self.admit(peer, &request, turn);
                return Some(Answer::Join(Box::new(reply.unwrap_or_else(JoinReply::Refused))));
            }
            Ask::Publish(federation, list) => self.publish(federation, &list, turn),
            Ask::Revoke(federation, cluster) => {
                let registrar = self.memberships.get_mut(&federation);
                let done = registrar
                    .ok_or(FederationRefusal::NoRegistrar)
                    .and_then(|of| of.take_back(&self.config, cluster, turn));
                done.inspect(|()| self.notify(turn))
            }
        };
        Some(done.map_or_else(Answer::Refused, |()| Answer::Done))
    }

    /// Registrar: lets a peer in, or says why not.
    fn admit(
        &mut self,
        peer: PublicKey,
        request: &JoinRequest,
        turn: &mut Turn<'_>,
    ) -> Result<JoinReply, JoinRefusal> {
        let federation = request.federation.ok_or(JoinRefusal::Unavailable)?;
        let owner = ClusterIdentity::of(&request.identities, turn.now)
            .map_err(|_| JoinRefusal::Identity)?;
        if owner.key != peer {
            return Err(JoinRefusal::Identity);
        }
        let of = self.memberships.get_mut(&federation).ok_or(JoinRefusal::Unavailable)?;
        let reply = of.admit(&self.config, &owner, request.secret, turn)?;
        // Also after a restart: a key that was replaced is not certified again.
        turn.push(Request::KeepKeys(owner.cluster_id()));
        Ok(reply)
    }

    /// A peer that has proven `key` shows its certificates.
    pub(crate) fn show(
        &mut self,
        cluster: ClusterId,
        key: PublicKey,
        shown: &[Signed<Certificate>],
        turn: &mut Turn<'_>,
    ) {
        if self.memberships.is_empty() {
            return;
        }
        let keys = turn.context.peers.keys(&cluster).map_or_else(|| vec![key], Keys::all);
        let mut changed = false;
        for membership in self.memberships.values_mut() {
            changed |= membership.show(turn.now, cluster, &keys, shown, &turn.context.partners());
            membership.keep_unsaved(turn);
            membership.take_hint(turn.now, shown);
        }
        if changed {
            turn.push(Request::KeepKeys(cluster));
            self.notify(turn);
            // Who is a member may be trusted only once gossip brings its registrar's list.
            turn.push(Request::PublishersChanged);
        }
    }

    /// Whether an advertisement of this cluster's is taken now, as one of its organisation's.
    pub(crate) fn may_advertise(&mut self, now: Now, cluster: &ClusterId) -> bool {
        let Self { memberships, rates, .. } = self;
        let mut of = memberships.iter().filter_map(|(of, all)| Some((*of, all.member(cluster)?)));
        of.all(|(federation, member)| rates.admit(now, federation, member))
    }

    /// Whether the lists that this key signs count in a federation: others are not judged.
    pub(crate) fn is_issuer(&self, of: &FederationId, key: &PublicKey) -> bool {
        self.memberships.get(of).is_some_and(|membership| membership.is_issuer(key))
    }

    /// A revocation list has come.
    pub(crate) fn revoke(
        &mut self,
        of: FederationId,
        list: &Verified<RevocationList>,
        turn: &mut Turn<'_>,
    ) {
        let rank = self.rank_of_key(list.key(), turn.context);
        let Some(membership) = self.memberships.get_mut(&of) else { return };
        if membership.revoke(turn.now, list.clone(), rank) {
            turn.note([membership.keep_list(list)]);
            self.notify(turn);
        }
    }

    /// What holds no longer, by the root's word; an older word is not taken.
    fn publish(
        &mut self,
        of: FederationId,
        list: &Signed<RevocationList>,
        turn: &mut Turn<'_>,
    ) -> Result<(), FederationRefusal> {
        let membership = self.memberships.get(&of).ok_or(FederationRefusal::Unknown)?;
        let root = *membership.federation().root();
        let held = membership.list(&root).map_or(0, |held| held.number);
        let list = list.open(membership.trust(), turn.now).ok();
        let list = list.filter(|list| *list.key() == root && list.number > held);
        let list = list.ok_or(FederationRefusal::Papers)?;
        self.revoke(of, &list, turn);
        if let Some(membership) = self.memberships.get(&of) {
            membership.spread(&list, turn);
        }
        Ok(())
    }

    /// When somebody may be no member any more, the next list is due, or our certificate is.
    pub(crate) fn wakeup(&self, now: Now) -> Option<Deadline> {
        let reviews = self.memberships().filter_map(Membership::review_ms);
        let reviews = reviews.chain(self.frauds.review_ms()).map(|at_ms| Deadline::Wall(at_ms + 1));
        let lists = self.memberships().filter_map(|of| of.list_due_ms(&self.config));
        let to_keep = lists.map(Deadline::Wall).chain(self.renewal_wakeup());
        let to_keep = to_keep.filter(|_| !self.rests);
        Deadline::earliest(now, reviews.chain(to_keep).map(Some))
    }

    pub(crate) fn tick(&mut self, turn: &mut Turn<'_>) {
        let ended = self.frauds.review(turn.now);
        turn.note(ended.into_iter().map(FederationKey::Fraud));
        for membership in self.memberships.values_mut() {
            membership.review(turn.now);
            if !self.rests {
                membership.publish_due(&self.config, turn);
            }
        }
        if !self.rests {
            self.renewals_due(turn);
        }
        self.notify(turn);
    }

    /// Goes by these papers, and by the list that came with them.
    fn enter(
        &mut self,
        mut papers: Papers,
        revocations: Option<&Signed<RevocationList>>,
        turn: &mut Turn<'_>,
    ) -> Result<(), FederationRefusal> {
        let before = self.memberships.get(&papers.id());
        // Whoever belongs already, and now learns the domain, goes on to belong.
        if let (true, Some(before)) = (papers.certificates.is_empty(), before) {
            papers = Papers { domain: papers.domain, ..before.papers().clone() };
        }
        let before = before.map(Membership::papers);
        if !papers.fit() || before.is_some_and(|before| !papers.follow(before)) {
            return Err(FederationRefusal::Papers);
        }
        let follows = papers.certificates.is_empty();
        let new = Membership::new(turn.now, papers.clone(), &self.config);
        let new = new.filter(|new| follows || new.is_member(&self.config.cluster()));
        let mut new = new.ok_or(FederationRefusal::Papers)?;
        let news = match before {
            None if follows => Some(FederationNews::Followed),
            Some(before) if before.certificates == papers.certificates => None,
            Some(before) if !before.certificates.is_empty() => Some(FederationNews::Renewed),
            None | Some(_) => Some(FederationNews::Joined),
        };
        let (of, trust) = (papers.id(), new.trust());
        match self.memberships.remove(&of) {
            Some(before) => new.take_over(turn.now, before),
            None if self.memberships.len() >= FEDERATIONS => {
                return Err(FederationRefusal::TooMany);
            }
            None => {}
        }
        new.keep_unsaved(turn);
        self.memberships.insert(of, new);
        turn.push(FederationRecord::Papers(Box::new(papers)));
        if let Some(news) = news {
            self.tell(of, news, turn);
        }
        if let Some(Ok(list)) = revocations.map(|list| list.open(trust, turn.now)) {
            self.revoke(of, &list, turn);
        }
        if let Some(membership) = self.memberships.get_mut(&of) {
            membership.publish_due(&self.config, turn);
            show_providers(membership, self.config.cluster(), turn);
            membership.keep_unsaved(turn);
        }
        self.notify(turn);
        Ok(())
    }

    fn leave(&mut self, of: FederationId, turn: &mut Turn<'_>) -> Result<(), FederationRefusal> {
        let membership = self.memberships.get(&of).ok_or(FederationRefusal::Unknown)?;
        if membership.is_registrar() {
            return Err(FederationRefusal::Registrar);
        }
        turn.push(FederationKey::Papers(of));
        turn.extend(membership.lists().map(|by| FederationKey::Revocations(of, *by)));
        self.tell(of, FederationNews::Left, turn);
        self.memberships.remove(&of);
        self.notify(turn);
        Ok(())
    }

    /// A publisher equivocated: it is kept out, also after a restart.
    pub(crate) fn on_fraud(&mut self, proof: &Proven, turn: &mut Turn<'_>) {
        self.keep_out(proof, turn);
        let key = *proof.publisher();
        if self.frauds.contains(&key) {
            turn.note([FederationRecord::Fraud(key, Box::new(proof.proof().clone()))]);
        }
        self.notify(turn);
    }

    /// Keeps out whoever equivocated, as long as its proof holds; those whom there is no room for
    /// any more are forgotten on disk, too.
    fn keep_out(&mut self, proof: &Proven, turn: &mut Turn<'_>) {
        let rank = self.rank_of_key(proof.publisher(), turn.context);
        let left = self.frauds.quarantine(turn.now, proof, rank);
        // One that finds no room here gossip alone keeps quiet.
        let left = left.unwrap_or_else(|_| vec![*proof.publisher()]);
        turn.note(left.into_iter().map(FederationKey::Fraud));
    }

    /// Whether one of these keys equivocated.
    pub(crate) fn is_fraud(&self, keys: &Keys) -> bool {
        keys.any(|key| self.frauds.contains(key))
    }
}

/// What is answered while nothing can be kept.
fn refused_at_rest(ask: &Ask) -> Answer {
    match ask {
        Ask::Admit { .. } => Answer::Join(Box::new(JoinReply::Refused(JoinRefusal::Unavailable))),
        Ask::Enter(_)
        | Ask::Join(_)
        | Ask::Leave(_)
        | Ask::Token { .. }
        | Ask::Revoke(..)
        | Ask::Publish(..) => Answer::Refused(FederationRefusal::Degraded),
    }
}

/// Providers whose certificates came before they meant anything here. What `us`, this cluster,
/// advertised has its former ones: what it is, its papers alone say.
fn show_providers(membership: &mut Membership, us: ClusterId, turn: &Turn<'_>) {
    let is_partner = turn.context.partners();
    for news in turn.context.gossip.news() {
        if let Some(Ok(ad)) = news.as_ad()
            && ad.header.provider != us
        {
            let (keys, shown) = (Keys::of_ad(&ad).all(), &ad.body.certificates);
            membership.show(turn.now, ad.header.provider, &keys, shown, &is_partner);
        }
    }
}
