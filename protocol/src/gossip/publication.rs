//! What neighbours pass on for its publisher, and what of it is checked.

use serde::{Deserialize, Serialize};

use super::mark::{LAST_EPOCH, Mark};
use super::withdraw::Withdraw;
use crate::ad::AdHeader;
use crate::certificate::RevocationList;
use crate::codec::wire_union;
use crate::envelope::{EnvelopeError, Payload, Signed, Signers, Trust, Verified};
use crate::equivocation::{self, Equivocation, Proven, Word};
use crate::id::{Digest, FederationId};
use crate::time::Now;

/// What a publisher signs and neighbours pass on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Publication {
    /// An advertisement, or its renewal.
    #[serde(rename = "lease")]
    Header(Signed<AdHeader>),
    /// The signed end of what was published.
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

impl Publication {
    /// Opens whichever it is, by whatever key signed: the body that a header names binds
    /// the key to its cluster ([`Ad::assemble`](crate::ad::Ad::assemble)).
    pub fn open(
        &self,
        federation: FederationId,
        now: Now,
    ) -> Result<VerifiedPublication, EnvelopeError> {
        let trust = Trust { federation, signers: Signers::Anyone };
        match self {
            Self::Header(header) => header.open(trust, now).map(VerifiedPublication::Header),
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

    /// The mark that it would have if it were valid, and the digest of the body that it names, if
    /// it is an advertisement. Nothing of that is checked, which costs little: it tells whether it is
    /// worth to check the signature.
    pub fn claims(&self) -> Option<(Mark, Option<Digest>)> {
        let mark = |publisher, (epoch, seq), digest| Mark { publisher, epoch, seq, digest };
        Some(match self {
            Self::Header(signed) => {
                let (key, header) = signed.claims()?;
                (mark(key, (header.epoch, header.seq), signed.digest()), Some(header.body))
            }
            Self::Withdraw(signed) => {
                let (key, end) = signed.claims()?;
                (mark(key, (end.epoch, end.seq), signed.digest()), None)
            }
            Self::Equivocation(proof) => {
                let publisher = match &proof.one {
                    Word::Header(header) => header.claimed_key()?,
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
    Header(Verified<AdHeader>),
    /// The end of what was published, with its signature checked.
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
            Self::Header(header) => (*header.key(), header.epoch, header.seq, header.digest()),
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
            Self::Header(header) => Publication::Header(header.signed().clone()),
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
            Self::Header(header) => header.validity_ms(),
            Self::Withdraw(end) => end.validity_ms(),
            Self::Equivocation(proof) => Some(proof.validity_ms()),
            Self::Revocations(_, list) => list.validity_ms(),
        };
        validity_ms.unwrap_or((0, u64::MAX))
    }

    /// The proof that its publisher said two things under one number, if these are two.
    pub fn contradicts(&self, other: &Self) -> Option<Proven> {
        let (mark, against) = (self.mark(), other.mark());
        let issued_ms = self.validity_ms().0.max(other.validity_ms().0);
        let proof = Equivocation { one: self.word()?, other: other.word()? };
        mark.conflicts(&against).then(|| Proven::new(mark.publisher, issued_ms, proof))
    }

    fn word(&self) -> Option<Word> {
        match self {
            Self::Header(header) => Some(Word::Header(header.signed().clone())),
            Self::Withdraw(end) => Some(Word::Withdraw(end.signed().clone())),
            Self::Equivocation(_) | Self::Revocations(..) => None,
        }
    }
}

wire_union!(Publication {
    0 => Header(header),
    1 => Withdraw(withdraw),
    2 => Equivocation(proof),
    3 => Revocations { 1 => federation, 2 => list },
});
