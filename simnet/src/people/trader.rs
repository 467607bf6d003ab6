//! What the people of one cluster do: run jobs at home where there is room, buy room for the
//! others, sell what they share.

use mercato_agent::Input;
use mercato_broker::{Command, Deal, Demand, EndReason, Exclusion, Refusal, Reply};
use mercato_cluster_model::sides::admit;
use mercato_offload::placement::export::Scope;
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resource;
use serde_json::Value;

use super::job::{Job, State};
use super::market::Market;
use super::price::{demand, policy, reason_words};
use crate::engine::site::cluster_now;
use crate::engine::world::World;
use crate::measure::Trade;
use crate::verify::Violation;

/// A seller looks at its price so often, in ms.
const PRICE_MS: u64 = 600_000;
/// Who finds no offer looks again after so many ms, and after twice as many each further time.
const AGAIN_MS: u64 = 15_000;
/// But at least so often.
const AGAIN_MOST_MS: u64 = 120_000;

impl World {
    fn market(&mut self) -> &mut Market {
        self.people.market.as_mut().expect("only traders trade")
    }

    fn job(&mut self, at: usize, number: u64) -> Option<&mut Job> {
        self.market().traders[at].jobs.get_mut(&number)
    }

    /// The people of a cluster look, and do what is to be done.
    pub(crate) fn trade(&mut self, at: usize) -> Result<(), Violation> {
        let at_ms = self.agenda.at_ms();
        if at_ms < self.plan.clusters[at].joins_ms {
            return Ok(());
        }
        let market = self.people.market.as_mut().expect("only traders trade");
        self.measures.jobs.came += market.arrive(&self.plan, at, at_ms) as u64;
        if self.plan.sells(at) {
            self.look_at_price(at)?;
        }
        let due = self.market().traders[at].jobs.values().filter(|job| job.look_ms <= at_ms);
        let due: Vec<u64> = due.map(|job| job.number).collect();
        due.into_iter().try_for_each(|number| self.look_at_job(at, number))
    }

    /// Dearer when much is sold, cheaper when little is.
    fn look_at_price(&mut self, at: usize) -> Result<(), Violation> {
        let at_ms = self.agenda.at_ms();
        let Some(agent) = &self.sites[at].agent else { return Ok(()) };
        let is_new = agent.broker().share().is_none();
        let trader = &mut self.people.market.as_mut().expect("only traders trade").traders[at];
        if !is_new && trader.next_price_ms > at_ms {
            return Ok(());
        }
        let before = trader.price_percent;
        if let Some((body, rows)) = agent.broker().offer()
            && self.plan.clusters[at].character.is_none()
        {
            let total: u64 = body.pools.iter().map(|pool| pool.total.cpu_millis).sum();
            let free: u64 = rows.iter().map(|row| row.free.cpu_millis).sum();
            // The total is rounded down, what is free is exact.
            let sold = total.saturating_sub(free);
            trader.price_percent = match sold * 100 / total.max(1) {
                75.. => (before * 115 / 100).min(190),
                0..25 => (before * 92 / 100).max(50),
                25..75 => before,
            };
        }
        trader.next_price_ms = at_ms + PRICE_MS;
        let percent = trader.price_percent;
        if is_new || percent != before {
            let policy = policy(&self.plan, at, percent);
            self.instruct(at, Command::Share(Some(policy)))?;
        }
        Ok(())
    }

    fn instruct(&mut self, at: usize, command: Command) -> Result<(), Violation> {
        self.market().commands += 1;
        let number = self.market().commands;
        self.tell(at, Input::Command(number, command))
    }

    fn look_at_job(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        let at_ms = self.agenda.at_ms();
        let Some(job) = self.job(at, number) else { return Ok(()) };
        let tired = !job.is_running && at_ms > job.arrived_ms + job.patience_ms();
        job.look_ms = at_ms + 1_000;
        match job.state {
            State::Waiting if tired => self.give_up(at, number),
            State::Waiting => self.find_room(at, number),
            // The agent may have died with the order.
            State::Asked => {
                job.state = State::Waiting;
                Ok(())
            }
            State::Ordered(deal) => self.look_at_order(at, number, deal),
            State::AtHome => self.look_at_pods(at, number, None),
            State::Away(contract) => self.look_at_pods(at, number, Some(contract)),
        }
    }

