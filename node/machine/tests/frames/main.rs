//! Which frames get past the rules of a closed guest, asked of all tables that may be made: whoever reads
//! the property knows whom a guest calls, and the wrong rules show that it would see one.

#![allow(clippy::unwrap_used, reason = "a test")]

mod contract;
mod dice;
mod draw;
mod planted;
mod property;
mod wire;
mod world;

use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::planted::PLANTED;
use crate::property::{Case, FRAMES};
use crate::world::Tables;

/// As many as a wrong rule is found in, and as the property tries: with ten frames each.
const CASES: u32 = 2_000;

fn cases() -> impl Strategy<Value = Case> {
    let world = proptest::array::uniform32(any::<u8>());
    let frames = proptest::collection::vec(proptest::array::uniform24(any::<u8>()), FRAMES);
    (world, frames).prop_map(|(world, frames)| Case::of(&world, &frames))
}

/// Runs all cases; the first one that fails, with what it says.
fn tried(runner: &mut TestRunner, plants: fn(&mut Tables)) -> Result<(), String> {
    let ran = runner.run(&cases(), |case| {
        let mut tables = case.world.tables();
        plants(&mut tables);
        case.holds(&tables).map_err(TestCaseError::fail)
    });
    match ran {
        Ok(()) => Ok(()),
        Err(TestError::Fail(why, case)) => Err(format!("{why}\n{:#?}", case.world)),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Of one that fails it is looked for a simpler one so many times.
fn config(max_shrink_iters: u32) -> Config {
    Config { cases: CASES, failure_persistence: None, max_shrink_iters, ..Config::default() }
}

/// A guest gets out what its lease names, and nothing else, at both ends of its device; its node takes
/// and sends on what a guest may have taken and sent on.
#[test]
fn guests_reach_whom_their_leases_name_alone() {
    if let Err(why) = tried(&mut TestRunner::new(config(1_000)), |_| {}) {
        panic!("{why}");
    }
}

#[test]
fn each_wrong_rule_is_found() {
    for (name, plants) in PLANTED {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let found = tried(&mut TestRunner::new_with_rng(config(0), rng), *plants);
        let why = found.expect_err(name);
        eprintln!("{name}: {}", why.lines().next().unwrap_or_default());
    }
}
