//! What was said in one negotiation: numbers, the chain of digests, what waits for an
//! answer and is said again, and the replies that duplicates get.

use std::collections::BTreeMap;

use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::id::{ClusterId, Digest, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::limits;

/// One side's memory of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Talk {
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
    Terminate,
    Amend,
    Amendment,
    Reclaim,
    Invoice,
    Take,
    Withdrawal,
}

/// One step of one deal: when, by whom, and what was said in it.
pub(crate) struct Turn<'a> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    /// The keys of those who changed theirs.
    pub(crate) keys: &'a BTreeMap<ClusterId, Vec<PublicKey>>,
    /// Released once the deal is on disk.
    pub(crate) said: Vec<Signed<Message>>,
}

impl Turn<'_> {
    /// This cluster's signatures: those of its keys before count as well.
    pub(crate) fn ours(&self) -> BTreeMap<PublicKey, ClusterId> {
        let keys = self.config.keys().into_iter();
        keys.map(|key| (key, self.config.cluster())).collect()
    }

    /// The signatures of the other side of a conversation, likewise.
    pub(crate) fn theirs(&self, talk: &Talk) -> BTreeMap<PublicKey, ClusterId> {
        let keys = self.keys.get(&talk.peer).into_iter().flatten().chain([&talk.key]);
        keys.map(|key| (*key, talk.peer)).collect()
    }
}

/// What a message is to a conversation.
pub(crate) enum Hearing {
    /// It was replied to, with this.
    Repeated(Signed<Message>),
    /// Its number came before, with other content.
    Conflict,
    /// It is to be looked at; late or twice it must do no harm.
    Look,
}

impl Talk {
    pub(crate) fn new(id: NegotiationId, peer: ClusterId, key: PublicKey) -> Self {
        Self {
            id,
            peer,
            key,
            next_seq: 0,
            heard: None,
            latest: None,
            waiting: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Takes note of a message of the peer's.
    pub(crate) fn hear(&mut self, message: &Verified<Message>) -> Hearing {
        let digest = message.digest();
        if let Some((_, reply)) = self.replies.iter().find(|(to, _)| *to == digest) {
            return Hearing::Repeated(reply.clone());
        }
        match self.heard {
            Some((seq, heard)) if seq == message.seq && heard != digest => Hearing::Conflict,
            Some((seq, _)) if seq >= message.seq => Hearing::Look,
            Some(_) | None => {
                self.heard = Some((message.seq, digest));
                self.latest = Some(digest);
                Hearing::Look
            }
        }
    }

    /// Says something once.
    pub(crate) fn say(&mut self, turn: &mut Turn<'_>, body: Body) -> Result<(), CodecError> {
        self.utter(turn, body).map(|_| ())
    }

    /// Says something until it is [`answered`](Self::answered).
    pub(crate) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        kind: Kind,
        body: Body,
    ) -> Result<(), CodecError> {
        let message = self.utter(turn, body)?;
        self.answered(kind);
        self.waiting.push(Waiting { kind, message });
        Ok(())
    }

    /// Answers the message `to`; a duplicate of it gets the same bytes.
    pub(crate) fn reply(
        &mut self,
        turn: &mut Turn<'_>,
        to: Digest,
        body: Body,
    ) -> Result<(), CodecError> {
        let message = self.utter(turn, body)?;
        self.replies.push((to, message));
        if self.replies.len() > limits::REPLIES_KEPT {
            self.replies.remove(0);
        }
        Ok(())
    }

    /// What waits for this kind of answer need not be said again.
    pub(crate) fn answered(&mut self, kind: Kind) {
        self.waiting.retain(|waiting| waiting.kind != kind);
    }

    pub(crate) fn awaits(&self, kind: Kind) -> bool {
        self.waiting.iter().any(|waiting| waiting.kind == kind)
    }

    fn utter(&mut self, turn: &mut Turn<'_>, body: Body) -> Result<Signed<Message>, CodecError> {
        let message = Message {
            negotiation: self.id,
            from: turn.config.cluster(),
            to: self.peer,
            seq: self.next_seq,
            previous: self.latest,
            body,
        };
        let message = turn.config.key.sign(turn.config.federation, &message)?;
        self.next_seq += 1;
        self.latest = Some(message.digest());
        turn.said.push(message.clone());
        Ok(message)
    }
}

/// A person's words, as long as they may be.
pub(crate) fn shortened(text: &str) -> String {
    let end =
        (0..=text.len().min(limits::TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
