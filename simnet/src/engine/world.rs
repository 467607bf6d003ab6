//! The loop: virtual time, what is under way between and inside the clusters, and the
//! faults that befall it. What agents want done is performed in `effects`, what the plan has
//! in store in `incidents`.

mod effects;
mod incidents;
mod messages;
mod people;

use mercato_agent::{Change, Effect, Gate, Input};
use mercato_cluster_model::sides::Outcome;
use mercato_discovery::{Report, Sighting, SightingId, Source};
use mercato_gossip::Interner;
use mercato_protocol::codec::CodecError;

use crate::engine::address::address;
use crate::engine::agenda::Agenda;
use crate::engine::dice::Dice;
use crate::engine::event::Event;
use crate::engine::network::Network;
use crate::engine::openings::Openings;
use crate::engine::site::{Clock, Site, cluster_now};
use crate::engine::sites::Sites;
use crate::engine::trace::{Trace, note};
use crate::explore::faults::Faults;
use crate::explore::sabotage::Sabotage;
use crate::hostile::attack;
use crate::limits;
use crate::measure::Measures;
use crate::people::People;
use crate::plan::Plan;
use crate::verify::{Actor, Checks, Violation, ensure};

/// All clusters of one run.
pub(crate) struct World {
    pub(crate) agenda: Agenda,
    pub(crate) plan: Plan,
    pub(crate) sites: Sites,
    pub(crate) network: Network,
    pub(crate) trace: Trace,
    pub(crate) checks: Checks,
    pub(crate) people: People,
    pub(crate) faults: Faults,
    pub(crate) openings: Openings,
    pub(crate) measures: Measures,
    pub(crate) dice: Streams,
    pub(crate) sabotage: Option<Sabotage>,
    /// Wake-ups in this very millisecond.
    wakes: (u64, u32),
}

/// A stream of chance for each purpose.
pub(crate) struct Streams {
    pub(crate) kube: Dice,
    pub(crate) disk: Dice,
    pub(crate) fate: Dice,
    pub(crate) seeds: Dice,
}

impl World {
    pub(crate) fn new(
        plan: Plan,
        seed: u64,
        faults: Faults,
        people: People,
    ) -> Result<Self, CodecError> {
        let mut seeds = Dice::new(seed, "keys");
        let mut skews = Dice::new(seed, "clocks");
        let interner = Interner::new(seed);
        let mut sites = Vec::new();
        for cluster in &plan.clusters {
            let most = faults.skew_ms.cast_signed();
            let skew_ms = skews.within(0..=2 * faults.skew_ms).cast_signed() - most;
            let skew_ms = cluster.character.map_or(skew_ms, |character| character.skew_ms());
            let clock = Clock { skew_ms, ..Clock::default() };
            let mut site = Site::new(&cluster.name, seeds.seed(), clock, interner.clone())?;
            site.furnish(cluster, plan.metering_s);
            site.attack = cluster.character.map(|character| attack(character, seed));
            sites.push(site);
        }
        people.introduce(&plan, &mut sites);
        let mut world = Self {
            agenda: Agenda::default(),
            network: Network::new(&plan, seed, faults.strike),
            trace: Trace::default(),
            checks: Checks::default(),
            openings: Openings::default(),
            measures: Measures::new(&plan),
            dice: Streams {
                kube: Dice::new(seed, "kube"),
                disk: Dice::new(seed, "disk"),
                fate: Dice::new(seed, "fate"),
                seeds,
            },
            sites: Sites::new(sites),
            people,
            faults,
            plan,
            sabotage: None,
            wakes: (0, 0),
        };
        for at in 0..world.sites.len() {
            world.set_drift(at);
            let delay_ms = world.dice.disk.within(0..=500) + world.plan.clusters[at].joins_ms;
            world.agenda.plan(delay_ms, Event::Start { at }).expect("the queue is empty");
        }
        for (nth, incident) in world.plan.incidents.clone().into_iter().enumerate() {
            let end_ms = incident.at_ms + incident.for_ms;
            world.agenda.plan(incident.at_ms, Event::Begin(nth)).expect("the queue is empty");
            world.agenda.plan(end_ms, Event::End(nth)).expect("the queue is empty");
        }
        world.agenda.plan(1_000, Event::People).expect("the queue is empty");
        Ok(world)
    }

