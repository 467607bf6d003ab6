//! A registrar: hands out join tokens, spends each once, issues and renews certificates, and
//! says which hold no longer. What it must not forget goes out as records before any answer.
//! Carrying requests and answers is left to the network layer.

use std::collections::BTreeMap;

use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::identity::Owner;
use mercato_protocol::join::{JoinRefusal, JoinRequest, Secret};
use mercato_protocol::limits::{CLOCK_SKEW_MS, MEMBERSHIP_MS, TOKEN_MS};
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::limits;

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
}

impl Issued {
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
}

/// The registrar of one federation, with the rights of its own certificate.
#[derive(Debug)]
pub(crate) struct Registrar {
    federation: FederationId,
    rights: Certificate,
    tokens: BTreeMap<Digest, Grant>,
    issued: BTreeMap<ClusterId, Issued>,
    serial: u64,
    list: u64,
}

impl Registrar {
    pub(crate) fn new(federation: FederationId, rights: Certificate) -> Self {
        let (tokens, issued) = (BTreeMap::new(), BTreeMap::new());
        Self { federation, rights, tokens, issued, serial: 0, list: 0 }
    }

    /// One more of the records that tell of it.
    pub(crate) fn restore(&mut self, record: RegistrarRecord) {
        match record {
            RegistrarRecord::Token(digest, grant) => drop(self.tokens.insert(digest, grant)),
            RegistrarRecord::Issued(cluster, issued) => drop(self.issued.insert(cluster, issued)),
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

    /// Answers one who has proven `peer`: a new certificate for a token, which is spent by
    /// it, or for a member, with the rights that it has.
    pub(crate) fn join(
        &mut self,
        now: Now,
        key: &KeyPair,
        peer: PublicKey,
        request: &JoinRequest,
        notes: &mut Vec<Note>,
    ) -> Result<Signed<Certificate>, JoinRefusal> {
        let owner = Owner::of(&request.identities, now).map_err(|_| JoinRefusal::Identity)?;
        if owner.key != peer {
            return Err(JoinRefusal::Identity);
        }
        let cluster = owner.cluster_id();
        let issued = self.issued.get(&cluster);
        if issued.is_some_and(|issued| issued.revoked) {
            return Err(JoinRefusal::Revoked);
        }
        let full = match issued {
            None => self.issued.len() >= limits::CLUSTERS,
            Some(issued) => issued.live(now).count() >= limits::LIVE_CERTIFICATES,
        };
        if full {
            return Err(JoinRefusal::Unavailable);
        }
        let grant = match request.secret {
            None => issued.ok_or(JoinRefusal::NoMember)?.grant.clone(),
            Some(secret) => {
                let digest = secret.digest();
                let grant = self.tokens.remove(&digest).ok_or(JoinRefusal::Unknown)?;
                notes.push(Note::Spent(digest));
                if grant.expires_ms < now.wall_ms {
                    return Err(JoinRefusal::Expired);
                }
                grant
            }
        };
        self.issue(now, key, &owner, grant, notes).map_err(|_| JoinRefusal::Unavailable)
    }

    fn issue(
        &mut self,
        now: Now,
        key: &KeyPair,
        owner: &Owner,
        grant: Grant,
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
        let issued = Issued { serials, grant, revoked: false };
        self.issued.insert(cluster, issued.clone());
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
