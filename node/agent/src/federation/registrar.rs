//! A registrar: hands out join tokens, spends each once, issues and renews certificates, and
//! says which hold no longer. What it must not forget goes out as records before any answer.
//! Carrying requests and answers is left to the network layer.

use std::collections::BTreeMap;

use mercato_protocol::ad::Attribute;
use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::id::{ClusterId, Digest, FederationId};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::join::{JoinRefusal, Secret};
use mercato_protocol::limits::{CLOCK_SKEW_MS, MEMBERSHIP_MS, TOKEN_MS};
use mercato_protocol::time::Now;

use crate::federation::ask::FederationRefusal;
use crate::federation::issued::{Grant, Issued, RegistrarRecord};
use crate::limits;
use crate::record::{FederationKey, FederationRecord};
use crate::request::Request;

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

    /// What a cluster that was let in is granted.
    pub(crate) fn granted(&self, cluster: &ClusterId) -> Option<&Grant> {
        self.issued.get(cluster).map(|issued| &issued.grant)
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

    /// Makes a secret good for one cluster to join, for a day at most: until when.
    ///
    /// # Errors
    /// If too many are, none of the roles is to be given, or an attribute is not this registrar's
    /// to vouch for.
    pub(crate) fn grant(
        &mut self,
        now: Now,
        secret: Secret,
        mut grant: Grant,
        out: &mut Vec<Request>,
    ) -> Result<u64, FederationRefusal> {
        for (digest, _) in self.tokens.extract_if(.., |_, old| old.expires_ms < now.wall_ms) {
            out.push(FederationKey::Token(self.federation, digest).into());
        }
        grant.expires_ms = grant.expires_ms.min(now.wall_ms.saturating_add(TOKEN_MS));
        grant.roles.retain(|role| *role != Role::Registrar && self.rights.roles.contains(role));
        if !grant.attributes.iter().all(|it| self.vouches(it)) {
            return Err(FederationRefusal::NotVouched);
        }
        if grant.roles.is_empty() {
            return Err(FederationRefusal::NoRole);
        }
        if self.tokens.len() >= limits::TOKENS {
            return Err(FederationRefusal::NoToken);
        }
        let expires_ms = grant.expires_ms;
        self.tokens.insert(secret.digest(), grant.clone());
        out.push(self.keep(RegistrarRecord::Token(secret.digest(), grant)));
        Ok(expires_ms)
    }

    /// Answers one who has proven to be `owner`: a new certificate for a token, which is spent by
    /// it, or for a member, with the rights that it has.
    pub(crate) fn join(
        &mut self,
        now: Now,
        key: &KeyPair,
        owner: &ClusterIdentity,
        secret: Option<Secret>,
        out: &mut Vec<Request>,
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
                out.push(FederationKey::Token(self.federation, digest).into());
                if grant.expires_ms < now.wall_ms {
                    return Err(JoinRefusal::Expired);
                }
                (grant, Some(digest))
            }
        };
        self.issue(now, key, owner, grant, token, out).map_err(|_| JoinRefusal::Unavailable)
    }

    /// Whether its own certificate says as much.
    fn vouches(&self, attribute: &Attribute) -> bool {
        let same = |of: &&Attribute| (&of.name, &of.value) == (&attribute.name, &attribute.value);
        let own = self.rights.attributes.iter().find(same);
        own.is_some_and(|own| attribute.assurance <= own.assurance)
    }

    fn issue(
        &mut self,
        now: Now,
        key: &KeyPair,
        owner: &ClusterIdentity,
        grant: Grant,
        token: Option<Digest>,
        out: &mut Vec<Request>,
    ) -> Result<Signed<Certificate>, CodecError> {
        self.serial += 1;
        let cluster = owner.cluster_id();
        let certificate = Certificate {
            serial: self.serial,
            cluster,
            key: owner.key,
            organisation: self.rights.organisation.clone().or_else(|| grant.organisation.clone()),
            roles: grant.roles.clone(),
            attributes: grant.attributes.iter().filter(|it| self.vouches(it)).cloned().collect(),
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
        let of = self.federation;
        out.extend(left.map(|(cluster, _)| Request::from(FederationKey::Issued(of, cluster))));
        out.push(self.numbers());
        out.push(self.keep(RegistrarRecord::Issued(cluster, issued)));
        Ok(signed)
    }

    /// Takes back the certificate of `cluster`; false if it has none.
    pub(crate) fn revoke(&mut self, cluster: ClusterId, out: &mut Vec<Request>) -> bool {
        let Some(issued) = self.issued.get_mut(&cluster) else { return false };
        issued.revoked = true;
        let record = RegistrarRecord::Issued(cluster, issued.clone());
        out.push(self.keep(record));
        true
    }

    /// The next list of what holds no longer.
    pub(crate) fn list(
        &mut self,
        now: Now,
        key: &KeyPair,
        out: &mut Vec<Request>,
    ) -> Result<Signed<RevocationList>, CodecError> {
        self.list += 1;
        out.push(self.numbers());
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

    fn numbers(&self) -> Request {
        self.keep(RegistrarRecord::Numbers { serial: self.serial, list: self.list })
    }

    fn keep(&self, record: RegistrarRecord) -> Request {
        FederationRecord::Registrar(self.federation, record).into()
    }
}
