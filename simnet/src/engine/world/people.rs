//! The people of the run have their turn once a second: what they ask is told to their agents,
//! and what they do is done in their clusters.

use mercato_agent::Input;
use mercato_broker::{Refusal, Reply};

use super::World;
use crate::engine::site::cluster_now;
use crate::engine::trace::note;
use crate::people::{Act, Look, Trading, create, remove};
use crate::verify::Violation;

impl World {
    /// Everybody looks, and does the next thing.
    pub(super) fn on_people(&mut self) -> Result<(), Violation> {
        for at in 0..self.sites.len() {
            if self.people.market.is_some() {
                self.trade(at)?;
            } else {
                self.tell_story(at)?;
            }
            if self.sites[at].attack.is_some() && self.sites[at].agent.is_some() {
                self.with_attack(at, |attack, scene| attack.act(scene))?;
            }
        }
        let at_ms = self.agenda.at_ms();
        if let Some(market) = &self.people.market {
            self.measures.sample(at_ms, &self.plan, &self.sites, &self.network, market);
        }
        self.befall()?;
        if self.people.are_watched() {
            self.checks.prompt.check(at_ms, &self.sites, &self.network)?;
        }
        Ok(())
    }

    /// An agent answers its owner.
    pub(super) fn on_reply(&mut self, at: usize, number: u64, reply: &Result<Reply, Refusal>) {
        match self.trading(at) {
            Some(mut trading) => trading.on_order(number, reply),
            None => self.people.owners.on_reply(at, reply),
        }
    }

    /// The people of a cluster at the market, if there is one.
    fn trading(&mut self, at: usize) -> Option<Trading<'_>> {
        let (at_ms, plan, sites) = (self.agenda.at_ms(), &self.plan, &self.sites);
        let (market, measures) = (self.people.market.as_mut()?, &mut self.measures);
        Some(Trading { at_ms, at, plan, sites, market, measures })
    }

    fn trade(&mut self, at: usize) -> Result<(), Violation> {
        if self.agenda.at_ms() < self.plan.clusters[at].joins_ms {
            return Ok(());
        }
        let first = self.trading(at).and_then(|mut trading| trading.begin());
        first.map_or(Ok(()), |act| self.perform_act(at, act))?;
        let due = self.trading(at).map(|trading| trading.due());
        for number in due.into_iter().flatten() {
            let acts = self.trading(at).map(|mut trading| trading.look_at_job(number));
            acts.into_iter().flatten().try_for_each(|act| self.perform_act(at, act))?;
        }
        Ok(())
    }

    fn perform_act(&mut self, at: usize, act: Act) -> Result<(), Violation> {
        let now = cluster_now(self.agenda.at_ms());
        let kube = &mut self.sites[at].kube;
        match act {
            Act::Tell(input) => return self.tell(at, input),
            Act::Create(pods) => create(kube, now, pods)?,
            Act::Remove(keys) => remove(kube, now, keys, &mut self.checks.pods)?,
        }
        self.kube_changed(at)
    }

    /// The owner of a cluster looks, and does the next thing.
    fn tell_story(&mut self, at: usize) -> Result<(), Violation> {
        let (at_ms, sells) = (self.agenda.at_ms(), self.plan.sells(at));
        let look = Look { at_ms, at, site: &self.sites[at] };
        if let Some((number, command)) = self.people.owners.next_command(look, sells) {
            note!(self, at, "owner asks {number}: {command:?}");
            self.tell(at, Input::Command(number, command))?;
        }
        let look = Look { at_ms, at, site: &self.sites[at] };
        let Some(deed) = self.people.owners.next_deed(look) else { return Ok(()) };
        note!(self, at, "owner: {deed:?}");
        let (kube, judge) = (&mut self.sites[at].kube, &mut self.checks.pods);
        let Some(done) = deed.perform(kube, cluster_now(at_ms), at, judge) else {
            return Ok(());
        };
        // What there is not cannot be changed; the owner shrugs.
        if let Err(error) = done {
            note!(self, at, "not done: {error}");
        }
        self.kube_changed(at)
    }
}
