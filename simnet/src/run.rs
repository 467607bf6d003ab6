//! One run, from its seed: a market under faults that heals, and then ends.

use std::fmt;

use mercato_protocol::id::Digest;

use crate::check::{Goal, Violation};
use crate::faults::{Faults, Strike};
use crate::owners;
use crate::sabotage::{Bug, Sabotage};
use crate::story::Story;
use crate::topology::Topology;
use crate::world::World;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Which clusters.
    pub topology: Topology,
    /// All chance comes of it.
    pub seed: u64,
    /// What goes wrong.
    pub trouble: Trouble,
    /// A bug that all agents have.
    pub bug: Option<Bug>,
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Faults of all kinds by chance, and a story by chance.
    Mixed,
    /// The whole story, with at most one fault at one moment.
    One(Option<Strike>),
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of everything that happened, in order.
    pub trace: Digest,
    /// How much time passed in it, in ms.
    pub virtual_ms: u64,
    /// Effects performed, by place.
    pub effects: Vec<u64>,
    /// Messages sent.
    pub messages: u64,
}

/// A run that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The run.
    pub scenario: Scenario,
    /// Which promise.
    pub violation: Violation,
    /// When, in ms.
    pub at_ms: u64,
    /// The last lines before it.
    pub trace: Vec<String>,
}

/// Faults go on so long, if the stories are not over before, in ms.
const TROUBLED_MS: u64 = 400_000;
/// And so long while leases end, in ms.
const ENDING_MS: u64 = 60_000;
/// What has to come true comes true within this time after the faults, in ms: the longest
/// back-off (five minutes), twice, and some.
const HEALING_MS: u64 = 900_000;
/// A story that waits for what never comes is over by then, in ms.
const STORY_MS: u64 = 2_400_000;

impl Scenario {
    /// Runs it. `aloud` prints the trace as it goes.
    pub fn run(self, aloud: bool) -> Result<Outcome, Box<Failure>> {
        let mut world = match self.world() {
            Ok(world) => world,
            Err(violation) => {
                return Err(Box::new(Failure {
                    scenario: self,
                    violation,
                    at_ms: 0,
                    trace: vec![],
                }));
            }
        };
        world.trace.aloud = aloud;
        world.sabotage = self.bug.map(Sabotage::new);
        match play(&mut world) {
            Ok(()) => Ok(Outcome {
                trace: world.trace.hash(),
                virtual_ms: world.at_ms,
                effects: world.sites.iter().map(|site| site.effects).collect(),
                messages: world.sent,
            }),
            Err(violation) => Err(Box::new(Failure {
                scenario: self,
                violation,
                at_ms: world.at_ms,
                trace: world.trace.last().map(str::to_owned).collect(),
            })),
        }
    }

    fn world(self) -> Result<World, Violation> {
        let (topology, seed) = (self.topology, self.seed);
        let world = match self.trouble {
            Trouble::Mixed => {
                let stories = owners::by_chance(topology, seed);
                World::new(topology, seed, Faults::mixed(seed), stories)
            }
            Trouble::One(strike) => {
                let stories = |at| Story::whole(topology.sells(at));
                World::new(topology, seed, Faults::clean(seed, strike), stories)
            }
        };
        world.map_err(|error| Violation(error.to_string()))
    }
}

/// Troubled, healed, troubled again while leases end, healed.
fn play(world: &mut World) -> Result<(), Violation> {
    while world.faults.is_mixed() && !world.owners.are_done() && world.at_ms < TROUBLED_MS {
        world.run_until(world.at_ms + 1_000)?;
    }
    world.heal();
    while !world.owners.are_done() && world.at_ms < STORY_MS {
        world.run_until(world.at_ms + 1_000)?;
    }
    crate::check::ensure(world.owners.are_done(), || "a story never ends".to_owned())?;
    reach(world, Goal::Running)?;
    world.faults.resume();
    world.owners.leaving = true;
    if world.faults.is_mixed() {
        world.run_until(world.at_ms + ENDING_MS)?;
    }
    world.heal();
    reach(world, Goal::Over)
}

/// Runs until it has come true, and a little longer: then it still holds.
fn reach(world: &mut World, goal: Goal) -> Result<(), Violation> {
    let until_ms = world.at_ms + HEALING_MS;
    while world.misses(goal).is_err() && world.at_ms < until_ms {
        world.run_until(world.at_ms + 1_000)?;
    }
    world.misses(goal)?;
    world.check_all()
}

impl fmt::Display for Scenario {
    /// As the command that repeats it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simnet run {} --seed {}", self.topology, self.seed)?;
        match self.trouble {
            Trouble::Mixed => {}
            Trouble::One(None) => write!(f, " --clean")?,
            Trouble::One(Some(strike)) => write!(f, " --strike {strike}")?,
        }
        self.bug.map_or(Ok(()), |bug| write!(f, " --bug {bug}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.at_ms / 1_000, self.at_ms % 1_000);
        let what = &self.violation;
        write!(f, "{what}, at {seconds}.{millis:03} s; again: {}", self.scenario)
    }
}