    /// Lets everything happen up to a moment, in ms.
    pub(crate) fn run_until(&mut self, until_ms: u64) -> Result<(), Violation> {
        while let Some(event) = self.agenda.next(until_ms) {
            self.happen(event)?;
            let steps = self.agenda.steps();
            if steps.is_multiple_of(limits::GLOBAL_CHECK_STEPS) && self.people.are_watched() {
                ensure(steps < limits::STEPS, || "the run never comes to an end".to_owned())?;
                self.checks.all(&self.sites, &self.plan)?;
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let (kind, at) = event.outline();
        self.trace.mark(&[self.agenda.at_ms(), kind, at as u64]);
        match event {
            Event::Packet(parcel) => self.on_packet(parcel),
            Event::Untaken(word) => self.on_untaken(*word),
            Event::Wake { at, run } if self.sites[at].run == run => self.on_wake(at),
            Event::Written { at, run } if self.sites[at].run == run => self.on_written(at),
            Event::Wake { .. } | Event::Written { .. } => Ok(()),
            Event::Watch { at } => self.on_watch(at),
            Event::Advance { at } => self.on_advance(at),
            Event::Work { at, run, contract, work } => self.on_work(at, run, contract, work),
            Event::Answer { at, run, input } if self.sites[at].run == run => self.tell(at, *input),
            Event::Answer { .. } => Ok(()),
            Event::Dialled(dial) => self.on_dialled(&dial),
            Event::Lost { at, peer, connection } => self.on_lost(at, peer, connection),
            Event::Start { at } => self.on_start(at),
            Event::Cut(a, b) => self.on_cut(a, b),
            Event::Mend(a, b) => {
                note!(self, a, "link to {} mended", self.sites[b].name);
                self.network.mend(a, b);
                Ok(())
            }
            Event::DiskFine { at } => self.on_disk_fine(at),
            Event::ClockBack { at, by_ms } => self.on_clock_jump(at, -by_ms),
            Event::Begin(nth) => self.on_begin(nth),
            Event::End(nth) => self.on_end(nth),
            Event::People => {
                self.on_people()?;
                self.agenda.plan(1_000, Event::People)
            }
        }
    }

    /// Tells an agent something, and lets go what of its answer is free to go.
    pub(crate) fn tell(&mut self, at: usize, input: Input) -> Result<(), Violation> {
        let now = self.sites[at].now(self.agenda.at_ms());
        let site = &mut self.sites[at];
        let Some(agent) = &mut site.agent else { return Ok(()) };
        match &mut self.sabotage {
            None => keep(&mut site.gate, agent.handle(now, input))?,
            Some(sabotage) => {
                for input in sabotage.twist_input(at, input) {
                    let answer = sabotage.twist(at, agent.handle(now, input));
                    keep(&mut site.gate, answer)?;
                }
            }
        }
        self.go_on(at)
    }

    /// Writes what is to be written, and does what is free to be done.
    fn go_on(&mut self, at: usize) -> Result<(), Violation> {
        if let Some(changes) = self.sites[at].gate.write().map(<[Change]>::to_vec) {
            self.sites[at].writing = changes;
            let (delay_ms, run) = (self.dice.disk.within(1..=8), self.sites[at].run);
            self.agenda.plan(delay_ms, Event::Written { at, run })?;
        }
        loop {
            let next = self.sites[at].gate.release();
            let Some(effect) = next else { break };
            if self.strikes(at)? {
                return Ok(());
            }
            if self.sites[at].attack.is_some() {
                self.perform_hostile(at, effect)?;
            } else {
                let (site, now) = (&self.sites[at], self.sites[at].now(self.agenda.at_ms()));
                let actor = Actor { at, site, now };
                self.checks.on_effect(actor, &mut self.openings, &effect)?;
                self.perform(at, effect)?;
            }
        }
        self.plan_wake(at)
    }

    /// A hostile peer has its hands in between.
    fn perform_hostile(&mut self, at: usize, effect: Effect) -> Result<(), Violation> {
        let mut effects = Vec::new();
        self.with_attack(at, |attack, scene| effects = attack.pass(scene, effect))?;
        effects.into_iter().try_for_each(|effect| self.perform(at, effect))
    }

    /// Whether the daemon dies right before the next effect.
    fn strikes(&mut self, at: usize) -> Result<bool, Violation> {
        let effect = self.sites[at].effects;
        self.sites[at].effects += 1;
        let Some(down_ms) = self.faults.crash(at, effect) else { return Ok(false) };
        self.crash(at, down_ms)?;
        Ok(true)
    }

    pub(crate) fn crash(&mut self, at: usize, down_ms: u64) -> Result<(), Violation> {
        if self.sites[at].agent.is_none() {
            return Ok(()); // it is down already, and its next start is planned
        }
        note!(self, at, "crashes before effect {}", self.sites[at].effects.saturating_sub(1));
        self.sites[at].crash();
        self.network.on_crash(&mut self.agenda, at)?;
        self.agenda.plan(down_ms, Event::Start { at })
    }

    fn on_written(&mut self, at: usize) -> Result<(), Violation> {
        if self.sites[at].agent.is_none() || self.strikes(at)? {
            return Ok(());
        }
        if self.sites[at].disk_full {
            return self.rebuild(at, Some("no space left on device".to_owned()));
        }
        self.sites[at].gate.written();
        let changes = std::mem::take(&mut self.sites[at].writing);
        self.checks.on_written(at, &self.sites[at], &self.plan, &changes)?;
        self.go_on(at)?;
        if self.sites[at].gate.is_idle() {
            self.network.on_kept(at);
        }
        Ok(())
    }

    pub(crate) fn plan_wake(&mut self, at: usize) -> Result<(), Violation> {
        let site = &self.sites[at];
        let Some(due_ms) = site.due_ms(self.agenda.at_ms()) else { return Ok(()) };
        if site.wake_ms.is_some_and(|planned_ms| planned_ms <= due_ms) {
            return Ok(());
        }
        let run = site.run;
        self.sites[at].wake_ms = Some(due_ms);
        self.agenda.plan(due_ms - self.agenda.at_ms(), Event::Wake { at, run })
    }

    fn on_wake(&mut self, at: usize) -> Result<(), Violation> {
        let count = if self.wakes.0 == self.agenda.at_ms() { self.wakes.1 + 1 } else { 0 };
        self.wakes = (self.agenda.at_ms(), count);
        ensure(count < 10_000, || format!("{} wakes without end", self.sites[at].name))?;
        let site = &mut self.sites[at];
        // An earlier wake-up may have been planned since, and has done it.
        if site.wake_ms.is_some_and(|planned_ms| planned_ms > self.agenda.at_ms()) {
            return Ok(());
        }
        site.wake_ms = None;
        if site.due_ms(self.agenda.at_ms()).is_some_and(|due_ms| due_ms <= self.agenda.at_ms()) {
            self.tell(at, Input::Tick)
        } else {
            self.plan_wake(at)
        }
    }

    fn on_start(&mut self, at: usize) -> Result<(), Violation> {
        // It may have died again before it was to start.
        if self.sites[at].agent.is_some() {
            return Ok(());
        }
        let seed = self.dice.seeds.seed();
        note!(self, at, "starts");
        self.sites[at].start(self.agenda.at_ms(), seed);
        self.tell_world(at)
    }

    /// What every agent is told once it is there.
    pub(crate) fn tell_world(&mut self, at: usize) -> Result<(), Violation> {
        self.tell(at, Input::Tick)?;
        let inventory = self.people.inventory(&self.plan, at);
        self.tell(at, Input::Inventory(inventory))?;
        let reachable = self.plan.clusters[at].access.reachable;
        let addresses = reachable.then(|| address(at).to_string());
        self.tell(at, Input::Addresses(addresses.into_iter().collect()))?;
        for peer in self.plan.clusters[at].knows.clone() {
            if self.plan.clusters[peer].access.reachable {
                let sighting = self.sighting(peer);
                self.tell(at, Input::Sighted(Report::Seen(sighting)))?;
            }
        }
        Ok(())
    }

    fn sighting(&self, peer: usize) -> Sighting {
        Sighting {
            id: SightingId { source: Source::Lan, instance: self.sites[peer].name.clone() },
            peer: Some(self.sites[peer].key()),
            addresses: vec![address(peer)],
        }
    }

    /// What becomes of a write.
    pub(crate) fn write_outcome(&mut self) -> Outcome {
        let (fails, unheard) = self.faults.writes();
        match () {
            () if self.dice.kube.chance(fails) => Outcome::Fails,
            () if self.dice.kube.chance(unheard) => Outcome::Unheard,
            () => Outcome::Answered,
        }
    }

    /// Something changed in a cluster: its own controllers go on, and watches will tell.
    pub(crate) fn kube_changed(&mut self, at: usize) -> Result<(), Violation> {
        let now = cluster_now(self.agenda.at_ms());
        self.sites[at].kube.advance(now);
        if let Some(due_ms) = self.sites[at].kube.wakeup_ms() {
            self.plan_advance(at, due_ms.max(self.agenda.at_ms() + 1))?;
        }
        if !self.sites[at].watch_planned {
            self.sites[at].watch_planned = true;
            let delay_ms = self.dice.kube.within(1..=40);
            self.agenda.plan(delay_ms, Event::Watch { at })?;
        }
        self.checks.on_kube(at, &self.sites)
    }

    /// Unless an earlier look at the cluster is planned already, which plans the next.
    fn plan_advance(&mut self, at: usize, due_ms: u64) -> Result<(), Violation> {
        let planned = &mut self.sites[at].advance_ms;
        if planned.is_some_and(|planned_ms| planned_ms <= due_ms) {
            return Ok(());
        }
        *planned = Some(due_ms);
        self.agenda.plan(due_ms - self.agenda.at_ms(), Event::Advance { at })
    }

    fn on_advance(&mut self, at: usize) -> Result<(), Violation> {
        self.sites[at].advance_ms.take_if(|planned_ms| *planned_ms <= self.agenda.at_ms());
        self.kube_changed(at)
    }
}

/// An agent's answer on its way to the disk, whose records have the daemon's bound: no input may
/// lead beyond it.
fn keep(gate: &mut Gate, answer: Vec<Effect>) -> Result<(), Violation> {
    gate.pass(answer).map_err(|error| Violation(error.to_string()))
}

#[cfg(test)]
mod tests;
