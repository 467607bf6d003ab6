//! Bursts: orders, changes and ends of contracts that nobody asked for but pods without room, as
//! [`crate::burst`] decides. An order, the mark of its pods and its record come of one step.

mod telling;

use std::collections::BTreeSet;

use mercato_protocol::egress::Egress;
use mercato_protocol::id::{ClusterId, ContractId, NegotiationId};
use mercato_protocol::price::{Money, Usage};
use mercato_protocol::resources::Resource;
use mercato_protocol::text::GpuModel;
use mercato_protocol::time::Now;

use super::effect::Effect;
use super::orders::Opening;
use super::{Broker, random_id};
use crate::burst::{self, Asking, BurstNews, BurstWord, Care, IDLE, Wanted, together, within};
use crate::catalogue::{Audience, BurstPolicy, BuyPolicy, Candidate, Demand, Sort};
use crate::deal::{BurstKey, Deal};
use crate::limits;
use crate::selector::Term;
use crate::syntax::{Seconds, Show as _};

impl Broker {
    /// Decides what is due of bursts, and does it.
    pub(super) fn run_bursts(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !self.bursts.is_due(now) || self.deals.degraded() {
            return;
        }
        let Some(policy) = self.catalogue.policy().and_then(|policy| policy.bursts.clone()) else {
            return self.bursts.rest();
        };
        self.bursts.begin(now);
        let mut turn = Turn { broker: self, now, policy: &policy, effects, news: Vec::new() };
        turn.leave_unsigned();
        turn.care();
        turn.buy();
        let Turn { news, .. } = turn;
        effects.extend(news.into_iter().map(|news| Effect::Burst(Box::new(news))));
    }
}

/// Why nothing is bought for pods for which something was bought a while ago.
const RESTS: &str = "nothing is bought for them again so soon";

/// One look at all of it.
struct Turn<'a> {
    broker: &'a mut Broker,
    now: Now,
    policy: &'a BurstPolicy,
    effects: &'a mut Vec<Effect>,
    news: Vec<BurstNews>,
}

