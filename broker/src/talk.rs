//! What was said in one negotiation: numbers, the chain of digests, what waits for an
//! answer and is said again, and the replies that duplicates get.

use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, Digest, NegotiationId, PublicKey};
use mercato_protocol::negotiation::Message;
use serde::{Deserialize, Serialize};

/// One side's memory of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Talk {
    pub(crate) id: NegotiationId,
    /// The other side.
    pub(crate) peer: ClusterId,
    /// The key that it signs with.
    pub(crate) key: PublicKey,
    /// The number of the next message of ours.
    pub(crate) next_seq: u32,
    /// Number and digest of the latest message of theirs.
    pub(crate) heard: Option<(u32, Digest)>,
    /// The latest message of either side.
    pub(crate) latest: Option<Digest>,
    /// Said again until it is answered.
    pub(crate) waiting: Vec<Waiting>,
    /// What was replied to which message, latest last.
    pub(crate) replies: Vec<(Digest, Signed<Message>)>,
}

/// A message of ours that wants an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    pub(crate) kind: Kind,
    pub(crate) message: Signed<Message>,
}

/// What kind of answer a message wants; one of each kind waits at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kind {
    Request,
    Agreement,
    Verification,
    Query,
    Ready,
    Report,
    Close,
}
