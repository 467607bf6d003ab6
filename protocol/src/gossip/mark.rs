//! The number under which a publisher says something, and what was said: by it one word replaces
//! another.

use serde::{Deserialize, Serialize};

use crate::codec::wire_map;
use crate::id::{Digest, PublicKey};

/// The epoch of a proof of equivocation: no header or withdrawal has it.
pub const LAST_EPOCH: u64 = u64::MAX;

/// What is known of a publisher: its latest publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// The key whose publication is meant.
    pub publisher: PublicKey,
    /// The epoch of the publication; a higher one wins.
    pub epoch: u64,
    /// Its number in the epoch; the later one wins.
    pub seq: u64,
    /// SHA-256 of the signed bytes.
    pub digest: Digest,
}

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

wire_map!(Mark { 1 => publisher, 2 => epoch, 3 => seq, 4 => digest });
