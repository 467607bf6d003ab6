//! The agent's part in a federation: papers, members and revocations to the broker and to
//! gossip, and the registrar's work if it is one.

use mercato_gossip::{News, Verdict};
use mercato_protocol::certificate::{Certificate, Member, RevocationList, Role};
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::equivocation::Proven;
use mercato_protocol::gossip::VerifiedPublication;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken, Secret};
use mercato_protocol::time::{Deadline, Now};
use thiserror::Error;

use crate::agent::Agent;
use crate::limits;
use crate::membership::{Membership, Papers};
use crate::record::{Change, FederationKey, FederationRecord, Record, RecordKey};
use crate::registrar::{Grant, Note, Registrar};
use crate::vocabulary::Effect;

/// What is asked of the agent about its federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Belong to what these papers say.
    Enter {
        /// Of this cluster.
        papers: Box<Papers>,
        /// The latest list of its registrar's, as it came with them.
        revocations: Option<Signed<RevocationList>>,
    },
    /// Belong to no federation.
    Leave,
    /// Registrar: let one cluster join that says this secret.
    Token {
        /// Random.
        secret: Secret,
        /// As what.
        grant: Grant,
    },
    /// Registrar: a peer wants to join, or to renew.
    Join {
        /// Whose key the connection has proven.
        peer: PublicKey,
        /// What it says.
        request: Box<JoinRequest>,
    },
    /// Registrar: a cluster is to belong no longer.
    Revoke(ClusterId),
    /// Who belongs.
    Members,
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// So it is.
    Done,
    /// Hand this to one who may join.
    Token(JoinToken),
    /// For the peer that wants to join.
    Join(Box<JoinReply>),
    /// Those whose certificates hold.
    Members(Vec<Member>),
    /// Not so.
    Refused(FederationRefusal),
}

/// Why an [`Ask`] is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FederationRefusal {
    /// The papers are not this cluster's, or do not hold.
    #[error("these papers do not make this cluster a member")]
    Papers,
    /// It has no registrar's certificate.
    #[error("this cluster is no registrar")]
    NoRegistrar,
    /// Too many tokens wait, or none of the roles is the registrar's to give.
    #[error("no such token can be handed out now")]
    NoToken,
    /// It was never let in here.
    #[error("this registrar did not let that cluster in")]
    NoMember,
}

/// What the agent keeps of its federation.
#[derive(Debug, Default)]
pub(crate) struct Federated {
    pub(crate) membership: Membership,
    registrar: Option<Registrar>,
    /// Records that were not looked at yet, since that takes the time.
    pub(crate) remembered: Vec<FederationRecord>,
    /// What the broker was told.
    told: mercato_broker::Membership,
}

impl Agent {
    /// Becomes what the records say, the papers first: their key is the first of all.
    pub(crate) fn resume_federation(&mut self, now: Now, out: &mut Vec<Effect>) {
        for record in std::mem::take(&mut self.federated.remembered) {
            match record {
                FederationRecord::Papers(papers) => drop(self.enter(now, *papers)),
                FederationRecord::Revocations(_, list) => {
                    if let Ok(list) = list.open(self.certified_here(), now) {
                        self.federated.membership.revoke(now, list);
                    }
                }
                FederationRecord::Fraud(_, proof) => {
                    if let Ok(proof) = proof.open(self.config.federation, now) {
                        self.federated.membership.quarantine(&proof);
                    }
                }
                FederationRecord::Registrar(record) => {
                    if let Some(registrar) = &mut self.federated.registrar {
                        registrar.restore(record);
                    }
                }
            }
        }
        self.tell_membership(now, out);
    }

    pub(crate) fn on_ask(&mut self, now: Now, to: u64, ask: Ask, out: &mut Vec<Effect>) {
        let answer = match ask {
            Ask::Enter { papers, revocations } => {
                let answer = self.on_enter(now, *papers, out);
                if let (Answer::Done, Some(list)) = (&answer, revocations) {
                    self.on_revocations(now, &list, out);
                }
                answer
            }
            Ask::Leave => self.on_leave(now, out),
            Ask::Token { secret, grant } => self.on_token(now, secret, grant, out),
            Ask::Join { peer, request } => self
                .on_join(now, peer, &request, out)
                .unwrap_or_else(|refusal| Answer::Join(Box::new(JoinReply::Refused(refusal)))),
            Ask::Revoke(cluster) => self.on_revoke(now, cluster, out),
            Ask::Members => Answer::Members(self.federated.membership.members().cloned().collect()),
        };
        out.push(Effect::Federation(to, Box::new(answer)));
    }

