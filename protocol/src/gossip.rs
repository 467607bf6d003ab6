//! How advertisements spread between neighbours: the messages. When to send which is
//! gossip's.
//!
//! Neighbours are authenticated by their connection, so these are not signed; the
//! leases and withdrawals that they carry are.

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

use crate::ad::AdLease;
use crate::certificate::RevocationList;
use crate::codec::{self, CodecError, at_most, ensure, wire_map, wire_union};
use crate::envelope::{EnvelopeError, Payload, Signed, Signers, Trust, Verified};
use crate::equivocation::{self, Equivocation, Proven, Word};
use crate::id::{ClusterId, Digest, FederationId, PublicKey};
use crate::limits;
use crate::text::Blob;
use crate::time::Now;

/// One message between neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// "I have these."
    Announce {
        /// New to the sender, or lacking at the other's as a reconciliation showed.
        marks: Vec<Mark>,
    },
    /// "Send me your latest of these."
    Pull {
        /// Each publisher once.
        wants: Vec<Pull>,
    },
    /// What was pulled, or urgent publications unasked.
    Push {
        /// Each as its publisher signed it.
        publications: Vec<Publication>,
        /// Those that the leases name, as far as the other does not hold them.
        bodies: Vec<Blob>,
    },
    /// Opens a reconciliation: all that the sender holds in one fingerprint.
    Root {
        /// Chosen at random; keys the fingerprints of this reconciliation.
        session: u64,
        /// Over all marks.
        root: Fingerprint,
    },
    /// The roots differ: a fingerprint for each first byte of a publisher's key.
    Buckets {
        /// That of the root.
        session: u64,
        /// Always 256.
        fingerprints: Vec<Fingerprint>,
    },
    /// The marks of the buckets that differ.
    Ids {
        /// That of the root.
        session: u64,
        /// The buckets that this message covers wholly, ascending.
        buckets: Vec<u32>,
        /// All of the sender's marks in them.
        marks: Vec<Mark>,
    },
}

/// One publisher's latest is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pull {
    /// Whose.
    pub publisher: PublicKey,
    /// The first four bytes (big-endian) of the digest of the body that is held of it: that
    /// one need not come along.
    pub held: Option<u32>,
}

/// Eight bytes of a keyed hash over the marks of a set, as [`of`](Fingerprint::of) defines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fingerprint(pub u64);

/// What is known of a publisher: its latest publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Whose.
    pub publisher: PublicKey,
    /// Its epoch.
    pub epoch: u64,
    /// Its number in the epoch; the later one wins.
    pub seq: u64,
    /// Of the signed bytes.
    pub digest: Digest,
}

/// What a publisher signs and neighbours pass on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Publication {
    /// An advertisement, or its renewal.
    Lease(Signed<AdLease>),
    /// Its end.
    Withdraw(Signed<Withdraw>),
    /// That it said two things under one number.
    Equivocation(Equivocation),
    /// Which certificates of a federation hold no longer.
    Revocations {
        /// Which: its members need not be neighbours of each other.
        federation: FederationId,
        /// As its issuer signed it.
        list: Signed<RevocationList>,
    },
}

/// The publisher offers nothing any more. Numbered in one series with its leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Withdraw {
    /// The publisher; its key signs.
    pub provider: ClusterId,
    /// As in a lease.
    pub epoch: u64,
    /// As in a lease.
    pub seq: u64,
    /// When it was signed, wall clock.
    pub issued_ms: u64,
}

