//! One step of one deal: when it is taken, what is sent in it, and whose signatures count. What
//! the step makes of the deal is left to its phase.

use std::collections::BTreeMap;

use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::{EnvelopeError, Payload, Signed, Signers, Trust, Verified};
use mercato_protocol::id::{ClusterId, Digest, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::time::Now;

use super::conversation::{Conversation, Kind};
use super::ending::Rules;
use super::order::{Order, Side};
use crate::config::Config;

/// One step of one deal: when, by whom, and what is sent in it.
pub(crate) struct Step<'a> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    /// How well the other side is reached.
    pub(crate) link: Link,
    /// The keys of those who changed theirs.
    pub(crate) keys: &'a BTreeMap<ClusterId, Vec<PublicKey>>,
    /// Released once the deal is on disk.
    pub(crate) sent: Vec<Signed<Message>>,
}

/// How well the other side of a deal is reached, as far as this run knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The other side is connected now.
    pub(crate) is_up: bool,
    /// So long it was connected since both last signed for usage, in milliseconds.
    pub(crate) heard_ms: u64,
}

/// A conversation in one step of its deal.
pub(crate) struct Exchange<'a, 's> {
    order: &'a Order,
    conversation: &'a mut Conversation,
    step: &'a mut Step<'s>,
}

impl<'a, 's> Exchange<'a, 's> {
    pub(crate) fn new(
        order: &'a Order,
        conversation: &'a mut Conversation,
        step: &'a mut Step<'s>,
    ) -> Self {
        Self { order, conversation, step }
    }

    pub(crate) fn side(&self) -> Side {
        self.order.side
    }

    pub(crate) fn order(&self) -> &'a Order {
        self.order
    }

    pub(crate) fn id(&self) -> NegotiationId {
        self.conversation.id()
    }

    pub(crate) fn peer(&self) -> ClusterId {
        self.conversation.peer()
    }

    pub(crate) fn peer_key(&self) -> PublicKey {
        self.conversation.key()
    }

    /// This cluster, whichever side it is on.
    pub(crate) fn us(&self) -> ClusterId {
        self.step.config.cluster()
    }

    pub(crate) fn our_key(&self) -> PublicKey {
        self.step.config.key.public()
    }

    /// How well the other side is reached.
    pub(crate) fn link(&self) -> Link {
        self.step.link
    }

    /// How this cluster settles what has ended.
    pub(crate) fn rules(&self) -> Rules {
        self.step.config.rules
    }

    /// When the step is taken, wall clock, milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.step.now.wall_ms
    }

    /// Sends something once: no answer is awaited.
    pub(crate) fn send(&mut self, body: Body) -> Result<(), CodecError> {
        self.message(body).map(drop)
    }

    /// Sends something until it is [`answered`](Self::answered).
    pub(crate) fn ask(&mut self, kind: Kind, body: Body) -> Result<(), CodecError> {
        let message = self.message(body)?;
        self.conversation.wait(kind, message);
        Ok(())
    }

    /// Answers the message `to`; a duplicate of it gets the same bytes.
    pub(crate) fn reply(&mut self, to: Digest, body: Body) -> Result<(), CodecError> {
        let message = self.message(body)?;
        self.conversation.on_replied(to, message);
        Ok(())
    }

    /// What waits for this kind of answer need not be sent again.
    pub(crate) fn answered(&mut self, kind: Kind) {
        self.conversation.answered(kind);
    }

    /// Nothing but these kinds is sent again.
    pub(crate) fn wait_only_for(&mut self, is_kept: impl Fn(Kind) -> bool) {
        self.conversation.wait_only_for(is_kept);
    }

    pub(crate) fn awaits(&self, kind: Kind) -> bool {
        self.conversation.awaits(kind)
    }

    fn message(&mut self, body: Body) -> Result<Signed<Message>, CodecError> {
        let message = self.sign(&self.conversation.next_message(self.us(), body))?;
        self.conversation.on_sent(&message);
        self.step.sent.push(message.clone());
        Ok(message)
    }

    /// Signs with this cluster's key.
    pub(crate) fn sign<T: Payload>(&self, value: &T) -> Result<Signed<T>, CodecError> {
        self.step.config.key.sign(self.step.config.federation, value)
    }

    /// Signs the same bytes that the other side has signed.
    pub(crate) fn countersign<T: Payload>(&self, theirs: &Verified<T>) -> Signed<T> {
        self.step.config.key.countersign(self.step.config.federation, theirs)
    }

    /// Opens what the other side signed. Signatures of its keys before count as well.
    pub(crate) fn open<T: Payload>(
        &self,
        signed: &Signed<T>,
    ) -> Result<Verified<T>, EnvelopeError> {
        let (peer, key) = (self.peer(), self.peer_key());
        let keys = self.step.keys.get(&peer).into_iter().flatten().chain([&key]);
        self.open_of(signed, keys.map(|key| (*key, peer)).collect())
    }

    /// Opens what this side signed, with this key or one before.
    pub(crate) fn open_own<T: Payload>(
        &self,
        signed: &Signed<T>,
    ) -> Result<Verified<T>, EnvelopeError> {
        let keys = self.step.config.keys().into_iter();
        self.open_of(signed, keys.map(|key| (key, self.us())).collect())
    }

    fn open_of<T: Payload>(
        &self,
        signed: &Signed<T>,
        known: BTreeMap<PublicKey, ClusterId>,
    ) -> Result<Verified<T>, EnvelopeError> {
        let federation = self.step.config.federation;
        signed.open(Trust { federation, signers: Signers::Known(&known) }, self.step.now)
    }
}