    /// Shows the certificates of a peer that has proven `key`.
    pub(crate) fn on_papers(
        &mut self,
        now: Now,
        cluster: ClusterId,
        key: PublicKey,
        chain: &[Signed<Certificate>],
        out: &mut Vec<Effect>,
    ) {
        if self.federated.membership.show(now, cluster, key, chain) {
            self.tell_membership(now, out);
        }
    }

    /// Of what this cluster shows to others: none while it belongs to no federation.
    pub fn certificates(&self) -> &[Signed<Certificate>] {
        &self.federated.told.own
    }

    pub(crate) fn on_fraud(&mut self, now: Now, proof: &Proven, out: &mut Vec<Effect>) {
        let (key, kept) = (*proof.publisher(), proof.proof().clone());
        self.federated.membership.quarantine(proof);
        out.push(keep(FederationRecord::Fraud(key, Box::new(kept))));
        self.tell_membership(now, out);
    }

    pub(crate) fn on_revocations(
        &mut self,
        now: Now,
        list: &Signed<RevocationList>,
        out: &mut Vec<Effect>,
    ) -> Verdict {
        let Ok(list) = list.open(self.certified_here(), now) else { return Verdict::Ignore };
        let (key, signed) = (*list.key(), list.signed().clone());
        if !self.federated.membership.revoke(now, list) {
            return Verdict::Ignore;
        }
        out.push(keep(FederationRecord::Revocations(key, signed)));
        self.tell_membership(now, out);
        Verdict::Accept
    }

    /// When somebody may be no member any more, or the next list is due.
    pub(crate) fn federation_wakeup(&self) -> Option<Deadline> {
        let review = self.federated.membership.review_ms().map(|at_ms| at_ms + 1);
        review.into_iter().chain(self.list_due_ms()).min().map(Deadline::Wall)
    }

