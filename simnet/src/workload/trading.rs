//! What the people of one cluster do: run jobs at home where there is room, buy room for the
//! others, sell what they share.

use mercato_agent::{BrokerInput, Input};
use mercato_broker::{Command, Deal, Demand, EndReason, Exclusion, Refusal, Reply};
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resource;

use super::inventory::inventory;
use super::job::{Job, State};
use super::market::Market;
use super::market_action::MarketAction;
use super::price::{demand, policy, reason_words};
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::measure::{Measures, Trade};
use crate::plan::Plan;

/// A seller looks at its price so often, in ms.
const PRICE_MS: u64 = 600_000;
/// Who finds no offer looks again after so many ms, and after twice as many each further time.
const AGAIN_MS: u64 = 15_000;
/// But at least so often.
const AGAIN_MOST_MS: u64 = 120_000;

/// The people of one cluster as they look at the market.
pub(crate) struct Trading<'a> {
    pub(crate) at_ms: u64,
    pub(crate) at: usize,
    pub(crate) plan: &'a Plan,
    pub(crate) sites: &'a Sites,
    pub(crate) market: &'a mut Market,
    pub(crate) measures: &'a mut Measures,
}

impl Trading<'_> {
    fn job(&mut self, number: u64) -> Option<&mut Job> {
        self.market.agents[self.at].jobs.get_mut(&number)
    }

    /// New jobs have come, and a seller looks at its price; what it does then.
    pub(crate) fn begin(&mut self) -> Option<MarketAction> {
        self.measures.jobs.came += self.market.arrive(self.plan, self.at, self.at_ms) as u64;
        if self.plan.sells(self.at) { self.look_at_price() } else { None }
    }

    /// Jobs that are to be looked at now.
    pub(crate) fn due(&self) -> Vec<u64> {
        let jobs = self.market.agents[self.at].jobs.values();
        jobs.filter(|job| job.look_ms <= self.at_ms).map(|job| job.number).collect()
    }

    /// Dearer when much is sold, cheaper when little is.
    fn look_at_price(&mut self) -> Option<MarketAction> {
        let agent = self.sites[self.at].agent.as_ref()?;
        let is_new = agent.broker().share().is_none();
        let market_agent = &mut self.market.agents[self.at];
        if !is_new && market_agent.next_price_ms > self.at_ms {
            return None;
        }
        let before = market_agent.price_percent;
        if let Some((body, rows)) = agent.broker().offer()
            && self.plan.clusters[self.at].character.is_none()
        {
            let total: u64 = body.pools.iter().map(|pool| pool.total.cpu_millis).sum();
            let free: u64 = rows.iter().map(|row| row.free.cpu_millis).sum();
            // The total is rounded down, what is free is exact.
            let sold = total.saturating_sub(free);
            market_agent.price_percent = match sold * 100 / total.max(1) {
                75.. => (before * 115 / 100).min(190),
                0..25 => (before * 92 / 100).max(50),
                25..75 => before,
            };
        }
        market_agent.next_price_ms = self.at_ms + PRICE_MS;
        let percent = market_agent.price_percent;
        let policy = (is_new || percent != before).then(|| policy(self.plan, self.at, percent))?;
        Some(self.instruct(Command::Share(Some(policy))))
    }

    fn instruct(&mut self, command: Command) -> MarketAction {
        self.market.commands += 1;
        MarketAction::Tell(Box::new(Input::Broker(BrokerInput::Command(
            self.market.commands,
            Box::new(command),
        ))))
    }

    /// What is done about one job.
    pub(crate) fn look_at_job(&mut self, number: u64) -> Vec<MarketAction> {
        let at_ms = self.at_ms;
        let Some(job) = self.job(number) else { return Vec::new() };
        let tired = !job.is_running && at_ms > job.arrived_ms + job.patience_ms();
        job.look_ms = at_ms + 1_000;
        match job.state {
            State::Waiting if tired => self.give_up(number),
            State::Waiting => return self.find_room(number),
            // The agent may have died with the order.
            State::Asked => job.state = State::Waiting,
            State::Ordered(deal) => return self.look_at_order(number, deal),
            State::AtHome => return self.look_at_pods(number, None),
            State::Away(contract) => return self.look_at_pods(number, Some(contract)),
        }
        Vec::new()
    }

    fn give_up(&mut self, number: u64) {
        self.measures.jobs.given_up += 1;
        self.market.agents[self.at].jobs.remove(&number);
    }

    /// The agent is told what home's own pods ask for now.
    fn tell_inventory(&self) -> MarketAction {
        let requested = self.market.at_home(self.at);
        let has = &self.plan.clusters[self.at].has;
        MarketAction::Tell(Box::new(Input::Broker(BrokerInput::Inventory(inventory(
            has, requested,
        )))))
    }

    fn find_room(&mut self, number: u64) -> Vec<MarketAction> {
        let (at_ms, own) = (self.at_ms, Market::own(self.plan, self.at));
        let is_up = self.sites[self.at].agent.is_some();
        let market_agent = &mut self.market.agents[self.at];
        let Some(job) = market_agent.jobs.get_mut(&number) else { return Vec::new() };
        let needs = job.total();
        let with = market_agent.at_home.checked_add(&needs).unwrap_or_default();
        if needs.gpus.is_empty() && with.fits(&own) {
            market_agent.at_home = with;
            job.state = State::AtHome;
            let pods = job.objects(None);
            return vec![MarketAction::Create(pods), self.tell_inventory()];
        }
        if !is_up {
            return Vec::new();
        }
        let demand = demand(job);
        (job.state, job.look_ms) = (State::Asked, at_ms + AGAIN_MS);
        let order = self.instruct(Command::Order { demand, note: String::new(), id: None });
        self.market.asked.insert(self.market.commands, (self.at, number));
        vec![order]
    }

    /// An agent answers an order.
    pub(crate) fn on_order(&mut self, number: u64, reply: &Result<Reply, Refusal>) {
        let asked = self.market.asked.remove(&number);
        let Some((_, job)) = asked.filter(|(of, _)| *of == self.at) else { return };
        let at_ms = self.at_ms;
        let Some(job) = self.job(job) else { return };
        match reply {
            Ok(Reply::Ordered { id, .. }) => {
                let waited_ms = at_ms - job.arrived_ms;
                (job.state, job.ordered_ms) = (State::Ordered(*id), Some(at_ms));
                job.look_ms = at_ms;
                self.measures.find_ms.push(waited_ms);
            }
            Ok(Reply::Done | Reply::Asked { .. }) | Err(_) => {
                let wait_ms = (AGAIN_MS << job.in_vain).min(AGAIN_MOST_MS);
                job.in_vain = (job.in_vain + 1).min(8);
                (job.state, job.look_ms) = (State::Waiting, at_ms + wait_ms);
                let demand = demand(job);
                let why = why_not(&self.sites[self.at], at_ms, &demand);
                self.measures.refuse(why);
            }
        }
    }

    fn look_at_order(&mut self, number: u64, id: NegotiationId) -> Vec<MarketAction> {
        let Some(agent) = &self.sites[self.at].agent else { return Vec::new() };
        let Some(deal) = agent.broker().deal(&id) else {
            self.wait_again(number);
            return Vec::new();
        };
        match deal.end().map(|end| end.reason) {
            Some(EndReason::Terminated(reason)) => {
                self.measures.refuse(reason_words(reason));
                self.wait_again(number);
                return Vec::new();
            }
            Some(EndReason::Closed(_)) => return vec![self.interrupted(number)],
            None if !deal.is_active() => return Vec::new(),
            None => {}
        }
        let trade = self.trade_of(deal);
        self.measures.trades.extend(trade);
        let at_ms = self.at_ms;
        let Some(job) = self.job(number) else { return Vec::new() };
        let contract = id.into();
        job.state = State::Away(contract);
        let (ordered_ms, pods) = (job.ordered_ms.unwrap_or(at_ms), job.objects(Some(contract)));
        let active_ms = self.measures.active_ms.remove(&id).unwrap_or(at_ms);
        self.measures.contract_ms.push(active_ms - ordered_ms);
        vec![MarketAction::Create(pods)]
    }

    fn wait_again(&mut self, number: u64) {
        if let Some(job) = self.job(number) {
            (job.state, job.is_running) = (State::Waiting, false);
        }
    }

    /// Its lease is lost: its pods go, and it looks for room once more.
    fn interrupted(&mut self, number: u64) -> MarketAction {
        self.measures.jobs.interrupted += 1;
        let (at_ms, removed) = (self.at_ms, self.remove_pods(number));
        let Some(job) = self.job(number) else { return removed };
        // Whatever becomes of it counts, once.
        let ran = std::mem::replace(&mut job.is_running, false);
        if job.was_interrupted {
            self.give_up(number);
        } else {
            (job.was_interrupted, job.arrived_ms) = (true, at_ms);
            self.wait_again(number);
        }
        self.measures.jobs.away -= u64::from(ran);
        removed
    }

    /// Whether all run, or all have ended.
    fn look_at_pods(&mut self, number: u64, contract: Option<ContractId>) -> Vec<MarketAction> {
        if self.is_lost(contract) {
            return vec![self.interrupted(number)];
        }
        let kube = &self.sites[self.at].kube;
        let at_ms = self.at_ms;
        let Some(job) = self.market.agents[self.at].jobs.get_mut(&number) else {
            return Vec::new();
        };
        let all = |phase: &str| {
            job.keys().all(|key| kube.get(&key).is_some_and(|pod| pod["status"]["phase"] == phase))
        };
        if all("Succeeded") || all("Failed") {
            return self.finish(number, contract);
        }
        if !job.is_running && all("Running") {
            job.is_running = true;
            job.look_ms = at_ms + (job.minutes * 60_000).saturating_sub(2_000);
            match contract {
                None => self.measures.jobs.at_home += 1,
                Some(_) => {
                    self.measures.jobs.away += 1;
                    self.measures.run_ms.push(at_ms - job.arrived_ms);
                }
            }
        }
        Vec::new()
    }

    /// Whether the lease has ended under its pods.
    fn is_lost(&self, contract: Option<ContractId>) -> bool {
        let (Some(id), Some(agent)) = (contract, &self.sites[self.at].agent) else { return false };
        agent.broker().deal(&id.into()).is_none_or(|deal| !deal.is_leased())
    }

    fn finish(&mut self, number: u64, contract: Option<ContractId>) -> Vec<MarketAction> {
        let removed = self.remove_pods(number);
        let market_agent = &mut self.market.agents[self.at];
        let Some(job) = market_agent.jobs.remove(&number) else { return vec![removed] };
        let told = match contract {
            Some(contract) => {
                let deal = contract.into();
                self.instruct(Command::Cancel { deal, text: String::new() })
            }
            None => {
                market_agent.at_home = market_agent.at_home.saturating_sub(&job.total());
                self.tell_inventory()
            }
        };
        vec![removed, told]
    }

    fn remove_pods(&mut self, number: u64) -> MarketAction {
        MarketAction::Remove(self.job(number).into_iter().flat_map(|job| job.keys()).collect())
    }

    fn trade_of(&self, deal: &Deal) -> Option<Trade> {
        let terms = deal.terms();
        let Price::Posted { units, .. } = &terms.price else { return None };
        let gpu = terms.quantity.gpus.keys().next().cloned();
        let gpu_micros = gpu.clone().and_then(|model| units.get(&Resource::Gpu(model)));
        Some(Trade {
            at_ms: self.at_ms,
            buyer: self.at,
            seller: self.sites.place_of(deal.peer())?,
            cpu_millis: terms.quantity.cpu_millis,
            cpu_micros: units.get(&Resource::Cpu).map_or(0, |unit| unit.micros),
            gpu: gpu.map(|model| model.to_string()).zip(gpu_micros.map(|unit| unit.micros)),
        })
    }
}

