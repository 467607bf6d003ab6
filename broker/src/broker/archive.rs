//! What is over: closed leases that are kept whole for a while, then archived for their
//! statements, then forgotten. None of them counts where the number of deals is bounded, and the
//! archive takes part in nothing but what its owner looks at.

use mercato_protocol::envelope::Verified;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::{Body, Message, State};
use mercato_protocol::time::Now;

use crate::broker::effect::Effect;
use crate::broker::{Broker, log};
use crate::deal::conversation::Talk;
use crate::deal::{Deal, Stage};
use crate::limits;

impl Deal {
    /// Whether it came to nothing, or is a lease of which nothing is left in this cluster.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Terminated { .. }) || self.closed_ms().is_some()
    }

    /// When a lease ended of which nothing is left in this cluster, wall clock.
    fn closed_ms(&self) -> Option<u64> {
        self.stage.closed().filter(|_| self.drained).map(|(_, at_ms)| at_ms)
    }

    /// When it is to be archived, wall clock.
    pub(crate) fn archive_ms(&self) -> Option<u64> {
        let closed_ms = self.closed_ms().filter(|_| !self.archived)?;
        Some(closed_ms.saturating_add(limits::ENDED_KEPT_MS))
    }

    /// When it can be forgotten, wall clock.
    pub(crate) fn forget_ms(&self) -> Option<u64> {
        if let Stage::Terminated { at_ms, .. } = self.stage {
            return Some(at_ms.saturating_add(limits::ENDED_KEPT_MS));
        }
        let closed_ms = self.closed_ms().filter(|_| self.archived)?;
        Some(closed_ms.saturating_add(limits::CLOSED_KEPT_MS))
    }
}

impl Broker {
    /// Whether there is no room for so many more deals. What is over takes none.
    pub(crate) fn is_full_with(&self, more: usize) -> bool {
        let count = self.deals.values().filter(|deal| !deal.is_over()).count();
        count + more > limits::DEALS
    }

    /// All deals, those in the archive as well.
    pub(crate) fn all_deals(&self) -> impl Iterator<Item = &Deal> {
        self.deals.values().chain(self.archive.values())
    }

    /// From now on it is kept for its statement alone: all that was said is dropped.
    pub(crate) fn archive(&mut self, id: NegotiationId, effects: &mut Vec<Effect>) {
        let Some(before) = self.deals.remove(&id) else { return };
        let mut deal = before.clone();
        deal.archived = true;
        deal.talk.waiting = Vec::new();
        deal.talk.replies = Vec::new();
        effects.extend(deal.changes(Some(&before)).into_iter().map(Effect::Persist));
        self.resends.remove(&id);
        self.deadlines.set(id, deal.forget_ms());
        self.archive.insert(id, deal);
        if self.archive.len() > limits::ARCHIVED {
            let oldest = self.archive.values().min_by_key(|deal| (deal.closed_ms(), deal.id()));
            if let Some(oldest) = oldest.map(Deal::id) {
                self.forget(oldest, effects);
            }
        }
    }

    /// Archives the oldest closed leases beyond those that are kept whole.
    pub(crate) fn archive_beyond(&mut self, effects: &mut Vec<Effect>) {
        let closed = self.deals.values().filter_map(|deal| Some((deal.closed_ms()?, deal.id())));
        let mut closed: Vec<(u64, NegotiationId)> = closed.collect();
        let beyond = closed.len().saturating_sub(limits::CLOSED);
        if beyond > 0 {
            closed.sort_unstable();
            closed.into_iter().take(beyond).for_each(|(_, id)| self.archive(id, effects));
        }
    }

    /// Nothing of it is kept any more.
    pub(crate) fn forget(&mut self, id: NegotiationId, effects: &mut Vec<Effect>) {
        let deal = self.deals.remove(&id).or_else(|| self.archive.remove(&id));
        self.deadlines.set(id, None);
        self.resends.remove(&id);
        let keys = deal.iter().flat_map(Deal::keys);
        effects.extend(keys.map(Effect::Forget));
    }

    /// The other side says something of a lease that is archived here: whatever wants an answer
    /// is told that it is over.
    pub(crate) fn on_archived(
        &self,
        now: Now,
        over: &Deal,
        message: &Verified<Message>,
        effects: &mut Vec<Effect>,
    ) {
        let wants_answer = match message.body {
            Body::StatusQuery
            | Body::Close { .. }
            | Body::Ready
            | Body::Verification { .. }
            | Body::Terminate { .. }
            | Body::Take
            | Body::ReclaimNotice { .. } => true,
            Body::Request(_)
            | Body::Rfq(_)
            | Body::Review { .. }
            | Body::Agreement { .. }
            | Body::Offer { .. }
            | Body::Finalized
            | Body::Status { .. }
            | Body::UsageReport { .. }
            | Body::UsageReceipt { .. }
            | Body::Amend { .. }
            | Body::Amendment { .. }
            | Body::Invoice { .. }
            | Body::InvoiceReceipt { .. }
            | Body::Dispute { .. } => false,
        };
        if wants_answer && over.peer() == message.from {
            self.say_state(now, message, State::Closed, effects);
        }
    }

    /// Asked about a deal that is not known, forgotten, or archived. Nothing is kept of it: the
    /// same question gets the same bytes.
    pub(crate) fn say_state(
        &self,
        now: Now,
        message: &Verified<Message>,
        state: State,
        effects: &mut Vec<Effect>,
    ) {
        let mut talk = Talk::new(message.negotiation, message.from, *message.key());
        talk.latest = Some(message.digest());
        let mut turn = self.turn(now);
        let said = talk.say(&mut turn, Body::Status { state });
        log(message.negotiation, said);
        let send = |message| Effect::Send { to: talk.peer, message };
        effects.extend(turn.said.into_iter().map(send));
    }
}
