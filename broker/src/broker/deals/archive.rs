//! What is over: closed leases that are kept whole for a while, then archived for their
//! statements, then forgotten. None of them counts where the number of deals is bounded, and the
//! archive takes part in nothing but what its owner looks at.

use std::collections::BTreeSet;

use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::{Body, Message, State};
use mercato_protocol::time::Now;

use super::{Deals, log};
use crate::broker::effect::Effect;
use crate::broker::record::{Record, RecordKey};
use crate::deal::{Conversation, Deal, Over, Side};
use crate::limits;

impl Deals {
    /// From now on it is kept for its statement alone: all that was said is dropped.
    pub(super) fn archive(&mut self, id: NegotiationId, effects: &mut Vec<Effect>) {
        let Some(before) = self.current.remove(&id) else { return };
        let mut deal = before.clone();
        deal.archive();
        effects.extend(Record::changes(&deal, Some(&before)).into_iter().map(Effect::Persist));
        self.resends.remove(&id);
        self.deadlines.set(id, deal.over().and_then(Over::forget_ms));
        self.archive.insert(id, deal);
        if self.archive.len() > limits::ARCHIVED {
            let oldest = self.archive.values().min_by_key(|deal| (closed_ms(deal), deal.id()));
            if let Some(oldest) = oldest.map(Deal::id) {
                self.forget(oldest, effects);
            }
        }
    }

    /// Archives the oldest closed leases beyond those that are kept whole.
    pub(super) fn archive_beyond(&mut self, effects: &mut Vec<Effect>) {
        let closed = self.current().filter_map(|deal| Some((closed_ms(deal)?, deal.id())));
        let mut closed: Vec<(u64, NegotiationId)> = closed.collect();
        let beyond = closed.len().saturating_sub(limits::CLOSED);
        if beyond > 0 {
            closed.sort_unstable();
            closed.into_iter().take(beyond).for_each(|(_, id)| self.archive(id, effects));
        }
    }

    /// Nothing of it is kept any more.
    pub(super) fn forget(&mut self, id: NegotiationId, effects: &mut Vec<Effect>) {
        let deal = self.current.remove(&id).or_else(|| self.archive.remove(&id));
        self.deadlines.set(id, None);
        self.resends.remove(&id);
        let keys = deal.iter().flat_map(RecordKey::of_deal);
        effects.extend(keys.map(Effect::Forget));
    }

    /// Drops what is remembered beyond the bounds of negotiations that came to nothing, the
    /// oldest first: those of strangers, and all.
    pub(crate) fn forget_ended(
        &mut self,
        is_stranger: impl Fn(&ClusterId) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let ended = self.current().filter(|deal| deal.state() == State::Terminated);
        let ended: Vec<&Deal> = ended.collect();
        let strange = |deal: &&Deal| deal.side() == Side::Provider && is_stranger(&deal.peer());
        let strangers = ended.iter().copied().filter(strange).collect();
        let of_strangers = oldest_beyond(limits::ENDED_OF_STRANGERS, strangers);
        let of_all = oldest_beyond(limits::ENDED, ended);
        let over: BTreeSet<NegotiationId> = of_strangers.into_iter().chain(of_all).collect();
        over.into_iter().for_each(|id| self.forget(id, effects));
    }

    /// Nothing of a lease is left in this cluster, if it has ended.
    pub(crate) fn on_cleaned_up(&mut self, now: Now, id: NegotiationId, effects: &mut Vec<Effect>) {
        if let Some(mut deal) = self.get(&id).cloned() {
            deal.on_cleaned_up();
            self.store(now, deal, Vec::new(), effects);
        }
    }

    /// Somebody says something of what is not known here, is forgotten, or is archived: whatever
    /// wants an answer is told so. What is known no more is asked about until it is answered.
    pub(crate) fn on_unknown(&self, message: &Verified<Message>, effects: &mut Vec<Effect>) {
        let over = self.archived(&message.negotiation);
        if over.is_some_and(|over| over.peer() != message.from) {
            return;
        }
        let answers = match message.body {
            Body::StatusQuery | Body::Close { .. } | Body::Terminate { .. } => true,
            Body::Ready | Body::Verification { .. } | Body::Take | Body::ReclaimNotice { .. } => {
                over.is_some()
            }
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
        if answers {
            let state = if over.is_some() { State::Closed } else { State::Unknown };
            self.send_state(message, state, effects);
        }
    }

    /// Nothing is kept of it: the same question gets the same bytes.
    fn send_state(&self, message: &Verified<Message>, state: State, effects: &mut Vec<Effect>) {
        let (id, to) = (message.negotiation, message.from);
        let mut conversation = Conversation::new(id, to, *message.key());
        conversation.follow(message);
        let body = conversation.next_message(self.config.cluster(), Body::Status { state });
        let signed = self.config.key.sign(self.config.federation, &body);
        log(id, signed.map(|message| effects.push(Effect::Send { to, message })));
    }
}

fn closed_ms(deal: &Deal) -> Option<u64> {
    deal.over().and_then(Over::closed_ms)
}

/// The oldest of these, so that no more than `most` are left.
fn oldest_beyond(most: usize, mut deals: Vec<&Deal>) -> Vec<NegotiationId> {
    let beyond = deals.len().saturating_sub(most);
    if beyond > 0 {
        deals.sort_unstable_by_key(|deal| (deal.order().opened_ms, deal.id()));
    }
    deals.into_iter().take(beyond).map(Deal::id).collect()
}
