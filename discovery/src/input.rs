//! What goes into the directory.

use mercato_protocol::id::PublicKey;

use crate::sighting::Report;

/// What happened, for the directory to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A source reports a sighting, or its end.
    Report(Report),
    /// The answer to [`Effect::Dial`](crate::Effect::Dial): who proved to be there, or why nobody did.
    Dialled {
        /// The number of the dial, from its effect.
        attempt: u64,
        /// The key that the peer has proven.
        result: Result<PublicKey, DialFailure>,
    },
    /// The first connection to a peer is up.
    Connected {
        /// The key that the peer has proven.
        peer: PublicKey,
        /// Whether we dialled: connections that strangers open must not keep us from choosing
        /// our own.
        dialled: bool,
    },
    /// The last connection to a peer is gone.
    Disconnected(PublicKey),
    /// The owner wants nothing of this peer.
    Block(PublicKey),
    /// The owner no longer blocks this peer.
    Unblock(PublicKey),
    /// A lease or a negotiation needs this peer: dialled before others and beyond the bounds,
    /// never forgotten.
    Keep(PublicKey),
    /// Nothing needs this peer any more.
    Release(PublicKey),
    /// This key speaks for nobody any more: whoever is where it was seen proves another.
    Replaced(PublicKey),
    /// The time of [`Directory::wakeup`](crate::Directory::wakeup) has come.
    Tick,
}

/// Why a dial brought nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialFailure {
    /// No answer, or a refusal.
    Unreachable,
    /// Somebody else answered than was expected.
    WrongPeer,
    /// The address is our own: we answered.
    Ourselves,
}
