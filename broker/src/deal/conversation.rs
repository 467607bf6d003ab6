//! What was sent and received in one negotiation: numbers, the chain of digests, what waits for
//! an answer and is sent again, and the replies that duplicates get. Who signs, and when, is left
//! to the exchange.

use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::{ClusterId, Digest, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, Message};
use serde::{Deserialize, Serialize};

use crate::limits;

/// One side's memory of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conversation {
    id: NegotiationId,
    /// The cluster on the other side.
    peer: ClusterId,
    /// The key that the peer signs with.
    key: PublicKey,
    /// The number of the next message of ours.
    next_seq: u32,
    /// Number and digest of the latest message of theirs.
    #[serde(rename = "heard")]
    received: Option<(u32, Digest)>,
    /// The latest message of either side.
    latest: Option<Digest>,
    /// Sent again until it is answered.
    waiting: Vec<Waiting>,
    /// What was replied to which message, latest last.
    replies: Vec<(Digest, Signed<Message>)>,
}

/// A message of ours that wants an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waiting {
    kind: Kind,
    message: Signed<Message>,
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
    Terminate,
    Amend,
    Amendment,
    Reclaim,
    Invoice,
    Take,
    Withdrawal,
}

/// What a message is to a conversation.
pub(crate) enum Received {
    /// It was replied to, with this.
    Repeated(Signed<Message>),
    /// Its number came before, with other content.
    Conflict,
    /// It is to be looked at; late or twice it must do no harm.
    Look,
}

impl Conversation {
    pub(crate) fn new(id: NegotiationId, peer: ClusterId, key: PublicKey) -> Self {
        Self {
            id,
            peer,
            key,
            next_seq: 0,
            received: None,
            latest: None,
            waiting: Vec::new(),
            replies: Vec::new(),
        }
    }

    pub(crate) fn id(&self) -> NegotiationId {
        self.id
    }

    pub(crate) fn peer(&self) -> ClusterId {
        self.peer
    }

    pub(crate) fn key(&self) -> PublicKey {
        self.key
    }

    /// The peer signs with another key from now on.
    pub(crate) fn set_key(&mut self, key: PublicKey) {
        self.key = key;
    }

    pub(crate) fn next_seq(&self) -> u32 {
        self.next_seq
    }

    /// Whether the peer has said anything at all.
    pub(crate) fn has_received(&self) -> bool {
        self.received.is_some()
    }

    /// Takes note of a message of the peer's.
    pub(crate) fn receive(&mut self, message: &Verified<Message>) -> Received {
        let digest = message.digest();
        if let Some((_, reply)) = self.replies.iter().find(|(to, _)| *to == digest) {
            return Received::Repeated(reply.clone());
        }
        match self.received {
            Some((seq, known)) if seq == message.seq && known != digest => Received::Conflict,
            Some((seq, _)) if seq >= message.seq => Received::Look,
            Some(_) | None => {
                self.received = Some((message.seq, digest));
                self.latest = Some(digest);
                Received::Look
            }
        }
    }

    /// What is said next comes after this message, of which nothing else is kept.
    pub(crate) fn follow(&mut self, message: &Verified<Message>) {
        self.latest = Some(message.digest());
    }

    /// The next message of ours, yet to be signed.
    pub(crate) fn next_message(&self, from: ClusterId, body: Body) -> Message {
        Message {
            negotiation: self.id,
            from,
            to: self.peer,
            seq: self.next_seq,
            previous: self.latest,
            body,
        }
    }

    /// The next message is signed: its number is used.
    pub(crate) fn on_sent(&mut self, message: &Signed<Message>) {
        self.next_seq += 1;
        self.latest = Some(message.digest());
    }

    /// Sends this again until it is [`answered`](Self::answered).
    pub(crate) fn wait(&mut self, kind: Kind, message: Signed<Message>) {
        self.answered(kind);
        self.waiting.push(Waiting { kind, message });
    }

    /// A duplicate of the message `to` gets the same bytes.
    pub(crate) fn on_replied(&mut self, to: Digest, reply: Signed<Message>) {
        self.replies.push((to, reply));
        if self.replies.len() > limits::REPLIES_KEPT {
            self.replies.remove(0);
        }
    }

    /// What waits for this kind of answer need not be sent again.
    pub(crate) fn answered(&mut self, kind: Kind) {
        self.waiting.retain(|waiting| waiting.kind != kind);
    }

    /// Nothing but these kinds is sent again.
    pub(crate) fn wait_only_for(&mut self, is_kept: impl Fn(Kind) -> bool) {
        self.waiting.retain(|waiting| is_kept(waiting.kind));
    }

    pub(crate) fn awaits(&self, kind: Kind) -> bool {
        self.waiting.iter().any(|waiting| waiting.kind == kind)
    }

    /// Whether anything waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What waits for an answer, in the order in which it was sent.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Signed<Message>> {
        self.waiting.iter().map(|waiting| &waiting.message)
    }

    /// Whether the same waits for an answer as in `other`.
    pub(crate) fn waits_like(&self, other: &Self) -> bool {
        self.waiting == other.waiting
    }

    /// Drops all that was said, but for numbers.
    pub(crate) fn drop_messages(&mut self) {
        (self.waiting, self.replies) = (Vec::new(), Vec::new());
    }
}

/// A person's words, as long as they may be.
pub(crate) fn shortened(text: &str) -> String {
    let end =
        (0..=text.len().min(limits::TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
