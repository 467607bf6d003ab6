//! How advertisements spread between neighbours: the messages. When to send which is
//! gossip's.
//!
//! Neighbours are authenticated by their connection, so these are not signed; the
//! headers and withdrawals that they carry are.

mod mark;
mod publication;
mod withdraw;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

use crate::codec::{self, CodecError, at_most, ensure, wire_map, wire_union};
use crate::id::PublicKey;
use crate::limits;
use crate::text::Blob;

pub use self::mark::{LAST_EPOCH, Mark};
pub use self::publication::{Publication, VerifiedPublication};
pub use self::withdraw::Withdraw;

/// One gossip message between neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// Says which publications the sender has.
    Announce {
        /// New to the sender, or lacking at the other's as a reconciliation showed.
        marks: Vec<Mark>,
    },
    /// "Send me your latest of these."
    Pull {
        /// What is asked for, each publisher once.
        wants: Vec<Pull>,
    },
    /// What was pulled, or urgent publications unasked.
    Push {
        /// Each as its publisher signed it.
        publications: Vec<Publication>,
        /// Those that the headers name, as far as the other does not hold them.
        bodies: Vec<Blob>,
    },
    /// Opens a reconciliation: all that the sender holds in one fingerprint.
    Root {
        /// Chosen at random; keys the fingerprints of this reconciliation.
        session: u64,
        /// A fingerprint over all marks of the sender.
        root: Fingerprint,
    },
    /// The roots differ: a fingerprint for each first byte of a publisher's key.
    Buckets {
        /// The session that the root's message has begun.
        session: u64,
        /// A fingerprint for each bucket of publishers; always 256.
        fingerprints: Vec<Fingerprint>,
    },
    /// The marks of the buckets that differ.
    Ids {
        /// The session that the root's message has begun.
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
    /// The key whose publication is asked for.
    pub publisher: PublicKey,
    /// The first four bytes (big-endian) of the digest of the body that is held of it: that
    /// one need not come along.
    pub held: Option<u32>,
}

/// Eight bytes of a keyed hash over the marks of a set, as [`of`](Fingerprint::of) defines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fingerprint(pub u64);

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

wire_union!(Message {
    0 => Announce { 1 => marks },
    1 => Pull { 1 => wants },
    2 => Push { 1 => publications, 2 => bodies },
    3 => Root { 1 => session, 2 => root },
    4 => Buckets { 1 => session, 2 => fingerprints },
    5 => Ids { 1 => session, 2 => buckets, 3 => marks },
});
wire_map!(Pull { 1 => publisher, 2 => held });
