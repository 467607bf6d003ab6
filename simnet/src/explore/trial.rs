//! One trial, from its seed: a market under faults that heals, and then ends.

use std::fmt;

use mercato_protocol::resources::Resources;

use crate::engine::course::Course;
use crate::engine::rng::Rng;
use crate::engine::trace::{Telling, Trace, TraceHash};
use crate::engine::world::World;
use crate::explore::bug::Bug;
use crate::explore::faults::{Fault, Faults};
use crate::explore::sabotage::Sabotage;
use crate::plan::{Access, Plan, Topology};
use crate::verify::{Goal, Violation};
use crate::workload::{Owners, Script, Workload, by_chance};

/// A trial: clusters, faults and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Which clusters know of which others.
    pub topology: Topology,
    /// How many clusters take part.
    pub clusters: usize,
    /// All chance comes of it.
    pub seed: u64,
    /// What goes wrong by chance, and how often.
    pub faults: FaultPlan,
    /// A bug that all agents have.
    pub bug: Option<Bug>,
}

/// What goes wrong in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlan {
    /// Faults of all kinds by chance, and a script by chance.
    Mixed,
    /// The whole script, with at most one fault at one moment.
    One(Option<Fault>),
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of everything that happened, in order.
    pub trace: TraceHash,
    /// How much time passed in it, in ms.
    pub virtual_ms: u64,
    /// How many effects each cluster's daemon performed, by place.
    pub effects: Vec<u64>,
    /// How many messages were sent.
    pub messages: u64,
    /// Events; all promises are checked after every
    /// [`GLOBAL_CHECK_STEPS`](crate::limits::GLOBAL_CHECK_STEPS) of them, and after each
    /// those that it touched.
    pub steps: u64,
}

/// A trial that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The trial in which it happened.
    pub trial: Trial,
    /// Which promise was broken, and how.
    pub violation: Violation,
    /// When it was broken, in ms of virtual time.
    pub at_ms: u64,
    /// The last lines before it.
    pub trace: Vec<String>,
}

/// Faults go on so long, if the scripts are not over before, in ms.
const FAULTS_MS: u64 = 400_000;
/// And so long while leases end, in ms.
const ENDING_MS: u64 = 60_000;
/// What has to come true comes true within this time after the faults, in ms: the longest
/// back-off (five minutes), twice, and some.
const HEALING_MS: u64 = 900_000;
/// A script that waits for what never comes is over by then, in ms.
const SCRIPT_MS: u64 = 2_400_000;

/// So little has a cluster that is to overflow.
const OVERFLOWING_CPU_MILLIS: u64 = 2_000;

/// Trials of a larger federation go on for this share of the time, in percent, lest they
/// take for ever.
fn share_of_time(clusters: usize) -> u64 {
    if clusters <= 5 { 100 } else { 30 }
}

impl Trial {
    /// Runs it. `aloud` prints the trace as it goes. One that fails is run again, to tell how
    /// it came to it.
    pub fn run(self, aloud: bool) -> Result<Outcome, Box<Failure>> {
        let first = self.play(if aloud { Telling::Aloud } else { Telling::Nothing });
        match first {
            Err(_) if !aloud => self.play(Telling::Last),
            outcome => outcome,
        }
    }

    fn play(self, telling: Telling) -> Result<Outcome, Box<Failure>> {
        let failure = |violation, at_ms, trace| {
            Err(Box::new(Failure { trial: self, violation, at_ms, trace }))
        };
        let mut course = match self.course() {
            Ok(course) => course,
            Err(violation) => return failure(violation, 0, Vec::new()),
        };
        course.world.trace = Trace::new(telling);
        course.world.sabotage = self.bug.map(Sabotage::new);
        let outcome = play(&mut course);
        let world = course.world;
        match outcome {
            Ok(()) => Ok(Outcome {
                trace: world.trace.hash(),
                virtual_ms: world.agenda.at_ms(),
                effects: world.sites.iter().map(|site| site.effects).collect(),
                messages: world.network.sent(),
                steps: world.agenda.steps(),
            }),
            Err(violation) => {
                let last = world.trace.last().map(str::to_owned).collect();
                failure(violation, world.agenda.at_ms(), last)
            }
        }
    }

    /// The world of it, before anything has happened.
    pub(super) fn course(self) -> Result<Course, Violation> {
        let (plan, seed) = (self.plan(), self.seed);
        let n = plan.clusters.len();
        let overflows = self.topology == Topology::Overflow;
        let (faults, owners) = match self.faults {
            FaultPlan::Mixed if overflows => {
                (Faults::mixed(seed), Owners::overflowing(n, Some(seed)))
            }
            FaultPlan::One(fault) if overflows => {
                (Faults::clean(seed, fault), Owners::overflowing(n, None))
            }
            FaultPlan::Mixed => (Faults::mixed(seed), Owners::new(n, by_chance(&plan, seed))),
            FaultPlan::One(fault) => {
                let script = |at| Script::whole(plan.sells(at));
                (Faults::clean(seed, fault), Owners::new(n, script))
            }
        };
        let course = Course::new(plan, seed, faults, Workload::with_scripts(owners));
        course.map_err(|error| Violation(error.to_string()))
    }