    pub(crate) fn federation_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.federated.membership.review(now);
        if self.list_due_ms().is_some_and(|due_ms| due_ms <= now.wall_ms) {
            self.publish_list(now, out);
        }
        self.tell_membership(now, out);
    }

    fn list_due_ms(&self) -> Option<u64> {
        self.federated.registrar.as_ref()?;
        let list = self.federated.membership.list(&self.config.key.public());
        Some(list.map_or(0, |list| list.issued_ms + limits::NEXT_LIST_MS / 2))
    }

    fn certified_here(&self) -> Trust<'static> {
        let federation = self.federated.membership.federation();
        let federation = federation.map_or(self.config.federation, |of| of.id());
        Trust { federation, signers: Signers::Anyone }
    }

    /// Whether the papers hold and are ours.
    fn enter(&mut self, now: Now, papers: Papers) -> bool {
        let chain = papers.certificates.clone();
        let (cluster, key) = (self.config.cluster(), self.config.key.public());
        self.federated.registrar = None;
        self.federated.membership.enter(now, Some(papers));
        self.federated.membership.show(now, cluster, key, &chain);
        let ours = self.federated.membership.is_member(&cluster);
        let rights = chain.first().and_then(|own| own.open(self.certified_here(), now).ok());
        if let (true, Some(rights)) = (ours, rights)
            && rights.roles.contains(&Role::Registrar)
        {
            let federation = self.certified_here().federation;
            self.federated.registrar = Some(Registrar::new(federation, rights.into_value()));
        }
        ours
    }

    fn on_enter(&mut self, now: Now, papers: Papers, out: &mut Vec<Effect>) -> Answer {
        let before = self.federated.membership.papers().cloned();
        let renewed = before.as_ref().is_some_and(|before| before.root == papers.root);
        let registrar = self.federated.registrar.take();
        if !self.enter(now, papers.clone()) {
            if let Some(before) = before {
                self.enter(now, before);
            }
            self.federated.registrar = registrar;
            return Answer::Refused(FederationRefusal::Papers);
        }
        if let (true, Some(before)) = (renewed, registrar)
            && let Some(registrar) = &mut self.federated.registrar
        {
            registrar.take_over(before);
        }
        out.push(keep(FederationRecord::Papers(Box::new(papers))));
        if self.list_due_ms().is_some_and(|due_ms| due_ms <= now.wall_ms) {
            self.publish_list(now, out);
        }
        self.tell_membership(now, out);
        Answer::Done
    }

    fn on_leave(&mut self, now: Now, out: &mut Vec<Effect>) -> Answer {
        if self.federated.membership.papers().is_some() {
            out.push(erase(FederationKey::Papers));
        }
        self.federated.registrar = None;
        self.federated.membership.enter(now, None);
        self.tell_membership(now, out);
        Answer::Done
    }

    fn on_token(
        &mut self,
        now: Now,
        secret: Secret,
        grant: Grant,
        out: &mut Vec<Effect>,
    ) -> Answer {
        let federation = self.certified_here().federation;
        let Some(registrar) = &mut self.federated.registrar else {
            return Answer::Refused(FederationRefusal::NoRegistrar);
        };
        let mut notes = Vec::new();
        let granted = registrar.grant(now, secret, grant, &mut notes);
        note(notes, out);
        match granted {
            None => Answer::Refused(FederationRefusal::NoToken),
            Some(expires_ms) => Answer::Token(JoinToken {
                federation,
                registrar: self.config.key.public(),
                addresses: Vec::new(),
                secret,
                expires_ms,
            }),
        }
    }

    fn on_join(
        &mut self,
        now: Now,
        peer: PublicKey,
        request: &JoinRequest,
        out: &mut Vec<Effect>,
    ) -> Result<Answer, JoinRefusal> {
        let registrar = self.federated.registrar.as_mut().ok_or(JoinRefusal::Unavailable)?;
        let mut notes = Vec::new();
        let joined = registrar.join(now, &self.config.key, peer, request, &mut notes);
        note(notes, out);
        let membership = &self.federated.membership;
        let papers = membership.papers().ok_or(JoinRefusal::Unavailable)?;
        let list = membership.list(&self.config.key.public()).ok_or(JoinRefusal::Unavailable)?;
        let own = papers.certificates.first().ok_or(JoinRefusal::Unavailable)?;
        Ok(Answer::Join(Box::new(JoinReply::Admitted {
            root: papers.root.clone(),
            successions: papers.successions.clone(),
            certificates: vec![joined?, own.clone()],
            revocations: list.signed().clone(),
        })))
    }

    fn on_revoke(&mut self, now: Now, cluster: ClusterId, out: &mut Vec<Effect>) -> Answer {
        let Some(registrar) = &mut self.federated.registrar else {
            return Answer::Refused(FederationRefusal::NoRegistrar);
        };
        let mut notes = Vec::new();
        let known = registrar.revoke(cluster, &mut notes);
        note(notes, out);
        if !known {
            return Answer::Refused(FederationRefusal::NoMember);
        }
        self.publish_list(now, out);
        self.tell_membership(now, out);
        Answer::Done
    }

    /// Says anew what holds no longer, durably before anybody hears it.
    fn publish_list(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(registrar) = &mut self.federated.registrar else { return };
        let mut notes = Vec::new();
        let list = registrar.list(now, &self.config.key, &mut notes);
        note(notes, out);
        let list = list.ok().and_then(|list| list.open(self.certified_here(), now).ok());
        let Some(list) = list else { return };
        out.push(keep(FederationRecord::Revocations(*list.key(), list.signed().clone())));
        self.federated.membership.revoke(now, list.clone());
        if self.certified_here().federation == self.config.federation {
            self.publish(now, News::plain(VerifiedPublication::Revocations(list)), out);
        }
    }

    /// Tells the broker and gossip who belongs and who is kept out, if that has changed.
    pub(crate) fn tell_membership(&mut self, now: Now, out: &mut Vec<Effect>) {
        let membership = &self.federated.membership;
        let papers = membership.papers().filter(|_| membership.is_member(&self.config.cluster()));
        let mut told = mercato_broker::Membership {
            own: papers.map(|papers| papers.certificates.clone()).unwrap_or_default(),
            certified: membership.certified(now),
            barred: self.peers.clusters(|key| membership.is_fraud(key)),
        };
        told.certified.remove(&self.config.cluster());
        if told != self.federated.told {
            self.for_broker.push_back(mercato_broker::Input::Membership(told.clone()));
            self.federated.told = told;
            self.tell_trusted(now, out);
        }
    }
}

fn note(notes: Vec<Note>, out: &mut Vec<Effect>) {
    out.extend(notes.into_iter().map(|note| match note {
        Note::Keep(record) => keep(FederationRecord::Registrar(record)),
        Note::Spent(digest) => erase(FederationKey::Token(digest)),
    }));
}

fn keep(record: FederationRecord) -> Effect {
    Effect::Persist(Change::Put(Record::Federation(record)))
}

fn erase(key: FederationKey) -> Effect {
    Effect::Persist(Change::Erase(RecordKey::Federation(key)))
}
