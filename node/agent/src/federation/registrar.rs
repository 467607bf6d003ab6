//! A registrar: hands out join tokens, spends each once, issues and renews certificates, and
//! says which hold no longer. What it must not forget goes out as records before any answer.
//! Carrying requests and answers is left to the network layer.

use std::collections::BTreeMap;

use mercato_gossip::News;
use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::gossip::VerifiedPublication;
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::identity::Owner;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken, Secret};
use mercato_protocol::limits::{ADDRESSES, CLOCK_SKEW_MS, MEMBERSHIP_MS, TOKEN_MS};
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::effect::Effect;
use crate::federation::ask::{Answer, FederationRefusal};
use crate::federation::membership::Membership;
use crate::federation::{certified_in, keep_list, note};
use crate::limits;
use crate::peers::Keys;

/// What a join token is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Whose cluster may join.
    pub organisation: Option<Slug>,
    /// As what, ascending; never as a registrar.
    pub roles: Vec<Role>,
    /// Until when, wall clock.
    pub expires_ms: u64,
}

/// A cluster that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Its certificates that are not over, by number, with their ends, wall clock.
    pub serials: BTreeMap<u64, u64>,
    /// What they grant.
    pub grant: Grant,
    /// Whether they were taken back.
    pub revoked: bool,
    /// The digest of the token that let it in last: said again, by a cluster that the answer
    /// did not reach, it is as good.
    pub token: Option<Digest>,
}

impl Issued {
    /// Who holds a certificate has to be able to renew it, or to lose it.
    fn rank(&self, now: Now) -> Rank {
        match (self.live(now).next(), self.revoked) {
            (Some(_), _) => Rank::Kept,
            (None, true) => Rank::Stranger,
            (None, false) => Rank::Over,
        }
    }

    fn live(&self, now: Now) -> impl Iterator<Item = (u64, u64)> {
        let live = move |(_, end_ms): &(&u64, &u64)| **end_ms + CLOCK_SKEW_MS >= now.wall_ms;
        self.serials.iter().filter(live).map(|(serial, end_ms)| (*serial, *end_ms))
    }
}

/// What a registrar remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistrarRecord {
    /// A token that is not spent, by the digest of its secret.
    Token(Digest, Grant),
    /// Who was let in.
    Issued(ClusterId, Issued),
    /// The number of the latest certificate, and of the latest list.
    Numbers {
        /// Certificates.
        serial: u64,
        /// Revocation lists.
        list: u64,
    },
}

/// What a registrar does not need to remember any more, or has to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Keep(RegistrarRecord),
    /// A token is spent, or over.
    Spent(Digest),
    /// Nothing of this cluster's holds any more, and there is no room to remember it.
    Forgotten(ClusterId),
}

/// The registrar of one federation, with the rights of its own certificate.
#[derive(Debug)]
pub(crate) struct Registrar {
    federation: FederationId,
    rights: Certificate,
    tokens: BTreeMap<Digest, Grant>,
    issued: Bounded<ClusterId, Issued>,
    serial: u64,
    list: u64,
}

impl Registrar {
    pub(crate) fn new(federation: FederationId, rights: Certificate) -> Self {
        let (tokens, issued) = (BTreeMap::new(), Bounded::new(limits::ISSUED));
        Self { federation, rights, tokens, issued, serial: 0, list: 0 }
    }

    /// Those that were let in.
    pub(crate) fn issued(&self) -> impl Iterator<Item = (&ClusterId, &Issued)> {
        self.issued.iter()
    }

    /// One more of the records that tell of it.
    pub(crate) fn restore(&mut self, record: RegistrarRecord) {
        match record {
            RegistrarRecord::Token(digest, grant) => drop(self.tokens.insert(digest, grant)),
            // The disk has no more of them than there is room for.
            RegistrarRecord::Issued(cluster, issued) => {
                drop(self.issued.put(cluster, issued, |_, _| Rank::Kept));
            }
            RegistrarRecord::Numbers { serial, list } => (self.serial, self.list) = (serial, list),
        }
    }

    /// Goes on where `before`, which had another certificate, stopped.
    pub(crate) fn take_over(&mut self, before: Self) {
        let rights = self.rights.clone();
        *self = Self { rights, ..before };
    }

    /// Makes a secret good for one cluster to join, for a day at most: until when. Nothing
    /// if too many are, or none of the roles is to be given.
    pub(crate) fn grant(
        &mut self,
        now: Now,
        secret: Secret,
        mut grant: Grant,
        notes: &mut Vec<Note>,
    ) -> Option<u64> {
        for (digest, _) in self.tokens.extract_if(.., |_, old| old.expires_ms < now.wall_ms) {
            notes.push(Note::Spent(digest));
        }
        grant.expires_ms = grant.expires_ms.min(now.wall_ms.saturating_add(TOKEN_MS));
        grant.roles.retain(|role| *role != Role::Registrar && self.rights.roles.contains(role));
        if self.tokens.len() >= limits::TOKENS || grant.roles.is_empty() {
            return None;
        }
        let expires_ms = grant.expires_ms;
        self.tokens.insert(secret.digest(), grant.clone());
        notes.push(Note::Keep(RegistrarRecord::Token(secret.digest(), grant)));
        Some(expires_ms)
    }

