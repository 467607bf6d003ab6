//! What a part of the agent wants of the others, or of the outside.

use mercato_protocol::id::ClusterId;

use crate::effect::Effect;
use crate::record::{Change, FederationKey, FederationRecord, Record, RecordKey};

/// What a part wants done, in order.
#[derive(Debug)]
pub(crate) enum Request {
    /// An effect of the whole agent.
    Outside(Effect),
    /// A change of the records for which nothing waits that others see: of what was learned, or is
    /// over. It is let go while they cannot be written, since it comes up again once they can.
    Note(Change),
    /// The broker is to hear this, after what is under way.
    Broker(mercato_broker::Input),
    /// Gossip is to hear this.
    Gossip(mercato_gossip::Input),
    /// What this cluster's connection is needed for has changed.
    KeepConnected(ClusterId),
    /// The keys of this cluster matter from now on.
    KeepKeys(ClusterId),
    /// Gossip is to be told anew which publishers are known.
    PublishersChanged,
}

impl From<Effect> for Request {
    fn from(effect: Effect) -> Self {
        Self::Outside(effect)
    }
}

impl From<FederationRecord> for Change {
    fn from(record: FederationRecord) -> Self {
        Self::Put(Record::Federation(record))
    }
}

impl From<FederationKey> for Change {
    /// What has this key is erased.
    fn from(key: FederationKey) -> Self {
        Self::Erase(RecordKey::Federation(key))
    }
}

impl From<FederationRecord> for Request {
    fn from(record: FederationRecord) -> Self {
        Effect::Persist(record.into()).into()
    }
}

impl From<FederationKey> for Request {
    /// What has this key is erased.
    fn from(key: FederationKey) -> Self {
        Effect::Persist(key.into()).into()
    }
}