    fn give_up(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        self.measures.jobs.given_up += 1;
        self.market().traders[at].jobs.remove(&number);
        Ok(())
    }

    fn find_room(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        let (at_ms, own) = (self.agenda.at_ms(), Market::own(&self.plan, at));
        let is_up = self.sites[at].agent.is_some();
        let trader = &mut self.market().traders[at];
        let Some(job) = trader.jobs.get_mut(&number) else { return Ok(()) };
        let needs = job.total();
        let with = trader.at_home.checked_add(&needs).unwrap_or_default();
        if needs.gpus.is_empty() && with.fits(&own) {
            trader.at_home = with;
            job.state = State::AtHome;
            let pods = job.objects(None);
            self.create(at, pods)?;
            let inventory = self.inventory(at);
            return self.tell(at, Input::Inventory(inventory));
        }
        if !is_up {
            return Ok(());
        }
        let demand = demand(job);
        (job.state, job.look_ms) = (State::Asked, at_ms + AGAIN_MS);
        self.people.market.as_mut().expect("only traders trade").commands += 1;
        let command = self.market().commands;
        self.market().asked.insert(command, (at, number));
        let order = Command::Order { demand, note: String::new(), id: None };
        self.tell(at, Input::Command(command, order))
    }

    /// An agent answers an order.
    pub(super) fn on_order(&mut self, at: usize, number: u64, reply: &Result<Reply, Refusal>) {
        let asked = self.market().asked.remove(&number);
        let Some((_, job)) = asked.filter(|(of, _)| *of == at) else { return };
        let at_ms = self.agenda.at_ms();
        let Some(job) = self.job(at, job) else { return };
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
                let why = self.why_not(at, &demand);
                self.measures.refuse(why);
            }
        }
    }

    /// What most of the offers lacked.
    fn why_not(&self, at: usize, demand: &Demand) -> &'static str {
        let Some(agent) = &self.sites[at].agent else { return "the daemon is down" };
        let market = agent.broker().browse(self.sites[at].now(self.agenda.at_ms()), demand, true);
        let reason = |why: &Exclusion| match why {
            Exclusion::Untrusted => "only strangers offer it",
            Exclusion::Refused => "sold out meanwhile",
            Exclusion::NotAsOffered => "the seller lately would not sign what it offers",
            Exclusion::TooDear { .. } => "too dear",
            Exclusion::Short { resource: Resource::Gpu(_), .. } => "no GPU is free",
            Exclusion::Short { .. } => "no room is free",
            Exclusion::Blocked
            | Exclusion::OtherProvider
            | Exclusion::Class(_)
            | Exclusion::TermTooShort(_)
            | Exclusion::TermTooLong(_)
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

    fn look_at_order(
        &mut self,
        at: usize,
        number: u64,
        id: NegotiationId,
    ) -> Result<(), Violation> {
        let Some(agent) = &self.sites[at].agent else { return Ok(()) };
        let deal = agent.broker().deal(&id);
        let Some(deal) = deal else { return self.wait_again(at, number) };
        match deal.end().map(|end| end.reason) {
            Some(EndReason::Terminated(reason)) => {
                self.measures.refuse(reason_words(reason));
                return self.wait_again(at, number);
            }
            Some(EndReason::Closed(_)) => return self.interrupted(at, number),
            None if !deal.is_active() => return Ok(()),
            None => {}
        }
        let trade = self.trade_of(at, deal);
        self.measures.trades.extend(trade);
        let at_ms = self.agenda.at_ms();
        let Some(job) = self.job(at, number) else { return Ok(()) };
        job.state = State::Away(id);
        let (ordered_ms, pods) = (job.ordered_ms.unwrap_or(at_ms), job.objects(Some(id)));
        let active_ms = self.measures.active_ms.remove(&id).unwrap_or(at_ms);
        self.measures.contract_ms.push(active_ms - ordered_ms);
        self.create(at, pods)
    }

    fn wait_again(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        if let Some(job) = self.job(at, number) {
            (job.state, job.is_running) = (State::Waiting, false);
        }
        Ok(())
    }

    fn interrupted(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        self.measures.jobs.interrupted += 1;
        self.remove_pods(at, number)?;
        let at_ms = self.agenda.at_ms();
        let Some(job) = self.job(at, number) else { return Ok(()) };
        // Whatever becomes of it counts, once.
        let ran = std::mem::replace(&mut job.is_running, false);
        self.measures.jobs.away -= u64::from(ran);
        let Some(job) = self.job(at, number) else { return Ok(()) };
        if job.was_interrupted {
            return self.give_up(at, number);
        }
        (job.was_interrupted, job.arrived_ms) = (true, at_ms);
        self.wait_again(at, number)
    }

    /// Whether all run, or all have ended.
    fn look_at_pods(
        &mut self,
        at: usize,
        number: u64,
        contract: Option<ContractId>,
    ) -> Result<(), Violation> {
        let (at_ms, lost) = (self.agenda.at_ms(), self.is_lost(at, contract));
        if lost {
            return self.interrupted(at, number);
        }
        let market = self.people.market.as_mut().expect("only traders trade");
        let Some(job) = market.traders[at].jobs.get_mut(&number) else { return Ok(()) };
        let kube = &self.sites[at].kube;
        let all = |phase: &str| {
            job.keys().all(|key| kube.get(&key).is_some_and(|pod| pod["status"]["phase"] == phase))
        };
        if all("Succeeded") || all("Failed") {
            return self.finish(at, number, contract);
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
        Ok(())
    }

    /// Whether the lease has ended under its pods.
    fn is_lost(&self, at: usize, contract: Option<ContractId>) -> bool {
        let (Some(id), Some(agent)) = (contract, &self.sites[at].agent) else { return false };
        agent.broker().deal(&id).is_none_or(|deal| !deal.is_leased())
    }

    fn finish(
        &mut self,
        at: usize,
        number: u64,
        contract: Option<ContractId>,
    ) -> Result<(), Violation> {
        self.remove_pods(at, number)?;
        let trader = &mut self.market().traders[at];
        let Some(job) = trader.jobs.remove(&number) else { return Ok(()) };
        match contract {
            Some(deal) => self.instruct(at, Command::Cancel { deal, text: String::new() }),
            None => {
                trader.at_home = trader.at_home.saturating_sub(&job.total());
                let inventory = self.inventory(at);
                self.tell(at, Input::Inventory(inventory))
            }
        }
    }

    fn create(&mut self, at: usize, pods: Vec<Value>) -> Result<(), Violation> {
        let now = cluster_now(self.agenda.at_ms());
        for pod in pods {
            let kube = &mut self.sites[at].kube;
            let pod = admit(kube, Scope::Labelled, pod);
            let made = kube.create(now, pod);
            made.map_err(|error| Violation(format!("a job's pod: {error}")))?;
        }
        self.kube_changed(at)
    }

    fn remove_pods(&mut self, at: usize, number: u64) -> Result<(), Violation> {
        let now = cluster_now(self.agenda.at_ms());
        let keys: Vec<_> = self.job(at, number).into_iter().flat_map(|job| job.keys()).collect();
        for key in keys {
            if let Some(pod) = self.sites[at].kube.get(&key) {
                self.checks.pods.force(pod["metadata"]["uid"].as_str().unwrap_or_default());
                let gone = self.sites[at].kube.delete(now, &key, None, Some(0));
                gone.map_err(|error| Violation(format!("a job's pod: {error}")))?;
            }
        }
        self.kube_changed(at)
    }

    fn trade_of(&self, at: usize, deal: &Deal) -> Option<Trade> {
        let terms = deal.terms();
        let Price::Posted { units, .. } = &terms.price else { return None };
        let gpu = terms.quantity.gpus.keys().next().cloned();
        let gpu_micros = gpu.clone().and_then(|model| units.get(&Resource::Gpu(model)));
        Some(Trade {
            at_ms: self.agenda.at_ms(),
            buyer: at,
            seller: self.sites.place_of(deal.peer())?,
            cpu_millis: terms.quantity.cpu_millis,
            cpu_micros: units.get(&Resource::Cpu).map_or(0, |unit| unit.micros),
            gpu: gpu.map(|model| model.to_string()).zip(gpu_micros.map(|unit| unit.micros)),
        })
    }
}
