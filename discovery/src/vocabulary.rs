//! What goes into the directory and what comes out.

use mercato_protocol::id::PublicKey;

use crate::address::Address;
use crate::sighting::{Report, Source};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A source speaks.
    Report(Report),
    /// The answer to [`Effect::Dial`]: who proved to be there, or why nobody did.
    Dialled {
        /// Of which dial.
        attempt: u64,
        /// The proven key.
        result: Result<PublicKey, DialFailure>,
    },
    /// The first connection to a peer is up.
    Connected {
        /// The proven key.
        peer: PublicKey,
        /// Whether we dialled: connections that strangers open must not keep us from choosing
        /// our own.
        dialled: bool,
    },
    /// The last connection to a peer is gone.
    Disconnected(PublicKey),
    /// The owner wants nothing of this peer.
    Block(PublicKey),
    /// The owner relents.
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
    /// We answered ourselves.
    Ourselves,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Try these addresses, the best first, and report [`Input::Dialled`].
    Dial {
        /// To be named in the answer.
        attempt: u64,
        /// Who has to be there; anybody, if nobody is known to.
        peer: Option<PublicKey>,
        /// Where; never empty.
        addresses: Vec<Address>,
    },
    /// Close the connections with this peer: there are enough without it.
    HangUp(PublicKey),
    /// No sighting of this peer is left, nor a connection.
    Forget(PublicKey),
}

/// What is known of a peer, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Who it is said to be; proven only while connected.
    pub peer: Option<PublicKey>,
    /// Who says so, each once.
    pub sources: Vec<Source>,
    /// Where it is said to be.
    pub addresses: Vec<Address>,
    /// Whether a connection is up.
    pub connected: bool,
    /// Whether the owner blocked it.
    pub blocked: bool,
    /// Dials that failed, or did not last, since the last that did.
    pub failures: u32,
}
