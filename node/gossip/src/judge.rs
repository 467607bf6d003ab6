//! What is thought of publications and of the neighbours that bring them.

use mercato_protocol::bounded::Rank;
use mercato_protocol::gossip::Mark;
use mercato_protocol::id::PublicKey;

use crate::gossip::{Gossip, Turn};
use crate::limits;
use crate::shelf::State;
use crate::table::Place;
use crate::vocabulary::{Effect, Verdict};

impl Gossip {
    /// What was accepted is passed on; of what was not only the number is kept.
    pub(crate) fn on_judged(&mut self, turn: &mut Turn<'_>, verdicts: &[(Mark, Verdict)]) {
        let audience = self.audience(turn.now);
        for (mark, verdict) in verdicts {
            let is_judged = |place: &Place| {
                let slot = self.shelf.slot(*place);
                slot.is_some_and(|slot| slot.is_new() && slot.news.mark() == mark)
            };
            // Mostly what came first is judged first.
            let first = self.givers.front().map(|giver| giver.place).filter(is_judged);
            let place = first.or_else(|| turn.keys.find(&mark.publisher).filter(is_judged));
            let Some(place) = place else { continue };
            let Some(slot) = self.shelf.slot_mut(place) else { continue };
            let giver = self.givers.iter().position(|giver| giver.place == place);
            let giver = giver.and_then(|at| self.givers.remove(at));
            let unasked = giver.as_ref().is_some_and(|giver| giver.unasked);
            if *verdict == Verdict::Accept {
                slot.state = State::Held;
                self.tell_others(&audience, place, unasked);
                continue;
            }
            slot.state = State::Over;
            slot.news.strip();
            if let (Verdict::Reject, Some(giver)) = (verdict, giver) {
                self.blame(turn, giver.peer, limits::REJECTED_POINTS);
            }
        }
    }

    /// Counts this against a neighbour, and shuns it once that is too much.
    pub(crate) fn blame(&mut self, turn: &mut Turn<'_>, peer: Place, points: u64) {
        let now = turn.now;
        let Some(neighbour) = self.neighbours.get_mut(peer) else { return };
        if points == 0 || neighbour.bears(now.mono_ms, points) {
            return;
        }
        let key = neighbour.key;
        self.leave(turn, peer);
        let rank = |_: &PublicKey, until_ms: &u64| match *until_ms > now.mono_ms {
            true => Rank::Stranger,
            false => Rank::Over,
        };
        // All are shunned for as long: the oldest, which leaves, would be the first to end.
        let _ = self.shunned.put(key, now.mono_ms + limits::SHUN_MS, rank);
        turn.effects.push(Effect::Shunned(key));
    }
}
