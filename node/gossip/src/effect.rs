//! What comes out of gossip.

use mercato_protocol::gossip::Message;
use mercato_protocol::id::PublicKey;

use crate::item::News;

/// Something that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message. A lost one is made up for.
    Send {
        /// The neighbour that it goes to.
        peer: PublicKey,
        /// The message, within the bounds of the protocol.
        message: Message,
    },
    /// Judge a publication: it is later than anything before of its publisher.
    Learned(News),
    /// Disconnect. Nothing more is taken from this neighbour, nor sent to it, until it connects
    /// again after [`limits::BAN_MS`](crate::limits::BAN_MS).
    Banned(PublicKey),
}