impl codec::Message for Message {
    const MAX_BYTES: usize = limits::GOSSIP_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Announce { marks } => at_most("marks", marks.len(), limits::GOSSIP_ITEMS),
            Self::Pull { wants } => at_most("wants", wants.len(), limits::GOSSIP_ITEMS),
            Self::Push { publications, bodies } => {
                at_most("publications", publications.len(), limits::PUSH_ITEMS)?;
                at_most("bodies", bodies.len(), limits::PUSH_ITEMS)?;
                let longest = bodies.iter().map(|body| body.0.len()).max();
                at_most("body bytes", longest.unwrap_or(0), limits::AD_BODY_BYTES)
            }
            Self::Root { .. } => Ok(()),
            Self::Buckets { fingerprints, .. } => {
                ensure(fingerprints.len() == limits::BUCKETS, "not a fingerprint for each bucket")
            }
            Self::Ids { buckets, marks, .. } => {
                at_most("marks", marks.len(), limits::GOSSIP_ITEMS)?;
                ensure(buckets.is_sorted_by(|a, b| a < b), "buckets do not ascend")?;
                let known = buckets.last().is_none_or(|last| (*last as usize) < limits::BUCKETS);
                ensure(known, "no such bucket")
            }
        }
    }
}

impl Fingerprint {
    /// Over a set of marks, in any order: the exclusive or of SipHash-2-4 of each mark's
    /// digest, under the key whose two halves are both `session`. The session keys it, so
    /// that nobody can prepare marks that cancel out.
    pub fn of<'a>(session: u64, marks: impl IntoIterator<Item = &'a Mark>) -> Self {
        let mut sum = Self::default();
        marks.into_iter().for_each(|mark| sum.add(session, mark));
        sum
    }

    /// Puts one more mark into the set, or takes it out.
    pub fn add(&mut self, session: u64, mark: &Mark) {
        self.0 ^= SipHasher24::new_with_keys(session, session).hash(mark.digest.as_bytes());
    }
}

impl Publication {
    /// Opens whichever it is, by whatever key signed: the body that a lease names binds
    /// the key to its cluster ([`Ad::assemble`](crate::ad::Ad::assemble)).
    pub fn open(
        &self,
        federation: FederationId,
        now: Now,
    ) -> Result<VerifiedPublication, EnvelopeError> {
        let trust = Trust { federation, signers: Signers::Anyone };
        match self {
            Self::Lease(lease) => lease.open(trust, now).map(VerifiedPublication::Lease),
            Self::Withdraw(withdraw) => {
                withdraw.open(trust, now).map(VerifiedPublication::Withdraw)
            }
            Self::Equivocation(proof) => {
                proof.open(federation, now).map(VerifiedPublication::Equivocation)
            }
            Self::Revocations { federation, list } => {
                let list = list.open(Trust { federation: *federation, ..trust }, now)?;
                Ok(VerifiedPublication::Revocations(*federation, list))
            }
        }
    }
}

impl Publication {
    /// The mark that it would have if it were valid, and the digest of the body that it names, if
    /// it is a lease. Nothing of that is checked, which costs little: it tells whether it is
    /// worth to check the signature.
    pub fn claims(&self) -> Option<(Mark, Option<Digest>)> {
        let mark = |publisher, (epoch, seq), digest| Mark { publisher, epoch, seq, digest };
        Some(match self {
            Self::Lease(signed) => {
                let (key, lease) = signed.claims()?;
                (mark(key, (lease.epoch, lease.seq), signed.digest()), Some(lease.body))
            }
            Self::Withdraw(signed) => {
                let (key, end) = signed.claims()?;
                (mark(key, (end.epoch, end.seq), signed.digest()), None)
            }
            Self::Equivocation(proof) => {
                let publisher = match &proof.one {
                    Word::Lease(lease) => lease.claimed_key()?,
                    Word::Withdraw(end) => end.claimed_key()?,
                };
                let digest = equivocation::mark_digest(&publisher);
                (mark(publisher, (LAST_EPOCH, u64::MAX), digest), None)
            }
            Self::Revocations { federation, list: signed } => {
                let (key, list) = signed.claims()?;
                let series = RevocationList::series(*federation, &key);
                (mark(series, (0, list.number), signed.digest()), None)
            }
        })
    }
}

/// A publication whose signature and time were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifiedPublication {
    /// An advertisement, or its renewal.
    Lease(Verified<AdLease>),
    /// Its end.
    Withdraw(Verified<Withdraw>),
    /// That its publisher said two things under one number.
    Equivocation(Proven),
    /// Which of its signer's certificates in a federation hold no longer. Whether the signer
    /// issues any is still to be checked.
    Revocations(FederationId, Verified<RevocationList>),
}