impl Turn<'_> {
    /// Leaves providers that do not sign for the next ones.
    fn leave_unsigned(&mut self) {
        let running = burst::running(self.broker.deals.current());
        for (id, why) in burst::unsigned(self.now, self.policy, &running) {
            self.end(id, &format!("burst: {why}"));
            let name = self.broker.deal(&id).map(|deal| self.name(&deal.peer()));
            let text = format!("{}: {why}; the next provider is asked", name.unwrap_or_default());
            self.say_of(id, BurstWord::GivenUp, text, Vec::new());
        }
    }

    /// Keeps what is used, and gives back what is not.
    fn care(&mut self) {
        let Broker { bursts, deals, .. } = &mut *self.broker;
        let running = burst::running(deals.current());
        bursts.look(self.now, self.policy, &running);
        for care in bursts.care(self.now, self.policy, &running) {
            match care {
                Care::Tell(id) => self.tell_bought(id),
                Care::End(id, why) => {
                    let is_idle = why == IDLE;
                    self.end(id, why);
                    let idle = Seconds(self.policy.idle_s).show();
                    let (word, text) = match is_idle {
                        true => (BurstWord::GivenBack, format!("no pod was on it for {idle}")),
                        false => (BurstWord::BoughtInVain, self.in_vain()),
                    };
                    let pods = if is_idle { Vec::new() } else { self.told(id, word) };
                    self.say_of(id, word, text, pods);
                }
                Care::Extend(id, term_s) => self.extend(id, term_s),
            }
        }
    }

    fn in_vain(&self) -> String {
        let rest = Seconds(limits::BURST_VAIN_REST_MS / 1_000).show();
        format!(
            "no pod was bound to its node, though they wait: see what the scheduler says of them; nothing \
             more is bought for them within {rest}"
        )
    }

    fn extend(&mut self, id: NegotiationId, term_s: u64) {
        let Some(deal) = self.broker.deal(&id) else { return };
        let refused = match self.forbids(deal, term_s) {
            Some(why) => Some(why),
            None => {
                let contract = ContractId::from(id);
                let asked = self.broker.amend(self.now, contract, None, Some(term_s), self.effects);
                asked.err().map(|refusal| refusal.to_string())
            }
        };
        if let Some(why) = refused
            && self.broker.bursts.tells_end(id)
        {
            let text = format!("it is not extended, though pods are on it: {why}");
            self.say_of(id, BurstWord::NotExtended, text, Vec::new());
        }
    }

    /// Why a contract may not be so long, in all that its owner has said.
    fn forbids(&self, deal: &Deal, term_s: u64) -> Option<String> {
        let policy = self.broker.catalogue.policy()?;
        if let Some(longest_s) = policy.longest_s.filter(|longest_s| term_s > *longest_s) {
            return Some(format!("no term may be above {} (longest)", Seconds(longest_s).show()));
        }
        let more_ms = term_s.saturating_sub(deal.terms().term_s).saturating_mul(1_000);
        let usage = Usage::of(&deal.terms().quantity, more_ms).ok()?;
        let more = deal.terms().price.total(&usage).ok()??;
        let left = self.lacking(policy, deal, more)?;
        Some(format!("it would cost {more} more, and {left} is left of a budget"))
    }

    /// What is left of a budget that has not so much.
    fn lacking(&self, policy: &BuyPolicy, deal: &Deal, more: Money) -> Option<Money> {
        let names = &deal.order().namespaces;
        let budgets = policy.budgets(self.now, self.broker.deals.all());
        let mut of_deal = budgets.filter(|it| it.namespace.is_none_or(|it| names.contains(it)));
        let lacks = |left: Money| left.currency != more.currency || left.micros < more.micros;
        of_deal.find(|budget| lacks(budget.left)).map(|budget| budget.left)
    }

    /// Buys for the pods for which nothing has room.
    fn buy(&mut self) {
        let Broker { bursts, deals, .. } = &mut *self.broker;
        let Some(demand) = bursts.demand() else { return };
        let running = burst::running(deals.current());
        let wanted =
            burst::wanted(self.now, self.policy, demand, &running, &bursts.awaited(self.now));
        let resting = burst::resting(self.now.wall_ms, deals.current());
        let rests: Vec<Option<(u64, BurstWord)>> =
            wanted.iter().map(|wanted| resting.get(&wanted.key).copied()).collect();
        for (wanted, rest) in wanted.into_iter().zip(rests) {
            match rest {
                Some((until_ms, word)) => {
                    self.broker.bursts.wake_at(self.now, until_ms);
                    self.broker.bursts.set_lacking(&wanted.key, word, RESTS);
                    if word == BurstWord::BoughtInVain {
                        self.say_rests(&wanted, until_ms);
                    }
                }
                None => self.buy_for(&wanted),
            }
        }
    }

    /// Tells pods that came since something was bought for their kind in vain.
    fn say_rests(&mut self, wanted: &Wanted, until_ms: u64) {
        let rest = Seconds(until_ms.saturating_sub(self.now.wall_ms).div_ceil(1_000)).show();
        let text = format!(
            "what was bought for such pods took none of them: see what the scheduler says of them; nothing is \
             bought for them within {rest}"
        );
        let pods = wanted.pods.iter().map(|asking| asking.pod.clone()).collect();
        self.say(wanted, BurstWord::BoughtInVain, text, pods);
    }

    fn buy_for(&mut self, wanted: &Wanted) {
        let models: Vec<Option<GpuModel>> = match wanted.key.gpus_of {
            None => vec![None],
            Some(_) => self.policy.most.gpus.keys().cloned().map(Some).collect(),
        };
        let bought = burst::bought(&burst::running(self.broker.deals.current()));
        let left = self.policy.most.saturating_sub(&bought);
        let aside = self.aside(wanted);
        let (mut refused, mut pods) = (Vec::new(), wanted.pods.clone());
        for model in &models {
            (refused, pods) = (Vec::new(), wanted.pods.clone());
            // Those of a kind that nobody takes keep no others waiting.
            for _ in 0..limits::BURST_KINDS {
                let (fit, beyond) = within(&pods, left.clone(), model.as_ref());
                if fit.is_empty() {
                    break;
                }
                match self.best(wanted, &fit, model.as_ref(), &aside) {
                    Ok((demand, chosen)) => match self.order(wanted, &demand, &chosen) {
                        Ok(()) => return self.say_refused(wanted, refused, beyond),
                        Err(why) => {
                            refused.push((BurstWord::NoOffer, why, pods));
                            pods = Vec::new();
                        }
                    },
                    Err((word, why)) => {
                        let first = fit[0].clone();
                        let (alike, others) =
                            pods.into_iter().partition(|pod| pod.is_alike(&first));
                        refused.push((word, why, alike));
                        pods = others;
                    }
                }
                if pods.is_empty() {
                    break;
                }
            }
        }
        self.say_refused(wanted, refused, pods);
    }

    /// Providers that are not asked: who lately did not sign, and where the pods may not go.
    fn aside(&mut self, wanted: &Wanted) -> BTreeSet<ClusterId> {
        let Broker { bursts, deals, catalogue, .. } = &mut *self.broker;
        let lately = burst::aside(self.now.wall_ms, deals.current());
        lately.values().for_each(|until_ms| bursts.wake_at(self.now, *until_ms));
        let all = catalogue.book.providers(self.now);
        let unfit = all.filter(|(ad, name)| !wanted.to.takes(&ad.header.provider, name));
        unfit.map(|(ad, _)| ad.header.provider).chain(lately.into_keys()).collect()
    }

    /// The best offer for all of the pods; or else that for as many of the oldest as any offer takes.
    fn best(
        &self,
        wanted: &Wanted,
        pods: &[Asking],
        model: Option<&GpuModel>,
        aside: &BTreeSet<ClusterId>,
    ) -> Result<(Demand, Candidate), (BurstWord, String)> {
        let of = |count: usize| {
            let demand = self.demand(&wanted.key, &pods[..count], model);
            let all = self.broker.deals.all();
            let best = self.broker.catalogue.best_beside(self.now, &demand, aside, all);
            best.map(|chosen| (demand, chosen))
        };
        if let Some(all) = of(pods.len()) {
            return Ok(all);
        }
        let (mut found, mut least, mut most) = (None, 1, pods.len());
        while least < most {
            let count = usize::midpoint(least, most);
            match of(count) {
                Some(some) => (found, least) = (Some(some), count + 1),
                None => most = count,
            }
        }
        found.ok_or_else(|| {
            let demand = self.demand(&wanted.key, &pods[..1], model);
            let (catalogue, all) = (&self.broker.catalogue, self.broker.deals.all());
            let market = catalogue.browse(self.now, &demand, Audience::Trusted, true, all);
            self.explained(&market)
        })
    }

    fn demand(&self, key: &BurstKey, pods: &[Asking], model: Option<&GpuModel>) -> Demand {
        let (quantity, largest) = together(pods, model);
        let of_pod = [Resource::Cpu, Resource::Memory]
            .into_iter()
            .filter_map(|it| Term::pod_at_least(&it, largest.quantity(&it)));
        let per_node = largest.gpus.values().max().copied().map(Term::gpus_at_least);
        let vendor = key.gpus_of.as_ref().map(|vendor| Term::of_vendor(vendor.as_str()));
        let terms = Term::on(&key.platform).into_iter().chain(of_pod).chain(per_node);
        let terms = terms.chain(vendor).chain(self.policy.ceilings(model));
        Demand {
            selector: self.policy.selector.and(terms),
            quantity,
            term_s: self.policy.term_s,
            class: self.policy.class,
            max_price: None,
            from: None,
            namespaces: [key.namespace.clone()].into(),
            sort: Sort::Price,
            // Nobody has said that these pods may reach anybody.
            egress: Egress::None,
        }
    }

    fn order(
        &mut self,
        wanted: &Wanted,
        demand: &Demand,
        chosen: &Candidate,
    ) -> Result<(), String> {
        let note = format!("for pods of {} without room", wanted.key.namespace);
        let refused = |refusal: super::Refusal| refusal.to_string();
        self.broker.can_order(&demand.quantity, &note, 1).map_err(refused)?;
        let id = random_id(&mut self.broker.rng);
        let burst = Some(wanted.key.clone());
        let opening = Opening { id, chosen, demand, note, round: None, burst };
        self.broker.open_order(self.now, opening, self.effects).map_err(refused)?;
        let Broker { bursts, deals, .. } = &mut *self.broker;
        bursts.look(self.now, self.policy, &burst::running(deals.current()));
        Ok(())
    }

    fn end(&mut self, id: NegotiationId, why: &str) {
        if let Err(refusal) = self.broker.deals.cancel(self.now, id, why, self.effects) {
            // Once for each deal: it is over, or cannot be ended.
            tracing::warn!(deal = %id.short(), %refusal, "a burst is not ended");
        }
    }
}
