//! Who belongs to a federation, and with which rights: certificates from the root by way of
//! a registrar, and lists of those that hold no longer. Whom to trade with is the broker's.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ad::{Assurance, Attribute};
use crate::codec::{CodecError, Message, at_most, ensure, wire_enum, wire_map};
use crate::envelope::{EnvelopeError, Payload, Signed, Signers, Trust, Verified};
use crate::federation::Federation;
use crate::id::{ClusterId, Digest, FederationId, PublicKey};
use crate::limits;
use crate::text::Slug;
use crate::time::Now;

/// What a member may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// Its holder may sell in the federation.
    Provider,
    /// Its holder may buy in the federation.
    Consumer,
    /// Issue certificates with a part of its own rights, to members that are no registrars.
    Registrar,
}

/// That a cluster belongs to a federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Never used twice by its issuer.
    pub serial: u64,
    /// The cluster that it makes a member.
    pub cluster: ClusterId,
    /// The key that speaks for the cluster, and signs what it issues.
    pub key: PublicKey,
    /// Whose cluster it is; a registrar without one issues for any organisation.
    pub organisation: Option<Slug>,
    /// What it may do; ascending, none twice.
    pub roles: Vec<Role>,
    /// What is vouched for, ascending; of a registrar, what it may vouch for.
    pub attributes: Vec<Attribute>,
    /// From when it holds, wall clock.
    pub not_before_ms: u64,
    /// When it ends, wall clock.
    pub not_after_ms: u64,
}

/// Which certificates of its signer hold no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevocationList {
    /// Rises with each list; the latest counts.
    pub number: u64,
    /// When it was signed, wall clock.
    pub issued_ms: u64,
    /// Until when it is fresh, wall clock. With a stale one nothing new is agreed.
    pub next_update_ms: u64,
    /// Serial numbers of revoked certificates, ascending.
    pub serials: Vec<u64>,
}

/// A cluster whose certificates were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The cluster that is a member.
    pub cluster: ClusterId,
    /// The key that speaks for it.
    pub key: PublicKey,
    /// The organisation whose it is, if the federation says so.
    pub organisation: Option<Slug>,
    /// What it may do in the federation.
    pub roles: Vec<Role>,
    /// What is vouched for; others keep it, too.
    pub attributes: Arc<[Attribute]>,
    /// Who signed its certificates, and their numbers: its own first.
    pub certified_by: Vec<(PublicKey, u64)>,
    /// When the first of its certificates ends, wall clock.
    pub until_ms: u64,
}

/// Why certificates make nobody a member.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MembershipError {
    /// One of them does not open.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// There is none, or more than a member's and its registrar's.
    #[error("expected a certificate, and that of its registrar if the root did not sign it")]
    Length,
    /// Signed by a key that issues none here.
    #[error("the key {0:.8} issues no certificates here")]
    Issuer(PublicKey),
    /// More than its issuer has.
    #[error("wider than its issuer's: {0}")]
    Wider(&'static str),
    /// Its issuer took it back.
    #[error("the certificate {0} was revoked")]
    Revoked(u64),
}

/// The latest revocation list of each issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked(BTreeMap<PublicKey, Verified<RevocationList>>);

impl Revoked {
    /// Takes a list, unless a later one of its signer is there; whether it was taken.
    pub fn learn(&mut self, list: Verified<RevocationList>) -> bool {
        let later = self.0.get(list.key()).is_none_or(|held| list.number > held.number);
        if later {
            self.0.insert(*list.key(), list);
        }
        later
    }

    /// The list of `issuer`, if there is one.
    pub fn of(&self, issuer: &PublicKey) -> Option<&Verified<RevocationList>> {
        self.0.get(issuer)
    }

    /// Whether the list of this issuer is overdue, or was never seen.
    pub fn is_stale(&self, issuer: &PublicKey, now: Now) -> bool {
        self.0.get(issuer).is_none_or(|list| list.next_update_ms < now.wall_ms)
    }

    /// The number of this member's certificate that was revoked, if one was.
    pub fn revokes(&self, member: &Member) -> Option<u64> {
        let held = |(issuer, serial): &&(PublicKey, u64)| {
            self.0.get(issuer).is_some_and(|list| list.serials.binary_search(serial).is_ok())
        };
        member.certified_by.iter().find(held).map(|(_, serial)| *serial)
    }
}

impl Member {
    /// Whom a cluster's certificates, of whichever federations, make a member of this one. Only
    /// those that name this federation's root as their signer cost a check of signatures.
    pub fn among(
        federation: &Federation,
        shown: &[Signed<Certificate>],
        revoked: &Revoked,
        now: Now,
    ) -> Option<Self> {
        let ends = shown
            .iter()
            .enumerate()
            .filter(|(_, top)| top.claimed_key().as_ref() == Some(federation.root()));
        // With the certificate before it, if it issued that, or else alone.
        let chains = ends.flat_map(|(end, _)| [&shown[end.max(1) - 1..=end], &shown[end..=end]]);
        let mut members =
            chains.filter_map(|chain| Self::admit(federation, chain, revoked, now).ok());
        members.next()
    }