impl VerifiedPublication {
    /// What it adds to what is known of its publisher. A proof of equivocation is the last
    /// word on its publisher, and every proof of it counts as the same.
    pub fn mark(&self) -> Mark {
        let (publisher, epoch, seq, digest) = match self {
            Self::Lease(lease) => (*lease.key(), lease.epoch, lease.seq, lease.digest()),
            Self::Withdraw(end) => (*end.key(), end.epoch, end.seq, end.digest()),
            Self::Equivocation(proof) => (
                *proof.publisher(),
                LAST_EPOCH,
                u64::MAX,
                equivocation::mark_digest(proof.publisher()),
            ),
            Self::Revocations(federation, list) => {
                (RevocationList::series(*federation, list.key()), 0, list.number, list.digest())
            }
        };
        Mark { publisher, epoch, seq, digest }
    }

    /// As its publisher signed it.
    pub fn publication(&self) -> Publication {
        match self {
            Self::Lease(lease) => Publication::Lease(lease.signed().clone()),
            Self::Withdraw(withdraw) => Publication::Withdraw(withdraw.signed().clone()),
            Self::Equivocation(proof) => Publication::Equivocation(proof.proof().clone()),
            Self::Revocations(federation, list) => {
                Publication::Revocations { federation: *federation, list: list.signed().clone() }
            }
        }
    }

    /// From when to when it holds, wall clock.
    pub fn validity_ms(&self) -> (u64, u64) {
        let validity_ms = match self {
            Self::Lease(lease) => lease.validity_ms(),
            Self::Withdraw(end) => end.validity_ms(),
            Self::Equivocation(proof) => Some(proof.validity_ms()),
            Self::Revocations(_, list) => list.validity_ms(),
        };
        validity_ms.unwrap_or((0, u64::MAX))
    }
}

/// The epoch of a proof of equivocation: no lease or withdrawal has it.
pub const LAST_EPOCH: u64 = u64::MAX;

impl Mark {
    /// Whether it says something later of the same publisher. Two marks of one (epoch,
    /// seq) with different digests are a fraud, and neither supersedes the other.
    pub fn supersedes(&self, other: &Self) -> bool {
        self.publisher == other.publisher && (self.epoch, self.seq) > (other.epoch, other.seq)
    }

    /// Whether both say something else under one number: a fraud.
    pub fn conflicts(&self, other: &Self) -> bool {
        (self.publisher, self.epoch, self.seq) == (other.publisher, other.epoch, other.seq)
            && self.digest != other.digest
    }

    /// The bucket of a reconciliation that it falls into.
    pub fn bucket(&self) -> u32 {
        u32::from(self.publisher.0[0])
    }
}

impl codec::Message for Withdraw {
    const MAX_BYTES: usize = limits::AD_LEASE_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        ensure(self.epoch < LAST_EPOCH, "an epoch after which none can come")
    }
}

impl Payload for Withdraw {
    const TYPE: &'static str = "withdraw";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        cluster.is_none_or(|cluster| cluster == self.provider)
    }

    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.issued_ms, self.issued_ms.saturating_add(u64::from(limits::AD_TTL_S) * 1_000)))
    }
}

wire_union!(Message {
    0 => Announce { 1 => marks },
    1 => Pull { 1 => wants },
    2 => Push { 1 => publications, 2 => bodies },
    3 => Root { 1 => session, 2 => root },
    4 => Buckets { 1 => session, 2 => fingerprints },
    5 => Ids { 1 => session, 2 => buckets, 3 => marks },
});
wire_map!(Pull { 1 => publisher, 2 => held });
wire_map!(Mark { 1 => publisher, 2 => epoch, 3 => seq, 4 => digest });
wire_union!(Publication {
    0 => Lease(lease),
    1 => Withdraw(withdraw),
    2 => Equivocation(proof),
    3 => Revocations { 1 => federation, 2 => list },
});
wire_map!(Withdraw { 1 => provider, 2 => epoch, 3 => seq, 4 => issued_ms });
