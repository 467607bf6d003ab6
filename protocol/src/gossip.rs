//! How advertisements spread between neighbours: the messages. When to send which is
//! gossip's.
//!
//! Neighbours are authenticated by their connection, so these are not signed; the
//! leases and withdrawals that they carry are.

use serde::{Deserialize, Serialize};

use crate::ad::AdLease;
use crate::envelope::Signed;
use crate::id::{ClusterId, Digest, PublicKey};
use crate::text::Blob;

/// One message between neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// "I have these."
    Announce {
        /// New to the sender, or asked for by a reconciliation.
        marks: Vec<Mark>,
    },
    /// "Send me these."
    Pull {
        /// Publications by digest.
        digests: Vec<Digest>,
    },
    /// The publications that were pulled, or urgent ones unasked.
    Push {
        /// Each as its publisher signed it.
        publications: Vec<Publication>,
    },
    /// "Send me this body."
    BodyRequest {
        /// Its hash.
        digest: Digest,
    },
    /// A body that was asked for.
    BodyReply {
        /// Its hash, as asked.
        digest: Digest,
        /// The bytes; none when the sender does not have it.
        body: Option<Blob>,
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

/// Eight bytes of a keyed hash over the marks of a set, as [`fingerprint`] defines it.
///
/// [`fingerprint`]: Fingerprint::of
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
