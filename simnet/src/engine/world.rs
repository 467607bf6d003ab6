//! All clusters and what is between them: what an agent is told, what of its answer is free to go
//! and when, and how daemons die and start. What agents want done is performed in `effects`,
//! what they notice of each other is in `messages`; whose turn it is, is the course's.

mod effects;
mod messages;

use mercato_agent::{Effect, Input};
use mercato_protocol::codec::CodecError;

use crate::engine::agenda::Agenda;
use crate::engine::event::Event;
use crate::engine::network::Network;
use crate::engine::rng::Rng;
use crate::engine::signature_cache::SignatureCache;
use crate::engine::sites::Sites;
use crate::engine::trace::{Trace, note};
use crate::engine::tunnels::{Ground, Tunnels};
use crate::explore::faults::Faults;
use crate::explore::sabotage::Sabotage;
use crate::limits;
use crate::measure::Measures;
use crate::plan::Plan;
use crate::verify::{Actor, Checks, Violation, ensure};
use crate::workload::Workload;

/// All clusters of one run.
pub(crate) struct World {
    pub(crate) agenda: Agenda,
    pub(crate) plan: Plan,
    pub(crate) sites: Sites,
    pub(crate) network: Network,
    pub(crate) trace: Trace,
    pub(crate) checks: Checks,
    pub(crate) workload: Workload,
    pub(crate) faults: Faults,
    pub(crate) measures: Measures,
    pub(crate) sabotage: Option<Sabotage>,
    signature_cache: SignatureCache,
    tunnels: Tunnels,
    rng: Streams,
}

/// A stream of chance for each purpose.
struct Streams {
    kube: Rng,
    disk: Rng,
    seeds: Rng,
}

impl World {
    pub(super) fn new(
        plan: Plan,
        seed: u64,
        faults: Faults,
        workload: Workload,
    ) -> Result<Self, CodecError> {
        let mut seeds = Rng::new(seed, "keys");
        Ok(Self {
            agenda: Agenda::default(),
            sites: Sites::new(&plan, seed, &mut seeds, &faults, &workload)?,
            network: Network::new(&plan, seed, faults.fault),
            trace: Trace::default(),
            checks: Checks::default(),
            signature_cache: SignatureCache::default(),
            measures: Measures::new(&plan),
            tunnels: Tunnels::new(seed),
            rng: Streams { kube: Rng::new(seed, "kube"), disk: Rng::new(seed, "disk"), seeds },
            workload,
            faults,
            plan,
            sabotage: None,
        })
    }

    /// How long a daemon takes to come up for the first time, in ms.
    pub(super) fn start_ms(&mut self) -> u64 {
        self.rng.disk.within(0..=500)
    }

    /// Tells an agent something, and lets go what of its answer is free to go.
    pub(super) fn tell(&mut self, at: usize, input: Input) -> Result<(), Violation> {
        let site = &mut self.sites[at];
        let now = site.now(self.agenda.at_ms());
        let Some(agent) = &mut site.agent else { return Ok(()) };
        let answer = match &mut self.sabotage {
            None => agent.handle(now, input),
            Some(sabotage) => {
                let heard = sabotage.twist_input(at, input).into_iter();
                heard.flat_map(|input| sabotage.twist(at, agent.handle(now, input))).collect()
            }
        };
        self.checks.on_answer(site, &answer)?;
        site.keep(answer)?;
        self.go_on(at)
    }

