//! What befalls clusters apart from lost messages: incidents of the plan, full disks, clocks
//! that drift and jump, lines that are cut, daemons that die.

use mercato_agent::Input;

use super::World;
use crate::engine::event::Event;
use crate::engine::trace::note;
use crate::explore::sabotage::Sabotage;
use crate::limits;
use crate::plan::What;
use crate::verify::{Violation, ensure};

impl World {
    pub(crate) fn on_begin(&mut self, nth: usize) -> Result<(), Violation> {
        let incident = self.plan.incidents[nth].clone();
        match incident.what {
            What::Partition(regions) => {
                let links = self.plan.across(&regions);
                links.into_iter().try_for_each(|[a, b]| self.on_cut(a, b))
            }
            What::HubsDown => {
                let hubs = 0..self.sites.len();
                let hubs: Vec<usize> = hubs.filter(|at| self.plan.clusters[*at].hub).collect();
                hubs.into_iter()
                    .filter(|at| self.sites[*at].agent.is_some())
                    .collect::<Vec<_>>()
                    .into_iter()
                    .try_for_each(|at| self.crash(at, incident.for_ms))
            }
            What::DiskFull(at) => {
                self.sites[at].disk_full = true;
                Ok(())
            }
            What::ClockJump(at, by_ms) => self.on_clock_jump(at, by_ms),
            // The people look it up themselves.
            What::GpuRush(_) => Ok(()),
        }
    }

    pub(crate) fn on_end(&mut self, nth: usize) -> Result<(), Violation> {
        match self.plan.incidents[nth].what.clone() {
            What::Partition(regions) => {
                for [a, b] in self.plan.across(&regions) {
                    self.network.mend(a, b);
                }
                Ok(())
            }
            What::DiskFull(at) => self.on_disk_fine(at),
            What::ClockJump(at, by_ms) => self.on_clock_jump(at, -by_ms),
            What::HubsDown | What::GpuRush(_) => Ok(()),
        }
    }

    pub(crate) fn on_disk_fine(&mut self, at: usize) -> Result<(), Violation> {
        if !std::mem::take(&mut self.sites[at].disk_full) {
            return Ok(());
        }
        let degraded =
            self.sites[at].agent.as_ref().is_some_and(|agent| agent.degraded().is_some());
        if degraded { self.rebuild(at, None) } else { Ok(()) }
    }

    /// The agent goes on from what is on disk; its connections stay.
    pub(crate) fn rebuild(&mut self, at: usize, degraded: Option<String>) -> Result<(), Violation> {
        note!(self, at, "goes on from its records: {degraded:?}");
        let second = self.agenda.at_ms() / 1_000;
        let (last, count) = self.sites[at].rebuilt;
        let count = if last == second { count + 1 } else { 1 };
        self.sites[at].rebuilt = (second, count);
        ensure(count <= limits::REBUILDS, || {
            format!("{} goes back to its records without end", self.sites[at].name)
        })?;
        let seed = self.dice.seeds.seed();
        let hides = self.sabotage.as_ref().is_some_and(Sabotage::hides_full_disks);
        self.sites[at].rebuild(seed, degraded.filter(|_| !hides));
        self.network.forget(&mut self.agenda, at)?;
        self.tell_world(at)?;
        for peer in self.network.peers(at) {
            let (peer, dialled) = (self.sites[peer].owner.clone(), true);
            self.tell(at, Input::Connected { peer, dialled })?;
        }
        Ok(())
    }

    pub(crate) fn on_clock_jump(&mut self, at: usize, by_ms: i64) -> Result<(), Violation> {
        note!(self, at, "the wall clock jumps by {by_ms} ms");
        self.sites[at].clock.jump_ms += by_ms;
        self.tell(at, Input::Tick)
    }

    pub(crate) fn set_drift(&mut self, at: usize) {
        let most = self.faults.drift_ppm;
        self.sites[at].clock.drift_ppm =
            self.dice.fate.within(0..=2 * most).cast_signed() - most.cast_signed();
    }

    /// Once a second: what befalls clusters by chance.
    pub(crate) fn befall(&mut self) -> Result<(), Violation> {
        for at in 0..self.sites.len() {
            if self.faults.is_on() {
                self.befall_by_faults(at)?;
            }
            let (crashes, cuts) =
                (self.plan.crashes_per_mille, self.plan.clusters[at].access.cuts_per_mille);
            if self.sites[at].agent.is_some() && self.hourly(crashes) {
                let down_ms = self.dice.fate.within(10_000..=120_000);
                self.crash(at, down_ms)?;
            }
            if self.hourly(cuts) {
                let mend_ms = self.dice.fate.within(5_000..=60_000);
                self.network.cut_line(&mut self.agenda, at, mend_ms)?;
            }
        }
        if self.faults.is_on() {
            self.network.befall(&mut self.agenda, &mut self.faults)?;
        }
        Ok(())
    }

    /// Whether something happens this second that happens so often in an hour, per thousand.
    fn hourly(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.dice.fate.within(0..=3_599_999) < u64::from(per_mille)
    }

    fn befall_by_faults(&mut self, at: usize) -> Result<(), Violation> {
        if let Some(by_ms) = self.faults.clock_jump() {
            let back_ms = self.dice.fate.within(1_000..=30_000);
            self.agenda.plan(back_ms, Event::ClockBack { at, by_ms })?;
            self.on_clock_jump(at, by_ms)?;
        }
        if !self.sites[at].disk_full
            && let Some(for_ms) = self.faults.disk_full()
        {
            note!(self, at, "the disk is full");
            self.sites[at].disk_full = true;
            self.agenda.plan(for_ms, Event::DiskFine { at })?;
        }
        Ok(())
    }

    /// No more faults: what is cut is mended, what is full is emptied, clocks are right.
    pub(crate) fn heal(&mut self) -> Result<(), Violation> {
        self.faults.stop();
        self.checks.prompt.on_healed(self.agenda.at_ms() + self.faults.settle_ms());
        self.network.mend_all();
        (0..self.sites.len()).try_for_each(|at| self.on_disk_fine(at))
    }
}