    /// The clusters, alike but for who sells; what befalls them comes of the faults alone.
    fn plan(self) -> Plan {
        let mut plan = self.topology.plan(Some(self.clusters), self.seed);
        let mut rng = Rng::new(self.seed, "sellers");
        let n = plan.clusters.len();
        let sells: Vec<bool> = (0..n).map(|at| self.sells(at, &plan, &mut rng)).collect();
        // For a pair there is room for two, on the local network for all but one; in larger
        // federations everybody finds room, since each waits until it does.
        let sellers = sells.iter().filter(|sells| **sells).count().max(1);
        let small = matches!(self.topology, Topology::Pair | Topology::Lan | Topology::Overflow);
        let size = if small { 1 } else { (n / sellers) as u64 + 1 };
        for (cluster, sells) in plan.clusters.iter_mut().zip(sells) {
            cluster.has = Resources {
                cpu_millis: size * 16_000,
                memory_bytes: (size * 64) << 30,
                pods: size * 110,
                // Of which half is shared: as scarce as processors are.
                storage_bytes: (size * 120) << 30,
                gpus: Default::default(),
            };
            cluster.shares_percent = if sells { 50 } else { 0 };
            if self.topology == Topology::Overflow && !sells {
                cluster.has.cpu_millis = OVERFLOWING_CPU_MILLIS;
            }
            // Without relays, who cannot be dialled can only buy.
            let reachable = sells || cluster.access.reachable;
            cluster.access = Access { reachable, ..Access::FIBRE };
            cluster.joins_ms = 0;
        }
        (plan.incidents, plan.crashes_per_mille, plan.metering_s) = (Vec::new(), 0, 60);
        plan
    }

    fn sells(self, at: usize, plan: &Plan, rng: &mut Rng) -> bool {
        match self.topology {
            Topology::Pair | Topology::Lan => at % 2 == 1,
            Topology::Overflow => at > 0,
            // Of the two that are there in any case one buys, the other sells.
            Topology::Ring
            | Topology::Star
            | Topology::Brokers
            | Topology::Hierarchy
            | Topology::Hybrid
            | Topology::SmallWorld
            | Topology::National
            | Topology::Edge
            | Topology::Partition
            | Topology::FlashCrowd
            | Topology::Hostile => {
                (at == 1 || at > 0 && rng.chance(350)) && plan.clusters[at].character.is_none()
            }
        }
    }
}

/// Troubled, healed, troubled again while leases end, healed.
fn play(course: &mut Course) -> Result<(), Violation> {
    let share = share_of_time(course.world.sites.len());
    let until_ms = FAULTS_MS * share / 100;
    while course.world.faults.is_mixed()
        && !course.world.workload.owners.are_done()
        && course.at_ms() < until_ms
    {
        course.run_until(course.at_ms() + 1_000)?;
    }
    course.heal()?;
    while !course.world.workload.owners.are_done() && course.at_ms() < SCRIPT_MS {
        course.run_until(course.at_ms() + 1_000)?;
    }
    crate::verify::ensure(course.world.workload.owners.are_done(), || {
        "a script never ends".to_owned()
    })?;
    reach(course, Goal::Running)?;
    course.world.faults.resume();
    course.world.checks.prompt.on_trouble();
    course.world.workload.owners.leaving = true;
    if course.world.faults.is_mixed() {
        course.run_until(course.at_ms() + ENDING_MS * share / 100)?;
    }
    course.heal()?;
    reach(course, Goal::Over)
}

/// Runs until it has come true, and a little longer: then it still holds.
fn reach(course: &mut Course, goal: Goal) -> Result<(), Violation> {
    let until_ms = course.at_ms() + HEALING_MS;
    let misses = |course: &Course| {
        let (at_ms, World { sites, checks, .. }) = (course.at_ms(), &course.world);
        goal.misses(at_ms, sites)?;
        checks.bursts.agree(at_ms, sites)
    };
    while misses(course).is_err() && course.at_ms() < until_ms {
        course.run_until(course.at_ms() + 1_000)?;
    }
    misses(course)?;
    course.world.checks.all(&course.world.sites, &course.world.plan)
}

impl fmt::Display for Trial {
    /// As the command that repeats it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simnet replay {} --seed {}", self.topology, self.seed)?;
        if self.clusters != self.topology.default_clusters() {
            write!(f, " --clusters {}", self.clusters)?;
        }
        match self.faults {
            FaultPlan::Mixed => {}
            FaultPlan::One(None) => write!(f, " --clean")?,
            FaultPlan::One(Some(fault)) => write!(f, " --fault {fault}")?,
        }
        self.bug.map_or(Ok(()), |bug| write!(f, " --bug {bug}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.at_ms / 1_000, self.at_ms % 1_000);
        let what = &self.violation;
        write!(f, "{what}, at {seconds}.{millis:03} s; again: {}", self.trial)
    }
}