    /// Writes what is to be written, and does what is free to be done.
    fn go_on(&mut self, at: usize) -> Result<(), Violation> {
        self.sites[at].write(&mut self.agenda, &mut self.rng.disk)?;
        loop {
            let next = self.sites[at].gate.release();
            let Some(effect) = next else { break };
            if self.strikes(at)? {
                return Ok(());
            }
            if self.sites[at].attack.is_some() {
                self.perform_hostile(at, effect)?;
            } else {
                let site = &self.sites[at];
                let actor = Actor { at, site, now: site.now(self.agenda.at_ms()) };
                let (checks, cache) = (&mut self.checks, &mut self.signature_cache);
                checks.on_effect(&self.sites, actor, cache, &effect)?;
                self.perform(at, effect)?;
            }
        }
        self.sites[at].plan_wake(&mut self.agenda)
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

    pub(super) fn crash(&mut self, at: usize, down_ms: u64) -> Result<(), Violation> {
        if self.sites[at].agent.is_none() {
            return Ok(()); // it is down already, and its next start is planned
        }
        note!(self, at, "crashes before effect {}", self.sites[at].effects.saturating_sub(1));
        self.sites[at].crash();
        self.network.on_crash(&mut self.agenda, at)?;
        self.agenda.plan(down_ms, Event::Start { at })
    }

    pub(super) fn on_written(&mut self, at: usize) -> Result<(), Violation> {
        if self.sites[at].agent.is_none() || self.strikes(at)? {
            return Ok(());
        }
        if self.sites[at].disk_full {
            return self.rebuild(at, Some("no space left on device".to_owned()));
        }
        let changes = self.sites[at].on_written();
        let at_ms = self.agenda.at_ms();
        self.checks.on_written(at, &self.sites[at], &self.plan, at_ms, &changes)?;
        self.go_on(at)?;
        if self.sites[at].gate.is_idle() {
            self.network.on_kept(at);
        }
        Ok(())
    }

    pub(super) fn on_wake(&mut self, at: usize) -> Result<(), Violation> {
        let count = self.agenda.count_wake();
        ensure(count <= limits::WAKES, || format!("{} wakes without end", self.sites[at].name))?;
        match self.sites[at].on_wake(&mut self.agenda)? {
            true => self.tell(at, Input::Tick),
            false => Ok(()),
        }
    }

    pub(super) fn on_start(&mut self, at: usize) -> Result<(), Violation> {
        // It may have died again before it was to start.
        if self.sites[at].agent.is_some() {
            return Ok(());
        }
        let seed = self.rng.seeds.seed();
        note!(self, at, "starts");
        self.sites[at].start(self.agenda.at_ms(), seed);
        self.greet(at)
    }

    /// What every agent is told once it is there.
    fn greet(&mut self, at: usize) -> Result<(), Violation> {
        let inventory = self.workload.inventory(&self.plan, at);
        let greeting = self.sites.greeting(at, &self.plan, inventory);
        greeting.into_iter().try_for_each(|input| self.tell(at, input))
    }

    pub(super) fn on_disk_fine(&mut self, at: usize) -> Result<(), Violation> {
        if !std::mem::take(&mut self.sites[at].disk_full) {
            return Ok(());
        }
        let agent = self.sites[at].agent.as_ref();
        let degraded = agent.is_some_and(|agent| agent.degraded().is_some());
        if degraded { self.rebuild(at, None) } else { Ok(()) }
    }

    /// The agent goes on from what is on disk; its connections stay.
    fn rebuild(&mut self, at: usize, degraded: Option<String>) -> Result<(), Violation> {
        note!(self, at, "goes on from its records: {degraded:?}");
        self.sites[at].rests = degraded.is_some();
        let seed = self.rng.seeds.seed();
        let hides = self.sabotage.as_ref().is_some_and(Sabotage::hides_full_disks);
        self.sites[at].rebuild(seed, degraded.filter(|_| !hides));
        self.network.forget(&mut self.agenda, at)?;
        self.greet(at)?;
        for peer in self.network.peers(at) {
            let (peer, dialled) = (self.sites[peer].owner.clone(), true);
            self.tell(at, Input::Connected { peer, dialled })?;
        }
        Ok(())
    }

    /// The gateways, and between whom they are.
    fn tunnels(&mut self) -> (&mut Tunnels, Ground<'_>) {
        let Self { tunnels, sites, network, agenda, .. } = self;
        (tunnels, Ground { sites, network, agenda })
    }

    /// Something changed in a cluster: its own controllers go on, and watches will tell.
    pub(super) fn kube_changed(&mut self, at: usize) -> Result<(), Violation> {
        self.sites[at].kube_changed(&mut self.agenda, &mut self.rng.kube)?;
        self.checks.on_kube(at, &self.sites)
    }

    pub(super) fn on_advance(&mut self, at: usize) -> Result<(), Violation> {
        self.sites[at].on_advance(self.agenda.at_ms());
        self.kube_changed(at)
    }
}