    /// Answers one who has proven to be `owner`: a new certificate for a token, which is spent by
    /// it, or for a member, with the rights that it has.
    pub(crate) fn join(
        &mut self,
        now: Now,
        key: &KeyPair,
        owner: &Owner,
        secret: Option<Secret>,
        notes: &mut Vec<Note>,
    ) -> Result<Signed<Certificate>, JoinRefusal> {
        let cluster = owner.cluster_id();
        let issued = self.issued.get(&cluster);
        if issued.is_some_and(|issued| issued.revoked) {
            return Err(JoinRefusal::Revoked);
        }
        let full = match issued {
            None => !self.issued.has_room(Rank::Kept, |_, issued| issued.rank(now)),
            Some(issued) => issued.live(now).count() >= limits::LIVE_CERTIFICATES,
        };
        if full {
            return Err(JoinRefusal::Unavailable);
        }
        let token = secret.map(|secret| secret.digest());
        let again = issued.filter(|issued| token.is_none() || issued.token == token);
        let (grant, token) = match (again, token) {
            (Some(issued), _) => (issued.grant.clone(), issued.token),
            (None, None) => return Err(JoinRefusal::NoMember),
            (None, Some(digest)) => {
                let grant = self.tokens.remove(&digest).ok_or(JoinRefusal::Unknown)?;
                notes.push(Note::Spent(digest));
                if grant.expires_ms < now.wall_ms {
                    return Err(JoinRefusal::Expired);
                }
                (grant, Some(digest))
            }
        };
        self.issue(now, key, owner, (grant, token), notes).map_err(|_| JoinRefusal::Unavailable)
    }

    fn issue(
        &mut self,
        now: Now,
        key: &KeyPair,
        owner: &Owner,
        (grant, token): (Grant, Option<Digest>),
        notes: &mut Vec<Note>,
    ) -> Result<Signed<Certificate>, CodecError> {
        self.serial += 1;
        let cluster = owner.cluster_id();
        let certificate = Certificate {
            serial: self.serial,
            cluster,
            key: owner.key,
            organisation: self.rights.organisation.clone().or_else(|| grant.organisation.clone()),
            roles: grant.roles.clone(),
            attributes: Vec::new(),
            not_before_ms: self.rights.not_before_ms.max(now.wall_ms.saturating_sub(CLOCK_SKEW_MS)),
            not_after_ms: self.rights.not_after_ms.min(now.wall_ms + MEMBERSHIP_MS - CLOCK_SKEW_MS),
        };
        let signed = key.sign(self.federation, &certificate)?;
        let before = self.issued.get(&cluster);
        let live = before.into_iter().flat_map(|issued| issued.live(now));
        let serials = live.chain([(self.serial, certificate.not_after_ms)]).collect();
        let issued = Issued { serials, grant, revoked: false, token };
        let left = self.issued.put(cluster, issued.clone(), |_, issued| issued.rank(now));
        let left = left.unwrap_or_default().into_iter();
        notes.extend(left.map(|(cluster, _)| Note::Forgotten(cluster)));
        notes.push(Note::Keep(self.numbers()));
        notes.push(Note::Keep(RegistrarRecord::Issued(cluster, issued)));
        Ok(signed)
    }

    /// Takes back the certificate of `cluster`; false if it has none.
    pub(crate) fn revoke(&mut self, cluster: ClusterId, notes: &mut Vec<Note>) -> bool {
        let Some(issued) = self.issued.get_mut(&cluster) else { return false };
        issued.revoked = true;
        notes.push(Note::Keep(RegistrarRecord::Issued(cluster, issued.clone())));
        true
    }

    /// The next list of what holds no longer.
    pub(crate) fn list(
        &mut self,
        now: Now,
        key: &KeyPair,
        notes: &mut Vec<Note>,
    ) -> Result<Signed<RevocationList>, CodecError> {
        self.list += 1;
        notes.push(Note::Keep(self.numbers()));
        let revoked = self.issued.values().filter(|issued| issued.revoked);
        let serials = revoked.flat_map(|issued| issued.live(now).map(|(serial, _)| serial));
        let mut serials: Vec<u64> = serials.collect();
        serials.sort_unstable();
        let list = RevocationList {
            number: self.list,
            issued_ms: now.wall_ms,
            next_update_ms: now.wall_ms + limits::NEXT_LIST_MS,
            serials,
        };
        key.sign(self.federation, &list)
    }

    fn numbers(&self) -> RegistrarRecord {
        RegistrarRecord::Numbers { serial: self.serial, list: self.list }
    }
}

