//! What comes out of the directory.

use mercato_protocol::id::PublicKey;

use crate::address::Address;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Try these addresses, the best first, and report [`Input::Dialled`](crate::Input::Dialled).
    Dial {
        /// To be named in the answer.
        attempt: u64,
        /// Who has to be there; anybody, if nobody is known to.
        peer: Option<PublicKey>,
        /// The addresses to try; never empty.
        addresses: Vec<Address>,
    },
    /// Close the connections with this peer: there are enough without it.
    HangUp(PublicKey),
    /// No sighting of this peer is left, nor a connection.
    Forget(PublicKey),
}
