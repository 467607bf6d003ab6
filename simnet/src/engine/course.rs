//! The course of a run: what is due has its turn in order of time, once a second the workload
//! has its own, and incidents befall the clusters. What comes of each is the world's.

mod incidents;
mod workload;

use mercato_agent::Input;
use mercato_protocol::codec::CodecError;

use crate::engine::event::Event;
use crate::engine::mishaps::Mishaps;
use crate::engine::trace::note;
use crate::engine::world::World;
use crate::explore::faults::Faults;
use crate::limits;
use crate::plan::Plan;
use crate::verify::{Violation, ensure};
use crate::workload::Workload;

/// A world, and what is in store for it.
pub(crate) struct Course {
    pub(crate) world: World,
    mishaps: Mishaps,
}

impl Course {
    pub(crate) fn new(
        plan: Plan,
        seed: u64,
        faults: Faults,
        workload: Workload,
    ) -> Result<Self, CodecError> {
        let (drift_ppm, mut mishaps) = (faults.drift_ppm, Mishaps::new(seed));
        let mut world = World::new(plan, seed, faults, workload)?;
        for at in 0..world.sites.len() {
            world.sites[at].clock.drift_ppm = mishaps.drift_ppm(drift_ppm);
            let delay_ms = world.start_ms() + world.plan.clusters[at].joins_ms;
            world.agenda.plan(delay_ms, Event::Start { at }).expect("the queue is empty");
        }
        for (nth, incident) in world.plan.incidents.iter().enumerate() {
            let end_ms = incident.at_ms + incident.for_ms;
            world.agenda.plan(incident.at_ms, Event::Begin(nth)).expect("the queue is empty");
            world.agenda.plan(end_ms, Event::End(nth)).expect("the queue is empty");
        }
        world.agenda.plan(1_000, Event::Workload).expect("the queue is empty");
        Ok(Self { world, mishaps })
    }

    /// Since the start of the run, in ms.
    pub(crate) fn at_ms(&self) -> u64 {
        self.world.agenda.at_ms()
    }

    /// Lets everything happen up to a moment, in ms.
    pub(crate) fn run_until(&mut self, until_ms: u64) -> Result<(), Violation> {
        while let Some(event) = self.world.agenda.next(until_ms) {
            self.happen(event)?;
            let World { agenda, workload, checks, sites, plan, .. } = &mut self.world;
            if agenda.steps().is_multiple_of(limits::GLOBAL_CHECK_STEPS) && workload.is_checked() {
                let comes_to_an_end = agenda.steps() < limits::STEPS;
                ensure(comes_to_an_end, || "the run never comes to an end".to_owned())?;
                checks.all(sites, plan)?;
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let (kind, at) = event.outline();
        let world = &mut self.world;
        world.trace.mark(&[world.agenda.at_ms(), kind, at as u64]);
        match event {
            Event::Packet(parcel) => world.on_packet(parcel),
            Event::Untaken(word) => world.on_untaken(*word),
            Event::Wake { at, run } if world.sites[at].run == run => world.on_wake(at),
            Event::Written { at, run } if world.sites[at].run == run => world.on_written(at),
            Event::Wake { .. } | Event::Written { .. } => Ok(()),
            Event::Watch { at } => world.on_watch(at),
            Event::Advance { at } => world.on_advance(at),
            Event::Work { at, run, contract, work } => world.on_work(at, run, contract, work),
            Event::Answer { at, run, input } if world.sites[at].run == run => {
                world.tell(at, *input)
            }
            Event::Answer { .. } => Ok(()),
            Event::Gateway { at, run, step } => world.on_gateway(at, run, *step),
            Event::Dialled(dial) => world.on_dialled(&dial),
            Event::Lost { at, peer, connection, by_peer } => {
                world.on_lost(at, peer, connection, by_peer)
            }
            Event::Start { at } => world.on_start(at),
            Event::Cut(a, b) => world.cut(a, b),
            Event::Mend(a, b) => {
                note!(world, a, "link to {} mended", world.sites[b].name);
                world.network.mend(a, b);
                Ok(())
            }
            Event::DiskFine { at } => world.on_disk_fine(at),
            Event::ClockBack { at, by_ms } => self.clock_jumps(at, -by_ms),
            Event::Begin(nth) => self.on_begin(nth),
            Event::End(nth) => self.on_end(nth),
            Event::Workload => {
                self.on_workload()?;
                self.world.agenda.plan(1_000, Event::Workload)
            }
        }
    }

    fn clock_jumps(&mut self, at: usize, by_ms: i64) -> Result<(), Violation> {
        note!(self.world, at, "the wall clock jumps by {by_ms} ms");
        self.world.sites[at].clock.jump_ms += by_ms;
        self.world.tell(at, Input::Tick)
    }
}
