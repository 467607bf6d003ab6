//! The loop: virtual time, what is under way between and inside the clusters, and the
//! faults that befall it. What agents want done is performed in `shell`.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::{GuestWork, HomeWork, Input};
use mercato_discovery::{Address, Report, Sighting, SightingId, Source};
use mercato_protocol::codec::CodecError;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};

use crate::check::{Checks, Violation, ensure};
use crate::dice::Dice;
use crate::faults::Faults;
use crate::kube::Luck;
use crate::limits;
use crate::network::pair;
use crate::owners::Owners;
use crate::packet::Packet;
use crate::queue::Queue;
use crate::sabotage::Sabotage;
use crate::site::{Site, address, cluster_now};
use crate::story::Story;
use crate::topology::Topology;
use crate::trace::Trace;

/// All clusters of one run.
pub(crate) struct World {
    pub(crate) at_ms: u64,
    pub(crate) sites: Vec<Site>,
    pub(crate) trace: Trace,
    pub(crate) checks: Checks,
    pub(crate) owners: Owners,
    pub(crate) faults: Faults,
    pub(crate) dice: Streams,
    pub(crate) sabotage: Option<Sabotage>,
    /// Messages sent so far.
    pub(crate) sent: u64,
    queue: Queue<Event>,
    /// By places, the lower first: the number of the connection that is up.
    pub(crate) connections: BTreeMap<(usize, usize), u64>,
    pub(crate) connected: u64,
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    steps: u64,
    /// Wake-ups in this very millisecond.
    wakes: (u64, u32),
}

/// A stream of chance for each purpose.
pub(crate) struct Streams {
    pub(crate) links: Dice,
    pub(crate) kube: Dice,
    pub(crate) disk: Dice,
    seeds: Dice,
}

pub(crate) enum Event {
    Packet { from: usize, to: usize, packet: Packet },
    Wake { at: usize, run: u32 },
    Written { at: usize, run: u32 },
    Watch { at: usize },
    Advance { at: usize },
    Work { at: usize, run: u32, contract: ContractId, work: Work },
    Answer { at: usize, run: u32, input: Box<Input> },
    Dialled { at: usize, run: u32, attempt: u64, peer: Option<PublicKey>, to: Vec<Address> },
    Lost { at: usize, peer: usize, connection: u64 },
    Start { at: usize },
    Cut(usize, usize),
    Mend(usize, usize),
    Owners,
}

/// A write or a question on its way to an API server.
pub(crate) enum Work {
    Home(HomeWork),
    Guest(GuestWork),
}

impl World {
    pub(crate) fn new(
        topology: Topology,
        seed: u64,
        faults: Faults,
        stories: impl Fn(usize) -> Story,
    ) -> Result<Self, CodecError> {
        let mut seeds = Dice::new(seed, "keys");
        let mut skews = Dice::new(seed, "clocks");
        let mut sites = Vec::new();
        for name in topology.clusters() {
            let most = faults.skew_ms.cast_signed();
            let skew = skews.within(0..=2 * faults.skew_ms).cast_signed() - most;
            let mut site = Site::new(name, seeds.seed(), skew)?;
            topology.furnish(&mut site);
            sites.push(site);
        }
        let owners = Owners::new(topology, stories);
        let mut world = Self {
            at_ms: 0,
            sites,
            trace: Trace::default(),
            checks: Checks::default(),
            owners,
            faults,
            dice: Streams {
                links: Dice::new(seed, "links"),
                kube: Dice::new(seed, "kube"),
                disk: Dice::new(seed, "disk"),
                seeds,
            },
            sabotage: None,
            sent: 0,
            queue: Queue::default(),
            connections: BTreeMap::new(),
            connected: 0,
            cuts: BTreeSet::new(),
            steps: 0,
            wakes: (0, 0),
        };
        for at in 0..world.sites.len() {
            let delay_ms = world.dice.disk.within(0..=500);
            world.plan(delay_ms, Event::Start { at }).expect("the queue is empty");
        }
        world.plan(1_000, Event::Owners).expect("the queue is empty");
        Ok(world)
    }

