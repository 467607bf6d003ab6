//! What time does to deals: their deadlines, and what is sent again until it is answered.

use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, NegotiationId};
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::time::Now;

use super::timers::Resend;
use super::{Deals, log};
use crate::broker::effect::Effect;
use crate::deal::{Deal, Kind, Lease, Remains};
use crate::limits;

impl Deals {
    pub(crate) fn run_deadlines(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.degraded {
            return;
        }
        let is_past = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now.wall_ms);
        for id in self.deadlines.due(now.wall_ms) {
            let deal = self.get(&id).or_else(|| self.archived(&id));
            if is_past(deal.and_then(Deal::remains).and_then(Remains::forget_ms)) {
                self.forget(id, effects);
                continue;
            }
            // A deadline may bring on another: the end of a lease its last report.
            for _ in 0..limits::DEADLINES_AT_ONCE {
                let due = self.get(&id).filter(|deal| is_past(deal.deadline_ms())).cloned();
                if let Some(deal) = due {
                    log(id, self.step(now, deal, effects, Deal::on_deadline));
                }
            }
            if is_past(self.get(&id).and_then(Deal::remains).and_then(Remains::archive_ms)) {
                self.archive(id, effects);
            }
        }
    }

    /// What waits for an answer of this cluster is sent again now, and a notice that waits for it
    /// counts from now.
    pub(crate) fn on_connected(&mut self, now: Now, peer: ClusterId, effects: &mut Vec<Effect>) {
        self.contact.on_connected(now, peer);
        let waits = |lease: &Lease| lease.settlement().waits_for_buyer();
        let with_it = self.current().filter(|deal| deal.peer() == peer && deal.is_leased());
        let waiting = with_it.filter(|deal| deal.lease().is_some_and(waits)).map(Deal::id);
        for id in waiting.filter(|_| !self.degraded).collect::<Vec<_>>() {
            let reached = self.edit_lease(now, id, effects, |lease, exchange| {
                lease.on_reached(exchange.now_ms());
                Ok(())
            });
            log(id, reached);
        }
        let deals = &self.current;
        let with_it = |id: &NegotiationId| deals.get(id).is_some_and(|deal| deal.peer() == peer);
        for (_, resend) in self.resends.iter_mut().filter(|(id, _)| with_it(id)) {
            *resend = Resend { at_ms: now.mono_ms, wait_ms: 0 };
        }
    }

    pub(crate) fn on_hung_up(&mut self, peer: ClusterId) {
        self.contact.on_hung_up(peer);
    }

    pub(crate) fn on_disconnected(&mut self, now: Now, peer: ClusterId) {
        self.contact.on_disconnected(now, peer);
    }

    /// Whether an answer to this message is awaited: then it is sent again at each connection.
    pub(crate) fn awaits(&self, message: &Signed<Message>) -> bool {
        let deals = self.resends.keys().filter_map(|id| self.current.get(id));
        deals.flat_map(|deal| deal.conversation().waiting()).any(|waiting| waiting == message)
    }

    /// Sends again what waits for an answer. A question about the state is a new one each
    /// time, for the state may have changed since.
    pub(crate) fn resend(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let due = self.resends.iter().filter(|_| !self.degraded);
        let due = due.filter(|(_, resend)| resend.at_ms <= now.mono_ms);
        let due: Vec<_> = due.map(|(id, resend)| (*id, *resend)).collect();
        for (id, resend) in due {
            let Some(deal) = self.current.get(&id) else { continue };
            if deal.conversation().awaits(Kind::Query) {
                let asked = self.edit(now, id, effects, |_, exchange| {
                    exchange.ask(Kind::Query, Body::StatusQuery)
                });
                log(id, asked);
            } else {
                let to = deal.peer();
                let again = deal.conversation().waiting().cloned();
                effects.extend(again.map(|message| Effect::Send { to, message }));
            }
            let wait_ms = (resend.wait_ms * 2).clamp(limits::RESEND_MS, limits::RESEND_MOST_MS);
            self.resends.insert(id, Resend { at_ms: now.mono_ms + wait_ms, wait_ms });
        }
    }
}
