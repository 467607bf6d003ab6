//! What must be remembered. The state is a scan of the records, each an upsert.

use mercato_protocol::id::{ClusterId, NegotiationId};
use serde::{Deserialize, Serialize};

use crate::deal::Deal;
use crate::policy::{BuyPolicy, SharePolicy};
use crate::trust::Standing;

/// What must be remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Numbers of advertisements below `next_seq` may have been used.
    Series {
        /// Of the numbers.
        epoch: u64,
        /// The first that was surely never used.
        next_seq: u64,
    },
    /// What the owner shares.
    Share(SharePolicy),
    /// What may be bought.
    Buy(BuyPolicy),
    /// What the owner thinks of a peer.
    Peer(ClusterId, Standing),
    /// A negotiation and the lease that came of it.
    Deal(Box<Deal>),
}

/// What a record is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// Of [`Record::Series`].
    Series,
    /// Of [`Record::Share`].
    Share,
    /// Of [`Record::Buy`].
    Buy,
    /// Of [`Record::Peer`].
    Peer(ClusterId),
    /// Of [`Record::Deal`].
    Deal(NegotiationId),
}

impl Record {
    /// Where it is kept; a later record of the same key replaces it.
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Series { .. } => RecordKey::Series,
            Self::Share(_) => RecordKey::Share,
            Self::Buy(_) => RecordKey::Buy,
            Self::Peer(cluster, _) => RecordKey::Peer(*cluster),
            Self::Deal(deal) => RecordKey::Deal(deal.id()),
        }
    }
}