/// What most of the offers lacked that a cluster sees.
fn why_not(site: &Site, at_ms: u64, demand: &Demand) -> &'static str {
    let Some(agent) = &site.agent else { return "the daemon is down" };
    let market = agent.broker().browse(site.now(at_ms), demand, true);
    let reason = |why: &Exclusion| match why {
        Exclusion::Untrusted => "only strangers offer it",
        Exclusion::Refused => "sold out meanwhile",
        Exclusion::NotAsOffered => "the seller lately would not sign what it offers",
        Exclusion::TooDear { .. } => "too dear",
        Exclusion::Short { resource: Resource::Gpu(_), .. } => "no GPU is free",
        Exclusion::Short { .. } => "no room is free",
        Exclusion::BeyondShare { .. } | Exclusion::OnlyWithGpus { .. } => "sold with GPUs alone",
        Exclusion::Blocked
        | Exclusion::OtherProvider
        | Exclusion::Class(_)
        | Exclusion::TermTooShort(_)
        | Exclusion::TermTooLong(_)
        | Exclusion::Egress(_)
        | Exclusion::Currency(_)
        | Exclusion::Price
        | Exclusion::OverBudget { .. }
        | Exclusion::TermNotAllowed
        | Exclusion::Devices
        | Exclusion::Term { .. } => "other terms",
    };
    // What the nearest miss lacked.
    let nearest = market.excluded.iter().min_by_key(|group| group.nearest.lacks.len());
    match nearest.and_then(|group| group.nearest.lacks.first()) {
        Some(why) => reason(why),
        None if market.seen == 0 => "nobody's offer is known",
        None => "another was quicker",
    }
}
