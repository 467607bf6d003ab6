//! Many runs: seeds by chance, and each single fault in turn, over the processors of this
//! machine. Runs share nothing, so their order does not matter.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::engine::rng::Rng;
use crate::explore::faults::{Fault, MessageFault};
use crate::explore::liars::{LiarOutcome, LiarTrial};
use crate::explore::trial::{Failure, FaultPlan, Outcome, Trial};
use crate::plan::Topology;
use crate::tunnel::{TunnelFailure, TunnelOutcome, TunnelTrial};
use crate::verify::Violation;

/// Runs all of them; the failures, in the order of the trials.
pub fn run_all(trials: &[Trial]) -> Vec<Failure> {
    over_all(trials, |trial| trial.run(false).err().map(|failure| *failure))
}

/// Runs all trials of liars; what came of each.
pub fn run_liars(trials: &[LiarTrial]) -> Vec<Result<LiarOutcome, Violation>> {
    over_all(trials, |trial| Some(trial.run()))
}

/// Runs all trials of the tunnel; what came of each.
pub fn run_tunnels(trials: &[TunnelTrial]) -> Vec<Result<TunnelOutcome, Box<TunnelFailure>>> {
    over_all(trials, |trial| Some(trial.run(false)))
}

/// What `run` gives for each of them, if anything, in their order.
fn over_all<T: Sync, F: Send>(trials: &[T], run: impl Fn(&T) -> Option<F> + Sync) -> Vec<F> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(trial) = trials.get(n) else { break };
                    if let Some(of_trial) = run(trial) {
                        let mut all = all.lock().expect("no run panics while it reports");
                        all.push((n, of_trial));
                    }
                }
            });
        }
    });
    let mut all = all.into_inner().expect("no run panics while it reports");
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, of_trial)| of_trial).collect()
}

/// Seeds one after another, of one topology.
pub fn mixed(topology: Topology, seeds: impl IntoIterator<Item = u64>) -> Vec<Trial> {
    let clusters = topology.default_clusters();
    let trial = |seed| Trial { topology, clusters, seed, faults: FaultPlan::Mixed, bug: None };
    seeds.into_iter().map(trial).collect()
}

/// Seeds one after another, each of a topology and a size of its own: 3 to 30 clusters.
pub fn federations(seeds: impl IntoIterator<Item = u64>) -> Vec<Trial> {
    let trial = |seed| {
        let mut rng = Rng::new(seed, "federation");
        // Where something is bought by itself nobody follows the scripts of the others.
        let all: Vec<_> =
            Topology::ALL.into_iter().filter(|it| *it != Topology::Overflow).collect();
        let topology = all[rng.within(0..=all.len() as u64 - 1) as usize];
        // One in twenty may be large. Small ones are as likely to break, and quicker.
        let most = if rng.chance(50) { 30 } else { 6 };
        let clusters = rng.within(3..=most) as usize;
        Trial { topology, clusters, seed, faults: FaultPlan::Mixed, bug: None }
    };
    seeds.into_iter().map(trial).collect()
}

/// For every effect of either side a crash right before it; for every message its loss,
/// its double, its delay. `clean` is what came of the trial without any of them.
pub fn one_fault_each(trial: Trial, clean: &Outcome) -> Vec<Trial> {
    let crashes = clean.effects.iter().enumerate();
    let crashes = crashes.flat_map(|(at, effects)| (0..*effects).map(move |n| Fault::Crash(at, n)));
    let faults = [MessageFault::Lost, MessageFault::Doubled, MessageFault::Late];
    let messages =
        (0..clean.messages).flat_map(|number| faults.map(|fault| Fault::Message(number, fault)));
    let struck = |fault| Trial { faults: FaultPlan::One(Some(fault)), ..trial };
    crashes.chain(messages).map(struck).collect()
}
