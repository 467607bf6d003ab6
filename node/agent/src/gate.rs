//! Nothing is visible before it is durable: the one place that holds effects back. It
//! also mirrors the records that are on disk, for the rebuild after a failed write.
//! Writing is the driver's:
//!
//! ```text
//! if let Err(ahead) = gate.pass(agent.handle(now, input)) {
//!     refuse(input, ahead.why);                    // and once all that waits is written:
//!     match ahead.leases {
//!         All => agent = Agent::restore(config, seed, interner, gate.records(), None),
//!         These(leases) => agent.step_back(seed, interner, gate.records(), &leases),
//!     }
//! }
//! if let Some(changes) = gate.write() {          // one transaction, one fsync
//!     match store.write(changes) {
//!         Ok(()) => gate.written(),
//!         Err(why) => agent = Agent::restore(config, seed, interner, gate.failed(), Some(why)),
//!     }
//! }
//! while let Some(effect) = gate.release() { perform(effect) }
//! ```

use std::collections::VecDeque;

use thiserror::Error;

use crate::ahead::LeasesAhead;
use crate::effect::Effect;
use crate::record::{Change, Record, Records, TooLarge};

/// An answer was not taken: the agent is ahead of its records.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{why}")]
pub struct Ahead {
    /// Why the answer was not taken.
    pub why: TooLarge,
    /// Which leases are ahead, too. All others are as the records say, and stay as they are.
    pub leases: LeasesAhead,
}

/// Effects on their way out, in the order in which they were wanted.
#[derive(Debug, Default)]
pub struct Gate {
    records: Records,
    /// With the number of the group that has to be on disk first.
    effects: VecDeque<(u64, Effect)>,
    /// Being written: the group after those that are durable.
    writing: Option<Vec<Change>>,
    /// The group that is gathered meanwhile.
    gathered: Vec<Change>,
    /// How many groups are on disk.
    durable: u64,
}

impl Gate {
    /// A gate over what is on disk.
    pub fn new(records: Records) -> Self {
        Self { records, ..Self::default() }
    }

    /// The records that are on disk.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Takes an answer. Its effects wait for the changes before them, in this answer and in
    /// earlier ones, since what the agent does next may rest on any of them.
    ///
    /// # Errors
    /// When a record of it is above its bound. Then nothing of it is taken, and the agent is
    /// ahead of its records: it has to be restored from them, once all that waits is written.
    pub fn pass(&mut self, answer: Vec<Effect>) -> Result<(), Ahead> {
        let put = answer.iter().filter_map(|effect| {
            if let Effect::Persist(Change::Put(record)) = effect { Some(record) } else { None }
        });
        if let Err(why) = put.map(Record::fits).try_for_each(|fits| fits) {
            let leases = answer.iter().map(Effect::leases);
            return Err(Ahead { why, leases: leases.fold(LeasesAhead::NONE, LeasesAhead::and) });
        }
        for effect in answer {
            if let Effect::Persist(change) = effect {
                self.gathered.push(change);
            } else {
                let under_way = u64::from(self.writing.is_some());
                let group = self.durable + under_way + u64::from(!self.gathered.is_empty());
                self.effects.push_back((group, effect));
            }
        }
        Ok(())
    }

    /// What is to be written next, as one transaction; nothing while a write is under way.
    pub fn write(&mut self) -> Option<&[Change]> {
        if self.writing.is_some() || self.gathered.is_empty() {
            return None;
        }
        self.writing.insert(std::mem::take(&mut self.gathered)).as_slice().into()
    }

    /// What was to be written is on disk.
    pub fn written(&mut self) {
        if let Some(changes) = self.writing.take() {
            self.durable += 1;
            changes.into_iter().for_each(|change| self.records.apply(change));
        }
    }

    /// It is not. All that waits is dropped, with the changes that were gathered: the agent
    /// that wanted it is to be rebuilt from these records. What was free to go still goes.
    pub fn failed(&mut self) -> &Records {
        self.writing = None;
        self.gathered.clear();
        self.effects.retain(|(group, _)| *group <= self.durable);
        &self.records
    }

    /// Whether all that was ever passed is on disk.
    pub fn is_idle(&self) -> bool {
        self.writing.is_none() && self.gathered.is_empty()
    }

