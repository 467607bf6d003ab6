//! What the exchange with a peer wants done.

use mercato_protocol::envelope::Verified;
use mercato_protocol::tunnel::{Answer, Ask, Gateways};

use super::off::Off;
use super::pair::{Agreement, Pair};

/// What an exchange wants done, in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// These secrets are on disk before what follows is done.
    Keep(Pair),
    /// There are no secrets of this peer on disk any more.
    Forget,
    /// This is asked of the peer; what comes of it is told under the number.
    Ask { number: u64, ask: Ask },
    /// This answers what the peer has asked.
    Answer(Answer),
    /// A list of our own has to be signed that is later than this, and given as [`Input::Own`](super::Input::Own).
    Reissue { after_ms: u64 },
    /// There can be a tunnel with the peer, by this list and these secrets; until the next word.
    Agreed { gateways: Verified<Gateways>, secrets: Agreement },
    /// There can be no tunnel, and why.
    Off(Off),
}
