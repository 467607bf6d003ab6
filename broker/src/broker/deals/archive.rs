//! What is over: what came to nothing is remembered for a while; leases that were used are kept
//! whole for a while, then archived for their statements, then forgotten. Of these only what waits
//! for an answer counts where the number of deals is bounded, and the archive takes part in
//! nothing but what its owner looks at.

use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::{Body, Message, State};
use mercato_protocol::time::Now;

use super::shares::{give_way, holder};
use super::{Deals, log};
use crate::broker::effect::Effect;
use crate::broker::record::{Record, RecordKey};
use crate::catalogue::Organisation;
use crate::deal::{Conversation, Deal, Remains, Remnant};
use crate::limits;

impl Deals {
    /// From now on it is kept for its statement alone: all that was said is dropped.
    pub(super) fn archive(&mut self, id: NegotiationId, effects: &mut Vec<Effect>) {
        let Some(before) = self.current.remove(&id) else { return };
        let mut deal = before.clone();
        deal.archive();
        effects.extend(Record::changes(&deal, Some(&before)).into_iter().map(Effect::Persist));
        self.resends.remove(&id);
        self.deadlines.set(id, deal.remains().and_then(Remains::forget_ms));
        self.archive.insert(id, deal);
        self.crowded = true;
    }

    /// Keeps what is over within its bounds, in memory as on disk, if there may be more of it than
    /// there was. What waits for an answer stays, but of strangers.
    pub(crate) fn make_room(
        &mut self,
        organisation: impl Fn(&ClusterId) -> Organisation,
        effects: &mut Vec<Effect>,
    ) {
        if !self.crowded {
            return;
        }
        let is_strange = |deal: &&Deal| holder(deal, &organisation) == Organisation::Strangers;
        let ended = self.kept_as(Remnant::Ended).filter(is_strange).collect::<Vec<_>>();
        let beyond = ended.len().saturating_sub(limits::ENDED_OF_STRANGERS);
        let forgotten = give_way(beyond, &ended, &organisation);
        forgotten.into_iter().for_each(|id| self.forget(id, effects));

        let ended = self.kept_as(Remnant::Ended).collect::<Vec<_>>();
        let beyond = ended.len().saturating_sub(limits::ENDED);
        let forgotten = give_way(beyond, &ended, &organisation);
        forgotten.into_iter().for_each(|id| self.forget(id, effects));

        let unanswered = self.current().filter(is_unanswered).filter(is_strange);
        let unanswered = unanswered.collect::<Vec<_>>();
        let beyond = unanswered.len().saturating_sub(limits::UNANSWERED_OF_STRANGERS);
        let archived = give_way(beyond, &unanswered, &organisation);
        archived.into_iter().for_each(|id| self.archive(id, effects));

        let closed = self.kept_as(Remnant::Closed).filter(|deal| !is_unanswered(deal));
        let closed = closed.collect::<Vec<_>>();
        let beyond = closed.len().saturating_sub(limits::CLOSED);
        let archived = give_way(beyond, &closed, &organisation);
        archived.into_iter().for_each(|id| self.archive(id, effects));

        let kept = self.archive.values().collect::<Vec<_>>();
        let beyond = kept.len().saturating_sub(limits::ARCHIVED);
        let forgotten = give_way(beyond, &kept, &organisation);
        forgotten.into_iter().for_each(|id| self.forget(id, effects));
        self.crowded = false;
    }

    fn kept_as(&self, remnant: Remnant) -> impl Iterator<Item = &Deal> {
        let kept_as = |deal: &Deal| deal.remains().and_then(Remains::kept_as);
        self.current().filter(move |deal| kept_as(deal) == Some(remnant))
    }

    /// Nothing of it is kept any more.
    pub(super) fn forget(&mut self, id: NegotiationId, effects: &mut Vec<Effect>) {
        let deal = self.current.remove(&id).or_else(|| self.archive.remove(&id));
        self.deadlines.set(id, None);
        self.resends.remove(&id);
        let keys = deal.iter().flat_map(RecordKey::of_deal);
        effects.extend(keys.map(Effect::Forget));
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

/// Whether it is a lease that is over, and kept until the other side answers.
fn is_unanswered(deal: &&Deal) -> bool {
    deal.remains().is_some_and(Remains::is_unanswered)
}
