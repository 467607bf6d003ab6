//! What time does to deals: their deadlines, and what is said again until it is answered.

use mercato_protocol::negotiation::Body;
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::deal::{Deal, Side};
use crate::effect::Effect;
use crate::limits;
use crate::talk::Kind;

/// Monotonic, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resend {
    pub(crate) at_ms: u64,
    pub(crate) wait_ms: u64,
}

impl Broker {
    pub(crate) fn run_deadlines(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_due = |deal: &&Deal| deadline_ms(deal).is_some_and(|at_ms| at_ms <= now.wall_ms);
        let due: Vec<_> = self.deals.values().filter(is_due).map(Deal::id).collect();
        for id in due {
            if self.deals.get(&id).and_then(Deal::forget_ms).is_some_and(|at| at <= now.wall_ms) {
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
        }
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
    [own, deal.gives_up_ms(), deal.forget_ms()].into_iter().flatten().min()
}
