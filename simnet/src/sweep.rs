//! Many runs: seeds by chance, and each single fault in turn, over the processors of this
//! machine. Runs share nothing, so their order does not matter.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::faults::{Fate, Strike};
use crate::run::{Failure, Outcome, Scenario, Trouble};
use crate::topology::Topology;

/// Runs all of them; the failures, in the order of the scenarios.
pub fn run_all(scenarios: &[Scenario]) -> Vec<Failure> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(n) else { break };
                    if let Err(failure) = scenario.run(false) {
                        let mut failures = failures.lock().expect("no run panics while it reports");
                        failures.push((n, *failure));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no run panics while it reports");
    failures.sort_by_key(|(n, _)| *n);
    failures.into_iter().map(|(_, failure)| failure).collect()
}

/// Seeds one after another, of one topology.
pub fn mixed(topology: Topology, seeds: impl IntoIterator<Item = u64>) -> Vec<Scenario> {
    let scenario = |seed| Scenario { topology, seed, trouble: Trouble::Mixed, bug: None };
    seeds.into_iter().map(scenario).collect()
}

/// For every effect of either side a crash right before it; for every message its loss,
/// its double, its delay. `clean` is what came of the run without any of them.
pub fn one_fault_each(topology: Topology, seed: u64, clean: &Outcome) -> Vec<Scenario> {
    let crashes = clean.effects.iter().enumerate();
    let crashes =
        crashes.flat_map(|(at, effects)| (0..*effects).map(move |n| Strike::Crash(at, n)));
    let fates = [Fate::Lost, Fate::Doubled, Fate::Late];
    let messages =
        (0..clean.messages).flat_map(|number| fates.map(|fate| Strike::Message(number, fate)));
    let scenario =
        |strike| Scenario { topology, seed, trouble: Trouble::One(Some(strike)), bug: None };
    crashes.chain(messages).map(scenario).collect()
}
