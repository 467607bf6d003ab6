//! What the broker wants done.
//!
//! Whatever follows a `Persist` or `Forget` in one answer is done only once that is on
//! disk.

use mercato_protocol::ad::AdHeader;
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::Message;
use mercato_protocol::text::Blob;

use super::command::{Refusal, Reply};
use super::record::{Record, RecordKey};
use crate::burst::BurstNews;
use crate::deal::{Deal, Desired, Leaving, Side};
use crate::sale::{Announcement, Series};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "most of what is to be done is to keep a record")]
pub enum Effect {
    /// Keep this; it replaces what is kept under the same key.
    Persist(Record),
    /// Keep what has this key no longer.
    Forget(RecordKey),
    /// Say this to a peer. May be lost, come late or twice: it is said again as needed.
    Send {
        /// The cluster that it goes to.
        to: ClusterId,
        /// The message, signed by this cluster.
        message: Signed<Message>,
    },
    /// Spread this advertisement among the neighbours.
    Publish {
        /// The part that is signed and numbered.
        header: Signed<AdHeader>,
        /// The body that it names.
        body: Blob,
    },
    /// Spread that nothing is offered any more.
    Withdraw(Signed<Withdraw>),
    /// How a lease is to be in this cluster, from now on: level-triggered, one for each
    /// contract, said again after every restart.
    Lease(Box<LeaseSpec>),
    /// People are to hear of this, the owners of these pods as well.
    Burst(Box<BurstNews>),
    /// The answer to a command.
    Reply(u64, Result<Reply, Refusal>),
}

impl Effect {
    /// Keeps a record under its key, or nothing any more.
    pub(super) fn keep(record: Option<Record>, key: RecordKey) -> Self {
        record.map_or(Self::Forget(key), Self::Persist)
    }

    /// How the lease of a deal is to be, if there is one.
    pub(crate) fn lease(deal: &Deal) -> Option<Self> {
        let ((desired, leaving), agreement) = (deal.phase().wanted()?, deal.agreement()?);
        let (side, contract) = (deal.side(), agreement.contract.clone());
        let is_burst = deal.order().burst.is_some();
        Some(Self::Lease(Box::new(LeaseSpec { side, contract, desired, leaving, is_burst })))
    }
}

impl From<Announcement> for Effect {
    fn from(said: Announcement) -> Self {
        match said {
            Announcement::Reserve(Series { epoch, next_seq }) => {
                Self::Persist(Record::Series { epoch, next_seq })
            }
            Announcement::Publish { header, body } => Self::Publish { header, body },
            Announcement::Withdraw(end) => Self::Withdraw(end),
        }
    }
}

/// A lease, and how it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSpec {
    /// Which side this cluster is on.
    pub side: Side,
    /// The contract that both sides signed.
    pub contract: Contract,
    /// How it is to be.
    pub desired: Desired,
    /// When it ends, and from when on its consumer prepares for that.
    pub leaving: Leaving,
    /// Consumer: it was bought by itself for pods without room.
    pub is_burst: bool,
}
