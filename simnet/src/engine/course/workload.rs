//! The workload of the run has its turn once a second: what owners ask is told to their agents,
//! and what they do is done in their clusters.

use mercato_agent::{BrokerInput, Input};

use super::Course;
use crate::engine::site::cluster_now;
use crate::engine::trace::note;
use crate::verify::Violation;
use crate::workload::{Look, MarketAction, create, follow_crowds, follow_pods, remove};

impl Course {
    /// Everybody looks, and does the next thing.
    pub(super) fn on_workload(&mut self) -> Result<(), Violation> {
        for at in 0..self.world.sites.len() {
            self.show_ends(at)?;
            if self.world.workload.is_checked() {
                self.step(at)?;
            } else {
                self.trade(at)?;
            }
            let site = &self.world.sites[at];
            if site.attack.is_some() && site.agent.is_some() {
                self.world.with_attack(at, |attack, scene| attack.act(scene))?;
            }
        }
        let (at_ms, world) = (self.at_ms(), &mut self.world);
        if let Some(market) = &world.workload.market {
            world.measures.sample(at_ms, &world.plan, &world.sites, &world.network, market);
        }
        self.befall()?;
        let world = &mut self.world;
        if world.workload.is_checked() {
            world.checks.prompt.check(at_ms, &world.sites, &world.network)?;
            world.checks.leaving.check(at_ms, &world.sites)?;
            world.checks.bursts.check(at_ms, &world.sites)?;
        }
        Ok(())
    }

    /// Nodes of leases that have come near to their end show it by now, and others no longer.
    fn show_ends(&mut self, at: usize) -> Result<(), Violation> {
        let (at_ms, world) = (self.at_ms(), &mut self.world);
        for contract in world.sites[at].turning(at_ms) {
            world.tend(at, contract)?;
            world.kube_changed(at)?;
        }
        Ok(())
    }

    fn trade(&mut self, at: usize) -> Result<(), Violation> {
        if self.at_ms() < self.world.plan.clusters[at].joins_ms {
            return Ok(());
        }
        let first = self.world.trading(at).and_then(|mut trading| trading.begin());
        first.map_or(Ok(()), |action| self.perform(at, action))?;
        let due = self.world.trading(at).map(|trading| trading.due());
        for number in due.into_iter().flatten() {
            let actions = self.world.trading(at).map(|mut trading| trading.look_at_job(number));
            actions.into_iter().flatten().try_for_each(|action| self.perform(at, action))?;
        }
        Ok(())
    }

    fn perform(&mut self, at: usize, action: MarketAction) -> Result<(), Violation> {
        let (now, world) = (cluster_now(self.at_ms()), &mut self.world);
        let kube = &mut world.sites[at].kube;
        match action {
            MarketAction::Tell(input) => return world.tell(at, *input),
            MarketAction::Create(pods) => create(kube, now, pods)?,
            MarketAction::Remove(keys) => remove(kube, now, keys, &mut world.checks.pods)?,
        }
        world.kube_changed(at)
    }

    /// The owner of a cluster looks, and does the next thing.
    fn step(&mut self, at: usize) -> Result<(), Violation> {
        let (at_ms, world) = (self.at_ms(), &mut self.world);
        let kube = &mut world.sites[at].kube;
        let before = kube.version();
        // What fails is done at the next look.
        let (now, all_go) = (cluster_now(at_ms), world.workload.owners.leaving);
        let followed = follow_pods(kube, now).and_then(|()| follow_crowds(kube, now, all_go));
        if let Err(error) = followed {
            note!(world, at, "not done: {error}");
        }
        if world.sites[at].kube.version() != before {
            world.kube_changed(at)?;
        }
        // A daemon that has just begun is told as well.
        world.tell_pending(at)?;
        let look = Look { at_ms, at, site: &world.sites[at] };
        if let Some((number, command)) = world.workload.owners.next_command(look, &world.plan) {
            note!(world, at, "owner asks {number}: {command:?}");
            world.tell(at, Input::Broker(BrokerInput::Command(number, Box::new(command))))?;
        }
        let look = Look { at_ms, at, site: &world.sites[at] };
        let Some(action) = world.workload.owners.next_action(look) else { return Ok(()) };
        note!(world, at, "owner: {action:?}");
        let (kube, judge) = (&mut world.sites[at].kube, &mut world.checks.pods);
        let Some(done) = action.perform(kube, cluster_now(at_ms), at, judge) else {
            return Ok(());
        };
        // What there is not cannot be changed; the owner shrugs.
        if let Err(error) = done {
            note!(world, at, "not done: {error}");
        }
        world.kube_changed(at)
    }
}
