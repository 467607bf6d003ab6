//! Of which pods home's watch tells, and of which of them that is out of date.

use std::collections::BTreeSet;

use crate::key::Uid;

/// The pods that the watch has told of last.
#[derive(Debug, Default)]
pub(super) struct Watched {
    told: BTreeSet<Uid>,
    /// Those of them that are gone, as the API server has answered: the watch has not seen that yet.
    gone: BTreeSet<Uid>,
}

impl Watched {
    /// The watch tells of it; whether that is news of a pod that may be there.
    pub(super) fn tells_of(&mut self, uid: &Uid) -> bool {
        self.told.insert(uid.clone());
        !self.gone.contains(uid)
    }

    /// The watch tells of these, and of no other.
    pub(super) fn tells_of_all(&mut self, all: BTreeSet<Uid>) {
        self.gone.retain(|uid| all.contains(uid));
        self.told = all;
    }

    /// The watch has told that it is gone.
    pub(super) fn has_ended(&mut self, uid: &Uid) {
        self.told.remove(uid);
        self.gone.remove(uid);
    }

    /// It is gone, whatever the watch tells of it until it has seen that.
    pub(super) fn is_missing(&mut self, uid: &Uid) {
        if self.told.contains(uid) {
            self.gone.insert(uid.clone());
        }
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.told.contains(uid)
    }
}
