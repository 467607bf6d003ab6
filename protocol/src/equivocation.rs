//! The proof that a publisher said two things under one number: both, as it signed them.
//! Nobody can make one but the publisher itself. What to do about it is gossip's and the
//! market's.

use serde::{Deserialize, Serialize};

use crate::ad::AdHeader;
use crate::codec::{wire_map, wire_union};
use crate::envelope::{EnvelopeError, Signed, Signers, Trust};
use crate::gossip::{Mark, Withdraw};
use crate::id::{Digest, FederationId, PublicKey};
use crate::limits;
use crate::time::Now;

/// Two signed words of one publisher with one (epoch, seq) and other bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Equivocation {
    /// One of the two contradicting messages.
    pub one: Word,
    /// The other one, of the same publisher and place.
    pub other: Word,
}

/// What a publisher signs under its numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Word {
    /// An advertisement, or its renewal.
    #[serde(rename = "lease")]
    Header(Signed<AdHeader>),
    /// The signed end of its publication.
    Withdraw(Signed<Withdraw>),
}

/// A proof that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    publisher: PublicKey,
    issued_ms: u64,
    proof: Equivocation,
}

impl Equivocation {
    /// Checks both signatures, that they are over other bytes under the same numbers, and
    /// that the proof is still of use.
    pub fn open(&self, federation: FederationId, now: Now) -> Result<Proven, EnvelopeError> {
        let (one, one_ms) = self.one.open(federation)?;
        let (other, other_ms) = self.other.open(federation)?;
        if !one.conflicts(&other) {
            return Err(EnvelopeError::NoEquivocation);
        }
        let issued_ms = one_ms.max(other_ms);
        let proven = Proven::new(one.publisher, issued_ms, self.clone());
        crate::envelope::in_time(Some(proven.validity_ms()), now)?;
        Ok(proven)
    }
}

impl Word {
    /// Whatever its time, as a proof outlives what it is made of.
    fn open(&self, federation: FederationId) -> Result<(Mark, u64), EnvelopeError> {
        let trust = Trust { federation, signers: Signers::Anyone };
        let mark = |publisher, epoch, seq, digest| Mark { publisher, epoch, seq, digest };
        Ok(match self {
            Self::Header(header) => {
                let header = header.open_ageless(trust)?;
                let mark = mark(*header.key(), header.epoch, header.seq, header.digest());
                (mark, header.issued_ms)
            }
            Self::Withdraw(end) => {
                let end = end.open_ageless(trust)?;
                (mark(*end.key(), end.epoch, end.seq, end.digest()), end.issued_ms)
            }
        })
    }
}

impl Proven {
    pub(crate) fn new(publisher: PublicKey, issued_ms: u64, proof: Equivocation) -> Self {
        Self { publisher, issued_ms, proof }
    }

    /// The key that has signed both.
    pub fn publisher(&self) -> &PublicKey {
        &self.publisher
    }

    /// As it is passed on.
    pub fn proof(&self) -> &Equivocation {
        &self.proof
    }

    /// From when to when it keeps its publisher out, wall clock.
    pub fn validity_ms(&self) -> (u64, u64) {
        (self.issued_ms, self.issued_ms.saturating_add(limits::QUARANTINE_MS))
    }
}

/// The same for every proof of this publisher: one is enough.
pub(crate) fn mark_digest(publisher: &PublicKey) -> Digest {
    Digest::of(&[b"mercato/1/equivocation".as_slice(), publisher.as_bytes()].concat())
}

wire_map!(Equivocation { 1 => one, 2 => other });
wire_union!(Word { 0 => Header(header), 1 => Withdraw(withdraw) });
