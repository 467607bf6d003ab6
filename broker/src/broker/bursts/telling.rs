//! What people are told of bursts: a line for each decision, and the pods that it is about.

use mercato_protocol::id::{ClusterId, NegotiationId};

use super::Turn;
use crate::broker::Broker;
use crate::burst::{self, Asking, BurstNews, BurstWord, WaitingPod, Wanted};
use crate::catalogue::{Exclusion, Market};
use crate::deal::BurstKey;
use crate::syntax::{Seconds, Show as _};

impl Turn<'_> {
    /// Tells of pods for which nothing was bought, each kind why; and of those beyond what the owner
    /// allows in all.
    pub(super) fn say_refused(
        &mut self,
        wanted: &Wanted,
        refused: Vec<(BurstWord, String, Vec<Asking>)>,
        beyond: Vec<Asking>,
    ) {
        let bought = burst::bought(&burst::running(self.broker.deals.current()));
        let most = self.policy.most.show();
        let bought = if bought.is_zero() { "nothing".to_owned() } else { bought.show() };
        let text = format!("bursts.most allows {most}, and {bought} is bought so already");
        if !beyond.is_empty() {
            self.broker.bursts.set_unmet(self.now);
        }
        // Which pods stay without is seen once those are bound that what was bought has room for.
        let beyond = if self.is_settled(&wanted.key) { beyond } else { Vec::new() };
        let beyond = (BurstWord::OverBudget, text, beyond);
        for (word, text, pods) in refused.into_iter().chain([beyond]) {
            if !pods.is_empty() {
                self.broker.bursts.set_unmet(self.now);
            }
            self.say(wanted, word, text, pods.into_iter().map(|asking| asking.pod).collect());
        }
    }

    /// Whether the nodes of all that was bought for these pods are there, and have no room for any of them.
    fn is_settled(&self, key: &BurstKey) -> bool {
        let bursts = &self.broker.bursts;
        let awaited = bursts.awaited(self.now);
        let running = burst::running(self.broker.deals.current());
        let mut of_key = running.iter().filter(|deal| deal.order().burst.as_ref() == Some(key));
        let shapes = bursts.demand().into_iter().flat_map(|demand| &demand.shapes);
        let mut pods = shapes.filter(|shape| shape.key == *key).flat_map(|shape| &shape.pods);
        of_key.all(|deal| !awaited.contains(&deal.id())) && pods.all(|pod| pod.room_on.is_none())
    }

    pub(super) fn tell_bought(&mut self, id: NegotiationId) {
        let Some(deal) = self.broker.deal(&id) else { return };
        let (quantity, term) = (deal.terms().quantity.show(), Seconds(deal.terms().term_s).show());
        let total = deal.total().ok().flatten();
        let total = total.map_or_else(|| "free".to_owned(), |total| total.to_string());
        let name = self.name(&deal.peer());
        let text = format!("bought {quantity} of {name} for {term}: {total}");
        let pods = self.told(id, BurstWord::Bought);
        self.say_of(id, BurstWord::Bought, text, pods);
    }

    /// Some of the pods for which a deal is, to whom this is news.
    pub(super) fn told(&mut self, id: NegotiationId, word: BurstWord) -> Vec<[String; 2]> {
        let Broker { bursts, deals, .. } = &mut *self.broker;
        let Some(deal) = deals.get(&id) else { return Vec::new() };
        let most = usize::try_from(deal.terms().quantity.pods).unwrap_or(usize::MAX);
        let shapes = bursts.demand().into_iter().flat_map(|demand| &demand.shapes);
        let shapes = shapes.filter(|shape| deal.order().burst.as_ref() == Some(&shape.key));
        let mut pods: Vec<WaitingPod> = shapes.flat_map(|shape| &shape.pods).cloned().collect();
        pods.sort_unstable();
        bursts.tell(word, pods.iter().take(most))
    }

    /// Tells of pods why nothing is bought for them, if it is news to any of them.
    pub(super) fn say(
        &mut self,
        wanted: &Wanted,
        word: BurstWord,
        text: String,
        pods: Vec<WaitingPod>,
    ) {
        if !pods.is_empty() {
            self.broker.bursts.set_lacking(&wanted.key, word, &text);
        }
        let pods = self.broker.bursts.tell(word, pods.iter());
        if !pods.is_empty() {
            let (key, deal, provider) = (wanted.key.clone(), None, None);
            self.news.push(BurstNews { key, word, deal, provider, pods, text });
        }
    }

    /// Tells of an order or a contract.
    pub(super) fn say_of(
        &mut self,
        id: NegotiationId,
        word: BurstWord,
        text: String,
        pods: Vec<[String; 2]>,
    ) {
        let Some(deal) = self.broker.deal(&id) else { return };
        let Some(key) = deal.order().burst.clone() else { return };
        let (deal, provider) = (Some(id), Some(deal.peer()));
        self.news.push(BurstNews { key, word, deal, provider, pods, text });
    }

    pub(super) fn name(&self, provider: &ClusterId) -> String {
        let ad = self.broker.catalogue.ad(provider);
        ad.map_or_else(|| provider.short(), |ad| ad.name.to_string())
    }

    /// Why no offer is taken, by the one that comes nearest.
    pub(super) fn explained(&self, market: &Market) -> (BurstWord, String) {
        let Some(first) = market.excluded.first() else {
            return match market.suiting {
                0 => {
                    (BurstWord::NoOffer, "nobody whom the owner trusts offers anything".to_owned())
                }
                _ => (BurstWord::NoOffer, "who offers it did not sign lately".to_owned()),
            };
        };
        let is_budget = |lack: &Exclusion| {
            matches!(lack, Exclusion::OverBudget { .. } | Exclusion::TermNotAllowed)
        };
        let nearest = &first.nearest;
        let word = match nearest.lacks.iter().all(is_budget) {
            true => BurstWord::OverBudget,
            false => BurstWord::NoOffer,
        };
        let lacks: Vec<String> = nearest.lacks.iter().map(ToString::to_string).collect();
        (word, format!("{}: {}; wanted is {}", nearest.name, lacks.join(", "), first.by))
    }
}
