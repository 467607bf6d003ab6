//! One negotiation and the lease that comes of it, as either side remembers it: with whom, what
//! was asked for, and how far it is. What moves it on is in its phase; which deals there are is
//! the broker's.

mod agreement;
mod amendment;
mod conversation;
mod ending;
mod exchange;
mod facts;
mod lease;
mod meter;
mod negotiation;
mod order;
mod phase;
mod remains;
mod settlement;
mod statement;
mod verdict;
mod words;
mod written;

use std::sync::Arc;

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::Terms;
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Message, Request, State};
use mercato_protocol::price::{Money, PriceError};
use mercato_protocol::resources::Resources;

pub use agreement::{Agreement, Agreements};
pub use amendment::Amendment;
pub use ending::{
    Bill, Closing, EndCause, Ending, Facts, Mark, Provisioned, RULES, Rules, Stage, ending,
};
pub use lease::{Desired, Lease, Leaving};
pub use meter::{Meter, SignedReceipt};
pub use order::{BurstKey, Side};
pub use phase::{End, EndReason};
pub use settlement::{Dispute, Settlement, SignedInvoice};
pub use statement::{Line, Statement};
pub use words::{Otherwise, WORDS, Word};

pub(crate) use amendment::Asked;
pub(crate) use conversation::{Conversation, Kind, Received};
pub(crate) use exchange::{Exchange, Link, Step};
pub(crate) use negotiation::Negotiation;
pub(crate) use order::Order;
pub(crate) use phase::{Phase, hear};
pub(crate) use remains::{Remains, Remnant};
pub(crate) use verdict::Verdict;

use phase::Over;

/// A negotiation and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deal {
    order: Order,
    conversation: Conversation,
    phase: Phase,
}

impl Deal {
    pub(crate) fn new(order: Order, conversation: Conversation, negotiation: Negotiation) -> Self {
        Self { order, conversation, phase: Phase::Negotiating(negotiation) }
    }

    /// The id of the negotiation and of the contract.
    pub fn id(&self) -> NegotiationId {
        self.conversation.id()
    }

    /// The cluster on the other side.
    pub fn peer(&self) -> ClusterId {
        self.conversation.peer()
    }

    /// The key that it had last, as far as this deal knows.
    pub fn peer_key(&self) -> PublicKey {
        self.conversation.key()
    }

    /// Which side this cluster is on.
    pub fn side(&self) -> Side {
        self.order.side
    }

    /// How far it is, as it is said to the other side.
    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// When it lapses if nothing comes of it, wall clock: a request, or what is being made
    /// ready.
    pub fn until_ms(&self) -> Option<u64> {
        self.phase.until_ms()
    }