    /// Whom these certificates make a member: the member's first, then that of the registrar
    /// that signed it, unless the root did. Each right is within its issuer's.
    pub fn admit(
        federation: &Federation,
        chain: &[Signed<Certificate>],
        revoked: &Revoked,
        now: Now,
    ) -> Result<Self, MembershipError> {
        let trust = Trust { federation: federation.id(), signers: Signers::Anyone };
        let (own, registrar) = match chain {
            [own] => (own.open(trust, now)?, None),
            [own, registrar] => (own.open(trust, now)?, Some(registrar.open(trust, now)?)),
            _ => return Err(MembershipError::Length),
        };
        let top = registrar.as_ref().unwrap_or(&own);
        if top.key() != federation.root() {
            return Err(MembershipError::Issuer(*top.key()));
        }
        let mut certified_by = vec![(*own.key(), own.serial)];
        let mut until_ms = own.not_after_ms;
        if let Some(registrar) = &registrar {
            if registrar.key != *own.key() || !registrar.roles.contains(&Role::Registrar) {
                return Err(MembershipError::Issuer(*own.key()));
            }
            own.is_within(registrar).map_err(MembershipError::Wider)?;
            until_ms = until_ms.min(registrar.not_after_ms);
            certified_by.push((*registrar.key(), registrar.serial));
        }
        let Certificate { cluster, key, organisation, roles, attributes, .. } = own.into_value();
        let attributes = attributes.into();
        let member = Self { cluster, key, organisation, roles, attributes, certified_by, until_ms };
        match revoked.revokes(&member) {
            Some(serial) => Err(MembershipError::Revoked(serial)),
            None => Ok(member),
        }
    }
}

impl Certificate {
    /// Whether a registrar with the certificate `issuer` may issue it; if not, what is wider.
    pub fn is_within(&self, issuer: &Self) -> Result<(), &'static str> {
        let may = |role: &Role| *role != Role::Registrar && issuer.roles.contains(role);
        let vouched = |attribute: &Attribute| {
            let same =
                |of: &&Attribute| (&of.name, &of.value) == (&attribute.name, &attribute.value);
            let assurance = issuer.attributes.iter().find(same).map(|of| of.assurance);
            assurance.is_some_and(|most| attribute.assurance <= most)
        };
        let organisation =
            issuer.organisation.is_none() || issuer.organisation == self.organisation;
        let times =
            issuer.not_before_ms <= self.not_before_ms && self.not_after_ms <= issuer.not_after_ms;
        [
            (self.roles.iter().all(may), "roles"),
            (organisation, "organisation"),
            (self.attributes.iter().all(vouched), "attributes"),
            (times, "its time"),
        ]
        .into_iter()
        .try_for_each(|(holds, what)| if holds { Ok(()) } else { Err(what) })
    }
}

impl Message for Certificate {
    const MAX_BYTES: usize = limits::CERTIFICATE_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("attributes", self.attributes.len(), limits::ATTRIBUTES)?;
        ensure(self.attributes.is_sorted_by(|a, b| a < b), "attributes do not ascend")?;
        let vouches = |attribute: &Attribute| attribute.assurance != Assurance::SelfAsserted;
        ensure(self.attributes.iter().all(vouches), "an attribute that nobody vouches for")?;
        ensure(!self.roles.is_empty(), "no role")?;
        ensure(self.roles.is_sorted_by(|a, b| a < b), "roles do not ascend")?;
        let registrar = self.roles.contains(&Role::Registrar);
        let longest_ms = if registrar { limits::REGISTRAR_MS } else { limits::MEMBERSHIP_MS };
        let life_ms = self.not_after_ms.checked_sub(self.not_before_ms);
        let good = life_ms.is_some_and(|life_ms| (1..=longest_ms).contains(&life_ms));
        ensure(good, "a time of nothing, or longer than its roles allow")
    }
}

impl Payload for Certificate {
    const TYPE: &'static str = "certificate";

    /// Who may issue it only its issuer's certificate tells: [`Member::admit`].
    fn may_sign(&self, _: &PublicKey, _: Option<ClusterId>) -> bool {
        true
    }

    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.not_before_ms, self.not_after_ms))
    }
}

impl RevocationList {
    /// Under which the lists of `issuer` are numbered in gossip: not with what it publishes
    /// as a provider, nor with its lists in another federation.
    pub fn series(federation: FederationId, issuer: &PublicKey) -> PublicKey {
        let of = [b"mercato/1/revocations", &federation.0[..], issuer.as_bytes()].concat();
        PublicKey(Digest::of(&of).0)
    }
}

impl Message for RevocationList {
    const MAX_BYTES: usize = limits::REVOCATIONS_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        ensure(self.serials.is_sorted_by(|a, b| a < b), "serials do not ascend")?;
        let life_ms = self.next_update_ms.checked_sub(self.issued_ms);
        let good = life_ms.is_some_and(|life_ms| (1..=limits::REVOCATIONS_MS).contains(&life_ms));
        ensure(good, "a next update at once, or too late")
    }
}

impl Payload for RevocationList {
    const TYPE: &'static str = "revocations";

    /// It counts for the certificates of its signer alone.
    fn may_sign(&self, _: &PublicKey, _: Option<ClusterId>) -> bool {
        true
    }

    /// For ever: what was revoked stays so after the list has become stale.
    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.issued_ms, u64::MAX))
    }
}

wire_enum!(Role { 0 => Provider, 1 => Consumer, 2 => Registrar });
wire_map!(Certificate {
    1 => serial,
    2 => cluster,
    3 => key,
    4 => organisation,
    5 => roles,
    6 => attributes,
    7 => not_before_ms,
    8 => not_after_ms,
});
wire_map!(RevocationList { 1 => number, 2 => issued_ms, 3 => next_update_ms, 4 => serials });