    /// Lets everything happen up to a moment, in ms.
    pub(crate) fn run_until(&mut self, until_ms: u64) -> Result<(), Violation> {
        while self.queue.next_ms().is_some_and(|next_ms| next_ms <= until_ms) {
            let Some((at_ms, event)) = self.queue.pop() else { break };
            self.at_ms = at_ms;
            self.steps += 1;
            ensure(self.steps < limits::STEPS, || "the run never comes to an end".to_owned())?;
            self.happen(event)?;
            if self.steps.is_multiple_of(limits::GLOBAL_CHECK_STEPS) {
                self.check_all()?;
            }
        }
        self.at_ms = until_ms;
        Ok(())
    }

    /// After so many ms from now.
    pub(crate) fn plan(&mut self, delay_ms: u64, event: Event) -> Result<(), Violation> {
        let planned = self.queue.push(self.at_ms + delay_ms, event);
        planned.map_err(|_| Violation("too much is under way: something never stops".to_owned()))
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Packet { from, to, packet } => self.on_packet(from, to, packet),
            Event::Wake { at, run } if self.sites[at].run == run => self.on_wake(at),
            Event::Written { at, run } if self.sites[at].run == run => self.on_written(at),
            Event::Wake { .. } | Event::Written { .. } => Ok(()),
            Event::Watch { at } => self.on_watch(at),
            Event::Advance { at } => self.kube_changed(at),
            Event::Work { at, run, contract, work } => self.on_work(at, run, contract, work),
            Event::Answer { at, run, input } if self.sites[at].run == run => self.tell(at, *input),
            Event::Answer { .. } => Ok(()),
            Event::Dialled { at, run, attempt, peer, to } => {
                self.on_dialled((at, run), attempt, peer, &to)
            }
            Event::Lost { at, peer, connection } => self.on_lost(at, peer, connection),
            Event::Start { at } => self.on_start(at),
            Event::Cut(a, b) => self.on_cut(a, b),
            Event::Mend(a, b) => {
                self.note(a, format!("link to {} mended", self.sites[b].name));
                self.cuts.remove(&(a, b));
                Ok(())
            }
            Event::Owners => {
                self.act()?;
                self.plan(1_000, Event::Owners)
            }
        }
    }

    /// Tells an agent something, and lets go what of its answer is free to go.
    pub(crate) fn tell(&mut self, at: usize, input: Input) -> Result<(), Violation> {
        let now = self.sites[at].now(self.at_ms);
        let site = &mut self.sites[at];
        let Some(agent) = &mut site.agent else { return Ok(()) };
        let inputs = match &mut self.sabotage {
            Some(sabotage) => sabotage.twist_input(at, input),
            None => vec![input],
        };
        for input in inputs {
            let answer = agent.handle(now, input);
            let answer = match &mut self.sabotage {
                Some(sabotage) => sabotage.twist(at, answer),
                None => answer,
            };
            site.gate.pass(answer);
        }
        self.go_on(at)
    }

    /// Writes what is to be written, and does what is free to be done.
    fn go_on(&mut self, at: usize) -> Result<(), Violation> {
        if self.sites[at].gate.write().is_some() {
            let (delay_ms, run) = (self.dice.disk.within(1..=8), self.sites[at].run);
            self.plan(delay_ms, Event::Written { at, run })?;
        }
        loop {
            let next = self.sites[at].gate.release();
            let Some(effect) = next else { break };
            if self.strikes(at)? {
                return Ok(());
            }
            self.perform(at, effect)?;
        }
        self.plan_wake(at)
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
        self.note(at, format!("crashes before effect {}", self.sites[at].effects - 1));
        self.sites[at].crash();
        for peer in 0..self.sites.len() {
            if let Some(connection) = self.connections.remove(&pair(at, peer)) {
                let after_ms = self.dice.links.within(0..=3_000);
                self.plan(after_ms, Event::Lost { at: peer, peer: at, connection })?;
            }
        }
        self.plan(down_ms, Event::Start { at })
    }

    fn on_written(&mut self, at: usize) -> Result<(), Violation> {
        if self.strikes(at)? {
            return Ok(());
        }
        self.sites[at].gate.written();
        self.check_records(at)?;
        self.go_on(at)
    }

    fn plan_wake(&mut self, at: usize) -> Result<(), Violation> {
        let site = &self.sites[at];
        let Some(due_ms) = site.due_ms(self.at_ms) else { return Ok(()) };
        if site.wake_ms.is_some_and(|planned_ms| planned_ms <= due_ms) {
            return Ok(());
        }
        let run = site.run;
        self.sites[at].wake_ms = Some(due_ms);
        self.plan(due_ms - self.at_ms, Event::Wake { at, run })
    }

    fn on_wake(&mut self, at: usize) -> Result<(), Violation> {
        let count = if self.wakes.0 == self.at_ms { self.wakes.1 + 1 } else { 0 };
        self.wakes = (self.at_ms, count);
        ensure(count < 1_000, || format!("{} wakes without end", self.sites[at].name))?;
        let site = &mut self.sites[at];
        // An earlier wake-up may have been planned since, and has done it.
        if site.wake_ms.is_some_and(|planned_ms| planned_ms > self.at_ms) {
            return Ok(());
        }
        site.wake_ms = None;
        if site.due_ms(self.at_ms).is_some_and(|due_ms| due_ms <= self.at_ms) {
            self.tell(at, Input::Tick)
        } else {
            self.plan_wake(at)
        }
    }

    fn on_start(&mut self, at: usize) -> Result<(), Violation> {
        let seed = self.dice.seeds.seed();
        self.note(at, "starts".to_owned());
        self.sites[at].start(self.at_ms, seed);
        self.tell(at, Input::Tick)?;
        let inventory = self.owners.inventory(at);
        self.tell(at, Input::Inventory(inventory))?;
        self.tell(at, Input::Addresses(vec![address(at).to_string()]))?;
        for peer in (0..self.sites.len()).filter(|peer| *peer != at) {
            let sighting = Sighting {
                id: SightingId { source: Source::Lan, instance: self.sites[peer].name.clone() },
                peer: Some(self.sites[peer].key()),
                addresses: vec![address(peer)],
            };
            self.tell(at, Input::Sighted(Report::Seen(sighting)))?;
        }
        Ok(())
    }

    /// How a write goes.
    pub(crate) fn luck(&mut self) -> Luck {
        let (fails, unheard) = self.faults.writes();
        match () {
            () if self.dice.kube.chance(fails) => Luck::Fails,
            () if self.dice.kube.chance(unheard) => Luck::Unheard,
            () => Luck::Good,
        }
    }

    /// Something changed in a cluster: its own controllers go on, and watches will tell.
    pub(crate) fn kube_changed(&mut self, at: usize) -> Result<(), Violation> {
        let now = cluster_now(self.at_ms);
        self.sites[at].kube.advance(now);
        if let Some(due_ms) = self.sites[at].kube.wakeup_ms() {
            self.plan(due_ms.saturating_sub(self.at_ms).max(1), Event::Advance { at })?;
        }
        if !self.sites[at].watch_planned {
            self.sites[at].watch_planned = true;
            let delay_ms = self.dice.kube.within(1..=40);
            self.plan(delay_ms, Event::Watch { at })?;
        }
        self.check_pods(at)
    }

    /// No more faults: what is cut is mended.
    pub(crate) fn heal(&mut self) {
        self.faults.stop();
        self.cuts.clear();
    }

    pub(crate) fn note(&mut self, at: usize, what: String) {
        self.trace.note(self.at_ms, &self.sites[at].name, &what);
    }

    pub(crate) fn place_of(&self, cluster: ClusterId) -> Option<usize> {
        self.sites.iter().position(|site| site.id() == cluster)
    }
}