    /// What was not released yet, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().map(|(_, effect)| effect)
    }

    /// What is to be done next; nothing as long as it has to wait.
    pub fn release(&mut self) -> Option<Effect> {
        self.effects.pop_front_if(|(group, _)| *group <= self.durable).map(|(_, effect)| effect)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_protocol::id::{ClusterId, ContractId, Digest, PublicKey};
    use mercato_protocol::identity::Replaced;

    use super::*;
    use crate::record::RangeOwner;

    fn persist(n: u8) -> Effect {
        Effect::Persist(Change::Put(Record::Namespaces(ContractId([n; 16]), BTreeMap::new())))
    }

    fn effect(n: u8) -> Effect {
        Effect::Forget(ContractId([n; 16]))
    }

    /// Namespaces beyond all bounds.
    fn large(n: u8) -> Effect {
        let names = (0..8_000).map(|at| (format!("{at:063}"), String::new())).collect();
        Effect::Persist(Change::Put(Record::Namespaces(ContractId([n; 16]), names)))
    }

    fn released(gate: &mut Gate) -> Vec<Effect> {
        std::iter::from_fn(|| gate.release()).collect()
    }

    #[test]
    fn effects_wait_for_all_that_was_to_be_written_before_them() {
        let mut gate = Gate::default();
        gate.pass(vec![effect(1), persist(1), effect(2)]).unwrap();
        assert_eq!(released(&mut gate), [effect(1)]);
        assert_eq!(gate.write().map(<[Change]>::len), Some(1));
        gate.pass(vec![effect(3), persist(2), persist(3), effect(4)]).unwrap();
        assert_eq!(gate.write(), None, "one write at a time");
        assert_eq!(released(&mut gate), []);
        gate.written();
        assert_eq!(released(&mut gate), [effect(2), effect(3)]);
        assert_eq!(gate.write().map(<[Change]>::len), Some(2));
        gate.written();
        assert_eq!(released(&mut gate), [effect(4)]);
        assert_eq!(gate.records().iter().count(), 3);
        assert_eq!(gate.write(), None);
    }

    #[test]
    fn a_failed_write_drops_what_waits_and_nothing_else() {
        let mut gate = Gate::default();
        gate.pass(vec![persist(1)]).unwrap();
        assert!(gate.write().is_some());
        gate.written();
        gate.pass(vec![effect(1), persist(2), effect(2)]).unwrap();
        assert!(gate.write().is_some());
        gate.pass(vec![persist(3), effect(3)]).unwrap();
        assert_eq!(gate.failed().iter().count(), 1);
        assert_eq!(released(&mut gate), [effect(1)]);
        assert_eq!(gate.write(), None);
        gate.pass(vec![effect(4)]).unwrap();
        assert_eq!(released(&mut gate), [effect(4)]);
    }

    #[test]
    fn what_is_too_large_is_not_taken_and_harms_nothing_else() {
        let mut gate = Gate::default();
        gate.pass(vec![persist(1), effect(1)]).unwrap();
        let ahead = gate.pass(vec![effect(2), persist(2), large(3)]).unwrap_err();
        assert!(ahead.why.bytes > crate::limits::RECORD_BYTES);
        let two = [2, 3].map(|n| ContractId([n; 16]));
        assert_eq!(ahead.leases, LeasesAhead::These(two.into()), "no others");
        assert_eq!(gate.write().map(<[Change]>::len), Some(1));
        gate.written();
        assert_eq!(released(&mut gate), [effect(1)]);
        assert_eq!(gate.write(), None);
        gate.pass(vec![persist(4)]).unwrap();
        assert_eq!(gate.write().map(<[Change]>::len), Some(1));
    }

    #[test]
    fn leases_are_ahead_only_where_the_answer_was_about_them() {
        let replaced = Replaced { key: PublicKey([1; 32]), by: Digest([2; 32]) };
        let keys = Record::Key(ClusterId([3; 32]), PublicKey([4; 32]), vec![replaced; 16_384]);
        let large = || Effect::Persist(Change::Put(keys.clone()));
        let mut gate = Gate::default();
        let mut ahead = |answer| gate.pass(answer).unwrap_err().leases;
        let one = LeasesAhead::one(ContractId([1; 16]));
        assert_eq!(ahead(vec![large()]), LeasesAhead::NONE);
        assert_eq!(ahead(vec![large(), effect(1)]), one);
        assert_eq!(ahead(vec![persist(1), large()]), one);
        // What the pool of tunnel addresses gave is of all.
        let range = Record::Range(RangeOwner::Nodes, "10.1.0.0/24".parse().unwrap());
        let range = Effect::Persist(Change::Put(range));
        assert_eq!(ahead(vec![persist(1), range, large()]), LeasesAhead::All);
    }
}
