//! What is thought of publications and of the neighbours that bring them.

use mercato_protocol::bounded::Rank;
use mercato_protocol::gossip::Mark;
use mercato_protocol::id::PublicKey;

use crate::gossip::{Gossip, Step};
use crate::limits;
use crate::store::State;
use crate::table::Place;
use crate::vocabulary::{Effect, Verdict};

impl Gossip {
    /// What was accepted is passed on; of what was not only the number is kept.
    pub(crate) fn on_judged(&mut self, step: &mut Step<'_>, verdicts: &[(Mark, Verdict)]) {
        let audience = self.audience(step.now);
        for (mark, verdict) in verdicts {
            let is_judged = |place: &Place| {
                let slot = self.store.slot(*place);
                slot.is_some_and(|slot| slot.is_new() && slot.news.mark() == mark)
            };
            // Mostly what came first is judged first.
            let first = self.pending_verdicts.front().map(|giver| giver.place).filter(is_judged);
            let place = first.or_else(|| step.keys.find(&mark.publisher).filter(is_judged));
            let Some(place) = place else { continue };
            let Some(slot) = self.store.slot_mut(place) else { continue };
            let giver = self.pending_verdicts.iter().position(|giver| giver.place == place);
            let giver = giver.and_then(|at| self.pending_verdicts.remove(at));
            let unasked = giver.as_ref().is_some_and(|giver| giver.unasked);
            if *verdict == Verdict::Accept {
                slot.state = State::Held;
                self.tell_others(&audience, place, unasked);
                continue;
            }
            slot.state = State::Over;
            slot.news.strip();
            if let (Verdict::Reject, Some(giver)) = (verdict, giver) {
                self.penalize(step, giver.peer, limits::REJECTED_POINTS);
            }
        }
    }

    /// Counts this against a neighbour, and shuns it once that is too much.
    pub(crate) fn penalize(&mut self, step: &mut Step<'_>, peer: Place, points: u64) {
        let now = step.now;
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        if points == 0 || neighbour.within_budget(now.mono_ms, points) {
            return;
        }
        let key = neighbour.key;
        self.leave(step, peer);
        let rank = |_: &PublicKey, until_ms: &u64| match *until_ms > now.mono_ms {
            true => Rank::Stranger,
            false => Rank::Over,
        };
        // All are shunned for as long: the oldest, which leaves, would be the first to end.
        let _ = self.shunned.put(key, now.mono_ms + limits::SHUN_MS, rank);
        step.effects.push(Effect::Shunned(key));
    }
}
