//! What time does to deals: their deadlines, and what is said again until it is answered.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::broker::effect::Effect;
use crate::deal::conversation::Kind;
use crate::deal::{Deal, Side};
use crate::limits;

/// Monotonic, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resend {
    pub(crate) at_ms: u64,
    pub(crate) wait_ms: u64,
}

/// The next deadline of each deal, wall clock, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    first: BTreeSet<(u64, NegotiationId)>,
    of: BTreeMap<NegotiationId, u64>,
}

impl Deadlines {
    /// Those of the deals.
    pub(crate) fn of<'d>(deals: impl IntoIterator<Item = &'d Deal>) -> Self {
        let mut all = Self::default();
        deals.into_iter().for_each(|deal| all.set(deal.id(), deadline_ms(deal)));
        all
    }

    /// That of one deal has changed; none: it has none any more.
    pub(crate) fn set(&mut self, id: NegotiationId, at_ms: Option<u64>) {
        if let Some(before_ms) = self.of.remove(&id) {
            self.first.remove(&(before_ms, id));
        }
        if let Some(at_ms) = at_ms {
            self.first.insert((at_ms, id));
            self.of.insert(id, at_ms);
        }
    }

    /// The earliest.
    pub(crate) fn first_ms(&self) -> Option<u64> {
        self.first.first().map(|(at_ms, _)| *at_ms)
    }

    fn due(&self, now_ms: u64) -> Vec<NegotiationId> {
        self.first.iter().take_while(|(at_ms, _)| *at_ms <= now_ms).map(|(_, id)| *id).collect()
    }
}

impl Broker {
    pub(crate) fn run_deadlines(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_due = |deal: &&Deal| deadline_ms(deal).is_some_and(|at_ms| at_ms <= now.wall_ms);
        for id in self.deadlines.due(now.wall_ms) {
            let is_past = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now.wall_ms);
            if is_past(self.deal(&id).and_then(Deal::forget_ms)) {
                self.forget(id, effects);
                continue;
            }
            // A deadline may bring on another: the end of a lease its last report.
            for _ in 0..limits::DEADLINES_AT_ONCE {
                if self.deals.get(&id).is_some_and(|deal| is_due(&deal)) {
                    self.edit_or_log(now, id, effects, |deal, turn| match deal.side {
                        _ if deal.gives_up_ms().is_some_and(|at_ms| at_ms <= now.wall_ms) => {
                            deal.talk.waiting.clear();
                            Ok(())
                        }
                        Side::Provider => deal.on_seller_deadline(turn),
                        Side::Consumer => deal.on_buyer_deadline(turn),
                    });
                }
            }
            if is_past(self.deals.get(&id).and_then(Deal::archive_ms)) {
                self.archive(id, effects);
            }
        }
    }

    /// What waits for an answer of this cluster is said again now.
    pub(crate) fn on_connected(&mut self, now: Now, peer: ClusterId) {
        let deals = &self.deals;
        let with_it = |id: &NegotiationId| deals.get(id).is_some_and(|deal| deal.peer() == peer);
        for (_, resend) in self.resends.iter_mut().filter(|(id, _)| with_it(id)) {
            *resend = Resend { at_ms: now.mono_ms, wait_ms: 0 };
        }
    }

    /// Whether an answer to this word is awaited: then it is said again at each connection.
    pub fn awaits(&self, message: &Signed<Message>) -> bool {
        let deals = self.resends.keys().filter_map(|id| self.deals.get(id));
        deals.flat_map(|deal| &deal.talk.waiting).any(|waiting| waiting.message == *message)
    }

    /// Says again what waits for an answer. A question about the state is a new one each
    /// time, for the state may have changed since.
    pub(crate) fn resend(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let due = self.resends.iter().filter(|(_, resend)| resend.at_ms <= now.mono_ms);
        let due: Vec<_> = due.map(|(id, resend)| (*id, *resend)).collect();
        for (id, resend) in due {
            let Some(deal) = self.deals.get(&id) else { continue };
            if deal.talk.awaits(Kind::Query) {
                self.edit_or_log(now, id, effects, |deal, turn| {
                    deal.talk.ask(turn, Kind::Query, Body::StatusQuery)
                });
            } else {
                let to = deal.peer();
                let again = deal.talk.waiting.iter().map(|waiting| waiting.message.clone());
                effects.extend(again.map(|message| Effect::Send { to, message }));
            }
            let wait_ms = (resend.wait_ms * 2).clamp(limits::RESEND_MS, limits::RESEND_MOST_MS);
            self.resends.insert(id, Resend { at_ms: now.mono_ms + wait_ms, wait_ms });
        }
    }
}

/// The deal's next deadline, wall clock.
pub(crate) fn deadline_ms(deal: &Deal) -> Option<u64> {
    let own = match deal.side {
        Side::Provider => deal.seller_deadline_ms(),
        Side::Consumer => deal.buyer_deadline_ms(),
    };
    let own = own.filter(|_| !deal.archived);
    let kept = [deal.archive_ms(), deal.forget_ms()];
    [own, deal.gives_up_ms()].into_iter().chain(kept).flatten().min()
}
