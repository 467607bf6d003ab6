//! What befalls clusters apart from lost messages: incidents of the plan, full disks, clocks
//! that jump, lines that are cut, daemons that die.

use super::Course;
use crate::engine::event::Event;
use crate::engine::trace::note;
use crate::plan::What;
use crate::verify::Violation;

impl Course {
    pub(super) fn on_begin(&mut self, nth: usize) -> Result<(), Violation> {
        let world = &mut self.world;
        let incident = world.plan.incidents[nth].clone();
        match incident.what {
            What::Partition(regions) => {
                let links = world.plan.across(&regions);
                links.into_iter().try_for_each(|[a, b]| world.cut(a, b))
            }
            What::HubsDown => {
                let hubs = 0..world.sites.len();
                let hubs: Vec<usize> = hubs.filter(|at| world.plan.clusters[*at].hub).collect();
                hubs.into_iter().try_for_each(|at| world.crash(at, incident.for_ms))
            }
            What::DiskFull(at) => {
                world.sites[at].disk_full = true;
                Ok(())
            }
            What::ClockJump(at, by_ms) => self.clock_jumps(at, by_ms),
            // The people look it up themselves.
            What::GpuRush(_) => Ok(()),
        }
    }

    pub(super) fn on_end(&mut self, nth: usize) -> Result<(), Violation> {
        let world = &mut self.world;
        match world.plan.incidents[nth].what.clone() {
            What::Partition(regions) => {
                for [a, b] in world.plan.across(&regions) {
                    world.network.mend(a, b);
                }
                Ok(())
            }
            What::DiskFull(at) => world.on_disk_fine(at),
            What::ClockJump(at, by_ms) => self.clock_jumps(at, -by_ms),
            What::HubsDown | What::GpuRush(_) => Ok(()),
        }
    }

    /// Once a second: what befalls clusters by chance.
    pub(super) fn befall(&mut self) -> Result<(), Violation> {
        for at in 0..self.world.sites.len() {
            self.befall_by_faults(at)?;
            let (world, mishaps) = (&mut self.world, &mut self.mishaps);
            let access = &world.plan.clusters[at].access;
            let (crashes, cuts) = (world.plan.crashes_per_mille, access.cuts_per_mille);
            if world.sites[at].agent.is_some()
                && let Some(down_ms) = mishaps.crash_ms(crashes)
            {
                world.crash(at, down_ms)?;
            }
            if let Some(mend_ms) = mishaps.cut_ms(cuts) {
                world.network.cut_line(&mut world.agenda, at, mend_ms)?;
            }
        }
        let world = &mut self.world;
        if world.faults.is_on() {
            world.network.befall(&mut world.agenda, &mut world.faults)?;
        }
        Ok(())
    }

    fn befall_by_faults(&mut self, at: usize) -> Result<(), Violation> {
        if let Some(by_ms) = self.world.faults.clock_jump() {
            let back_ms = self.mishaps.back_ms();
            self.world.agenda.plan(back_ms, Event::ClockBack { at, by_ms })?;
            self.clock_jumps(at, by_ms)?;
        }
        let world = &mut self.world;
        if !world.sites[at].disk_full
            && let Some(for_ms) = world.faults.disk_full()
        {
            note!(world, at, "the disk is full");
            world.sites[at].disk_full = true;
            world.agenda.plan(for_ms, Event::DiskFine { at })?;
        }
        let at_ms = world.agenda.at_ms();
        if let Some(lot) = world.faults.sandbox()
            && world.sites[at].renew_sandbox(at_ms, lot)
        {
            note!(world, at, "a pod gets a new sandbox");
            world.kube_changed(at)?;
        }
        Ok(())
    }

    /// No more faults: what is cut is mended, what is full is emptied, clocks are right.
    pub(crate) fn heal(&mut self) -> Result<(), Violation> {
        let world = &mut self.world;
        world.faults.stop();
        world.checks.prompt.on_healed(world.agenda.at_ms() + world.faults.settle_ms());
        world.network.mend_all();
        (0..world.sites.len()).try_for_each(|at| world.on_disk_fine(at))
    }
}