impl Agent {
    /// When the next revocation list is, wall clock.
    pub(crate) fn list_due_ms(&self, membership: &Membership) -> Option<u64> {
        if !membership.acts(&self.config.cluster()) {
            return None;
        }
        let list = membership.list(&self.config.key.public());
        Some(list.map_or(0, |list| list.issued_ms + limits::NEXT_LIST_MS / 2))
    }

    pub(crate) fn on_token(
        &mut self,
        now: Now,
        federation: FederationId,
        (secret, grant, mut addresses): (Secret, Grant, Vec<String>),
        out: &mut Vec<Effect>,
    ) -> Answer {
        let us = self.config.cluster();
        let membership = self.federated.memberships.get_mut(&federation);
        let Some(registrar) = membership.and_then(|of| of.acting(&us)) else {
            return Answer::Refused(FederationRefusal::NoRegistrar);
        };
        let mut notes = Vec::new();
        let granted = registrar.grant(now, secret, grant, &mut notes);
        note(federation, notes, out);
        let Some(expires_ms) = granted else {
            return Answer::Refused(FederationRefusal::NoToken);
        };
        addresses.truncate(ADDRESSES);
        let registrar = self.config.key.public();
        Answer::Token(JoinToken { federation, registrar, addresses, secret, expires_ms })
    }

    /// Lets a peer in, or says why not.
    pub(crate) fn admit(
        &mut self,
        now: Now,
        peer: PublicKey,
        request: &JoinRequest,
        out: &mut Vec<Effect>,
    ) -> Result<JoinReply, JoinRefusal> {
        let federation = request.federation.ok_or(JoinRefusal::Unavailable)?;
        let owner = Owner::of(&request.identities, now).map_err(|_| JoinRefusal::Identity)?;
        // With a key that it has replaced nobody gets another certificate.
        if owner.key != peer || !self.meet(now, owner.cluster_id(), Keys::of(&owner), out) {
            return Err(JoinRefusal::Identity);
        }
        let us = self.config.cluster();
        let membership = self.federated.memberships.get_mut(&federation);
        let membership = membership.ok_or(JoinRefusal::Unavailable)?;
        let registrar = membership.acting(&us).ok_or(JoinRefusal::Unavailable)?;
        let mut notes = Vec::new();
        let joined = registrar.join(now, &self.config.key, &owner, request.secret, &mut notes);
        note(federation, notes, out);
        let papers = membership.papers();
        let list = membership.list(&self.config.key.public()).ok_or(JoinRefusal::Unavailable)?;
        let own = papers.certificates.first().ok_or(JoinRefusal::Unavailable)?;
        let reply = JoinReply::Admitted {
            root: papers.root.clone(),
            successions: papers.successions.clone(),
            certificates: vec![joined?, own.clone()],
            revocations: list.signed().clone(),
        };
        // Also after a restart: a key that was replaced is not certified again.
        self.keep_keys(&owner.cluster_id(), out);
        Ok(reply)
    }

    pub(crate) fn on_revoke(
        &mut self,
        now: Now,
        federation: FederationId,
        cluster: ClusterId,
        out: &mut Vec<Effect>,
    ) -> Answer {
        let us = self.config.cluster();
        let membership = self.federated.memberships.get_mut(&federation);
        let Some(registrar) = membership.and_then(|of| of.acting(&us)) else {
            return Answer::Refused(FederationRefusal::NoRegistrar);
        };
        let mut notes = Vec::new();
        let known = registrar.revoke(cluster, &mut notes);
        note(federation, notes, out);
        if !known {
            return Answer::Refused(FederationRefusal::NoMember);
        }
        self.publish_list(now, federation, out);
        self.tell_membership(now, out);
        Answer::Done
    }

    pub(crate) fn publish_due(
        &mut self,
        now: Now,
        federation: FederationId,
        out: &mut Vec<Effect>,
    ) {
        let due_ms =
            self.federated.memberships.get(&federation).and_then(|of| self.list_due_ms(of));
        if due_ms.is_some_and(|due_ms| due_ms <= now.wall_ms) {
            self.publish_list(now, federation, out);
        }
    }

    /// Says anew what holds no longer, durably before anybody hears it.
    fn publish_list(&mut self, now: Now, federation: FederationId, out: &mut Vec<Effect>) {
        let us = self.config.cluster();
        let Some(membership) = self.federated.memberships.get_mut(&federation) else { return };
        let Some(registrar) = membership.acting(&us) else { return };
        let mut notes = Vec::new();
        let list = registrar.list(now, &self.config.key, &mut notes);
        note(federation, notes, out);
        let list = list.ok().and_then(|list| list.open(certified_in(federation), now).ok());
        let Some(list) = list else { return };
        out.push(keep_list(federation, &list));
        membership.revoke(now, list.clone(), Rank::Kept);
        let news = News::plain(VerifiedPublication::Revocations(federation, list));
        self.publish(now, news, out);
    }
}
