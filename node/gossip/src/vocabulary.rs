//! What goes into gossip and what comes out.

use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_protocol::gossip::{Mark, Message};
use mercato_protocol::id::PublicKey;

use crate::item::News;
use crate::opened::Opened;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A peer is a neighbour from now on.
    Connected(PublicKey),
    /// It no longer is.
    Disconnected(PublicKey),
    /// A neighbour speaks.
    Received {
        /// Who.
        peer: PublicKey,
        /// What it says.
        message: Opened,
    },
    /// This cluster itself publishes.
    Publish(News),
    /// What is to be thought of what was [`Effect::Learned`].
    Judged(Vec<(Mark, Verdict)>),
    /// These publishers are known, and no others, besides the neighbours and ourselves.
    /// All others share a narrow lane.
    Known(Arc<BTreeSet<PublicKey>>),
    /// This publisher is known, too.
    AlsoKnown(PublicKey),
    /// The time of [`Gossip::wakeup`](crate::Gossip::wakeup) has come.
    Tick,
}

/// What the application thinks of a publication. Nothing is passed on before it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is passed on.
    Accept,
    /// It is not, and its neighbour is not penalized.
    Ignore,
    /// It is not, and no neighbour should have passed it on.
    Reject,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell a neighbour. What gets lost is made up for.
    Send {
        /// Whom.
        peer: PublicKey,
        /// What.
        message: Message,
    },
    /// Something later than anything before is known of its publisher: to be judged.
    Learned(News),
    /// Nothing more is taken from this neighbour, nor told to it, until it connects again
    /// after [`limits::SHUN_MS`](crate::limits::SHUN_MS).
    Shunned(PublicKey),
}