    /// How it ended; none: something may come of it.
    pub fn end(&self) -> Option<End<'_>> {
        self.phase.over().map(Over::end)
    }

    /// Whether the provider has signed and waits for the buyer's signature.
    pub fn is_signed_once(&self) -> bool {
        self.phase.is_signed_once()
    }

    /// Whether both have signed and the lease has not ended.
    pub fn is_leased(&self) -> bool {
        matches!(self.phase, Phase::Leased(_))
    }

    /// Whether the lease is in use, and billed, be it taken back soon.
    pub fn is_active(&self) -> bool {
        matches!(self.state(), State::Active | State::Reclaiming)
    }

    /// What was asked for, by the first message.
    pub fn request(&self) -> &Request {
        &self.order.request
    }

    /// What is bought, how: by the contract, and until there is one by the request.
    pub fn terms(&self) -> &Terms {
        self.agreement().map_or(&self.order.request.terms, |agreement| &agreement.contract.terms)
    }

    /// The round of firm offers that it belongs to.
    pub fn rfq(&self) -> Option<NegotiationId> {
        self.order.rfq
    }

    /// The contract in force, once the provider has signed it.
    pub fn agreement(&self) -> Option<&Agreement> {
        self.phase.agreement()
    }

    /// The lease, running or ended; none: not both have signed.
    pub fn lease(&self) -> Option<&Lease> {
        self.phase.lease()
    }

    /// The change of the lease that is under way, or the last one that came to nothing.
    pub fn amendment(&self) -> Option<&Amendment> {
        self.lease().and_then(Lease::amendment)
    }

    /// What was used of the lease, as far as it was reported and signed.
    pub fn meter(&self) -> Option<&Meter> {
        self.lease().map(Lease::meter)
    }

    /// When the lease ends, wall clock: with its term, or taken back before.
    pub fn ends_ms(&self) -> Option<u64> {
        match self.lease() {
            Some(lease) => Some(lease.ends_ms()),
            None => self.agreement().map(|agreement| agreement.contract.not_after_ms),
        }
    }

    /// Whether nothing of it is left in this cluster, which ended it.
    pub fn is_cleaned_up(&self) -> bool {
        self.lease().is_some() && self.phase.over().is_some_and(Over::is_cleaned_up)
    }

    /// Whether the other side has to be reached: it runs, or something waits for an answer.
    pub fn needs_peer(&self) -> bool {
        self.phase.over().is_none() || self.conversation.is_waiting()
    }

    /// The number of this side's next message.
    pub fn next_seq(&self) -> u32 {
        self.conversation.next_seq()
    }

    /// What the whole term costs; none when free.
    pub fn total(&self) -> Result<Option<Money>, PriceError> {
        match (self.lease(), self.agreement()) {
            (Some(lease), _) => lease.total(),
            (None, Some(agreement)) => negotiation::total(&agreement.contract),
            (None, None) => self.posted(),
        }
    }

    /// What the whole term costs as it was asked for; none when free.
    pub fn posted(&self) -> Result<Option<Money>, PriceError> {
        self.order.posted()
    }

    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// What of this provider's capacity it has; none if nothing.
    pub(crate) fn promised(&self) -> Option<Resources> {
        (self.side() == Side::Provider).then(|| self.phase.promised()).flatten()
    }

    /// What is over, and how long it is kept; none: something may come of it.
    pub(crate) fn remains(&self) -> Option<Remains<'_>> {
        let over = self.phase.over()?;
        Some(Remains { over, side: self.side(), waits: self.conversation.is_waiting() })
    }

    /// When what is over stops waiting for the other side to hear it, wall clock.
    pub(crate) fn gives_up_ms(&self) -> Option<u64> {
        let over = self.phase.over().filter(|_| self.conversation.is_waiting())?;
        Some(over.gives_up_ms(!self.conversation.has_received()))
    }

    /// Its next deadline, wall clock.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        let remains = self.remains();
        let archived = remains.and_then(Remains::kept_as) == Some(Remnant::Archived);
        let verifies = self.conversation.awaits(Kind::Verification);
        let own = self.phase.deadline_ms(self.side(), verifies).filter(|_| !archived);
        let archive_ms = remains.and_then(Remains::archive_ms);
        let forget_ms = remains.and_then(Remains::forget_ms);
        [own, self.gives_up_ms(), archive_ms, forget_ms].into_iter().flatten().min()
    }

    /// Its next deadline, wall clock, has come.
    pub(crate) fn on_deadline(&mut self, step: &mut Step<'_>) -> Result<(), CodecError> {
        if self.gives_up_ms().is_some_and(|at_ms| at_ms <= step.now.wall_ms) {
            self.conversation.wait_only_for(|_| false);
            return Ok(());
        }
        self.edit(step, Phase::on_deadline)
    }

    /// Takes a step: what becomes of the phase.
    pub(crate) fn edit<R>(
        &mut self,
        step: &mut Step<'_>,
        change: impl FnOnce(&mut Phase, &mut Exchange<'_, '_>) -> R,
    ) -> R {
        let Self { order, conversation, phase } = self;
        change(phase, &mut Exchange::new(order, conversation, step))
    }

    /// Takes note of a message of the peer's.
    pub(crate) fn receive(&mut self, message: &Verified<Message>) -> Received {
        self.conversation.receive(message)
    }

    /// The peer signs with another key from now on.
    pub(crate) fn set_peer_key(&mut self, key: PublicKey) {
        self.conversation.set_key(key);
    }

    /// Nothing of it is left in this cluster, if it is a lease that has ended.
    pub(crate) fn on_cleaned_up(&mut self) {
        if let Phase::Over(Over::Closed(over)) = &mut self.phase {
            over.cleaned_up = true;
        }
    }

    /// From now on it is kept for its statement alone: all that was said is dropped.
    pub(crate) fn archive(&mut self) {
        if let Phase::Over(Over::Closed(over)) = &mut self.phase {
            over.archived = true;
        }
        self.conversation.drop_messages();
    }

    /// As its record holds it: what grows with the lease lies in records of its own.
    pub(crate) fn without_grown(&self) -> Self {
        let Self { order, conversation, phase } = self;
        let (order, conversation) = (order.clone(), conversation.clone());
        Self { order, conversation, phase: phase.without_grown() }
    }

    /// Takes an earlier contract of its lease from its record.
    pub(crate) fn restore_earlier(&mut self, earlier: Arc<Agreement>) {
        if let Some(lease) = self.phase.lease_mut() {
            lease.agreements.restore(earlier);
        }
    }

    /// Takes a dispute about its lease from its record.
    pub(crate) fn restore_dispute(&mut self, dispute: Dispute) {
        if let Some(lease) = self.phase.lease_mut() {
            lease.settlement.disputes.push(dispute);
        }
    }
}
