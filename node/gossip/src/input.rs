//! What goes into gossip.

use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_protocol::gossip::Mark;
use mercato_protocol::id::PublicKey;

use crate::item::News;
use crate::opened::Opened;

/// Something that happened to this gossip.
#[derive(Clone, Debug)]
pub enum Input {
    /// A peer is a neighbour from now on.
    Connected(PublicKey),
    /// A peer is no neighbour any more.
    Disconnected(PublicKey),
    /// A neighbour sent a message.
    Received {
        /// The neighbour that sent it.
        peer: PublicKey,
        /// The message, with its signatures checked.
        message: Opened,
    },
    /// This cluster itself publishes something.
    Publish(News),
    /// The application's verdicts on what was
    /// [learned](crate::Effect::Learned), each by its mark.
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
    /// It is passed on to the neighbours.
    Accept,
    /// It is not passed on, and the neighbour that brought it is not penalized.
    Ignore,
    /// It is not passed on, and the neighbour that brought it is penalized.
    Reject,
}
