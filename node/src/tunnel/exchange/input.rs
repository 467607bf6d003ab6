//! What the exchange with a peer is told.

use mercato_protocol::envelope::Verified;
use mercato_protocol::id::Digest;
use mercato_protocol::tunnel::Gateways;

use super::said::{Heard, Said};

/// See the module and the exchange itself.
#[derive(Debug)]
pub(crate) enum Input {
    /// A connection with the peer is up, and it has said who it is.
    Connected,
    /// It is gone, and with it whatever was asked over it.
    Disconnected,
    /// The first lease with the peer is in force, whichever side buys.
    LeaseBegan,
    /// The last one is over.
    LeaseEnded,
    /// Our own list, the latest.
    Own(Verified<Gateways>),
    /// The peer asks. There is exactly one [`Effect::Answer`](super::Effect::Answer) to it.
    Asked(Said),
    /// What was asked under this number has this answer,
    Answered { number: u64, answer: Heard },
    /// or it has none, and why,
    Failed { number: u64, reason: String },
    /// or is of a kind that the peer does not know.
    Unsupported { number: u64 },
    /// A session was agreed with the secret of this hash: none before it is needed any more.
    Rekeyed(Digest),
    /// The moment of [`Exchange::wakeup`](super::Exchange::wakeup) has come.
    Wake,
}
