//! What is on its way from one cluster to another: a packet, and what it says in a negotiation.
//!
//! Words in negotiations are as the daemon's network has them: each is a request, whose answer
//! says that all that comes of it is on disk. Who gets none says it again, as long as the
//! connection lasts; then the agent is told.

use mercato_protocol::envelope::Signed;
use mercato_protocol::negotiation::Message;

use crate::engine::packet::Packet;

/// One copy of a packet under way.
pub(crate) struct Parcel {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packet: Packet,
    /// What is to be taken; none in a copy, and in all but negotiations.
    pub(crate) word: Option<Box<Word>>,
}

/// A word that is not kept yet by whom it is said to.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Of who says it: a later one knows nothing of it.
    pub(crate) process: u64,
    /// The connection that carries it.
    pub(super) connection: Option<u64>,
    pub(crate) message: Signed<Message>,
    pub(crate) once: bool,
}
